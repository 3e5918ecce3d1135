"""The chaos suite: real processes work off a queue while everything about them breaks.

The product's own worker, web and local relay run as processes; a workspace that fails on demand
starts job runs, which hosts full of badly behaved agents play. The driver kills, freezes and cuts;
an operator cancels, retries and pauses; the watcher checks the rules from a connection of its own.
The database's clock runs `SPEED` times faster, so that leases and windows pass in seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Json

from lakequeue.forkserver import ForkedProcess, ForkServer
from tests.chaos import watcher
from tests.chaos.agents import ACTS, LEDGER
from tests.chaos.processes import LOCAL_AGENT, PRELOAD
from tests.databricks.workspace import FakeRun, running
from tests.race.scene import call, configure, limit_endpoint
from tests.servers import Database, Server, ServerName

SLOW = 20
"""A machine may be so many times slower than that, and nothing is wrong."""
SPEED = 20.0
LEASE = 90.0
GRACE = 20.0
DEAD = 60.0
"""A worker silent for so long is taken for dead. These are seconds of the database's clock."""
WEB_POOL = 8

SETTINGS: dict[str, dict[str, Any]] = {
    "parser": {"max_concurrent_tasks": 40, "max_tpm": 90_000, "model_endpoint": "shared"},
    "scanner": {"max_concurrent_tasks": 20, "model_endpoint": "shared"},
    "caller": {"max_concurrent_tasks": 15, "max_rpm": 150, "reserves_calls": True},
    LOCAL_AGENT: {"max_concurrent_tasks": 8, "reconcile_grace": "0 seconds"},
}
WEATHER: dict[str, dict[str, Any]] = {
    "lost submission answer": {"drop": True},
    "workspace error": {"status": 500},
    "workspace 429": {"status": 429, "retry_after": 1},
}
"""Of the workspace."""
SHARES = (LOCAL_AGENT, "parser", "scanner", "parser", "caller", "parser", "scanner", "parser")
"""Whose the tasks are: lots of one each of ACTS, in turn."""
KINDS = ("good",) * 15 + ("cancel", "cancel", "bad", "broken", "limited")


@dataclass
class Scale:
    """How much of it all."""

    tasks: int
    seconds: float
    """After so long nothing strikes any more that has struck; the rest is done in peace."""
    pause: float
    """Seconds between two faults, about."""
    workers: int = 3
    hosts: int = 3
    hold: float = 0.5
    """How long the web process's pool stays full, the first time; its patience is 10 seconds."""
    rest: float = 0.1
    """The part of the tasks that is left to be done in peace."""


QUICK = Scale(tasks=120, seconds=20, pause=0.2, workers=2, hosts=2, rest=1)
SHORT = Scale(tasks=500, seconds=100, pause=1.0, hold=11)
LONG = Scale(tasks=10_000, seconds=660, pause=3.0, hold=11)


@dataclass
class Outcome:
    """What a run of the suite gives."""

    seed: int
    tasks: int = 0
    attempts: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    verdict: watcher.Verdict = field(default_factory=watcher.Verdict)
    never: list[str] = field(default_factory=list)
    """Faults that never struck."""
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        verdict = self.verdict
        return not (verdict.violations or verdict.lost or verdict.double_charged or self.never)

    def as_json(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "attempts": self.attempts,
            "faults": dict(sorted(self.faults.items())),
            "checks": sum(self.checks.values()),
            "checks_by_rule": dict(sorted(self.checks.items())),
            "violations": len(self.verdict.violations),
            "lost": len(self.verdict.lost),
            "double_charged": len(self.verdict.double_charged),
            "never_struck": self.never,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }

    def explain(self) -> str:
        """What was wrong, in words."""
        verdict = self.verdict
        lines = [f"violation: {problem}" for problem in verdict.violations[:30]]
        lines += [f"lost: {problem}" for problem in verdict.lost[:30]]
        lines += [f"double charged: {problem}" for problem in verdict.double_charged[:30]]
        lines += [f"never struck: {fault}" for fault in self.never]
        return "\n".join(lines)


OPEN = """
select t.id, g.name, t.payload, t.status, t.attempt_count, t.failures, t.rate_limited, t.retry_at,
       t.locked_by, t.lease_expires_at - lakequeue._now() as lease, t.cancel_requested_at, t.error,
       lakequeue._now() - a.started_at as age, lakequeue._now() - a.checked_at as checked,
       g.paused_at, a.run_id
  from lakequeue.tasks t
  join lakequeue.agents g on g.id = t.agent_id
  left join lakequeue.task_attempts a on a.task_id = t.id and a.status = 'running'
 where t.finished_at is null
"""


class Host:
    """A machine of the workspace, on which agents run."""

    def __init__(self, environment: dict[str, str], on_end: Callable[[int, str], None]) -> None:
        self.runs: set[int] = set()
        self._on_end = on_end
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.agents"],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        threading.Thread(target=self._write, daemon=True).start()

    def take(self, run: FakeRun) -> None:
        """Run it there; never waits, also when the machine stands still."""
        self.runs.add(run.run_id)
        self._lines.put(json.dumps(run.parameters | {"run_id": run.run_id}).encode() + b"\n")

    def _write(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._lines.get():
                self.process.stdin.write(line)
                self.process.stdin.flush()
            self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # half a line, at a kill
                said = json.loads(line)
                if "over" in said:
                    self.runs.discard(said["run"])
                else:
                    self._on_end(said["run"], said["code"])

    def close(self) -> None:
        """End it, and what plays on it."""
        self._lines.put(b"")
        self.process.kill()
        self.process.wait()


class Stage:
    """All that is running, and what can be done to it."""

    def __init__(self, scale: Scale, seed: int, server_name: ServerName, folder: Path) -> None:
        self.scale = scale
        self.dice = random.Random(seed)
        self.seed = seed
        self.folder = folder
        self.faults: Counter[str] = Counter()
        self.enqueued: dict[str, str] = {}
        self.errors: list[str] = []
        self.over = threading.Event()
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._frozen: set[int] = set()
        self._numbers = itertools.count(1)
        self._weather = random.Random(seed + 1)
        self._forecast: dict[bool, list[str]] = {True: [], False: []}
        self._resources = contextlib.ExitStack()
        self.server = Server(server_name)
        self._resources.callback(self.server.stop)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.ledgers = self.folder / "ledgers"
        self.ledgers.mkdir()
        self.workspace = self._resources.enter_context(running())
        self.workspace.on_run = self._place
        os.environ.update(
            {
                "LAKEQUEUE_TEST_CHAOS_SPEED": str(SPEED),
                "LAKEQUEUE_TEST_CHAOS_SEED": str(self.seed),
                LEDGER: str(self.ledgers),
            }
        )
        repository = Path(__file__).resolve().parents[2]
        paths = [str(repository), str(repository / "python"), os.environ.get("PYTHONPATH", "")]
        self._environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.forks = ForkServer(
            self.folder / "logs", PRELOAD, self._environment | self.workspace.environment()
        )
        self.forks.start()  # its imports go on while the database is made
        self._resources.callback(self.forks.close)
        self.database: Database = self.server.clone("prepared")
        self._prepare_database()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.callback_url = f"http://127.0.0.1:{self.port}/api/callbacks"
        self.web = self._start_web()
        self.hosts = [self._start_host() for _ in range(self.scale.hosts)]
        self.workers: list[tuple[str, ForkedProcess]] = []
        for number in range(self.scale.workers):
            self._start_worker("databricks_worker", 5 if number == 0 else 0)
        self._start_worker("local_worker", -3)

    def _prepare_database(self) -> None:
        self.base = datetime.now(UTC).isoformat()
        with self.server.admin(self.database.name) as admin:
            admin.execute(watcher.PREPARE)
            admin.execute(watcher.CLOCK.format(base=self.base, speed=SPEED))
            admin.execute("alter system set autovacuum = on")
            admin.execute("select pg_reload_conf()")
        for agent, settings in SETTINGS.items():
            job = {} if agent == LOCAL_AGENT else {"job_id": self.workspace.add_job()}
            common = {
                "lease_duration": f"{LEASE} s",
                "reconcile_grace": f"{GRACE} s",
                "max_attempts": 5,
                "max_rate_limited": 3,
                "retry_base": "1 s",
                "retry_cap": "5 s",
                "tokens_per_task": 600,
                "tokens_per_page": 0,
            }
            configure(self.database, agent, **(common | job | settings))
        limit_endpoint(self.database, "shared", max_concurrent_tasks=50)

    # --- starting -----------------------------------------------------------------------------

    def _fork(self, target: str, name: str, arguments: dict[str, Any]) -> ForkedProcess:
        process = self.forks.start_process(f"tests.chaos.processes:{target}", arguments, {}, name)
        until(lambda: process.pid is not None or not process.alive, 120, f"{name} has no pid")
        assert process.pid is not None, process.tail
        return process

    def _start_web(self) -> ForkedProcess:
        folder = self.folder / "web"
        arguments = {
            "conninfo": self.database.conninfo("test_web"),
            "port": self.port,
            "folder": str(folder),
        }
        return self._fork("web", "web", arguments)

    def _start_worker(self, kind: str, skew_hours: float = 0) -> None:
        arguments = {
            "conninfo": self.database.conninfo("test_worker"),
            "agent_conninfo": self.database.conninfo("test_agent"),
            "callback_url": self.callback_url,
            "logs": str(self.folder / "local"),
            "speed": SPEED,
            "skew_hours": skew_hours,
        }
        self.faults["skewed clock"] += skew_hours != 0
        self.workers.append((kind, self._fork(kind, f"{kind}-{next(self._numbers)}", arguments)))

    def _start_host(self) -> Host:
        return Host(
            self._environment | {"LAKEQUEUE_DATABASE_URL": self.database.conninfo("test_agent")},
            self._end_run,
        )

    # --- the workspace ------------------------------------------------------------------------

    def _place(self, run: FakeRun) -> None:
        self._weather.choice(self.hosts).take(run)

    def _end_run(self, run_id: int, code: str) -> None:
        with self.workspace.lock:
            run = self.workspace.runs[run_id]
            if run.active:
                run.end(code)

    def _bad_weather(self, path: str) -> dict[str, Any] | None:
        """Of every forty calls each kind strikes one: what is only likely is missing some day."""
        submits = path.endswith("run-now")
        forecast = self._forecast[submits]
        if not forecast:
            kinds = [kind for kind in WEATHER if submits or kind != "lost submission answer"]
            forecast += kinds + [""] * (40 - len(kinds))
            self._weather.shuffle(forecast)
        kind = forecast.pop()
        if not kind:
            return None
        self.faults[kind] += 1
        return WEATHER[kind]

    # --- faults: each says whether it struck ----------------------------------------------------

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it after so many seconds, between two faults."""
        self._later.append((time.monotonic() + seconds, action))

    def supervise(self) -> None:
        """Start what has ended; a worker never should by itself."""
        if not self.web.alive:
            self.web = self._start_web()
        for kind, worker in list(self.workers):
            if not worker.alive:
                self.errors.append(f"{kind} has ended by itself: {worker.tail}")
                self.workers.remove((kind, worker))
                self._start_worker(kind)

    def do_due(self, *, all_of_them: bool = False) -> None:
        """Do what is due."""
        now = time.monotonic()
        due = [item for item in self._later if all_of_them or item[0] <= now]
        self._later = [item for item in self._later if item not in due]
        for _, action in due:
            action()

    def _freeze(self, pid: int, seconds: float) -> bool:
        if pid in self._frozen or not _signal(pid, signal.SIGSTOP):
            return False
        self._frozen.add(pid)

        def thaw() -> None:
            self._frozen.discard(pid)
            _signal(pid, signal.SIGCONT)

        self.later(seconds, thaw)
        return True

    def kill_worker(self) -> bool:
        kind, victim = self.dice.choice(self.workers)
        self._end_fork(victim, signal.SIGKILL)
        self.workers.remove((kind, victim))
        self._start_worker(kind, self.dice.choice([0, -7.5, 26]))
        return True

    def freeze_worker(self) -> bool:
        """Until it is taken for dead, and its leases are over."""
        _, victim = self.dice.choice(self.workers)
        assert victim.pid is not None
        return self._freeze(victim.pid, (LEASE + DEAD / 4) / SPEED)

    def kill_agents(self) -> bool:
        """A machine goes down with its runs; the platform sees it a little later."""
        victim = self.dice.choice(self.hosts)
        self._frozen.discard(victim.process.pid)
        self.hosts[self.hosts.index(victim)] = self._start_host()
        victim.close()
        victim.reader.join(10)
        lost = list(victim.runs)

        def notice() -> None:
            for run_id in lost:
                self._end_run(run_id, "INTERNAL_ERROR")

        self.later(self.dice.uniform(0, 2), notice)
        return bool(lost)

    def freeze_agents(self) -> bool:
        """For longer than the lease; the platform takes half of its runs for dead."""
        victim = self.dice.choice(self.hosts)
        runs = list(victim.runs)
        if not runs or not self._freeze(victim.process.pid, (LEASE + GRACE + 10) / SPEED):
            return False
        for run_id in self.dice.sample(runs, len(runs) // 2):
            self._end_run(run_id, "INTERNAL_ERROR")
        return True

    def _local_runs(self) -> list[int]:
        """The processes of local runs: what the local workers' fork servers have forked."""
        workers = [victim.pid for kind, victim in self.workers if kind == "local_worker"]
        servers = [child for pid in workers if pid for child in _children(pid)]
        return [child for pid in servers for child in _children(pid)]

    def _some_local_runs(self) -> list[int]:
        """The same, when there are any."""
        with contextlib.suppress(AssertionError):
            until(self._local_runs, 3, "no local runs")
        return self._local_runs()

    def kill_local_run(self) -> bool:
        runs = self._some_local_runs()
        return bool(runs) and _signal(self.dice.choice(runs), signal.SIGKILL)

    def freeze_local_run(self) -> bool:
        runs = self._some_local_runs()
        return bool(runs) and self._freeze(self.dice.choice(runs), (LEASE + 10) / SPEED)

    def kill_web(self) -> bool:
        self._end_fork(self.web, signal.SIGKILL)
        self.web = self._start_web()
        return True

    def kill_web_child(self) -> bool:
        """The process that serves; the one above it starts another."""
        assert self.web.pid is not None
        children = _children(self.web.pid)
        return bool(children) and _signal(children[0], signal.SIGKILL)

    def stop_postgres(self) -> bool:
        """At once, without a checkpoint, as a crash does."""
        self.server.crash()
        time.sleep(self.dice.uniform(0, 0.5))
        self.server.start_again()
        return True

    def kill_backend(self) -> bool:
        """The server ends all others with it, and recovers."""
        rows = self.database.query(
            "select pid from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()"
            " and datname = current_database() or application_name = 'lakequeue worker'",
            user="postgres",
        )
        if not rows or not _signal(self.dice.choice(rows)[0], signal.SIGKILL):
            return False
        until(self.answers, 120, "the server did not recover")
        return True

    def cut_connections(self) -> bool:
        rows = self.database.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name"
            " in ('lakequeue worker', 'chaos agent', 'lakequeue web') and random() < 0.5",
            user="postgres",
        )
        return bool(rows)

    def fill_pool(self) -> bool:
        """Every connection of the web process waits, and what comes queues up behind them."""
        waiting = (
            "select count(*) from pg_stat_activity where application_name = 'lakequeue web'"
            " and wait_event_type = 'Lock'"
        )
        with self.server.admin(self.database.name) as holder, holder.transaction():
            holder.execute("lock table lakequeue.results in access exclusive mode")
            for task in range(2 * WEB_POOL):
                threading.Thread(target=self._look_at, args=[task + 1], daemon=True).start()
            end = time.monotonic() + 8
            while self.database.value(waiting, user="postgres") < WEB_POOL:
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
            time.sleep(0.3 if self.faults["fill_pool"] else self.scale.hold)
        return True

    def _look_at(self, task: int) -> None:
        address = self.callback_url.replace("callbacks", f"tasks/{task}")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=20).close()

    def fill_server(self) -> bool:
        """No connection is left, while workers lose theirs."""
        held: list[psycopg.Connection[Any]] = []
        try:
            while len(held) < 300:
                held.append(psycopg.connect(self.database.conninfo("test_stranger")))
        except psycopg.OperationalError:
            self.cut_connections()
            time.sleep(0.7)
            return True
        finally:
            for connection in held:
                connection.close()
        return False

    def hold_locks(self) -> bool:
        """Somebody at psql has locked some tasks, and thinks."""
        with self.server.admin(self.database.name) as holder, holder.transaction():
            rows = holder.execute(
                "select id from lakequeue.tasks where status = 'processing' order by id limit 5"
                " for no key update skip locked"
            ).fetchall()
            time.sleep(0.7)
        return bool(rows)

    def answers(self) -> bool:
        """Whether the database does."""
        with contextlib.suppress(psycopg.Error):
            return bool(self.database.value("select true"))
        return False

    # --- the people ---------------------------------------------------------------------------

    def produce(self) -> None:
        """Enqueue everything, half of it at once and the rest while it breaks."""
        for start in range(0, self.scale.tasks, len(ACTS)):
            self.enqueue(min(len(ACTS), self.scale.tasks - start))
            if start * 2 > self.scale.tasks:
                self.over.wait(len(ACTS) / 60)

    def enqueue(self, count: int) -> None:
        """Enqueue some more."""
        dice = random.Random(f"{self.seed} {len(self.enqueued)}")
        documents: list[dict[str, Any]] = [
            {
                "document_path": f"/chaos/{number}.pdf",
                "dedup_key": f"chaos {number}",
                "priority": dice.randrange(10),
                "payload": {"kind": dice.choice(KINDS), "first": ACTS[number % len(ACTS)]},
            }
            for number in range(len(self.enqueued), len(self.enqueued) + count)
        ]
        agent = SHARES[len(self.enqueued) // len(ACTS) % len(SHARES)]
        for document in documents:
            self.enqueued[document["document_path"]] = document["payload"]["kind"]
        self._insist("test_app", "enqueue_tasks", agent=agent, documents=Json(documents))

    def operate(self) -> None:
        """Cancel what is to be cancelled, retry what has failed and should not; pause, hurry."""
        dice = random.Random(self.seed + 3)
        while not self.over.wait(0.4):
            with contextlib.suppress(psycopg.Error):
                self._cancel(dice)
                self._retry()
                with self._person("test_operator") as connection:
                    agent = dice.choice(list(SETTINGS))
                    if dice.random() < 0.2:
                        call(connection, "pause_agent", agent=agent, reason="chaos")
                        self.over.wait(0.2)
                    call(connection, "resume_agent", agent=agent)

    def _cancel(self, dice: random.Random) -> None:
        rows = self.database.query(
            "select id from lakequeue.tasks where status in ('enqueued', 'processing')"
            " and payload ->> 'kind' = 'cancel' and cancel_requested_at is null"
            " and (status = 'processing' or random() < 0.05) limit 20"
        )
        ids = [row[0] for row in rows if dice.random() < 0.3]
        if ids:
            with self._person("test_operator") as connection:
                done = call(connection, "cancel_tasks", tasks=ids, reason="chaos")
                call(connection, "set_priorities", tasks=ids, priority=dice.randrange(10))
            self.faults["operator cancels"] += sum(row["outcome"] != "skipped" for row in done)

    def _retry(self) -> None:
        rows = self.database.query(
            "select id from lakequeue.tasks where status = 'failed'"
            " and payload ->> 'kind' in ('good', 'cancel') limit 500"
        )
        if rows:
            with self._person("test_operator") as connection:
                call(connection, "retry_tasks", tasks=[row[0] for row in rows], reason="chaos")

    @contextlib.contextmanager
    def _person(self, user: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.database.conninfo(user), autocommit=True) as connection:
            yield connection

    def _insist(self, user: str, function: str, **arguments: Any) -> None:
        while not self.over.is_set():
            try:
                with self._person(user) as connection:
                    call(connection, function, **arguments)
                return
            except psycopg.OperationalError:
                self.over.wait(0.3)

    # --- the end ------------------------------------------------------------------------------

    def open_tasks(self) -> int:
        """How many tasks have not come to their right end; -1 while nobody answers."""
        with contextlib.suppress(psycopg.Error):
            done = self.database.value(
                "select count(*) from lakequeue.tasks where status in ('completed', 'cancelled')"
                " or status = 'failed' and payload ->> 'kind' not in ('good', 'cancel')"
            )
            return max(self.scale.tasks, len(self.enqueued)) - int(done)
        return -1

    def what_is_open(self) -> str:
        """What a run that takes too long waits for."""
        with self.server.admin(self.database.name) as admin:
            rows = admin.execute(OPEN).fetchall()
        states = {run.run_id: (run.state, run.code) for run in self.workspace.runs.values()}
        hosts = [len(host.runs) for host in self.hosts]
        lines = [f"{row} {states.get(row[-1])}" for row in rows]
        return "\n".join([*lines, f"runs by host: {hosts}", self.database.server_activity()])

    def settle(self) -> None:
        """Let everybody end, then see that nobody is left."""
        self.over.set()
        for host in self.hosts:  # zombies may still report; they are given the time
            until(lambda host=host: not host.runs, 120, "agents do not end")  # type: ignore[misc]
        until(lambda: not self._local_runs(), 120, "local runs do not end")
        servants = [self.web, *(worker for _, worker in self.workers)]
        for servant in servants:
            assert servant.pid is not None
            _signal(servant.pid, signal.SIGTERM)
        for host in self.hosts:
            host.close()
        for servant in servants:
            self._end_fork(servant, signal.SIGTERM)
        with self._person("test_worker") as connection:

            def swept() -> bool:
                swept = call(connection, "sweep_leases", batch_size=1000)
                folded = call(connection, "fold_rollups", batch_size=1000)
                open_ends = self.database.value(
                    "select (select count(*) from lakequeue.task_attempts"
                    " where run_ended_at is null)"
                    " + (select count(*) from lakequeue.workers where stopped_at is null)"
                )
                return not (open_ends or any(swept[0].values()) or any(folded[0].values()))

            with contextlib.suppress(AssertionError):  # what is left is told by the audit
                until(swept, 60, "")

    def _end_fork(self, process: ForkedProcess, number: int) -> None:
        assert process.pid is not None
        self._frozen.discard(process.pid)
        _signal(process.pid, number)
        until(lambda: not process.alive, 60, f"{process.log_path.name} does not end")

    def _processes(self) -> list[str]:
        """All that was started, directly or not, but PostgreSQL and the fork server."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.ledgers).encode() in (path / "environ").read_bytes():
                    name = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(f"{path.name} {name}")
        return [name for name in found if int(name.split()[0]) != self._forkserver()]

    def _forkserver(self) -> int:
        process = self.forks._process
        return process.pid if process is not None else 0

    def left_over(self) -> list[str]:
        """Processes that should have ended, and what the server had to complain about."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self._processes(), 10, "")
        found = [f"process {process} is left over" for process in self._processes()]
        log = self.server.log_file.read_text(errors="replace")
        bad = re.findall(r"ERROR:  (deadlock detected|.*violates .*constraint.*|.*XX\d+.*)", log)
        return found + [f"the server says: {line}" for line in sorted(set(bad))]

    def runs(self) -> dict[str, list[int]]:
        """The workspace's runs, by run key."""
        found: dict[str, list[int]] = {}
        for run in self.workspace.runs.values():
            found.setdefault(str(run.token), []).append(run.run_id)
        return found

    def close(self) -> None:
        """End everything."""
        self.over.set()
        for pid in list(self._frozen):
            _signal(pid, signal.SIGCONT)
        for host in getattr(self, "hosts", []):
            host.close()
        self._resources.close()


FAULTS: tuple[Callable[[Stage], bool], ...] = (
    Stage.kill_worker,
    Stage.freeze_worker,
    Stage.kill_agents,
    Stage.freeze_agents,
    Stage.kill_local_run,
    Stage.freeze_local_run,
    Stage.kill_web,
    Stage.kill_web_child,
    Stage.stop_postgres,
    Stage.kill_backend,
    Stage.cut_connections,
    Stage.fill_pool,
    Stage.fill_server,
    Stage.hold_locks,
)
STRIKES = (*(fault.__name__ for fault in FAULTS), *WEATHER, "skewed clock", "operator cancels")
"""What must have happened before it may end; what agents do is dealt with their tasks."""


def run(
    scale: Scale,
    seed: int,
    server_name: ServerName = "embedded",
    say: Callable[[str], None] = print,
    *,
    keep: bool = False,
) -> Outcome:
    """Play it once."""
    began = time.monotonic()
    outcome = Outcome(seed)
    folder = Path(tempfile.mkdtemp(prefix="lakequeue-chaos-", dir="/tmp"))
    try:
        stage = Stage(scale, seed, server_name, folder)
        say(f"the stage stands after {time.monotonic() - began:.1f} s")
        looking = watcher.Watcher(stage.database, scale.tasks / 10_000 + 0.05, stage.base)
        try:
            looking.start()
            _play(stage, looking, began, say)
            stage.settle()
        except AssertionError as error:
            stage.errors.append(str(error))
        finally:
            looking.stop()
            outcome.verdict.violations += [*dict.fromkeys(looking.problems), *stage.errors]
        _judge(stage, looking, outcome)
    finally:
        if "stage" in locals():
            stage.close()
        if keep:
            say(f"logs and ledgers are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        outcome.seconds = time.monotonic() - began
    return outcome


def _play(stage: Stage, looking: watcher.Watcher, began: float, say: Callable[[str], None]) -> None:
    """Strike until every fault has struck and most is done; then wait for the rest.

    A broken rule ends it: who knows whether such a queue would ever be worked off.
    """
    people = [threading.Thread(target=work, daemon=True) for work in (stage.produce, stage.operate)]
    for person in people:
        person.start()
    stage.workspace.weather = stage._bad_weather
    calm, end = began + stage.scale.seconds, began + SLOW * stage.scale.seconds
    deck: list[Callable[[Stage], bool]] = []
    said = time.monotonic()
    rest = stage.scale.tasks * stage.scale.rest
    while time.monotonic() < end and not looking.problems:
        left = stage.open_tasks()
        if (0 <= left <= rest or time.monotonic() > calm) and all(
            stage.faults[strike] for strike in STRIKES
        ):
            break
        if left == 0:  # and yet something has not struck
            stage.enqueue(len(ACTS))
        if not deck:
            deck = stage.dice.sample(FAULTS, len(FAULTS))
            deck.sort(key=lambda fault: not stage.faults[fault.__name__])
        fault = deck.pop()
        with contextlib.suppress(psycopg.OperationalError):  # it recovers from the one before
            stage.faults[fault.__name__] += fault(stage)
        stage.do_due()
        stage.supervise()
        if time.monotonic() > said + 10:
            said = time.monotonic()
            say(f"{said - began:4.0f} s: {left} open, {sum(stage.faults.values())} faults")
        time.sleep(stage.scale.pause * stage.dice.uniform(0.5, 1.5))
    stage.workspace.weather = None
    say(f"{time.monotonic() - began:4.0f} s: the weather clears")
    while stage.open_tasks() and time.monotonic() < end and not looking.problems:
        stage.do_due()
        stage.supervise()
        time.sleep(0.2)
    stage.do_due(all_of_them=True)
    say(f"{time.monotonic() - began:4.0f} s: {stage.open_tasks()} open")
    if time.monotonic() >= end:
        say(stage.what_is_open())


def _judge(stage: Stage, looking: watcher.Watcher, outcome: Outcome) -> None:
    with stage.server.admin(stage.database.name) as connection:
        looking.problems.clear()
        looking.look(connection)
    ledgers = watcher.Ledgers.read(stage.ledgers)
    found = watcher.audit(stage.database, ledgers, stage.enqueued, stage.runs())
    outcome.verdict.violations += [
        problem
        for problem in [*looking.problems, *found.violations, *stage.left_over()]
        if problem not in outcome.verdict.violations
    ]
    outcome.verdict.lost += found.lost
    outcome.verdict.double_charged += found.double_charged
    outcome.verdict.violations += [f"agent: {error}" for error in ledgers.errors]
    outcome.checks = looking.checks
    outcome.answers = ledgers.answers
    outcome.tasks = stage.database.value("select count(*) from lakequeue.tasks")
    outcome.attempts = stage.database.value("select count(*) from lakequeue.task_attempts")
    for act in ACTS:
        stage.faults[f"agent {act}"] = ledgers.acts[act]
    del stage.faults["agent succeeds"]
    outcome.faults = Counter(
        {name.replace("_", " "): count for name, count in stage.faults.items()}
    )
    wanted = [name.replace("_", " ") for name in (*STRIKES, *(f"agent {act}" for act in ACTS[1:]))]
    outcome.never = [name for name in wanted if not outcome.faults[name]]


def until(condition: Callable[[], Any], seconds: float, explain: str) -> None:
    """Wait for it."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{explain} within {seconds} s")
        time.sleep(0.02)


def _signal(pid: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _children(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found
