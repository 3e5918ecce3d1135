"""The local relay: each run is a process of its own on this machine.

A run ends with its worker, by design (see lakequeue.forkserver for how). Nobody else could
watch it, say that it died or cancel it; and so no run can outlive the lease that its worker
kept, which is why an agent that only runs here is configured with reconcile_grace 0: a dead
worker's tasks are free again as soon as their leases end.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from lakequeue.agents import DOCUMENT_PARSER
from lakequeue.errors import WrongUse
from lakequeue.forkserver import ForkedProcess, ForkServer, ForkServerError
from lakequeue.relay.base import EndedRun, Run, RunState, RunStatus, SubmitError

log = logging.getLogger(__name__)

AGENTS: Mapping[str, str] = {DOCUMENT_PARSER: "lakequeue.agents.document_parser:run"}
"""What runs for which agent on this machine: a function of the parameters, giving the exit code."""


PRELOAD = (
    "lakequeue.traces",
    "lakequeue.agents.document_parser.agent",
    "psycopg",
    "pypdf",
    "pypdf.filters",
    "pdfplumber",
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_store",
    # What these libraries import only when they are used, which would be in every run.
    "mlflow.store.tracking.sqlalchemy_workspace_store",
    "mlflow.tracing.export.mlflow_v3",
    "mlflow.tracing.processor.mlflow_v3",
    "alembic.command",
    "alembic.config",
    "sqlalchemy.dialects.sqlite",
    "opentelemetry.sdk.metrics",
    "openai.resources.chat.completions",
    "openai.lib.streaming.chat",
    "httpcore2",
    "truststore",
    "jiter",
    "git",
)
"""Imported once, before the first fork; one that does not exist costs a line in the log."""

TERM_SECONDS = 3.0
"""How long a cancelled run may tidy up before it is killed."""
REMEMBERED_RUNS = 10_000


def default_capacity() -> int:
    """Runs at once: they mostly wait for a model, so more than processors, but not many."""
    return min(8, 2 * (os.cpu_count() or 1))


@dataclass(slots=True)
class _LocalRun:
    attempt_id: int
    run_key: UUID
    process: ForkedProcess
    kill_at: float | None = None


class LocalRelay:
    """Runs agents as forked processes; a worker owns one (see relay.base.Relay)."""

    kind = "local"
    outlives_worker = False
    calls_at_once = 1

    def __init__(
        self,
        forkserver: ForkServer,
        environment: Mapping[str, str],
        capacity: int | None = None,
        agents: Mapping[str, str] = AGENTS,
    ) -> None:
        """Take a fork server, which `close` ends, and what every run finds in its environment."""
        self._capacity = capacity or default_capacity()
        self._forkserver = forkserver
        self._environment = dict(environment)
        self._agents = dict(agents)
        self._lock = threading.Lock()
        self._runs: OrderedDict[int, _LocalRun] = OrderedDict()
        self._by_key: dict[UUID, int] = {}
        self._untold: dict[int, _LocalRun] = {}  # alive, or ended and not told by `ended` yet
        self._last_id = 0
        self._closed = False

    def start(self, on_event: Callable[[], None]) -> None:
        """Begin the imports now; the first run then waits for what is left of them."""
        self._forkserver.on_end = on_event
        self._forkserver.start()

    @property
    def capacity(self) -> int | None:
        """Nothing yet while the imports go on: what is claimed would only wait for them."""
        return self._capacity if self._forkserver.warm else 0

    def name(self, run: Run) -> int:
        """Give the id under which the run will be submitted."""
        with self._lock:
            return self._name(run.run_key)

    def submit(self, run: Run) -> int:
        """Fork a process for the run. It is counted as running from now on."""
        with self._lock:
            if self._closed:
                raise SubmitError("the relay was closed")
            run_id = self._name(run.run_key)
            if run_id in self._runs:
                return run_id
            target = self._agents.get(run.agent)
            if target is None:
                names = ", ".join(sorted(self._agents))
                raise SubmitError(f"agent {run.agent!r} cannot run locally (these can: {names})")
            try:
                process = self._forkserver.start_process(
                    target, run.parameters(), self._environment, f"run-{run_id}"
                )
            except ForkServerError as error:
                raise SubmitError(str(error)) from error
            self._runs[run_id] = self._untold[run_id] = _LocalRun(
                run.attempt_id, run.run_key, process
            )
            self._forget()
            return run_id

    def alive(self) -> int:
        """Count the processes that live."""
        with self._lock:
            return sum(run.process.alive for run in self._untold.values())

    def states(self, run_ids: Sequence[int]) -> Mapping[int, RunStatus]:
        """Say how these runs are."""
        return {run_id: RunStatus(self.state(run_id)) for run_id in run_ids}

    def state(self, run_id: int) -> RunState:
        """Say how a run is; another worker's runs are not known here."""
        with self._lock:
            run = self._runs.get(run_id)
        if run is None:
            return RunState.UNKNOWN
        if run.process.alive:
            return RunState.RUNNING
        if run.process.exit_code is None:
            return RunState.GONE
        return RunState.SUCCEEDED if run.process.exit_code == 0 else RunState.FAILED

    def cancel(self, run_id: int) -> None:
        """Ask the run to end; `ended` kills it when it has not done so in a few seconds."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or not run.process.alive or run.kill_at is not None:
                return
            run.kill_at = time.monotonic() + TERM_SECONDS
        run.process.send_signal(signal.SIGTERM)

    def ended(self) -> list[EndedRun]:
        """Give what ended since the last call; also kill what did not heed its cancel."""
        now = time.monotonic()
        ended: list[EndedRun] = []
        overdue: list[ForkedProcess] = []
        with self._lock:
            for run_id, run in list(self._untold.items()):
                process = run.process
                if process.alive:
                    if run.kill_at is not None and run.kill_at <= now:
                        overdue.append(process)
                else:
                    del self._untold[run_id]
                    ended.append(EndedRun(run.attempt_id, run_id, process.exit_code, process.tail))
        for process in overdue:
            process.send_signal(signal.SIGKILL)
        return ended

    def close(self) -> None:
        """End every run at once, and the fork server."""
        with self._lock:
            self._closed = True
        self._forkserver.close()

    def _name(self, run_key: UUID) -> int:
        if run_key not in self._by_key:
            self._by_key[run_key] = self._next_id()
        return self._by_key[run_key]

    def _next_id(self) -> int:
        """Give an id that no other run has: a process id would come again.

        Milliseconds above 21 random bits, rising within one relay; below 2**63 for centuries.
        """
        self._last_id = max(
            self._last_id + 1,
            (time.time_ns() // 1_000_000) << 21 | int.from_bytes(os.urandom(3)) >> 3,
        )
        return self._last_id

    def _forget(self) -> None:
        """Keep memory bounded: drop the oldest runs whose end was told."""
        while len(self._runs) > REMEMBERED_RUNS:
            run_id, run = next(iter(self._runs.items()))
            if run_id in self._untold:
                return
            del self._runs[run_id]
            del self._by_key[run.run_key]


def refuse_others(agents: Sequence[str]) -> None:
    """Raise WrongUse for an agent that cannot run here: its tasks would be claimed, and fail."""
    for agent in agents:
        if agent not in AGENTS:
            raise WrongUse(
                f"agent {agent!r} cannot run on this machine",
                f"these can: {', '.join(sorted(AGENTS))}; LAKEQUEUE_RELAY=databricks makes a"
                " worker for the agents that are jobs",
            )


def forkserver(log_dir: Path, environment: Mapping[str, str]) -> ForkServer:
    """Make the fork server that document agents need."""
    return ForkServer(log_dir, PRELOAD, environment)
