"""MLflow traces: making the local store once, and settling usage from what agents traced.

MLflow is imported inside the functions only: they run in forked processes that have it already,
so that a worker stays small and never waits for a trace store.
"""

from __future__ import annotations

import fcntl
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakequeue import database

if TYPE_CHECKING:
    from mlflow.entities import Trace

log = logging.getLogger(__name__)

SWITCHES = {
    # Else the first model span fetches a price list from the network; prices come from SQL.
    "MLFLOW_MODEL_CATALOG_URI": "",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # A run is over when its trace is stored; a background queue would be lost with the process.
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
    # Notes about newer versions and schema creation belong in no run's log.
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # MLflow looks for a git repository around; without the git program that is loud.
    "GIT_PYTHON_REFRESH": "quiet",
}
"""Environment that every process with MLflow in it needs, before it is imported."""

EXPERIMENT = "lakequeue"
SETTLE_BATCH = 100


@dataclass(frozen=True, slots=True)
class Store:
    """Where traces go."""

    tracking_uri: str
    experiment_id: str

    def environment(self) -> dict[str, str]:
        """Give what a process needs to write and read traces there."""
        return {
            **SWITCHES,
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_EXPERIMENT_ID": self.experiment_id,
        }


def known_store(folder: Path) -> Store | None:
    """Give the local store in this folder if it is made and fits the installed MLflow."""
    try:
        note = json.loads((folder / "store.json").read_text())
        if note["mlflow"] == version("mlflow-skinny"):
            return Store(note["tracking_uri"], note["experiment_id"])
    except (OSError, ValueError, KeyError):
        pass
    return None


def prepare(arguments: dict[str, Any]) -> int:
    """Make the store in `folder`, once, whoever asks at the same time.

    Processes that meet an empty store together all crash in MLflow's migration; so one makes it
    under a lock, and a note beside it tells the others that it is there.
    """
    folder = Path(arguments["folder"])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "store.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if known_store(folder) is not None:
            return 0
        path = folder / "mlflow.db"
        uri = f"sqlite:///{path}"
        if path.exists():
            # Made by an earlier MLflow, or left half-made: bring its tables up to date.
            subprocess.run([sys.executable, "-m", "mlflow", "db", "upgrade", uri], check=True)
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(EXPERIMENT)
        experiment_id = (
            experiment.experiment_id
            if experiment is not None
            else client.create_experiment(EXPERIMENT, (folder / "artifacts").as_uri())
        )
        note = {
            "mlflow": version("mlflow-skinny"),
            "tracking_uri": uri,
            "experiment_id": experiment_id,
        }
        part = folder / "store.json.part"
        part.write_text(json.dumps(note))
        part.replace(folder / "store.json")
    return 0


def settle(arguments: dict[str, Any]) -> int:
    """Record the usage that traces show of ended attempts; several at once do no harm.

    An attempt whose trace is not there (yet) stays to be settled: the database lists it for an
    hour.
    """
    with database.connect(arguments["conninfo"]) as connection:
        while True:
            rows = database.call(connection, "attempts_to_settle", batch_size=SETTLE_BATCH)
            settled = sum(_settle_one(connection, row, arguments["experiment_id"]) for row in rows)
            if settled == 0 or len(rows) < SETTLE_BATCH:
                return 0


def _settle_one(connection: database.Connection, row: dict[str, Any], experiment_id: str) -> bool:
    trace = _trace_of(row["attempt_id"], row["trace_id"], experiment_id)
    if trace is None:
        return False
    usage = trace.info.token_usage or {}
    cost = trace.info.cost
    database.call(
        connection,
        "record_usage",
        attempt=row["attempt_id"],
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        cached_tokens=usage.get("cache_read_input_tokens", 0),
        llm_cost=None if cost is None else cost["total_cost"],
        complete=True,
        source="trace",
        trace_id=trace.info.trace_id,
    )
    return True


def _trace_of(attempt_id: int, trace_id: str | None, experiment_id: str) -> Trace | None:
    """Find the finished trace of an attempt: by its tag, whether or not its agent could report."""
    import mlflow
    from mlflow.entities.trace_state import TraceState

    traces: list[Trace] = mlflow.search_traces(
        locations=[experiment_id],
        filter_string=f"tag.attempt_id = '{attempt_id:d}'",
        include_spans=False,
        return_type="list",
        max_results=10,
    )
    finished = [trace for trace in traces if trace.info.state in (TraceState.OK, TraceState.ERROR)]
    # The agent's word on which trace is its own wins, should databases share an experiment.
    for trace in finished:
        if trace.info.trace_id == trace_id:
            return trace
    return None if trace_id is not None or len(finished) != 1 else finished[0]
