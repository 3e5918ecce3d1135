"""The worker with real runs: nothing lost, nothing twice, whatever is killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue.database import NotInstalled
from lakequeue.migrate import VersionMismatch
from lakequeue.relay.base import EndedRun, Run, RunStatus, SubmitError, SubmitUncertainError
from lakequeue.worker import UnknownAgent, Worker
from tests.python.worker_process import make_relay
from tests.servers import Database

HERE = Path(__file__).parent
AGENT = "document-parser"

# What is tested here is Python; the SQL is tested on both servers elsewhere.
pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


class Queue:
    """The database of a test, and the few calls that these tests make as its owner."""

    def __init__(
        self, conninfo: str, worker_conninfo: str, agent_conninfo: str, lease: str = "30 s"
    ) -> None:
        self.conninfo = conninfo
        self.worker_conninfo = worker_conninfo
        self.agent_conninfo = agent_conninfo
        self.configure(lease_duration=lease, reconcile_grace="0", retry_base="1 ms")

    @contextlib.contextmanager
    def connect(self) -> Iterator[db.Connection]:
        with db.connect(self.conninfo) as connection:
            yield connection

    def call(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        with self.connect() as connection:
            return db.call(connection, function, **parameters)

    def configure(self, **settings: Any) -> None:
        self.call("configure_agent", agent=AGENT, **settings)

    def enqueue(self, count: int, **payload: Any) -> list[int]:
        documents = [
            {"document_path": f"/documents/{number}.pdf", "payload": payload}
            for number in range(count)
        ]
        rows = self.call("enqueue_tasks", agent=AGENT, documents=Json(documents))
        return [row["task_id"] for row in rows]

    def query(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        with self.connect() as connection:
            return connection.execute(statement, values).fetchall()

    def statuses(self) -> dict[str, int]:
        rows = self.query("select status::text, count(*) from lakequeue.tasks group by status")
        return {row["status"]: row["count"] for row in rows}

    def attempts(self) -> list[dict[str, Any]]:
        return self.query("select * from lakequeue.task_attempts order by id")

    def wait_for(self, seconds: float = 120, **statuses: int) -> None:
        until(lambda: self.statuses() == statuses, seconds, lambda: str(self.statuses()))


def until(
    condition: Callable[[], Any], seconds: float = 60, explain: Callable[[], str] = str
) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not happen in time {explain()}"
        time.sleep(0.05)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(
        pristine.conninfo(), pristine.conninfo("test_worker"), pristine.conninfo("test_agent")
    )


@contextlib.contextmanager
def running(worker: Worker) -> Iterator[threading.Thread]:
    """A worker in a thread, stopped at the end."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - shown below
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()
    if failure:
        raise failure[0]


def make_worker(queue: Queue, folder: Path, **settings: Any) -> Worker:
    relay = make_relay(queue.agent_conninfo, folder / "runs")
    return Worker(queue.worker_conninfo, relay, drain_seconds=1, **settings)


def start_process(queue: Queue, folder: Path, *more: str) -> subprocess.Popen[str]:
    folder.mkdir()
    with (folder / "log").open("w") as log:
        command = [sys.executable, str(HERE / "worker_process.py")]
        process = subprocess.Popen(
            [*command, queue.worker_conninfo, queue.agent_conninfo, str(folder / "runs"), *more],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    assert process.stdout.readline(), (folder / "log").read_text()
    return process


# --- the ordinary way ---------------------------------------------------------------------------


def test_tasks_are_run_and_used_tokens_recorded_once(queue: Queue, tmp_path: Path) -> None:
    queue.enqueue(6, seconds=0.1)
    with running(make_worker(queue, tmp_path)):
        queue.wait_for(completed=6)
        queue.enqueue(2)  # and what comes later, by notification
        queue.wait_for(completed=8)
    attempts = queue.attempts()
    assert [attempt["status"] for attempt in attempts] == ["succeeded"] * 8
    assert all(attempt["run_id"] is not None for attempt in attempts)
    assert len({attempt["run_id"] for attempt in attempts}) == 8
    assert all((a["input_tokens"], a["output_tokens"]) == (100, 10) for a in attempts)
    assert len(queue.query("select from lakequeue.results")) == 8
    (worker,) = queue.query("select * from lakequeue.workers")
    assert worker["stopped_at"] is not None


def test_it_runs_no_more_at_once_than_there_is_room_for(queue: Queue, tmp_path: Path) -> None:
    queue.enqueue(10, seconds=0.3)
    most = 0
    with running(make_worker(queue, tmp_path)):
        while queue.statuses() != {"completed": 10}:
            most = max(most, queue.statuses().get("processing", 0))
            time.sleep(0.02)
    assert 0 < most <= 4


def test_a_run_that_dies_is_tried_again_and_then_failed(queue: Queue, tmp_path: Path) -> None:
    queue.configure(max_attempts=2, retry_cap="1 ms")
    queue.enqueue(1, die=True)
    with running(make_worker(queue, tmp_path)):
        queue.wait_for(failed=1)
    attempts = queue.attempts()
    assert [attempt["error_class"] for attempt in attempts] == ["run_died", "run_died"]
    assert f"exit code {-signal.SIGABRT}" in attempts[0]["error"]
    assert "about to die" in attempts[0]["error"]


def test_a_run_that_ends_without_a_word_has_failed(queue: Queue, tmp_path: Path) -> None:
    queue.configure(max_attempts=1)
    queue.enqueue(1, silent=True)
    with running(make_worker(queue, tmp_path)):
        queue.wait_for(failed=1)
    assert "without a report (exit code 0)" in queue.attempts()[0]["error"]


def test_a_run_that_reported_its_failure_is_not_failed_twice(queue: Queue, tmp_path: Path) -> None:
    queue.configure(max_attempts=1)
    queue.enqueue(1, fail="no luck")
    with running(make_worker(queue, tmp_path)):
        queue.wait_for(failed=1)
    (attempt,) = queue.attempts()
    assert (attempt["error_class"], attempt["error"]) == ("test", "no luck")
    assert attempt["input_tokens"] == 5


def test_a_cancelled_task_ends_its_run(queue: Queue, tmp_path: Path) -> None:
    # A third of the lease is when the worker looks; this agent would not stop by itself.
    (task,) = queue.enqueue(1, seconds=120)
    with running(make_worker(queue, tmp_path)):
        until(lambda: any(attempt["run_id"] for attempt in queue.attempts()))
        queue.call("set_person", identity="tester", role="operator")
        queue.call("cancel_task", task=task, reason="test", actor="tester")
        queue.wait_for(cancelled=1)
    (attempt,) = queue.attempts()
    assert attempt["run_ended_at"] is not None


# --- relays that misbehave ----------------------------------------------------------------------


class TroubledRelay:
    """A relay in memory, for what a real one does only when a network fails."""

    kind = "local"
    outlives_worker = True
    calls_at_once = 4
    capacity: int | None = None

    def __init__(self, *troubles: Exception | None) -> None:
        self.troubles = list(troubles)
        self.submitted: list[Run] = []
        self.cancelled: list[int] = []

    def start(self, on_event: Callable[[], None]) -> None:
        self.on_event = on_event

    def name(self, run: Run) -> None:
        pass

    def submit(self, run: Run) -> int:
        self.submitted.append(run)
        if self.troubles and (trouble := self.troubles.pop(0)) is not None:
            raise trouble
        return 1000 + len({run.run_key for run in self.submitted})

    def alive(self) -> int:
        return 0

    def states(self, run_ids: Sequence[int]) -> Mapping[int, RunStatus]:
        raise OSError("the service is away")

    def cancel(self, run_id: int) -> None:
        self.cancelled.append(run_id)

    def ended(self) -> list[EndedRun]:
        return []

    def close(self) -> None:
        pass


def test_a_refused_submission_fails_the_attempt(queue: Queue) -> None:
    queue.configure(max_attempts=1)
    queue.enqueue(1)
    with running(Worker(queue.worker_conninfo, TroubledRelay(SubmitError("no such job")))):
        queue.wait_for(failed=1)
    (attempt,) = queue.attempts()
    assert (attempt["error_class"], attempt["error"]) == ("submit_failed", "no such job")


@pytest.mark.parametrize("trouble", [SubmitUncertainError("timed out"), ValueError("a bug")])
def test_an_uncertain_submission_is_repeated_with_the_same_key(
    queue: Queue, trouble: Exception
) -> None:
    queue.enqueue(1)
    relay = TroubledRelay(trouble)
    with running(Worker(queue.worker_conninfo, relay)):
        until(lambda: queue.attempts() and queue.attempts()[0]["run_id"] == 1001)
    first, second = relay.submitted
    assert first.run_key == second.run_key
    assert queue.statuses() == {"processing": 1}, "a run that outlives its worker goes on"


def test_what_could_not_be_confirmed_is_asked_for_again(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever was in the way: nothing starts, and nothing waits for the end of its lease."""
    queue.enqueue(12)
    rights = "execute on function lakequeue.confirm_claims(text, bigint[], uuid[])"
    relay = TroubledRelay()
    with queue.connect() as owner:
        owner.execute(f"revoke {rights} from lakequeue_worker".encode())
        with running(Worker(queue.worker_conninfo, relay)):
            until(lambda: caplog.text.count("confirm_claims") >= 2, explain=lambda: caplog.text)
            assert queue.statuses() == {"enqueued": 2, "processing": 10}
            assert not relay.submitted
            owner.execute(f"grant {rights} to lakequeue_worker".encode())
            until(lambda: len(relay.submitted) == 12)
    attempts = {attempt["id"] for attempt in queue.attempts()}
    assert attempts == {run.attempt_id for run in relay.submitted}


def test_what_a_dead_worker_claimed_and_did_not_submit_is_adopted(queue: Queue) -> None:
    (task,) = queue.enqueue(1)
    (claimed,) = queue.call("dequeue_tasks", worker="dead", batch_size=1)
    queue.call("worker_heartbeat", worker="dead", stopping=True)
    relay = TroubledRelay()
    with running(Worker(queue.worker_conninfo, relay)):
        until(lambda: queue.attempts()[0]["run_id"] is not None)
    (run,) = relay.submitted
    assert (run.task_id, run.attempt_id) == (task, claimed["attempt_id"])
    assert (run.run_key, run.callback_token) == (claimed["run_key"], claimed["callback_token"])


class FullRelay(TroubledRelay):
    """One with a single place, which is taken until somebody says otherwise."""

    capacity = 1
    taken = 1

    def alive(self) -> int:
        return self.taken


def test_a_place_that_becomes_free_goes_to_what_waits_to_be_adopted(queue: Queue) -> None:
    queue.enqueue(1)
    (claimed,) = queue.call("dequeue_tasks", worker="dead", batch_size=1)
    queue.call("worker_heartbeat", worker="dead", stopping=True)
    queue.enqueue(1)
    relay = FullRelay()
    worker = Worker(queue.worker_conninfo, relay)
    with running(worker):
        until(lambda: worker._full and worker._adopt_full)
        assert not relay.submitted
        relay.taken = 0
        worker.wake()
        until(lambda: relay.submitted)
    assert relay.submitted[0].attempt_id == claimed["attempt_id"]


def test_only_attempts_of_its_agents_are_adopted(queue: Queue) -> None:
    queue.call("configure_agent", agent="other")
    queue.call("enqueue_task", agent="other", document_path="/other.pdf")
    queue.enqueue(1)
    assert len(queue.call("dequeue_tasks", worker="dead", batch_size=2)) == 2
    queue.call("worker_heartbeat", worker="dead", stopping=True)
    relay = TroubledRelay()
    with running(Worker(queue.worker_conninfo, relay, agents=[AGENT])):
        until(lambda: relay.submitted)
        time.sleep(1)
    assert [run.agent for run in relay.submitted] == [AGENT]


@pytest.mark.parametrize("unknown", ["typo", ""])
def test_an_agent_that_there_is_not_ends_it_before_it_is_ready(queue: Queue, unknown: str) -> None:
    queue.enqueue(1)
    ready: list[str] = []
    worker = Worker(queue.worker_conninfo, TroubledRelay(), agents=[AGENT, unknown])
    with pytest.raises(UnknownAgent, match=f'there is no agent "{unknown}".*configure_agent'):
        worker.run(lambda: ready.append("ready"))
    assert UnknownAgent.exit_code == 2
    assert not ready
    assert queue.statuses() == {"enqueued": 1}, "nothing is claimed before that"
    worker = Worker(queue.worker_conninfo, TroubledRelay(), agents=[AGENT])
    running_worker = threading.Thread(target=worker.run, args=[lambda: ready.append("ready")])
    running_worker.start()
    until(lambda: ready)
    worker.stop()
    running_worker.join(30)
    assert ready == ["ready"]


def test_an_agent_that_goes_while_it_works_ends_it_in_words(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.call("configure_agent", agent="other")
    worker = Worker(queue.worker_conninfo, TroubledRelay(), agents=[AGENT, "other"])

    def rename() -> None:
        with queue.connect() as connection:
            connection.execute("update lakequeue.agents set name = 'new' where name = 'other'")
        worker.wake()

    with pytest.raises(UnknownAgent, match='there is no agent "other"'):
        worker.run(rename)
    assert "Traceback" not in caplog.text


def test_a_step_that_fails_does_not_end_the_others(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Settler:
        def kick(self, ended_within: timedelta) -> None:
            raise RuntimeError("the trace store is broken")

        def wait(self, seconds: float) -> None:
            pass

    queue.enqueue(1)
    relay = TroubledRelay(SubmitError("no"))
    with running(Worker(queue.worker_conninfo, relay, settler=Settler())):
        until(lambda: "the trace store is broken" in caplog.text)
        queue.enqueue(1)
        until(lambda: len({run.run_key for run in relay.submitted}) >= 2)


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "advice"), [(9999, "run `lakequeue migrate`"), (1, "upgrade Lakequeue here")]
)
def test_another_schema_version_ends_it(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    monkeypatch.setattr("lakequeue.migrate.code_version", lambda: code)
    queue.enqueue(1)
    with pytest.raises(VersionMismatch, match=f"code's {code}.*{advice}"):
        Worker(queue.worker_conninfo, TroubledRelay()).run()
    assert queue.statuses() == {"enqueued": 1}, "before it has claimed anything"


@pytest.mark.parametrize("function", ["check_home", "worker_heartbeat"])
def test_a_schema_without_what_it_calls_ends_it(queue: Queue, function: str) -> None:
    with queue.connect() as connection:
        connection.execute(f"alter function lakequeue.{function} rename to gone")
    with pytest.raises(NotInstalled, match="run `lakequeue migrate`"):
        Worker(queue.worker_conninfo, TroubledRelay()).run()


# --- killing ------------------------------------------------------------------------------------


def test_a_killed_worker_of_two_loses_nothing(queue: Queue, tmp_path: Path) -> None:
    queue.configure(lease_duration="3 s")
    queue.enqueue(40, seconds=1)
    victim, survivor = (start_process(queue, tmp_path / name) for name in ("a", "b"))

    def runs_something(worker: subprocess.Popen[str]) -> bool:
        """Something that still runs when the kill comes: its four begin and end together."""
        lately = datetime.now(UTC) - timedelta(seconds=0.4)
        return any(
            attempt["status"] == "running"
            and f":{worker.pid}:" in attempt["worker"]
            and attempt["run_id"] is not None  # or the survivor would adopt it, and nothing be lost
            and attempt["submitted_at"] > lately
            for attempt in queue.attempts()
        )

    try:
        until(lambda: queue.statuses().get("completed", 0) >= 10)
        until(lambda: runs_something(victim))
        victim.kill()
        victim.wait()
        until(lambda: not queue.statuses().get("enqueued"), 120)
        queue.wait_for(completed=40, seconds=120)
    finally:
        victim.kill()
        survivor.send_signal(signal.SIGTERM)
        assert survivor.wait(60) == 0
    attempts = queue.attempts()
    succeeded = [attempt for attempt in attempts if attempt["status"] == "succeeded"]
    assert len(succeeded) == len({attempt["task_id"] for attempt in succeeded}) == 40
    assert len({attempt["worker"] for attempt in succeeded}) == 2
    lost = [attempt for attempt in attempts if attempt["status"] != "succeeded"]
    assert lost, "the kill hit nobody"
    assert {attempt["status"] for attempt in lost} == {"expired"}
    assert all((a["input_tokens"], a["output_tokens"]) == (100, 10) for a in succeeded)
    assert len(queue.query("select from lakequeue.results")) == 40
    (total,) = queue.query("select sum(input_tokens) as tokens from lakequeue.queue_metrics()")
    assert total["tokens"] == 100 * 40


def stands_still(process: subprocess.Popen[str]) -> bool:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize(
    ("when", "attempts"),
    [
        ("claimed", ["succeeded by the other"]),  # who has adopted it
        ("confirmed", ["succeeded by the other"]),
        ("noted", ["expired by it", "succeeded by the other"]),
        ("started", ["succeeded by it"]),  # though it is taken for dead
    ],
)
def test_a_worker_that_stands_still_pays_nothing_twice(
    queue: Queue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    attempts: list[str],
) -> None:
    notes, go_on = tmp_path / "notes", tmp_path / "go on"
    notes.mkdir()
    looked = threading.Event()
    adopt = Worker._adopt_attempts

    def look(it: Worker) -> None:
        has_room = it._free_places() > 0  # not while its fork server gets ready
        adopt(it)
        if has_room:
            looked.set()
        else:
            it._adopt.due = 0.0

    monkeypatch.setattr(Worker, "_adopt_attempts", look)
    queue.enqueue(1, note=str(notes), until=str(go_on))
    frozen = start_process(queue, tmp_path / "a", when)
    try:
        until(lambda: stands_still(frozen))
        if when == "started":
            until(lambda: list(notes.iterdir()))
        with queue.connect() as connection:
            connection.execute(
                "update lakequeue.workers set heartbeat_at = now() - interval '2 minutes'"
            )
            if when == "noted":  # nobody adopts it, and nobody extends its lease
                connection.execute("update lakequeue.tasks set lease_expires_at = now()")
        with running(make_worker(queue, tmp_path / "b")):
            until(looked.is_set)
            go_on.touch()
            queue.wait_for(completed=1)
        frozen.send_signal(signal.SIGCONT)
        frozen.send_signal(signal.SIGTERM)
        assert frozen.wait(20) == 0, (tmp_path / "a" / "log").read_text()
    finally:
        frozen.kill()
    assert [
        f"{a['status']} by {'it' if f':{frozen.pid}:' in a['worker'] else 'the other'}"
        for a in queue.attempts()
    ] == attempts
    assert len(list(notes.iterdir())) == 1, "one run does the work"
    why = {
        "claimed": "its claim is undone or taken",
        "confirmed": "conflict",
    }.get(when)
    if why is not None:
        assert f"is not started: {why}" in (tmp_path / "a" / "log").read_text()


def test_sigterm_ends_it_in_time_with_nothing_half_done(queue: Queue, tmp_path: Path) -> None:
    queue.configure(retry_base="1 hour", retry_cap="1 hour")
    queue.enqueue(2, seconds=2)
    queue.enqueue(10, seconds=300)
    process = start_process(queue, tmp_path / "a")
    until(lambda: queue.statuses().get("processing", 0) == 4)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert time.monotonic() - began < 12
    assert queue.statuses() == {"completed": 2, "enqueued": 10}
    by_status = {attempt["status"]: attempt for attempt in queue.attempts()}
    assert set(by_status) == {"succeeded", "cancelled"}
    assert by_status["cancelled"]["error_class"] == "worker_stopped"
    assert by_status["cancelled"]["run_ended_at"] is not None
    assert not queue.query("select from lakequeue.tasks where failures > 0"), "no document's fault"
    (worker,) = queue.query("select * from lakequeue.workers")
    assert worker["stopped_at"] is not None


def test_with_patience_it_finishes_what_runs_and_claims_nothing_more(
    queue: Queue, tmp_path: Path
) -> None:
    queue.enqueue(8, seconds=3)
    worker = make_worker(queue, tmp_path)  # which alone would wait for a second only
    with running(worker) as thread:
        until(lambda: queue.statuses().get("processing", 0) == 4)
        worker.stop(patience=60)
        thread.join(60)
        assert not thread.is_alive()
    assert queue.statuses() == {"completed": 4, "enqueued": 4}


@pytest.mark.parametrize("idle_limit", [30, 3600])
def test_an_idle_worker_is_never_taken_for_dead(queue: Queue, idle_limit: float) -> None:
    worker = Worker(queue.worker_conninfo, TroubledRelay(), idle_limit=idle_limit)
    assert worker._beat.wait() == 10
    worker._last_activity -= 1_000_000
    assert worker._look.wait() == idle_limit
    assert worker._beat.wait() == 30


def test_an_idle_worker_leaves_the_database_alone(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = Worker._call

    def counted(it: Worker, function: str, **parameters: Any) -> list[dict[str, Any]]:
        asked.append(function)
        return call(it, function, **parameters)

    monkeypatch.setattr(Worker, "_call", counted)
    with running(make_worker(queue, tmp_path)):
        until(lambda: "worker_heartbeat" in asked)
        time.sleep(2.5)
        assert "runs_to_check" not in asked
        queue.enqueue(1, seconds=1.5)
        queue.wait_for(completed=1)
        assert "runs_to_check" in asked
        time.sleep(1.5)
        before = asked.count("runs_to_check")
        time.sleep(2.5)
        assert asked.count("runs_to_check") == before


def test_an_idle_worker_stops_at_once(queue: Queue, tmp_path: Path) -> None:
    process = start_process(queue, tmp_path / "a")
    until(lambda: queue.query("select from lakequeue.workers"))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert time.monotonic() - began < 2
