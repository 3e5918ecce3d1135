"""`lakequeue doctor`: what is well, what is wrong, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakequeue import database as db
from lakequeue.commands.doctor import command
from tests.databricks.workspace import CLIENT_ID, JOB_PRINCIPAL, Job, Workspace
from tests.python import web_server
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

ROOT = "/Volumes/main/lakequeue/documents"


class Patient:
    """A deployment; the doctor's report on it."""

    def __init__(
        self, database: Database, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.database = database
        self.workspace = workspace
        self.set = monkeypatch.setenv
        self.job = workspace.add_job()
        self.configure(job_id=self.job)
        self.set("LAKEQUEUE_RELAY", "databricks")
        self.set("LAKEQUEUE_DATABASE_URL", database.conninfo())
        self.set("LAKEQUEUE_VOLUME", ROOT)
        self.set("LAKEQUEUE_WAREHOUSE", "abc123")
        self.set("MLFLOW_EXPERIMENT_ID", "4711")

    def configure(self, **settings: object) -> None:
        with db.connect(self.database.conninfo()) as connection:
            db.call(connection, "configure_agent", agent="document-parser", **settings)

    def report(self, code: int) -> str:
        result: Result = CliRunner().invoke(command, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        assert result.return_value == code, result.output
        return result.output


@pytest.fixture
def patient(database: Database, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return Patient(database, workspace, monkeypatch)


def test_all_is_well(patient: Patient, tmp_path: Path) -> None:
    with web_server.server(patient.database, tmp_path) as (address, _):
        patient.set("LAKEQUEUE_CALLBACK_URL", f"{address}/api/callbacks")
        report = patient.report(0)
    assert [line.split(":")[0] for line in report.splitlines()] == [
        "ok     database",
        "ok     grants",
        "ok     grants",
        "ok     health",
        "ok     workspace",
        "ok     job of document-parser",
        "ok     experiment",
        "ok     warehouse",
        "ok     billing",
        "ok     billing",
        "ok     volume",
        "ok     callback",
    ]
    assert f"{patient.workspace.host} as {CLIENT_ID}" in report
    assert patient.workspace.files == {}, "what it wrote is gone"


def test_a_login_that_may_not(patient: Patient) -> None:
    patient.set("LAKEQUEUE_DATABASE_URL", patient.database.conninfo("test_worker"))
    report = patient.report(0)
    assert "ok     grants: test_worker may run workers" in report
    assert "note   grants: test_worker may not serve pages" in report
    assert 'hint: if it should: grant lakequeue_web to "test_worker"' in report
    assert "note   jobs: not looked at" in report
    patient.set("LAKEQUEUE_DATABASE_URL", patient.database.conninfo("test_stranger"))
    assert "WRONG  database" in patient.report(1)


@pytest.mark.parametrize(
    ("variable", "value", "words", "hint"),
    [
        (
            "LAKEQUEUE_DATABASE_URL",
            "host=127.0.0.1 port=9 dbname=x user=x",
            "WRONG  database: cannot reach the database",
            "check that the server runs",
        ),
        ("DATABRICKS_CLIENT_SECRET", "wrong", "WRONG  workspace", "check DATABRICKS_CLIENT_ID"),
        ("LAKEQUEUE_VOLUME", "/Volumes/main/x/y", "WRONG  volume: writing to", "make the volume"),
        (
            "LAKEQUEUE_WAREHOUSE",
            "gone",
            "WRONG  warehouse: looking at warehouse gone",
            f"correct LAKEQUEUE_WAREHOUSE, or give {CLIENT_ID} CAN_USE",
        ),
        (
            "MLFLOW_EXPERIMENT_ID",
            "12",
            "WRONG  experiment: looking at experiment 12",
            "correct MLFLOW_EXPERIMENT_ID",
        ),
        (
            "LAKEQUEUE_CALLBACK_URL",
            "https://host/callbacks",
            "WRONG  callback: LAKEQUEUE_CALLBACK_URL is",
            "only under /api/",
        ),
        (
            "LAKEQUEUE_CALLBACK_URL",
            "http://127.0.0.1:9/api/callbacks",
            "is no webhook",
            "check the address",
        ),
    ],
)
def test_what_cannot_be_reached(
    patient: Patient, variable: str, value: str, words: str, hint: str
) -> None:
    patient.set(variable, value)
    report = patient.report(1)
    assert words in report
    assert hint in report


def test_a_webhook_behind_a_proxy_that_lets_nobody_in(patient: Patient) -> None:
    """The fake workspace refuses whom it does not know, as the proxy of an app does.

    It would know our token; but that does not go out without TLS.
    """
    patient.set("LAKEQUEUE_CALLBACK_URL", f"{patient.workspace.host}/api/callbacks")
    report = patient.report(1)
    assert "lets nobody in (401)" in report
    assert "CAN_USE" in report


def test_jobs_that_work_against_the_queue(patient: Patient) -> None:
    job = patient.workspace.jobs[patient.job]
    job.max_retries = 2
    assert "its task agent is retried by the platform" in patient.report(1)
    job.max_retries, job.disable_auto_optimization = 0, False
    assert "may repeat its task agent by itself" in patient.report(1)
    job.disable_auto_optimization, job.parameters = True, job.parameters[:-2]
    assert "it has no parameter reserves_calls, callback_url" in patient.report(1)
    job.parameters = Job(0).parameters
    job.queue, job.max_concurrent_runs = False, 5
    assert "it runs 5 at once and skips the others, while the agent claims without limit" in (
        patient.report(1)
    )
    patient.configure(max_concurrent_tasks=6)
    assert "claims 6 at once" in patient.report(1)
    patient.configure(max_concurrent_tasks=5)
    assert "ok     job of document-parser" in patient.report(0)
    patient.configure(job_id=4711)
    report = patient.report(1)
    assert "Job 4711 does not exist" in report
    assert "CAN_MANAGE_RUN" in report


def test_traces_that_cannot_be_read_or_written(patient: Patient) -> None:
    tracking = patient.workspace.tracking
    assert "whether jobs may write is not to be seen from here" in patient.report(0)
    tracking.editors = ("somebody-else",)
    assert f"nothing says that {JOB_PRINCIPAL} may write" in patient.report(0)
    tracking.editors = (JOB_PRINCIPAL,)
    assert "ok     experiment: /Shared/lakequeue can be read; jobs may write" in patient.report(0)
    tracking.readable = False
    assert "CAN_READ on it" in patient.report(1)


def test_billing_that_cannot_be_read(patient: Patient) -> None:
    patient.workspace.readable_tables.remove("system.billing.list_prices")
    report = patient.report(1)
    assert "ok     billing: system.billing.usage can be read" in report
    assert "WRONG  billing: system.billing.list_prices cannot be read: [INSUFF" in report
    assert f"grant use schema on schema system.billing to `{CLIENT_ID}`" in report
    assert f"grant select on table system.billing.list_prices to `{CLIENT_ID}`" in report


def test_what_costs_are_not_known(patient: Patient) -> None:
    patient.set("LAKEQUEUE_WAREHOUSE", "")
    patient.set("MLFLOW_EXPERIMENT_ID", "")
    report = patient.report(0)
    assert "note   warehouse: none: compute cost stays unknown" in report
    assert "note   experiment: none: tokens and cost of job runs" in report


def test_no_agent_has_a_job(
    pristine: Database, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_RELAY", "databricks")
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", pristine.conninfo())
    result = CliRunner().invoke(command, standalone_mode=False)
    assert "WRONG  jobs: no agent has a job" in result.output


def test_on_ones_own_machine(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", database.conninfo())
    monkeypatch.setenv("LAKEQUEUE_VOLUME", str(tmp_path))
    result = CliRunner().invoke(command, standalone_mode=False)
    assert result.return_value == 0
    assert f"ok     volume: {tmp_path} on this machine" in result.output
    assert "workspace" not in result.output
