"""The Databricks relay: each run is a run of the agent's Lakeflow job.

It translates and decides nothing. The attempt's run key is the idempotency token: whoever submits
an attempt again (after a lost answer, or as the adopter of a dead worker's attempt) gets the run
that is there. Runs go on when the worker ends; every worker can look up and cancel all of them.

Calls are bounded, since a workspace's limits are shared: so many runs are started a second, and
so many looks taken a minute. Many runs are looked up by listing the active ones of their jobs,
page by page; only those that are in no list are asked for one by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakequeue import workspace
from lakequeue.relay.base import (
    EndedRun,
    Run,
    RunState,
    RunStatus,
    SubmitError,
    SubmitLaterError,
    SubmitUncertainError,
)
from lakequeue.workspace import NotAllowed, NotThere, Refused, Throttled, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service import jobs

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""Longer, and an answer counts as lost: the call is made again, which does no harm."""
SUBMITS_A_SECOND = 20
"""The workspace's own limit for run-now."""
LOOKS_A_MINUTE = 300
"""A twentieth of what the workspace allows for runs/get."""
MOST_TROUBLES = 3
"""Failed look-ups after which the others are left for later, too; one alone may be the run's."""
PAGE = 24
"""Most runs that a page of runs/list holds."""
NOT_ALLOWED_SECONDS = 30.0
"""How long a refused login is left alone: the fault is not the document's."""

LIVE = {"QUEUED", "PENDING", "RUNNING", "TERMINATING", "BLOCKED", "WAITING", "WAITING_FOR_RETRY"}
ENDED = {"TERMINATED", "SKIPPED", "INTERNAL_ERROR"}
MEANINGS = {
    "SUCCESS": RunState.SUCCEEDED,
    "SUCCESS_WITH_FAILURES": RunState.SUCCEEDED,
    "USER_CANCELED": RunState.CANCELLED,
    "WORKSPACE_RUN_LIMIT_EXCEEDED": RunState.CROWDED,
    "CLUSTER_REQUEST_LIMIT_EXCEEDED": RunState.CROWDED,
    "MAX_CONCURRENT_RUNS_EXCEEDED": RunState.CROWDED,
    "MAXIMUM_CONCURRENT_RUNS_REACHED": RunState.CROWDED,
    "MAX_SPARK_CONTEXTS_EXCEEDED": RunState.CROWDED,
    "MAX_JOB_QUEUE_SIZE_EXCEEDED": RunState.CROWDED,
    "UNAUTHORIZED_ERROR": RunState.REFUSED,
    "RESOURCE_NOT_FOUND": RunState.REFUSED,
    "INVALID_RUN_CONFIGURATION": RunState.REFUSED,
    "INVALID_CLUSTER_REQUEST": RunState.REFUSED,
    "FEATURE_DISABLED": RunState.REFUSED,
    "DISABLED": RunState.REFUSED,
    "BREAKING_CHANGE": RunState.REFUSED,
    "BUDGET_POLICY_LIMIT_EXCEEDED": RunState.REFUSED,
}
"""What termination codes, and result states where no code is known, say; all others: it failed.

CANCELED is the platform's own doing (a run that took too long), so a failure like others.
"""


class Rate:
    """At most so many in any window of so many seconds. Threads may share one."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float]) -> None:
        """Begin with an empty window; `clock` gives seconds."""
        self._seconds = seconds
        self._clock = clock
        self._guard = threading.Lock()
        self._starts: deque[float] = deque(maxlen=most)

    def take(self, patience: float = 0.0) -> float | None:
        """Take the next place: the seconds until it comes, or None if that is beyond patience."""
        with self._guard:
            now = self._clock()
            start = now
            if len(self._starts) == self._starts.maxlen:
                start = max(now, self._starts[0] + self._seconds)
            if start - now > patience:
                return None
            self._starts.append(start)
            return start - now


class DatabricksRelay:
    """Runs agents as job runs (see relay.base.Relay)."""

    kind = "databricks"
    outlives_worker = True
    calls_at_once = 10
    capacity: int | None = None

    def __init__(
        self,
        callback_url: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Log in as the DATABRICKS_* variables say.

        callback_url: the webhook that runs confirm to; None, and they confirm by SQL alone.
        clock, sleep: the time, in seconds, and waiting for it.

        Raises a WorkspaceError when the workspace cannot be used.
        """
        self._callback_url = callback_url
        self._clock = clock
        self._sleep = sleep
        self._client: WorkspaceClient = workspace.client(answer_seconds=ANSWER_SECONDS)
        self._submits = Rate(SUBMITS_A_SECOND, 1.0, clock)
        self._looks = Rate(LOOKS_A_MINUTE, 60.0, clock)
        self._closed_until = 0.0
        self._jobs: set[int] = set()

    def start(self, on_event: Callable[[], None]) -> None:
        """Nothing is watched in the background."""

    def name(self, run: Run) -> None:
        """Only the workspace knows."""

    def submit(self, run: Run) -> int:
        """Start a run of the agent's job, or find the one that this attempt has already."""
        if run.job_id is None:
            raise SubmitError(
                f"agent {run.agent!r} has no job: "
                f"select lakequeue.configure_agent('{run.agent}', job_id => …)"
            )
        self._jobs.add(run.job_id)
        self._wait_for_turn()
        parameters = run.parameters()
        if self._callback_url is not None:
            parameters["callback_url"] = self._callback_url
        try:
            with workspace.errors_in_words(f"starting a run of job {run.job_id}"):
                started = self._client.jobs.run_now(
                    run.job_id, idempotency_token=str(run.run_key), job_parameters=parameters
                )
        except Throttled as error:
            raise self._later(error, error.retry_after) from error
        except NotAllowed as error:
            raise self._later(error, NOT_ALLOWED_SECONDS) from error
        except Refused as error:
            raise SubmitError(str(error)) from error
        except WorkspaceError as error:
            raise SubmitUncertainError(str(error)) from error
        answer: Any = started.response
        return int(answer.run_id)

    def _wait_for_turn(self) -> None:
        left = self._closed_until - self._clock()
        if left > 0:
            raise SubmitLaterError("the workspace asked for a pause", left)
        wait = self._submits.take(patience=1.0)
        if wait is None:
            raise SubmitLaterError(f"{SUBMITS_A_SECOND} runs a second are started already", 1.0)
        if wait > 0:
            self._sleep(wait)

    def _later(self, error: WorkspaceError, seconds: float) -> SubmitLaterError:
        self._closed_until = max(self._closed_until, self._clock() + seconds)
        return SubmitLaterError(str(error), seconds)

    def alive(self) -> int:
        """Not counted here: the database's throttle knows."""
        return 0

    def states(self, run_ids: Sequence[int]) -> Mapping[int, RunStatus]:
        """Say how these runs are, in few calls; those it did not get to are left out."""
        found: dict[int, RunStatus] = {}
        wanted = set(run_ids)
        listed: set[int] = set()
        troubles = 0
        for run_id in run_ids:
            try:
                while len(wanted) - len(found) > PAGE and (unlisted := self._jobs - listed):
                    job_id = min(unlisted)
                    listed.add(job_id)
                    self._list_active(job_id, wanted, found)
                if run_id in found:
                    continue
                if self._looks.take() is None:
                    break
                found[run_id] = self._look(run_id)  # from which its job is learnt, too
            except WorkspaceError as error:
                log.warning("%s", error)
                troubles += 1
                if isinstance(error, Throttled) or troubles == MOST_TROUBLES:
                    break
        if len(found) < len(wanted):
            log.info("%d runs are looked up later", len(wanted) - len(found))
        return found

    def _list_active(self, job_id: int, wanted: set[int], found: dict[int, RunStatus]) -> None:
        """Add what is wanted of a job's active runs, until all is found or no look is left."""
        if self._looks.take() is None:
            return
        with workspace.errors_in_words(f"listing the runs of job {job_id}"):
            listed = self._client.jobs.list_runs(job_id=job_id, active_only=True, limit=PAGE)
            for number, run in enumerate(listed, 1):
                if run.run_id in wanted and run.run_id is not None:
                    found[run.run_id] = status_of(run)
                if len(found) == len(wanted):
                    return
                if number % PAGE == 0 and self._looks.take() is None:
                    return

    def _look(self, run_id: int) -> RunStatus:
        try:
            with workspace.errors_in_words(f"looking up run {run_id}"):
                run = self._client.jobs.get_run(run_id)
        except NotThere as error:
            return RunStatus(RunState.GONE, str(error))
        if run.job_id is not None:
            self._jobs.add(run.job_id)
        return status_of(run)

    def cancel(self, run_id: int) -> None:
        """Ask the run to end; it does so later. The database asks again while it lives."""
        try:
            with workspace.errors_in_words(f"cancelling run {run_id}"):
                self._client.jobs.cancel_run(run_id)
        except NotThere:
            log.info("run %d is not there to be cancelled", run_id)
        except WorkspaceError as error:
            log.warning("%s", error)

    def ended(self) -> list[EndedRun]:
        """Nothing is watched: the database names the runs to look up."""
        return []

    def close(self) -> None:
        """Runs go on."""


def status_of(run: jobs.Run | jobs.BaseRun) -> RunStatus:
    """Translate a run as the Jobs API describes it; a state that is new to the SDK is unknown."""
    status, state = run.status, run.state
    details = status.termination_details if status else None
    life = {
        _word(status.state if status else None),
        _word(state.life_cycle_state if state else None),
    }
    if not life & ENDED:
        return RunStatus(RunState.RUNNING if life & LIVE else RunState.UNKNOWN)
    reason = (
        _word(details.code if details else None)
        or _word(state.result_state if state else None)
        or "for a reason that is not known here"
    )
    message = (details.message if details else None) or (state.state_message if state else None)
    words = [reason, message or "", run.run_page_url or ""]
    return RunStatus(MEANINGS.get(reason, RunState.FAILED), ", ".join(filter(None, words)))


def _word(value: object) -> str | None:
    """The word of an SDK's enum; one that this SDK does not know is None."""
    word: str | None = getattr(value, "value", None)
    return word
