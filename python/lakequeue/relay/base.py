"""What a worker needs from the thing that runs agents: submit, states, cancel, and who ended.

There are two relays: `local` (a process per run, on this machine) and `databricks` (a Lakeflow job
run). Both hand a run the same flat parameters, so that one agent program serves all.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID


class RunState(enum.Enum):
    """What a relay knows about a run."""

    RUNNING = "lives"
    """Or waits for its turn."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    GONE = "is gone"
    """It certainly lives no more, and nobody knows how it ended."""
    CANCELLED = "was cancelled"
    """By a person, or because this worker asked for it."""
    REFUSED = "cannot run as its job is set up"
    """Another try would end like this one."""
    CROWDED = "found no room"
    """A limit of the place where it should run was reached: it did nothing."""
    UNKNOWN = "is unknown"
    """This relay cannot say (another worker's local run, an unreachable service)."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How a run is, and the relay's own words about that, for people."""

    state: RunState
    detail: str = ""


UNKNOWN = RunStatus(RunState.UNKNOWN)


class SubmitError(Exception):
    """A run could not be started; nothing of it exists, so its attempt can be closed."""


class SubmitLaterError(Exception):
    """A run was not started, since too much goes on there, or the login has trouble.

    Nothing of it exists and nothing is wrong with it: the worker submits it again after `seconds`.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class SubmitUncertainError(Exception):
    """Whether the run was started is not known (an answer was lost).

    The worker leaves the attempt alone: it submits again with the same run key, which
    starts no second run, or the attempt's lease ends.
    """


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a task, as dequeue_tasks or adopt_attempts handed it out."""

    task_id: int
    attempt_id: int
    attempt_number: int
    agent: str
    run_key: UUID
    callback_token: str = field(repr=False)
    document_path: str
    customer: str
    payload: Any
    estimated_tokens: int
    max_tpm: int | None
    lease_duration: timedelta
    job_id: int | None
    agent_parameters: Any
    model_prices: Any
    reserves_calls: bool = False

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Run:
        """Make a run from one row of dequeue_tasks or adopt_attempts."""
        return cls(
            task_id=row["task_id"],
            attempt_id=row["attempt_id"],
            attempt_number=row["attempt_number"],
            agent=row["agent"],
            run_key=row["run_key"],
            callback_token=row["callback_token"],
            document_path=row["document_path"],
            customer=row["customer"] or "",
            payload=row["payload"],
            estimated_tokens=row["estimated_tokens"],
            max_tpm=row["max_tpm"],
            lease_duration=row["lease_duration"],
            job_id=row["job_id"],
            agent_parameters=row["parameters"],
            model_prices=row["model_prices"],
            reserves_calls=row["reserves_calls"],
        )

    def parameters(self) -> dict[str, str]:
        """Give the run's parameters as a Databricks job takes them: flat, and all text."""
        return {
            "task_id": str(self.task_id),
            "attempt_id": str(self.attempt_id),
            "attempt_number": str(self.attempt_number),
            "run_key": str(self.run_key),
            "callback_token": self.callback_token,
            "document_path": self.document_path,
            "customer": self.customer,
            "payload": _json(self.payload),
            "estimated_tokens": str(self.estimated_tokens),
            "max_tpm": "" if self.max_tpm is None else str(self.max_tpm),
            "lease_seconds": f"{self.lease_duration.total_seconds():g}",
            "parameters": _json(self.agent_parameters),
            "model_prices": _json(self.model_prices),
            "reserves_calls": "true" if self.reserves_calls else "",
        }


def _json(value: Any) -> str:
    return json.dumps({} if value is None else value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that ended since the relay was last asked."""

    attempt_id: int
    run_id: int
    exit_code: int | None
    """Negative: ended by that signal. None: not known."""
    tail: str
    """The last lines it wrote; empty where the relay cannot see them."""


class Relay(Protocol):
    """Starts runs and watches them.

    A worker calls submit, states and cancel from `calls_at_once` threads, and all else from its
    own.
    """

    kind: str
    """What worker_heartbeat is told: local or databricks."""

    outlives_worker: bool
    """Whether runs go on when the worker ends (a job run does, a local process does not)."""

    calls_at_once: int
    """How many of these calls may be under way; 1: each is quick, the worker's thread does it."""

    @property
    def capacity(self) -> int | None:
        """How many runs may be alive at once; None leaves that to the database's throttle."""

    def start(self, on_event: Callable[[], None]) -> None:
        """Get ready in the background.

        Calls `on_event`, from any thread, when a run ended or there is more capacity.
        """

    def name(self, run: Run) -> int | None:
        """Give the id that a run will have; None where only its start tells.

        A worker notes such an id first, and starts only what is noted as its own: of two that
        hold one attempt (one stood still, the other adopted it) just one runs it. Where a start
        tells the id, it is the run key that makes a second start find the first.
        """

    def submit(self, run: Run) -> int:
        """Start a run and return its id; the same run key again returns the same run.

        Raises SubmitError when it certainly did not start, SubmitLaterError when it did not start
        yet, SubmitUncertainError when that is open.
        """

    def alive(self) -> int:
        """Count the runs that take up capacity now."""

    def states(self, run_ids: Sequence[int]) -> Mapping[int, RunStatus]:
        """Say how these runs are; one that is left out is unknown."""

    def cancel(self, run_id: int) -> None:
        """Ask a run to end. Unknown runs are ignored; where it fails, the database asks again."""

    def ended(self) -> list[EndedRun]:
        """Give the runs that ended since the last call, each once (empty if not watched)."""

    def close(self) -> None:
        """End the runs that do not outlive the worker, and release everything."""
