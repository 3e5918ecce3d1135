"""What the fake workspace knows of MLflow: experiments, and traces written and found over REST.

The real MLflow client talks to it with the tracking URI "databricks": a trace's description goes
to the tracking server, its spans to a signed address of the cloud's storage.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import Any


class NoSuchTrace(KeyError):
    """There is no such trace or experiment."""


@dataclass
class Tracking:
    """The tracking server's state; tests look into it."""

    experiments: dict[str, str] = field(default_factory=lambda: {"4711": "/Shared/lakequeue"})
    readable: bool = True
    writable: bool = True
    editors: tuple[str, ...] | None = None
    """Who may write; None: that cannot be seen."""
    traces: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id, as the REST API describes them; the newest last."""
    spans: dict[str, bytes] = field(default_factory=dict)
    searches: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def experiment(self, experiment_id: str) -> dict[str, Any]:
        """GET mlflow/experiments/get."""
        if experiment_id not in self.experiments:
            raise NoSuchTrace(f"Node ID {experiment_id} does not exist.")
        return {
            "experiment": {
                "experiment_id": experiment_id,
                "name": self.experiments[experiment_id],
                "lifecycle_stage": "active",
            }
        }

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST mlflow/traces: a trace that has ended."""
        info = dict(body["trace"]["trace_info"])
        experiment_id = info["trace_location"]["mlflow_experiment"]["experiment_id"]
        self.experiment(experiment_id)
        # So that the client asks for a signed address to send the spans to.
        place = f"dbfs:/databricks/mlflow-tracking/{experiment_id}/{info['trace_id']}/artifacts"
        info["tags"] = {**info.get("tags", {}), "mlflow.artifactLocation": place}
        with self.lock:
            self.traces[info["trace_id"]] = info
        return {"trace": {"trace_info": info}}

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST mlflow/traces/search; of the filter language, one tag that is equal."""
        asked = body.get("filter", "")
        found = re.fullmatch(r"tag\.(\w+) = '([^']*)'", asked)
        assert found is not None or not asked, asked
        wanted = {place["mlflow_experiment"]["experiment_id"] for place in body["locations"]}
        with self.lock:
            self.searches.append(asked)
            traces = [
                info
                for info in reversed(self.traces.values())
                if info["trace_location"]["mlflow_experiment"]["experiment_id"] in wanted
                and (found is None or info["tags"].get(found[1]) == found[2])
            ]
        return {"traces": traces[: body.get("max_results", 100)]}
