"""What the SDK does when the workspace fails, and the kinds of error that this becomes."""

from __future__ import annotations

import threading
import time

import pytest
from databricks.sdk import WorkspaceClient

from lakequeue import workspace as databricks
from lakequeue.lakebase import Login
from lakequeue.workspace import NotAllowed, NotThere, Refused, Throttled, Unreachable
from tests.databricks.workspace import Workspace


def start_run(workspace: Workspace, client: WorkspaceClient, key: str = "key") -> int:
    job = next(iter(workspace.jobs), None) or workspace.add_job()
    with databricks.errors_in_words("starting a run"):
        return int(client.jobs.run_now(job, idempotency_token=key).run_id)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotThere),
        (409, Refused),
        (429, Throttled),
        (500, Unreachable),
        (502, Unreachable),
        (503, Unreachable),
        (504, Unreachable),
    ],
)
def test_each_status_is_an_error_of_its_kind_at_once(
    workspace: Workspace, status: int, kind: type[Exception]
) -> None:
    client = databricks.client()
    workspace.fault("run-now", status=status, retry_after=17, times=None)
    began = time.monotonic()
    with pytest.raises(kind, match="starting a run: the test wanted it so") as raised:
        start_run(workspace, client)
    assert raised.type is kind
    assert time.monotonic() - began < 10, "nothing slept, whatever Retry-After says"
    assert workspace.called("run-now") == 1, "nor was it tried again"


def test_a_429_says_when_to_come_again(workspace: Workspace) -> None:
    client = databricks.client()
    workspace.fault("run-now", status=429, retry_after=17)
    workspace.fault("run-now", status=429)
    for seconds in (17.0, 1.0):
        with pytest.raises(Throttled) as raised:
            start_run(workspace, client)
        assert raised.value.retry_after == seconds
    assert start_run(workspace, client) in workspace.runs


def test_a_lost_answer_is_not_an_error_of_the_call(workspace: Workspace) -> None:
    client = databricks.client()
    workspace.fault("run-now", drop=True)
    with pytest.raises(Unreachable):
        start_run(workspace, client)
    (made,) = workspace.runs
    assert start_run(workspace, client) == made, "the same key is the same run"
    assert len(workspace.runs) == 1


def test_an_answer_that_does_not_come_is_not_waited_for(workspace: Workspace) -> None:
    client = databricks.client(answer_seconds=0.2)
    never = threading.Event()
    workspace.fault("run-now", hold=never)
    try:
        with pytest.raises(Unreachable, match="timed out"):
            start_run(workspace, client)
    finally:
        never.set()


def test_with_patience_a_passing_error_is_waited_out(workspace: Workspace) -> None:
    client = databricks.client(patience=5)
    workspace.fault("run-now", status=429, retry_after=0)
    assert start_run(workspace, client) in workspace.runs
    workspace.fault("run-now", status=429, retry_after=60)
    with pytest.raises(Throttled):
        start_run(workspace, client)


def test_a_run_that_is_not_there(workspace: Workspace) -> None:
    client = databricks.client()
    with pytest.raises(NotThere, match="Run 12 does not exist"), databricks.errors_in_words("look"):
        client.jobs.get_run(12)


def test_logging_in(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "wrong")
    with pytest.raises(NotAllowed, match="invalid_client") as raised:
        start_run(workspace, databricks.client())
    assert "wrong" not in str(raised.value)
    monkeypatch.delenv("DATABRICKS_CLIENT_SECRET")
    with pytest.raises(NotAllowed, match="set DATABRICKS_HOST"):
        databricks.client()
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "any")
    with pytest.raises(Unreachable, match="cannot be used"):
        databricks.client()


def test_a_token_that_does_not_come_is_not_waited_for(workspace: Workspace) -> None:
    client = databricks.client(answer_seconds=1)
    never = threading.Event()
    workspace.fault("/oidc/v1/token", hold=never)
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(Unreachable, match="no OAuth token within 1 seconds"):
            start_run(workspace, client)
    assert time.monotonic() - began < 5
    never.set()
    assert start_run(workspace, client) in workspace.runs


def test_an_oauth_token_that_has_ended_is_refused(workspace: Workspace) -> None:
    client = databricks.client()
    start_run(workspace, client)
    workspace.end_logins()
    with pytest.raises(NotAllowed):
        start_run(workspace, client)


def test_no_credential_gets_into_a_log(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK would write its answers there on the debug level."""
    caplog.set_level("DEBUG")
    login = Login("projects/lakequeue/branches/production/endpoints/primary")
    assert login.password() not in caplog.text
