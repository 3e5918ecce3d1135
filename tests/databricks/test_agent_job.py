"""The document parser as a job run: its login, its database role, the proxy before the webhook.

The fake workspace stands before everything: it gives database credentials, keeps the traces, and
passes calls of the model and of the webhook on only from who shows a good bearer token.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue import simulator, traces
from lakequeue.agents.document_parser.__main__ import main as agent
from lakequeue.agents.document_parser.webhook import Webhook
from lakequeue.relay.base import Run
from lakequeue.workspace import Bearer, NotAllowed
from tests.conftest import Clock
from tests.databricks.lakebase import Gate, gate
from tests.databricks.workspace import Workspace
from tests.python import web_server
from tests.servers import Database

server_of_one_kind = pytest.mark.parametrize("server", ["embedded"], indirect=True)

ENDPOINT = "projects/lakequeue/branches/production/endpoints/primary"
EXPERIMENT = "4711"
DOCUMENT = web_server.DOCUMENTS / "invoice-de.pdf"
PRICE: dict[str, Any] = {"input_usd": 2, "cached_usd": 0.5, "output_usd": 8}


@dataclass
class Deployment:
    """Queue, model, app and workspace; runs of the agent as its job would start them."""

    database: Database
    workspace: Workspace
    way: Gate
    folder: Path

    def call(self, function: str, user: str | None = None, **parameters: Any) -> Any:
        with db.connect(self.database.conninfo(user)) as connection:
            return db.call(connection, function, **parameters)

    def claim(self) -> dict[str, str]:
        """Put a document into the volume, enqueue it, claim it: the parameters of its run."""
        document = self.folder / "Volumes" / "Rechnung Nr. 1 (ä).pdf"
        document.parent.mkdir(exist_ok=True)
        document.write_bytes(DOCUMENT.read_bytes())
        self.call("enqueue_task", agent=web_server.AGENT, document_path=str(document))
        (row,) = self.call("dequeue_tasks", "test_worker", worker="w", batch_size=1)
        return Run.from_row(row).parameters()

    def run(self, parameters: dict[str, str], **environment: str) -> str:
        """The run, by the entry point of the wheel; what it wrote."""
        variables = {
            "LAKEBASE_ENDPOINT": ENDPOINT,
            "LAKEQUEUE_DATABASE_URL": self.way.conninfo("test_agent"),
            "LAKEQUEUE_CHAT_URL": f"{self.workspace.host}/serving-endpoints",
            "MLFLOW_TRACKING_URI": "databricks",
            "MLFLOW_EXPERIMENT_ID": EXPERIMENT,
        }
        options = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
        options += [f"--set={name}={value}" for name, value in variables.items()]
        code = "from lakequeue.agents.document_parser.__main__ import job; job()"
        done = subprocess.run(
            [sys.executable, "-c", code, *options],
            env={**os.environ, "DATABRICKS_RUNTIME_VERSION": "client.4.9", **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def attempt(self) -> dict[str, Any]:
        attempt: dict[str, Any] = self.database.value(
            "select to_jsonb(a) from lakequeue.task_attempts a"
        )
        return attempt

    def settle(self) -> None:
        """A worker's round, in a process with MLflow as its fork server has it."""
        arguments = {
            "conninfo": self.way.conninfo("test_worker"),
            "experiment_id": EXPERIMENT,
            "lakebase_endpoint": ENDPOINT,
        }
        code = f"from lakequeue import traces; traces.settle({arguments!r})"
        store = traces.workspace_store(EXPERIMENT)
        subprocess.run(
            [sys.executable, "-c", code], check=True, env={**os.environ, **store.environment()}
        )


@pytest.fixture
def deployment(
    database: Database, clock: Clock, workspace: Workspace, tmp_path: Path
) -> Iterator[Deployment]:
    clock.run()
    with (
        gate(database, workspace) as way,
        web_server.server(database, tmp_path) as (address, _),
        simulator.running(tokens_per_minute=10_000_000) as model,
    ):
        workspace.behind = {
            "/api/callbacks": f"{address}/api/callbacks",
            "/serving-endpoints": model.base_url,
        }
        made = Deployment(database, workspace, way, tmp_path)
        made.call(
            "configure_agent",
            agent=web_server.AGENT,
            lease_duration="1 min",
            parameters=Json({"model": "simulator"}),
        )
        yield made


def passed(workspace: Workspace, path: str) -> list[dict[str, str]]:
    return [headers for called, headers in workspace.passed if called.startswith(path)]


@server_of_one_kind
def test_a_run_reads_asks_stores_and_confirms_through_the_proxy(deployment: Deployment) -> None:
    workspace = deployment.workspace
    parameters = deployment.claim()
    said = deployment.run(
        {**parameters, "callback_url": f"{workspace.host}/api/callbacks"},
    )
    attempt = deployment.attempt()
    assert (attempt["status"], attempt["usage_source"]) == ("succeeded", "callback")
    assert attempt["llm_cost"] is None, "the model had no price"
    assert len(passed(workspace, "/api/callbacks")) == 1, "confirmed there, not by SQL"
    assert passed(workspace, "/serving-endpoints")
    assert (deployment.way.refused, deployment.way.logins >= 1) == (0, True)
    assert deployment.way.users == {"test_agent"}, "it stores under the agent's own role"
    for secret in (*workspace._tokens, *workspace.credentials, parameters["callback_token"]):
        assert secret not in said
    assert len(workspace.tracking.spans) == 1, "its spans lie in the storage"


@server_of_one_kind
def test_the_proxy_lets_it_not_in_and_the_report_is_lost(deployment: Deployment) -> None:
    """A report that the proxy refuses goes by SQL; without any, the tag finds the trace.

    The model has no price when the run begins: none is in the trace, SQL has it later.
    """
    workspace = deployment.workspace
    workspace.fault("/api/callbacks", status=403, times=None)
    parameters = deployment.claim()
    said = deployment.run({**parameters, "callback_url": f"{workspace.host}/api/callbacks"})
    assert passed(workspace, "/api/callbacks") == []
    assert "the webhook answered 403: confirming by SQL" in said
    assert deployment.attempt()["status"] == "succeeded"

    # As if it had died before it could say anything.
    deployment.database.query(
        """update lakequeue.task_attempts set trace_id = null, input_tokens = null,
           output_tokens = null, cached_tokens = null, llm_cost = null, usage_complete = false,
           usage_source = null"""
    )
    (trace,) = workspace.tracking.traces.values()
    # Another database shares the experiment, and numbers its attempts alike.
    workspace.tracking.traces["tr-other"] = {
        **trace,
        "trace_id": "tr-other",
        "client_request_id": "of-another-database",
    }
    deployment.call("set_model_price", model="simulator", valid_from="2020-01-01 00:00+00", **PRICE)
    deployment.settle()
    settled = deployment.attempt()
    assert (settled["trace_id"], settled["usage_source"]) == (trace["trace_id"], "trace")
    assert settled["input_tokens"] > 300
    assert settled["llm_cost"] == pytest.approx(
        (settled["input_tokens"] * 2 + settled["output_tokens"] * 8) / 1e6
    )


# --- the bearer alone -----------------------------------------------------------------------------


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Notes what comes, and sends it on to another host."""

    seen: ClassVar[list[dict[str, str]]] = []
    location: ClassVar[str | None] = None

    def do_POST(self) -> None:
        type(self).seen.append(dict(self.headers))
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.location is not None:
            self.send_response(307)
            self.send_header("Location", self.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = json.dumps({"answer": "accepted"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextlib.contextmanager
def listening(location: str | None = None) -> Iterator[tuple[str, list[dict[str, str]]]]:
    handler: Any = type("_Bound", (_Elsewhere,), {"seen": [], "location": location})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/callbacks", handler.seen
    finally:
        server.shutdown()
        server.server_close()


REPORT = {"attempt": 1, "token": "of-the-attempt", "outcome": "success"}


def test_the_bearer_and_the_attempts_token_travel_apart() -> None:
    with listening() as (url, seen):
        assert Webhook(url, lambda: "of-the-workspace").confirm(REPORT) == "accepted"
    assert [headers["Authorization"] for headers in seen] == ["Bearer of-the-workspace"]
    assert "of-the-attempt" not in str(seen), "which is in the body"


def test_without_one_nothing_changes() -> None:
    with listening() as (url, seen):
        assert Webhook(url).confirm(REPORT) == "accepted"
    assert "Authorization" not in seen[0]


def test_no_redirect_carries_it_on(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as (other, at_other), listening(other) as (url, seen):
        assert Webhook(url, lambda: "of-the-workspace").confirm(REPORT) is None
    assert (len(seen), at_other) == (1, [])
    assert "of-the-workspace" not in caplog.text


def test_it_does_not_go_out_in_the_clear(caplog: pytest.LogCaptureFixture) -> None:
    def never() -> str:
        raise AssertionError("asked for")

    request_of(Webhook("http://192.0.2.1:9/api/callbacks", never))
    assert "it is not https" in caplog.text


def request_of(webhook: Webhook) -> dict[str, str]:
    """The headers of a request that is made ready and not sent."""
    request = urllib.request.Request(webhook._url, method="POST")
    webhook._authorize(request)
    return dict(request.header_items())


def test_over_tls_it_goes() -> None:
    webhook = Webhook("https://app.example/api/callbacks", lambda: "of-the-workspace")
    assert request_of(webhook) == {"Authorization": "Bearer of-the-workspace"}


def test_where_there_is_none_the_webhook_is_tried_without(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> str:
        raise NotAllowed("no login")

    with listening() as (url, seen):
        assert Webhook(url, refused).confirm(REPORT) == "accepted"
    assert "Authorization" not in seen[0]
    assert "without a bearer token: no login" in caplog.text


def test_a_token_is_asked_for_once_and_renewed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer = Bearer()
    first = bearer.token()
    assert first in workspace._tokens
    assert bearer.token() == first
    assert bearer.host == workspace.host
    monkeypatch.setattr("tests.databricks.workspace.TOKEN_SECONDS", 1)
    short_lived = Bearer()
    assert short_lived.token() != short_lived.token()


def test_other_logins_give_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_CLIENT_ID")
    monkeypatch.delenv("DATABRICKS_CLIENT_SECRET")
    monkeypatch.setenv("DATABRICKS_TOKEN", "a-personal-one")
    with pytest.raises(NotAllowed, match="pat gives no OAuth token"):
        Bearer().token()


# --- the environment of a run -----------------------------------------------------------------

OPTIONS = {
    "task-id": "1",
    "attempt-id": "1",
    "run-key": "k",
    "callback-token": "t",
    "document-path": "/a.pdf",
    "lease-seconds": "30",
}


def start(*more: str) -> Any:
    options = [f"--{name}={value}" for name, value in OPTIONS.items()]
    return CliRunner().invoke(agent, [*options, *more])


def test_variables_and_secrets_are_set(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str | None] = {}

    def run(parameters: dict[str, str]) -> int:
        seen.update({name: os.environ.get(name) for name in ("LAKEQUEUE_CHAT_URL", "A_SECRET")})
        return 0

    monkeypatch.setattr("lakequeue.agents.document_parser.__main__.run", run)
    for name in ("LAKEQUEUE_CHAT_URL", "A_SECRET"):
        monkeypatch.setenv(name, "before")
    workspace.secrets["lakequeue/key"] = "s3cr=t"
    done = start("--set=LAKEQUEUE_CHAT_URL=http://x/?a=b", "--secret=A_SECRET=lakequeue/key")
    assert done.exit_code == 0, done.output
    assert seen == {"LAKEQUEUE_CHAT_URL": "http://x/?a=b", "A_SECRET": "s3cr=t"}


def test_what_cannot_be_set_is_told(workspace: Workspace) -> None:
    done = start("--secret=A_SECRET=lakequeue/missing")
    assert done.exit_code == 1
    assert "reading the secret lakequeue/missing" in done.output
    assert start("--set=nonsense").exit_code == 2
