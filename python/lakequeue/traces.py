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
import time
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakequeue import database, lakebase

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
    # A tracking server that is away delays by seconds.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
}
"""Environment that every process with MLflow in it needs, before it is imported."""

EXPERIMENT = "lakequeue"
SETTLE_BATCH = 100

USAGE_COMPLETE, MODEL = "usage_complete", "model"
"""Tags of a trace: whether ("true") its usage is all that the attempt used; the model, for its
price where the trace names no cost."""

WORKSPACE_PRELOAD = (
    "lakequeue.traces",
    "psycopg",
    "mlflow",
    "mlflow.store.tracking.databricks_rest_store",
    "databricks.sdk",
)
"""What a process that settles from a workspace's traces needs."""

WORKSPACE_PAUSE = 0.2
"""Seconds between two searches there: a workspace allows seven a second, to all together."""


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


def workspace_store(experiment_id: str) -> Store:
    """Give the store of job runs: an experiment of the workspace."""
    return Store("databricks", experiment_id)


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
    hour. `pause`: seconds between two searches, where others share the tracking server's limits.
    """
    if arguments.get("lakebase_endpoint"):
        database.log_in_with(lakebase.Login(arguments["lakebase_endpoint"]))
    within = timedelta(seconds=arguments.get("ended_within", 3600))
    with database.connect(arguments["conninfo"]) as connection:
        while True:
            rows = database.call(
                connection, "attempts_to_settle", batch_size=SETTLE_BATCH, ended_within=within
            )
            settled = 0
            for row in rows:
                settled += _settle_one(connection, row, arguments["experiment_id"])
                time.sleep(arguments.get("pause", 0.0))
            if settled == 0 or len(rows) < SETTLE_BATCH:
                return 0


def _settle_one(connection: database.Connection, row: dict[str, Any], experiment_id: str) -> bool:
    trace = _trace_of(row, experiment_id)
    if trace is None:
        return False
    tags, usage, cost = trace.info.tags, trace.info.token_usage, trace.info.cost
    # What the trace does not say is not known. Only an agent that says that its trace is whole has
    # used nothing where no usage is in it.
    whole = tags.get(USAGE_COMPLETE, "true" if usage else "false") == "true"
    if not usage and not whole:
        return False
    usage = usage or {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}
    database.call(
        connection,
        "record_usage",
        attempt=row["attempt_id"],
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cache_read_input_tokens"),
        llm_cost=None if cost is None else cost["total_cost"],
        complete=whole,
        source="trace",
        trace_id=trace.info.trace_id,
        model=tags.get(MODEL),
    )
    return True


def _trace_of(row: dict[str, Any], experiment_id: str) -> Trace | None:
    """Find the finished trace of an attempt: by its tag, whether or not its agent could report."""
    import mlflow
    from mlflow.entities.trace_state import TraceState

    traces: list[Trace] = mlflow.search_traces(
        locations=[experiment_id],
        filter_string=f"tag.attempt_id = '{row['attempt_id']:d}'",
        include_spans=False,
        return_type="list",
        max_results=10,
    )
    finished = [trace for trace in traces if trace.info.state in (TraceState.OK, TraceState.ERROR)]
    # Databases may share an experiment, and then numbers of attempts mean nothing alone: the
    # agent's word on which trace is its own wins, then the run key, then a trace that bears none.
    for of_this_attempt in (
        lambda info: info.trace_id == row["trace_id"],
        lambda info: info.client_request_id == str(row["run_key"]),
        lambda info: row["trace_id"] is None and not info.client_request_id,
    ):
        found = [trace for trace in finished if of_this_attempt(trace.info)]
        if found:
            return found[0] if len(found) == 1 else None
    return None
