"""The worker: claims tasks, relays them to runs, keeps their leases, and tidies up.

It decides nothing: the database says what to run, what is late and what has failed. One thread
runs one loop of steps, each with its own time; a step that fails is logged and tried again
later, and a database that is away is waited for. Calls to the relay go on in other threads, so
that a slow one keeps nothing waiting. Any number of workers work side by side.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from psycopg.types.json import Json

from lakequeue import __version__, database
from lakequeue.database import DatabaseUnavailable, LakequeueError
from lakequeue.errors import Problem, WrongUse
from lakequeue.listener import Backoff, Listener, wait_readable
from lakequeue.migrate import VersionMismatch, version_problem
from lakequeue.relay.base import (
    UNKNOWN,
    EndedRun,
    Relay,
    Run,
    RunState,
    RunStatus,
    SubmitError,
    SubmitLaterError,
    SubmitUncertainError,
)

log = logging.getLogger(__name__)

CHANNEL = "lakequeue_worker"
TEND_SECONDS = 1.0
BEAT_SECONDS = 10.0
BEAT_LIMIT_SECONDS = 30.0
"""Longest wait between two heartbeats: a worker silent for a minute counts as dead."""
LOOK_SECONDS = 0.5
"""Shortest wait between two looks at a queue that gave nothing."""
IDLE_LIMIT_SECONDS = 30.0
"""Longest one: a bound on what a lost notification can cost."""
IDLE_SHARE = 20
"""The next look comes after this part of the time in which nothing happened.

So a task whose turn comes without a notification (its retry is due, a minute's tokens have left
the window) waits at most 5 % longer than it had to, and an idle database is asked less and less.
"""
BUSY_SECONDS = (0.005, 0.02)
CHECK_BATCH = 500
SETTLE_SECONDS = 5.0
"""Shortest wait between two looks for traces of job runs, which end unseen by this process."""
FRESH = timedelta(minutes=2)
"""A trace that has not come so long after its attempt's end is looked for only now and then."""
SETTLE_ALL_SECONDS = 300.0
SWEEP_BATCH = 50
ADOPT_BATCH = 10
FOLD_BATCH = 10_000
ROUNDS = 100
"""Full batches that one step works off in a row before others have their turn."""
DRAIN_SECONDS = 8.0
"""How long a stopping worker lets runs that would end with it come to their own end."""
END_SECONDS = 6.0
"""What is left after that for ending them, and for the last words to the database.

Together it is less than the 15 seconds after which a platform kills a process.
"""
LAST_CALLS_SECONDS = 3.0
"""How long of that for calls to the relay that are under way."""

OUTCOMES = {
    RunState.SUCCEEDED: ("run_died", "failure"),
    RunState.FAILED: ("run_died", "failure"),
    RunState.GONE: ("run_died", "failure"),
    RunState.CANCELLED: ("run_cancelled", "cancelled"),
    RunState.REFUSED: ("run_refused", "permanent_failure"),
    RunState.CROWDED: ("no_room", "rate_limited"),
}
"""What fail_attempt is told about a run that ended without a report: error class and outcome."""


class UnknownAgent(WrongUse):
    """A worker was told to serve an agent that there is not, or not any more."""


class Settler(Protocol):
    """Reads traces and settles usage from them, outside the worker's loop."""

    def kick(self, ended_within: timedelta) -> None:
        """Begin a round over the attempts that ended so recently, unless one is under way."""

    def wait(self, seconds: float) -> None:
        """Wait for a round that is under way."""


def worker_name() -> str:
    """Make a name that no other start of a worker has, on any machine."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass(slots=True, eq=False)
class _Step:
    """Something the loop does again and again."""

    name: str
    work: Callable[[], None]
    wait: Callable[[], float]
    due: float = 0.0
    trouble: Backoff = field(default_factory=lambda: Backoff(1.0, 60.0))


@dataclass(slots=True)
class _Submission:
    """A claimed run that is not, or not certainly, submitted."""

    run: Run
    run_id: int | None
    """What its run will be called, if that is known before it starts."""
    expires: float
    confirmed: bool
    """Whether no crash can undo the claim any more."""
    noted: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 10.0))
    call: Future[int] | None = None


_Check = tuple[list[dict[str, Any]], Future[Mapping[int, RunStatus]]]
"""Rows of runs_to_check, and what the relay says about their runs."""


class Worker:
    """One worker. `run` works until `stop`, which any thread or signal handler may call."""

    def __init__(
        self,
        conninfo: str,
        relay: Relay,
        *,
        name: str | None = None,
        agents: list[str] | None = None,
        batch_size: int = 10,
        settler: Settler | None = None,
        idle_limit: float = IDLE_LIMIT_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        """Take the database, the relay (closed when `run` ends) and what to work on.

        `agents` restricts it to some agents (None: all). `drain_seconds`: see DRAIN_SECONDS.
        """
        self.name = name or worker_name()
        self._conninfo = conninfo
        self._relay = relay
        self._agents = agents
        self._batch_size = batch_size
        self._settler = settler
        self._idle_limit = idle_limit
        self._drain_seconds = drain_seconds

        self._on_ready: Callable[[], None] | None = None
        self._connection: database.Connection | None = None
        self._database = Backoff()
        self._away_since: float | None = None
        self._listener = Listener(conninfo, CHANNEL, "lakequeue worker (listening)")
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._drain_until: float | None = None
        self._draining = False
        self._full = self._adopt_full = False
        self._threads = (
            ThreadPoolExecutor(relay.calls_at_once, "relay") if relay.calls_at_once > 1 else None
        )

        self._last_activity = time.monotonic()
        self._submissions: dict[int, _Submission] = {}  # by attempt
        self._unrecorded: dict[int, int] = {}  # attempt: run
        self._ended: list[EndedRun] = []
        # Attempt: run, while the relay counts it as alive; empty for runs that outlive the worker.
        self._runs: dict[int, int] = {}
        self._checking: _Check | None = None

        self._look = _Step("look for tasks", self._look_for_tasks, self._idle_delay)
        self._submitting = _Step("submit", self._submit, lambda: TEND_SECONDS)
        self._tend = _Step("tend", self._tend_runs, self._tend_delay)
        self._sweep = _Step(
            "sweep", self._sweep_leases, lambda: max(TEND_SECONDS, self._idle_delay())
        )
        self._fold = _Step(
            "fold", self._fold_rollups, lambda: max(TEND_SECONDS, self._idle_delay())
        )
        self._beat = _Step(
            "heartbeat",
            self._heartbeat,
            lambda: min(BEAT_LIMIT_SECONDS, max(BEAT_SECONDS, self._idle_delay())),
        )
        self._adopt = _Step("adopt", self._adopt_attempts, self._beat.wait)
        self._settle = _Step(
            "settle",
            self._settle_usage,
            lambda: (
                max(SETTLE_SECONDS, self._idle_delay())
                if relay.outlives_worker
                else self._beat.wait()
            ),
        )
        self._settled_at = self._settle_all_at = -math.inf
        # The heartbeat is first: it makes the worker's row and checks the schema. A notification
        # makes several steps due; no task need wait for upkeep, so the look comes before it;
        # what a dead worker left was claimed before what is looked for.
        self._steps = [
            self._beat,
            self._submitting,
            self._tend,
            self._adopt,
            self._look,
            self._sweep,
            self._settle,
            self._fold,
        ]

    # --- the loop -----------------------------------------------------------------------------

    def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Work until `stop`; `on_ready` is called when the database first lets it look for tasks.

        Raises a Problem when the schema is not the one it knows, the database is a copy, or an
        agent is unknown.
        """
        self._on_ready = on_ready
        log.info("worker %s starts", self.name)
        try:
            self._relay.start(self.wake)
            while self._drain_until is None:
                self._cycle()
                self._wait()
            self._finish()
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self._relay.close()
            self._listener.close()
            self._disconnect()
            log.info("worker %s has ended", self.name)

    def stop(self, patience: float | None = None) -> None:
        """Ask it to claim nothing more, and to end.

        Runs that end with it have `patience` seconds (by default `drain_seconds`) to be finished;
        `run` returns when they are, or END_SECONDS later. A second call can only shorten that.
        """
        until = time.monotonic() + (self._drain_seconds if patience is None else patience)
        if self._drain_until is None or until < self._drain_until:
            self._drain_until = until
        self.wake()

    def wake(self) -> None:
        """Let the loop look now."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"!")

    def _cycle(self) -> None:
        """Do every step that is due."""
        self._listen()
        self._take_ended()
        self._take_answers()
        if not self._connect():
            return
        for step in self._active_steps():
            if step.due > time.monotonic():
                continue
            if self._drain_until is not None and not self._draining:
                return
            try:
                step.due = time.monotonic() + step.wait()
                step.work()
                step.trouble.succeed()
            except DatabaseUnavailable as error:
                self._lost(error)
                return
            except (VersionMismatch, database.NotInstalled, database.NotHome, UnknownAgent):
                raise
            except Exception:
                # Whatever it is, the other steps go on, and this one is tried again.
                step.trouble.fail()
                step.due = step.trouble.due
                log.exception(
                    "worker step %r failed; next try in %.0f s",
                    step.name,
                    step.trouble.due - time.monotonic(),
                )
                if self._connection is not None and self._connection.broken:
                    self._disconnect()
                    return

    def _active_steps(self) -> list[_Step]:
        """Give the steps to do; a worker that stops takes on nothing new."""
        if not self._draining:
            return self._steps
        return [step for step in self._steps if step not in (self._look, self._adopt)]

    def _wait(self) -> None:
        """Sleep until a step is due, a notification comes, or somebody wakes the loop."""
        if self._connection is None:
            due = self._database.due
        else:
            due = min(step.due for step in self._active_steps())
        if self._listener.due is not None:
            due = min(due, self._listener.due)
        if self._runs:
            due = min(due, time.monotonic() + TEND_SECONDS)
        if self._drain_until is not None:
            due = min(due, self._drain_until)
        files = [self._wake_read]
        listening = self._listener.fileno()
        if listening is not None:
            files.append(listening)
        # Not before a few milliseconds: two clocks that disagree must not make it spin.
        wait_readable(files, max(0.002, due - time.monotonic()))
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _listen(self) -> None:
        if self._listener.keep() or self._listener.poll():
            self._happened()
            self._look.due = self._sweep.due = self._fold.due = 0.0
            if self._relay.outlives_worker:
                self._tend.due = 0.0  # it may have been a wish to cancel
                # Or a run that has ended, and its trace is there.
                self._settle.due = min(self._settle.due, self._settled_at + SETTLE_SECONDS)

    def _happened(self) -> None:
        """Something moved: look often again."""
        self._last_activity = time.monotonic()

    def _idle_delay(self) -> float:
        idle = time.monotonic() - self._last_activity
        return min(self._idle_limit, max(LOOK_SECONDS, idle / IDLE_SHARE))

    def _tend_delay(self) -> float:
        """Runs that outlive the worker are in the database alone: it is asked less and less."""
        return max(TEND_SECONDS, self._idle_delay() if self._relay.outlives_worker else 0.0)

    def _call_relay(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call it, in another thread if it may take its time; the loop wakes when it is done."""
        if self._threads is not None:
            call = self._threads.submit(function, *arguments)
            call.add_done_callback(lambda _: self.wake())
            return call
        call = Future()
        try:
            call.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - whoever takes the answer looks
            call.set_exception(error)
        return call

    def _take_answers(self) -> None:
        """Let the steps that wait for the relay go on."""
        if any(item.call is not None and item.call.done() for item in self._submissions.values()):
            self._submitting.due = 0.0
        if self._checking is not None and self._checking[1].done():
            self._tend.due = 0.0

    # --- the database -------------------------------------------------------------------------

    def _connect(self) -> bool:
        if self._connection is not None:
            return True
        if time.monotonic() < self._database.due:
            return False
        try:
            self._connection = database.connect(self._conninfo, application_name="lakequeue worker")
            database.check_home(self._connection)
        except DatabaseUnavailable as error:
            self._lost(error)
            return False
        except psycopg.Error as error:
            # Such as a login without rights: nothing is done until it is known where this is.
            self._lost(Problem(f"the database cannot be worked on: {error}"))
            return False
        self._database.succeed()
        if self._away_since is not None:
            log.warning("the database is back after %.0f s", time.monotonic() - self._away_since)
            self._away_since = None
        self._happened()
        for step in self._steps:
            step.due = 0.0
        return True

    def _lost(self, error: Problem) -> None:
        """Wait for the database, for ever; say so once."""
        self._disconnect()
        self._database.fail()
        if self._away_since is None:
            self._away_since = time.monotonic()
            log.warning("%s; trying again until it is back", error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _call(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        if self._connection is None:
            raise DatabaseUnavailable("the database is away")
        return database.call(self._connection, function, **parameters)

    def _call_for_agents(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        """Call it for the agents that are served; one unknown would leave all of them unserved."""
        try:
            return self._call(function, worker=self.name, agents=self._agents, **parameters)
        except LakequeueError as error:
            if error.sqlstate != "LQ404":
                raise
            raise UnknownAgent(error.message, error.hint) from error

    # --- steps --------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        rows = self._call(
            "worker_heartbeat",
            worker=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            relay=self._relay.kind,
        )
        problem = version_problem(next(iter(rows[0].values())))
        if problem is not None:
            raise problem

    def _look_for_tasks(self) -> None:
        """Claim what the database gives for the free places, and submit it."""
        free = self._free_places()
        self._full = free <= 0
        if self._full:
            return  # _take_ended sees when that changes
        rows = self._call_for_agents("dequeue_tasks", batch_size=free, durable=False)
        if self._on_ready is not None:
            self._on_ready()
            self._on_ready = None
        if rows and rows[0]["outcome"] == "busy":
            self._look.due = time.monotonic() + random.uniform(*BUSY_SECONDS)  # noqa: S311
            return
        if rows:
            self._take_runs(rows, confirmed=False)
            self._look.due = 0.0

    def _adopt_attempts(self) -> None:
        """Take over what a dead worker claimed and did not submit."""
        free = min(ADOPT_BATCH, self._free_places())
        self._adopt_full = free <= 0  # _take_ended sees when that changes
        if free > 0:
            rows = self._call_for_agents("adopt_attempts", batch_size=free)
            if rows:
                self._take_runs(rows, confirmed=True)
                self._adopt.due = 0.0

    def _free_places(self) -> int:
        if self._relay.capacity is None:
            return self._batch_size - len(self._submissions)
        taken = self._relay.alive() + len(self._submissions)
        return min(self._batch_size, self._relay.capacity - taken)

    def _take_runs(self, rows: list[dict[str, Any]], *, confirmed: bool) -> None:
        self._happened()
        for row in rows:
            run = Run.from_row(row)
            expires = time.monotonic() + run.lease_duration.total_seconds()
            run_id = self._relay.name(run)
            self._submissions[run.attempt_id] = _Submission(run, run_id, expires, confirmed)
            log.info(
                "task %d: %s attempt %d (number %d)",
                run.task_id,
                row["outcome"],
                run.attempt_id,
                run.attempt_number,
            )
        self._submit()

    def _submit(self) -> None:
        """Submit what is claimed; where it is open whether that worked, again with the same key."""
        self._confirm_claims()
        self._note_names()
        for submission in list(self._submissions.values()):
            due = submission.backoff.due <= time.monotonic() and not self._draining
            if submission.call is None and due:
                submission.call = self._call_relay(self._relay.submit, submission.run)
            if submission.call is not None and submission.call.done():
                call, submission.call = submission.call, None
                self._take_submission(submission, call)
        self._record_runs()
        self._look_if_free()

    def _confirm_claims(self) -> None:
        """Wait until claims are safe from a crash; what a crash has undone meanwhile is dropped.

        The disk is waited for here, and not at the claim, where all workers would wait along.
        """
        if self._draining:
            return  # nothing starts any more
        claims = {
            attempt_id: submission.run.run_key
            for attempt_id, submission in self._submissions.items()
            if not submission.confirmed
        }
        if not claims:
            return
        rows = self._call(
            "confirm_claims",
            worker=self.name,
            attempts=list(claims),
            run_keys=list(claims.values()),
        )
        confirmed = {row["attempt_id"] for row in rows}
        for attempt_id in claims:
            if attempt_id in confirmed:
                self._submissions[attempt_id].confirmed = True
            else:
                log.warning("attempt %d is not started: its claim is undone or taken", attempt_id)
                del self._submissions[attempt_id]

    def _note_names(self) -> None:
        """Note the runs whose ids are known before they start; only what is ours may start.

        Else a worker that stood still in between, and was taken for dead, would run beside the
        one that has adopted its attempt.
        """
        if self._draining:
            return  # nothing starts any more, and nobody would adopt what is noted
        names = {
            attempt_id: submission.run_id
            for attempt_id, submission in self._submissions.items()
            if submission.run_id is not None and not submission.noted
        }
        for attempt_id, answer in self._record(names):
            if answer in ("recorded", "duplicate"):
                self._submissions[attempt_id].noted = True
            else:
                log.warning("attempt %d is not started: %s", attempt_id, answer)
                del self._submissions[attempt_id]

    def _take_submission(self, submission: _Submission, call: Future[int]) -> None:
        attempt_id = submission.run.attempt_id
        error = call.exception()
        if error is None:
            del self._submissions[attempt_id]
            if not submission.noted:
                self._unrecorded[attempt_id] = call.result()
            if not self._relay.outlives_worker:
                self._runs[attempt_id] = call.result()
            return
        submission.backoff.fail()
        if isinstance(error, SubmitLaterError):
            submission.backoff.due = max(submission.backoff.due, time.monotonic() + error.seconds)
        in_time = submission.backoff.due < submission.expires
        if isinstance(error, SubmitError):
            log.warning("attempt %d could not be submitted: %s", attempt_id, error)
            self._fail(attempt_id, "submit_failed", str(error))
            del self._submissions[attempt_id]
        elif isinstance(error, SubmitLaterError) and not in_time:
            log.warning("attempt %d goes back to the queue, not submitted: %s", attempt_id, error)
            self._fail(attempt_id, "no_room", str(error), outcome="rate_limited")
            del self._submissions[attempt_id]
        elif not in_time:
            log.error("attempt %d: given up submitting it, its lease ends: %s", attempt_id, error)
            del self._submissions[attempt_id]
        elif isinstance(error, SubmitLaterError):
            log.info("attempt %d is submitted later: %s", attempt_id, error)
        elif isinstance(error, SubmitUncertainError):
            log.warning(
                "attempt %d: not known whether it was submitted, trying again: %s",
                attempt_id,
                error,
            )
        else:
            log.error("attempt %d: submitting failed, trying again", attempt_id, exc_info=error)

    def _record_runs(self) -> None:
        """Note the runs that have started."""
        for attempt_id, answer in self._record(self._unrecorded):
            run_id = self._unrecorded.pop(attempt_id)
            if answer in ("conflict", "unknown"):
                # The attempt belongs to another run: this one would only spend.
                log.warning("run %d of attempt %d: %s; cancelling it", run_id, attempt_id, answer)
                self._call_relay(self._relay.cancel, run_id)

    def _record(self, runs: Mapping[int, int]) -> list[tuple[int, str]]:
        """Note the runs of these attempts, and give the answer for each."""
        if not runs:
            return []
        rows = self._call("record_runs", attempts=list(runs), run_ids=list(runs.values()))
        return [(row["attempt_id"], row["answer"]) for row in rows]

    def _take_ended(self) -> None:
        ended = self._relay.ended()
        for run in ended:
            if self._runs.get(run.attempt_id) == run.run_id:
                del self._runs[run.attempt_id]
        if ended:
            self._ended += ended
            self._happened()
            self._tend.due = self._fold.due = 0.0
        self._look_if_free()

    def _look_if_free(self) -> None:
        if (self._full or self._adopt_full) and self._free_places() > 0:
            if self._adopt_full:
                self._adopt.due = 0.0
            if self._full:
                self._look.due = 0.0
            self._full = self._adopt_full = False

    def _tend_runs(self) -> None:
        """Close attempts whose runs ended, extend leases, cancel."""
        if not (
            self._relay.outlives_worker
            or self._relay.alive()
            or self._runs
            or self._checking
            or self._ended
        ):
            return  # nothing that this worker alone could know of: an idle database is left alone
        self._report_ended()
        for _ in range(ROUNDS):
            if self._checking is None:
                self._checking = self._begin_check()
            if self._checking is None or not self._checking[1].done():
                return
            (rows, call), self._checking = self._checking, None
            self._take_checked(rows, call)
            if len(rows) < CHECK_BATCH:
                return

    def _begin_check(self) -> _Check | None:
        """Look up the runs that the database wants to know about; None: there are none."""
        rows = self._call(
            "runs_to_check",
            worker=self.name,
            batch_size=CHECK_BATCH,
        )
        run_ids = [row["run_id"] for row in rows]
        return (rows, self._call_relay(self._relay.states, run_ids)) if rows else None

    def _report_ended(self) -> None:
        """Tell the database about every run that ended; whether that is a failure it decides.

        For an attempt that has reported it is only the news that its run spends no more.
        """
        while self._ended:
            run = self._ended[0]
            how = "it is not known how" if run.exit_code is None else f"exit code {run.exit_code}"
            message = f"the run ended without a report ({how})"
            if run.tail:
                message = f"{message}: {run.tail}"
            if self._draining and run.exit_code != 0:
                # Ended by this worker: no fault of the document, so no failure of the task.
                self._fail(run.attempt_id, "worker_stopped", message, outcome="given_back")
            else:
                self._fail(run.attempt_id, "run_died", message)
            self._ended.pop(0)

    def _take_checked(
        self, rows: list[dict[str, Any]], call: Future[Mapping[int, RunStatus]]
    ) -> None:
        """Do what the states of these runs ask for; one that is unknown is asked for again."""
        states: Mapping[int, RunStatus] = {}
        if (error := call.exception()) is None:
            states = call.result()
        else:
            log.error("the states of %d runs cannot be read", len(rows), exc_info=error)
        extend: dict[int, int] = {}
        for row in rows:
            attempt_id, run_id = row["attempt_id"], row["run_id"]
            status = states.get(run_id, UNKNOWN)
            if status.state in OUTCOMES:
                error_class, outcome = OUTCOMES[status.state]
                message = f"the run {status.state.value}, without a report"
                if status.detail:
                    message = f"{message}: {status.detail}"
                self._fail(attempt_id, error_class, message, outcome=outcome)
            elif row["why"] != "lease":
                if status.state is RunState.RUNNING:
                    log.info("attempt %d: cancelling run %d (%s)", attempt_id, run_id, row["why"])
                self._call_relay(self._relay.cancel, run_id)
            elif status.state is RunState.RUNNING:
                extend[attempt_id] = run_id
        if extend:
            for row in self._call("extend_leases", attempts=list(extend)):
                if row["answer"] != "extended":
                    self._call_relay(self._relay.cancel, extend[row["attempt_id"]])

    def _fail(
        self, attempt_id: int, error_class: str, message: str, *, outcome: str = "failure"
    ) -> None:
        try:
            self._call(
                "fail_attempt",
                attempt=attempt_id,
                error_class=error_class,
                error=Json({"message": message}),
                outcome=outcome,
            )
        except LakequeueError as error:
            log.error("attempt %d cannot be closed as %s: %s", attempt_id, error_class, error)

    def _sweep_leases(self) -> None:
        for _ in range(ROUNDS):
            (row,) = self._call("sweep_leases", batch_size=SWEEP_BATCH)
            if any(row.values()):
                self._happened()
                self._look.due = self._adopt.due = 0.0
            if max(row.values()) < SWEEP_BATCH:
                break

    def _fold_rollups(self, *, patient: bool = True) -> None:
        for _ in range(ROUNDS):
            (row,) = self._call("fold_rollups", batch_size=FOLD_BATCH, patient=patient)
            if next(iter(row.values())) < FOLD_BATCH:
                break

    def _settle_usage(self) -> None:
        if self._settler is None:
            return
        self._settled_at = time.monotonic()
        ended_within = FRESH
        if self._settled_at >= self._settle_all_at:
            ended_within = timedelta(hours=1)
            self._settle_all_at = self._settled_at + SETTLE_ALL_SECONDS
        if self._call("attempts_to_settle", batch_size=1, ended_within=ended_within):
            self._settler.kick(ended_within)

    # --- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """End, leaving nothing half-done.

        Runs that outlive the worker go on: other workers watch them. Runs that end with it may
        first come to their own end for a while, since their pages are paid for; what is left
        is ended and given back at once, not when its lease ends.
        """
        self._draining = True
        if not self._relay.outlives_worker and self._relay.alive():
            log.info("stopping: %d runs may be finished", self._relay.alive())
            self._drain()
            end_at = time.monotonic() + END_SECONDS
            for run_id in list(self._runs.values()):
                self._relay.cancel(run_id)
            self._drain_until = end_at - 1.5
            self._drain()
        else:
            end_at = time.monotonic() + END_SECONDS
        calls = [item.call for item in self._submissions.values() if item.call is not None]
        wait(calls, LAST_CALLS_SECONDS)
        for submission in self._submissions.values():
            if submission.call is not None and submission.call.done():
                continue
            # Claimed and not submitted: other workers adopt it when this one is known to be gone.
            log.info("attempt %d is left to be adopted", submission.run.attempt_id)
        self._take_ended()
        self._settle_all_at = -math.inf
        for work in (
            self._connect,
            self._submit,
            self._report_ended,
            self._settle_usage,
            lambda: self._wait_for_settler(end_at - 1),
            lambda: self._fold_rollups(patient=False),
            lambda: self._call("worker_heartbeat", worker=self.name, stopping=True),
        ):
            try:
                work()
            except DatabaseUnavailable as error:
                log.warning(
                    "stopping without the database, leases will end by themselves: %s", error
                )
                return
            except Exception:
                log.exception("something went wrong while stopping")

    def _wait_for_settler(self, until: float) -> None:
        if self._settler is not None:
            self._settler.wait(max(0.0, until - time.monotonic()))

    def _drain(self) -> None:
        """Go on without claiming until no run is alive, or the time is up."""
        while self._relay.alive() and time.monotonic() < (self._drain_until or 0.0):
            self._cycle()
            self._wait()
