"""The agents of the chaos suite: small, many at once, and mostly up to no good.

Each run of an attempt is a generator that yields the seconds it waits next. A host process plays
hundreds of them with a few threads, as the machines behind a workspace would; the local relay
plays one in a process of its own. They talk to Lakequeue as real agents do: heartbeats and results
by SQL, reports over HTTP.

Before anything is sent it is written into a ledger, a file that no kill -9 can take away: at the
end the database must hold what was reported, once each. Seconds are the database's, which are
`SPEED` times shorter here.
"""

from __future__ import annotations

import contextlib
import heapq
import http.client
import itertools
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg.types.json import Json

from lakequeue import database

Script = Generator[float, None, None]

SPEED = float(os.environ.get("LAKEQUEUE_TEST_CHAOS_SPEED", "1"))
SEED = os.environ.get("LAKEQUEUE_TEST_CHAOS_SEED", "0")
LEDGER = "LAKEQUEUE_TEST_CHAOS_LEDGER"
HANG = 150.0
THREADS = 8
PATIENCE = (1, 2, 4, 8, 16, 32, *[40] * 10)
"""Waits between two tries to deliver a report; a restart of the web process takes less."""

ACTS = (
    "succeeds",
    "stores_and_confirms",
    "answers_twice",
    "contradicts_itself",
    "answers_in_wrong_order",
    "fails",
    "crashes",
    "hangs",
    "drops_the_confirmation",
    "drops_the_callback",
    "delays_the_callback",
    "answers_late",
    "reports_429_and_waits",
    "reports_429_and_gives_up",
    "loses_the_answer",
)
"""What an attempt may do; a good task's first attempts take turns in them."""


class Ledger:
    """What this process has done, a JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what: Any) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")


class Unreachable(Exception):
    """Nobody answered, or with an error of their own: try again."""


class Client:
    """One thread's ways to Lakequeue, made anew after each failure."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: database.Connection | None = None

    def sql(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        try:
            if self._connection is None:
                self._connection = database.connect(self._conninfo, application_name="chaos agent")
            return database.call(self._connection, function, **parameters)
        except database.DatabaseUnavailable as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            raise Unreachable(str(error)) from error

    def post(self, url: str, report: dict[str, Any], *, deaf: bool = False) -> str:
        """Report by webhook, and give its answer; deaf: hang up before it comes."""
        address = urlsplit(url)
        body = json.dumps(report)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port or 80, timeout=30
        )
        try:
            connection.request("POST", address.path, body, {"Content-Type": "application/json"})
            if deaf:
                return ""
            response = connection.getresponse()
            said = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(str(error)) from error
        finally:
            connection.close()
        if response.status >= 500:
            raise Unreachable(f"{response.status} {said}")
        return str(said["answer"] if response.status == 200 else said["error"])


class Agent:
    """One run of one attempt."""

    def __init__(
        self,
        parameters: dict[str, str],
        run_id: int | None,
        client: Callable[[], Client],
        ledger: Ledger,
        end: Callable[[str], None],
    ) -> None:
        """`end` tells the platform how the run ended, which may be before its script does."""
        self.attempt = int(parameters["attempt_id"])
        self.number = int(parameters["attempt_number"])
        self.token = parameters["callback_token"]
        self.path = parameters["document_path"]
        self.payload = json.loads(parameters["payload"])
        self.lease = float(parameters["lease_seconds"])
        self.reserves = bool(parameters["reserves_calls"])
        self.url = parameters["callback_url"]
        self.run_id = run_id
        self.client = client
        self.ledger = ledger
        self.end = end
        self.dice = random.Random(f"{SEED} {self.path} {self.number}")

    @property
    def usage(self) -> dict[str, Any]:
        """What the attempt costs: each attempt something else."""
        tokens, answer = 100 + self.attempt % 389, 10 + self.attempt % 41
        return {
            "input_tokens": tokens,
            "output_tokens": answer,
            "cached_tokens": tokens // 4,
            "llm_cost": (3 * tokens + 15 * answer) / 1e6,
            "usage_complete": True,
        }

    @property
    def result(self) -> dict[str, Any]:
        return {"document": self.path, "attempt": self.attempt}

    def play(self) -> Script:
        """Do what the task's kind and the dice say."""
        self.ledger.note(begin=self.attempt, run=self.run_id)
        act = self._act()
        self.ledger.note(act=act)
        try:
            yield from getattr(self, f"_{act}")()
        except database.LakequeueError as error:
            self.ledger.note(refused=self.attempt, code=error.sqlstate, why=str(error))
        finally:
            self.end("RUN_EXECUTION_ERROR" if act == "crashes" else "SUCCESS")

    def _act(self) -> str:
        kind = self.payload["kind"]
        if kind in ("bad", "broken", "limited"):
            return {"bad": "fails", "broken": "is_broken", "limited": "reports_429_and_gives_up"}[
                kind
            ]
        if self.number == 1:
            return str(self.payload["first"])
        return self.dice.choice(ACTS) if self.dice.random() < 0.3 else "succeeds"

    # --- what it says -------------------------------------------------------------------------

    def _report(self, outcome: str, **more: Any) -> dict[str, Any]:
        report = {"attempt": self.attempt, "token": self.token, "outcome": outcome}
        if self.run_id is not None:
            report["run_id"] = self.run_id
        return report | self.usage | more

    def _say(self, report: dict[str, Any]) -> Generator[float, None, str | None]:
        """Report until somebody answers."""
        for wait in PATIENCE:
            self.ledger.note(
                sent=self.attempt,
                usage=[report["input_tokens"], report["output_tokens"], report["llm_cost"]],
            )
            try:
                answer = self.client().post(self.url, report)
            except Unreachable:
                yield wait
                continue
            self.ledger.note(
                answered=self.attempt,
                outcome=report["outcome"],
                answer=answer,
                usage=True,
                result="result" in report,
            )
            return answer
        self.ledger.note(undelivered=self.attempt)
        return None

    def _call(
        self, function: str, **parameters: Any
    ) -> Generator[float, None, list[dict[str, Any]]]:
        """Call a function until the database answers."""
        for wait in (*PATIENCE, None):
            try:
                return self.client().sql(
                    function, attempt=self.attempt, token=self.token, **parameters
                )
            except Unreachable:
                if wait is None:
                    raise
                yield wait
        raise AssertionError

    def _store(self) -> Script:
        (row,) = yield from self._call("store_result", result=Json(self.result))
        self.ledger.note(
            answered=self.attempt,
            outcome="success",
            answer=row["store_result"],
            usage=False,
            result=True,
        )

    def _success(self) -> Generator[float, None, str | None]:
        return (yield from self._say(self._report("success", result=self.result)))

    def _beat(self) -> str:
        """A heartbeat with half of the usage."""
        tokens, answer = self.usage["input_tokens"] // 2, self.usage["output_tokens"] // 2
        self.ledger.note(sent=self.attempt, usage=[tokens, answer, None])
        try:
            (row,) = self.client().sql(
                "extend_leases",
                attempts=[self.attempt],
                tokens=[self.token],
                input_tokens=[tokens],
                output_tokens=[answer],
            )
        except Unreachable:
            return "unheard"
        return str(row["answer"])

    def _work(self) -> Generator[float, None, bool]:
        """Work for a while, with heartbeats; false when it was told to stop, and does."""
        if self.reserves and not (yield from self._model_call()):
            return False
        seconds = self.dice.uniform(2, 10) if self.dice.random() < 0.9 else self.lease
        while seconds > 0:
            step = min(seconds, self.lease / 3)
            yield step
            seconds -= step
            answer = self._beat()
            if answer == "cancel":
                yield from self._say(self._report("cancelled"))
                return False
            if answer == "lost" and self.dice.random() < 0.5:
                return False  # the others go on spending, and report all the same
        return True

    def _model_call(self) -> Generator[float, None, bool]:
        call = uuid.UUID(int=self.dice.getrandbits(128), version=4)
        tokens, most = self.usage["input_tokens"], self.usage["output_tokens"] + 20
        while True:
            (row,) = yield from self._call(
                "reserve_tokens", input_tokens=tokens, max_output_tokens=most, call=call
            )
            if row["answer"] != "wait":
                break
            yield max(0.2, row["wait"].total_seconds())
            self._beat()
        if row["answer"] != "granted":
            return False
        yield self.dice.uniform(1, 3)
        used = self.usage["output_tokens"]
        try:
            yield from self._call(
                "settle_tokens", call=call, input_tokens=tokens, output_tokens=used
            )
        except database.LakequeueError as error:
            if error.sqlstate != "LQ404":  # closed with its attempt, and forgotten meanwhile
                raise
        return True

    # --- what it does -------------------------------------------------------------------------

    def _succeeds(self) -> Script:
        if (yield from self._work()):
            yield from self._success()

    def _stores_and_confirms(self) -> Script:
        if (yield from self._work()):
            yield from self._store()
            yield self.dice.uniform(0, 5)
            yield from self._say(self._report("success"))

    def _answers_twice(self) -> Script:
        yield from self._succeeds()
        yield self.dice.uniform(0, 40)
        yield from self._success()

    def _contradicts_itself(self) -> Script:
        yield from self._succeeds()
        yield from self._say(self._report("failure", error_class="second thoughts"))
        yield from self._say(self._report("rate_limited", retry_after=1))

    def _answers_in_wrong_order(self) -> Script:
        """Confirms what it has not stored yet, and beats after its end."""
        if (yield from self._work()):
            yield from self._say(self._report("success"))
            yield self.dice.uniform(0, 5)
            yield from self._store()
            self._beat()
            yield from self._say(self._report("success"))

    def _fails(self) -> Script:
        if (yield from self._work()):
            yield from self._say(self._report("failure", error_class="chaos", error="as planned"))

    def _is_broken(self) -> Script:
        if (yield from self._work()):
            yield from self._say(self._report("permanent_failure", error_class="broken"))

    def _crashes(self) -> Script:
        yield from self._work()

    def _hangs(self) -> Script:
        """Until its job's time limit."""
        yield HANG
        self.end("CANCELED")

    def _drops_the_confirmation(self) -> Script:
        if (yield from self._work()):
            yield from self._store()

    def _drops_the_callback(self) -> Script:
        yield from self._work()

    def _delays_the_callback(self) -> Script:
        """The run has ended well; what it said is on its way for longer than the lease."""
        if (yield from self._work()):
            self.end("SUCCESS")
            yield self.lease * self.dice.uniform(0.7, 1.4)
            yield from self._success()

    def _answers_late(self) -> Script:
        """The platform takes it for dead, but it lives, and ends its work."""
        yield 2
        self.end("INTERNAL_ERROR")
        yield self.lease * self.dice.uniform(0.7, 1.4)
        yield from self._success()

    def _reports_429_and_waits(self) -> Script:
        yield from self._call("report_rate_limit", retry_after="1 second")
        yield 1
        yield from self._succeeds()

    def _reports_429_and_gives_up(self) -> Script:
        if (yield from self._work()):
            yield from self._call("report_rate_limit", retry_after="1 second")
            yield from self._say(self._report("rate_limited", retry_after=1))

    def _loses_the_answer(self) -> Script:
        """Hangs up before the answer comes, and reports again."""
        if (yield from self._work()):
            report = self._report("success", result=self.result)
            self.ledger.note(
                sent=self.attempt,
                usage=[report["input_tokens"], report["output_tokens"], report["llm_cost"]],
            )
            with contextlib.suppress(Unreachable):
                self.client().post(self.url, report, deaf=True)
            yield from self._success()


# --- in a process of its own, by the local relay --------------------------------------------------


def run(parameters: dict[str, str]) -> int:
    """Play one run."""
    client = Client(os.environ["LAKEQUEUE_DATABASE_URL"])
    ledger = Ledger(Path(os.environ[LEDGER]) / "local.jsonl")
    parameters = parameters | {"callback_url": os.environ["LAKEQUEUE_CALLBACK_URL"]}
    agent = Agent(parameters, None, lambda: client, ledger, lambda _code: None)
    for seconds in agent.play():
        time.sleep(seconds / SPEED)
    return 0


# --- many at once, as the machines of a workspace -------------------------------------------------


class Host:
    """Plays all runs that come by standard input, and says on standard output how they ended.

    A run may end, to the platform, before its script is over.
    """

    def __init__(self, conninfo: str, ledger: Ledger) -> None:
        self._conninfo = conninfo
        self._ledger = ledger
        self._local = threading.local()
        self._due: list[tuple[float, int, int, Script]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def _client(self) -> Client:
        if not hasattr(self._local, "client"):
            self._local.client = Client(self._conninfo)
        client: Client = self._local.client
        return client

    def _add(self, seconds: float, run_id: int, script: Script) -> None:
        with self._changed:
            due = time.monotonic() + seconds / SPEED
            heapq.heappush(self._due, (due, next(self._numbers), run_id, script))
            self._changed.notify()

    def _next(self) -> tuple[int, Script]:
        with self._changed:
            while True:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2:]
                self._changed.wait(left)

    def _play(self) -> None:
        while True:
            run_id, script = self._next()
            try:
                self._add(next(script), run_id, script)
            except StopIteration:
                self._say(run=run_id, over=True)
            except Exception as error:  # noqa: BLE001 - the suite looks at what they are
                self._ledger.note(error=repr(error))
                self._say(run=run_id, over=True)

    def _say(self, **what: Any) -> None:
        os.write(1, json.dumps(what).encode() + b"\n")

    def _end(self, run_id: int, code: str) -> None:
        self._say(run=run_id, code=code)

    def serve(self) -> None:
        """Until standard input closes."""
        for _ in range(THREADS):
            threading.Thread(target=self._play, daemon=True).start()
        for line in sys.stdin:
            parameters = json.loads(line)
            run_id = parameters.pop("run_id")
            end = partial(self._end, run_id)
            agent = Agent(parameters, run_id, self._client, self._ledger, end)
            self._add(0, run_id, agent.play())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = Path(os.environ[LEDGER])
    name = f"host-{socket.gethostname()[:20]}-{os.getpid()}.jsonl"
    Host(os.environ["LAKEQUEUE_DATABASE_URL"], Ledger(folder / name)).serve()
