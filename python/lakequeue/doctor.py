"""What `lakequeue doctor` looks at: is every part configured, reachable and permitted?

Each check gives findings in words; what is wrong says what to do about it. Nothing is changed,
but that a small file is written to the volume and deleted again.
"""

from __future__ import annotations

import contextlib
import io
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg

from lakequeue import database, migrate, workspace
from lakequeue.agents import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from lakequeue.config import Settings
from lakequeue.errors import Problem

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import JobSettings

PATIENCE_SECONDS = 5.0
STATEMENT_SECONDS = 50
"""How long a statement may take, and with it a warehouse that has to start."""
BILLING_TABLES = ("system.billing.usage", "system.billing.list_prices")
CALLBACK_SECONDS = 10.0
CALLBACK_PATH = "/api/callbacks"
ROLES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("lakequeue_worker", "run workers", "attempts_to_settle", {"batch_size": 1}),
    ("lakequeue_web", "serve pages", "latest_change", {}),
)
"""Roles that a process of ours needs, for what, and a function that only looks."""


class State(Enum):
    """How a part is."""

    WELL = "ok"
    NOTE = "note"
    """Not wrong by itself, but perhaps not meant."""
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report, and what to do."""

    part: str
    state: State
    words: str
    hint: str | None = None


def examine(settings: Settings, conninfo: str, volume: Path) -> Iterator[Finding]:
    """Look at everything that the settings name.

    conninfo: the database. volume: where uploads are kept.
    """
    agents: list[dict[str, Any]] | None = None
    try:
        with database.connect(conninfo, application_name="lakequeue doctor") as connection:
            yield from _schema(connection, conninfo)
            yield from _roles(connection)
            yield from _health(connection)
            agents = _agents(connection)
    except Problem as problem:
        yield _wrong("database", problem)
    remote = volume.as_posix().startswith("/Volumes/") and not volume.is_dir()
    client: WorkspaceClient | None = None
    if settings.relay == "databricks" or remote:
        try:
            client = workspace.client(patience=PATIENCE_SECONDS)
            with workspace.errors_in_words("asking who we are"):
                name = client.current_user.me().user_name
            yield Finding("workspace", State.WELL, f"{client.config.host} as {name}")
        except Problem as problem:
            client = None
            yield _wrong("workspace", problem)
    if settings.relay == "databricks" and client is not None:
        yield from _jobs(client, agents)
        yield from _experiment(client, settings, agents)
        yield from _warehouse(client, settings)
    if not remote:
        yield Finding("volume", State.WELL, f"{volume} on this machine")
    elif client is not None:
        yield _volume(client, str(volume))
    yield from _callback(settings, client)


def _wrong(part: str, problem: Problem) -> Finding:
    return Finding(part, State.WRONG, problem.message, problem.hint)


def _schema(connection: database.Connection, conninfo: str) -> Iterator[Finding]:
    where = database.target(conninfo)
    major = connection.info.server_version // 10000
    version = migrate.check_version(connection)
    words = f"{where}: PostgreSQL {major}, schema version {version}"
    yield Finding("database", State.WELL, words)


def _roles(connection: database.Connection) -> Iterator[Finding]:
    user = connection.info.user
    for role, purpose, function, parameters in ROLES:
        try:
            database.call(connection, function, **parameters)
        except psycopg.errors.InsufficientPrivilege:
            yield Finding(
                "grants",
                State.NOTE,
                f"{user} may not {purpose}",
                f'if it should: grant {role} to "{user}"',
            )
        else:
            yield Finding("grants", State.WELL, f"{user} may {purpose}")


def _health(connection: database.Connection) -> Iterator[Finding]:
    """What the database says of itself and of the upkeep."""
    try:
        rows = database.call(connection, "health")
    except psycopg.errors.InsufficientPrivilege:
        return  # grants say so already
    for row in rows:
        if row["status"] != "ok":
            state = State.WRONG if row["status"] == "alarm" else State.NOTE
            yield Finding(f"health, {row['name']}", state, row["status"], row["words"])
    if all(row["status"] == "ok" for row in rows):
        yield Finding("health", State.WELL, f"{len(rows)} checks")


def _agents(connection: database.Connection) -> list[dict[str, Any]] | None:
    """The agents, their jobs and most tasks at once; None where this login may not read them."""
    try:
        agents = database.call(connection, "agent_status")
        limits = database.call(connection, "explain_throttles")
    except psycopg.errors.InsufficientPrivilege:
        return None
    for agent in agents:
        mine = [row for row in limits if (row["agent"], row["kind"]) == (agent["agent"], "tasks")]
        agent["max_tasks"] = min((row["ceiling"] for row in mine), default=None)
    return agents


def _jobs(client: WorkspaceClient, agents: list[dict[str, Any]] | None) -> Iterator[Finding]:
    if agents is None:
        hint = "run the doctor as a login with lakequeue_reader or lakequeue_web, too"
        yield Finding("jobs", State.NOTE, "not looked at: this login may not read agents", hint)
        return
    with_job = [agent for agent in agents if agent["job_id"] is not None]
    if not with_job:
        hint = "select lakequeue.configure_agent('document-parser', job_id => …)"
        yield Finding("jobs", State.WRONG, "no agent has a job", hint)
    for agent in agents if with_job else []:
        part = f"job of {agent['agent']}"
        if agent["job_id"] is None:
            yield Finding(part, State.NOTE, "it has none: only workers of local runs serve it")
            continue
        try:
            with workspace.errors_in_words(f"looking at job {agent['job_id']}"):
                job = client.jobs.get(agent["job_id"])
        except Problem as problem:
            yield Finding(
                part,
                State.WRONG,
                problem.message,
                "correct it by configure_agent(job_id => …), or give the service principal "
                "CAN_MANAGE_RUN on the job",
            )
            continue
        name = job.settings.name if job.settings is not None else None
        faults = list(_faults(job.settings, agent)) if job.settings is not None else []
        yield from (Finding(part, State.WRONG, words, hint) for words, hint in faults)
        if not faults:
            yield Finding(part, State.WELL, f"{agent['job_id']} {name or ''}".strip())


def _faults(settings: JobSettings, agent: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What in a job's settings works against the queue."""
    known = {parameter.name for parameter in settings.parameters or []}
    missing = [name for name in (*REQUIRED_PARAMETERS, *OPTIONAL_PARAMETERS) if name not in known]
    if missing:
        yield (
            f"it has no parameter {', '.join(missing)}",
            "give it each of them with an empty default, as python/deploy/databricks.yml does",
        )
    for task in settings.tasks or []:
        if task.environment_key is not None and not task.disable_auto_optimization:
            yield (
                f"serverless compute may repeat its task {task.task_key} by itself",
                "set disable_auto_optimization to true: attempts are counted in the database",
            )
        if task.max_retries:
            yield (
                f"its task {task.task_key} is retried by the platform",
                "set max_retries to 0: attempts are counted in the database",
            )
    queued = settings.queue is not None and settings.queue.enabled
    most, wanted = settings.max_concurrent_runs or 1, agent["max_tasks"]
    if not queued and (wanted is None or wanted > most):
        limit = "without limit" if wanted is None else f"{wanted} at once"
        yield (
            f"it runs {most} at once and skips the others, while the agent claims {limit}",
            "enable its queue, or set max_concurrent_runs and max_concurrent_tasks alike",
        )


def _experiment(
    client: WorkspaceClient, settings: Settings, agents: list[dict[str, Any]] | None
) -> Iterator[Finding]:
    experiment_id = settings.experiment_id
    if experiment_id is None:
        words = "none: tokens and cost of job runs are what their agents report"
        hint = "set MLFLOW_EXPERIMENT_ID here, and in the jobs"
        yield Finding("experiment", State.NOTE, words, hint)
        return
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
    try:
        with workspace.errors_in_words(f"looking at experiment {experiment_id}"):
            found = client.experiments.get_experiment(experiment_id).experiment
        with workspace.errors_in_words(f"reading traces of experiment {experiment_id}"):
            client.api_client.do(
                "POST",
                "/api/3.0/mlflow/traces/search",
                body={"locations": [place], "max_results": 1},
            )
    except Problem as problem:
        hint = "correct MLFLOW_EXPERIMENT_ID, or give the service principal CAN_READ on it"
        yield Finding("experiment", State.WRONG, problem.message, hint)
        return
    name = found.name if found is not None else experiment_id
    writers = _writers(client, experiment_id)
    strangers = None if writers is None else _run_as(client, agents) - writers
    if strangers:
        yield Finding(
            "experiment",
            State.NOTE,
            f"{name} can be read, but nothing says that {', '.join(sorted(strangers))} may write",
            "if no group of theirs may: give them CAN_EDIT on it",
        )
        return
    jobs = (
        "jobs may write to it" if writers else "whether jobs may write is not to be seen from here"
    )
    yield Finding("experiment", State.WELL, f"{name} can be read; {jobs}")


def _writers(client: WorkspaceClient, experiment_id: str) -> set[str] | None:
    """Who may write there, by name; None where this login may not see that."""
    from databricks.sdk.service.ml import ExperimentPermissionLevel as Level

    try:
        with workspace.errors_in_words("looking at permissions"):
            entries = client.experiments.get_permissions(experiment_id).access_control_list or []
    except Problem:
        return None
    return {
        str(entry.service_principal_name or entry.user_name or entry.group_name)
        for entry in entries
        for permission in entry.all_permissions or []
        if permission.permission_level in (Level.CAN_EDIT, Level.CAN_MANAGE)
    }


def _run_as(client: WorkspaceClient, agents: list[dict[str, Any]] | None) -> set[str]:
    """As whom the agents' jobs run, where that can be seen."""
    names = set()
    for agent in agents or []:
        with contextlib.suppress(Problem), workspace.errors_in_words("looking at a job"):
            if agent["job_id"] is not None:
                names.add(client.jobs.get(agent["job_id"]).run_as_user_name)
    return {name for name in names if name}


def _warehouse(client: WorkspaceClient, settings: Settings) -> Iterator[Finding]:
    warehouse = settings.warehouse
    if warehouse is None:
        hint = "set LAKEQUEUE_WAREHOUSE to the id of a SQL warehouse"
        yield Finding("warehouse", State.NOTE, "none: compute cost stays unknown", hint)
        return
    name = client.config.client_id or "the service principal"
    try:
        with workspace.errors_in_words(f"looking at warehouse {warehouse}"):
            found = client.warehouses.get(warehouse)
        # It may have to start first: this client waits for that.
        patient = workspace.client(patience=PATIENCE_SECONDS, answer_seconds=STATEMENT_SECONDS + 10)
        _execute(patient, warehouse, "select 1")
    except Problem as problem:
        hint = f"correct LAKEQUEUE_WAREHOUSE, or give {name} CAN_USE on it"
        yield Finding("warehouse", State.WRONG, problem.message, hint)
        return
    yield Finding("warehouse", State.WELL, f"{found.name or warehouse} answers")
    for table in BILLING_TABLES:
        try:
            _execute(patient, warehouse, f"select 1 from {table} limit 1")  # noqa: S608 - ours
        except Problem as problem:
            yield Finding(
                "billing",
                State.WRONG,
                f"{table} cannot be read: {problem.message}",
                "an account admin enables the schema; then somebody who may: grant use catalog on "
                f"catalog system to `{name}`; grant use schema on schema system.billing to "
                f"`{name}`; grant select on table {table} to `{name}`",
            )
        else:
            yield Finding("billing", State.WELL, f"{table} can be read")


def _execute(client: WorkspaceClient, warehouse: str, statement: str) -> None:
    """Run a statement; raises Refused with the warehouse's words when it does not succeed."""
    from databricks.sdk.service.sql import ExecuteStatementRequestOnWaitTimeout, StatementState

    with workspace.errors_in_words("running a statement"):
        status = client.statement_execution.execute_statement(
            statement,
            warehouse,
            wait_timeout=f"{STATEMENT_SECONDS}s",
            on_wait_timeout=ExecuteStatementRequestOnWaitTimeout.CANCEL,
        ).status
    if status is None or status.state is not StatementState.SUCCEEDED:
        error = status.error.message if status is not None and status.error is not None else None
        raise workspace.Refused(error or f"no answer within {STATEMENT_SECONDS} s")


def _volume(client: WorkspaceClient, path: str) -> Finding:
    probe = f"{path}/lakequeue-doctor-{uuid.uuid4()}"
    try:
        with workspace.errors_in_words(f"writing to {path}"):
            client.files.upload(probe, io.BytesIO(b"lakequeue doctor"), overwrite=True)
            client.files.delete(probe)
    except Problem as problem:
        hint = "make the volume, or give the service principal WRITE VOLUME on it"
        return Finding("volume", State.WRONG, problem.message, hint)
    return Finding("volume", State.WELL, f"{path} can be written to")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        del arguments


def _callback(settings: Settings, client: WorkspaceClient | None) -> Iterator[Finding]:
    url = settings.callback_url
    if url is None:
        if settings.relay == "databricks":
            yield Finding("callback", State.NOTE, "no webhook: agents confirm by SQL alone")
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.path != CALLBACK_PATH:
        words = f"LAKEQUEUE_CALLBACK_URL is {url!r}"
        hint = f"it is the web part's address with {CALLBACK_PATH}; an app answers only under /api/"
        yield Finding("callback", State.WRONG, words, hint)
        return
    status, words = _ask(url, client)
    if status == 405:  # it is there, and wants a POST
        yield Finding("callback", State.WELL, f"{url} is a webhook")
    elif status in (301, 302, 303, 307, 401, 403):
        hint = "give the service principal CAN_USE on the app; it takes OAuth tokens only"
        yield Finding("callback", State.WRONG, f"{url} lets nobody in ({status})", hint)
    else:
        hint = "check the address, and that the web part runs and can be reached from here"
        yield Finding("callback", State.WRONG, f"{url} is no webhook: {words}", hint)


def _ask(url: str, client: WorkspaceClient | None) -> tuple[int, str]:
    """The status that a GET gives, 0 for none; over TLS with our token, as a run would come."""
    try:
        headers = {}
        if client is not None and url.startswith("https:"):
            with workspace.errors_in_words("logging in"):
                headers = client.config.authenticate()
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked by the caller
        opener = urllib.request.build_opener(_NoRedirects())
        with opener.open(request, timeout=CALLBACK_SECONDS) as response:
            return int(response.status), f"it answers {response.status}"
    except urllib.error.HTTPError as error:
        with error:
            return error.code, f"it answers {error.code}"
    except (OSError, ValueError, Problem) as error:
        return 0, str(error)
