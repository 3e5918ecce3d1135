"""The bundle and the app's description: of the right shape, and in step with the code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

from lakequeue import __version__
from lakequeue.agents.document_parser.__main__ import main as agent
from lakequeue.cli import cli
from lakequeue.config import Settings, describe
from lakequeue.errors import WrongUse
from tests.conftest import Clock
from tests.databricks.lakebase import gate
from tests.databricks.workspace import Workspace
from tests.python.test_relay_local import make_run
from tests.python.test_worker import until
from tests.servers import Database

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
FOLDER = REPOSITORY / "python" / "deploy"
TEXT = (FOLDER / "databricks.yml").read_text()
BUNDLE: dict[str, Any] = yaml.safe_load(TEXT)
APP_YAML: dict[str, Any] = yaml.safe_load((FOLDER / "app.yaml").read_text())
RESOURCES = BUNDLE["resources"]
JOB = RESOURCES["jobs"]["document_parser"]
(TASK,) = JOB["tasks"]
APP = RESOURCES["apps"]["lakequeue"]
SCHEMA = json.loads((HERE / "bundle_schema.json").read_text())

PARAMETERS = [*make_run().parameters(), "callback_url"]
VARIABLES = {variable.name for variable in describe()}
OF_OTHERS = {
    "DATABRICKS_HOST",
    "DATABRICKS_CLIENT_ID",
    "DATABRICKS_CLIENT_SECRET",
    "MLFLOW_TRACKING_URI",
}
"""Variables of the SDK and of MLflow, which they read themselves."""


def faults(bundle: dict[str, Any]) -> list[str]:
    errors = jsonschema.Draft7Validator(SCHEMA).iter_errors(bundle)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def with_app_yaml() -> dict[str, Any]:
    """The bundle with app.yaml in it, where the schema knows it in snake case."""
    bundle: dict[str, Any] = yaml.safe_load(TEXT)
    config = json.loads(json.dumps(APP_YAML).replace('"valueFrom"', '"value_from"'))
    bundle["resources"]["apps"]["lakequeue"]["config"] = config
    return bundle


def test_they_fit_the_schema() -> None:
    assert faults(BUNDLE) == []
    assert faults(with_app_yaml()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("apps.lakequeue.resources.0.postgres.permission", "CAN_DO_ALL"),
        ("apps.lakequeue.resources.1.job.id", None),
        ("apps.lakequeue.config.env.0.valeu", "x"),
        ("jobs.document_parser.tasks.0.max_retries", "none"),
        ("jobs.document_parser.queues", {}),
        ("volumes.documents.schema_name", 5),
        ("postgres_projects.lakequeue.default_endpoint_settings.suspends", True),
    ],
)
def test_the_schema_would_tell(path: str, value: Any) -> None:
    bundle = with_app_yaml()
    *way, last = path.split(".")
    here: Any = bundle["resources"]
    for step in way:
        here = here[int(step)] if step.isdigit() else here[step]
    here[last] = value
    assert faults(bundle), f"{path} = {value!r} is taken"


def test_every_reference_leads_somewhere() -> None:
    for reference in re.findall(r"\$\{([^}]+)\}", TEXT):
        kind, *way = reference.split(".")
        if kind == "var":
            assert way[0] in BUNDLE["variables"], reference
        elif kind == "resources":
            assert way[1] in RESOURCES[way[0]], reference
        else:
            assert reference == "workspace.host"


# --- the job --------------------------------------------------------------------------------------


def test_the_job_takes_what_the_worker_sends() -> None:
    assert JOB["parameters"] == [
        {"name": name, "default": "${var.callback_url}" if name == "callback_url" else ""}
        for name in PARAMETERS
    ]


def test_the_task_hands_all_of_it_to_the_agent() -> None:
    wheel = TASK["python_wheel_task"]
    given = [item for item in wheel["parameters"] if not item.startswith(("--set=", "--secret="))]
    assert given == [
        f"--{name.replace('_', '-')}={{{{job.parameters.{name}}}}}" for name in PARAMETERS
    ]
    context = agent.make_context("agent", list(wheel["parameters"]))
    assert context.params["task_id"] == "{{job.parameters.task_id}}"
    names = [name for name, _ in (*context.params["variables"], *context.params["secrets"])]
    assert set(names) <= VARIABLES | OF_OTHERS
    assert {"LAKEBASE_ENDPOINT", "LAKEQUEUE_DATABASE_URL", "LAKEQUEUE_CHAT_URL"} <= set(names)
    assert len(set(names)) == len(names)


def test_the_task_is_an_entry_point_of_the_wheel() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    wheel = TASK["python_wheel_task"]
    line = f'{wheel["entry_point"]} = "lakequeue.agents.document_parser.__main__:job"'
    assert f'[project.entry-points."lakequeue.agents"]\n{line}\n' in project
    assert wheel["package_name"] == "lakequeue"


def test_attempts_belong_to_the_database() -> None:
    assert (TASK["max_retries"], TASK["retry_on_timeout"]) == (0, False)
    assert TASK["disable_auto_optimization"] is True
    assert JOB["queue"] == {"enabled": True}


# --- the wheel ------------------------------------------------------------------------------------


def test_app_and_job_install_the_wheel_that_is_built_here() -> None:
    lines = (FOLDER / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f"./lakequeue-{__version__}-py3-none-any.whl"
    ]
    (artifact,) = BUNDLE["artifacts"].values()
    assert (FOLDER / artifact["path"]).resolve() == REPOSITORY
    assert f"--wheel-dir {FOLDER.relative_to(REPOSITORY)} " in artifact["build"]
    (environment,) = JOB["environments"]
    assert environment["spec"]["dependencies"] == ["./*.whl"]
    assert BUNDLE["sync"]["include"] == ["*.whl"]
    assert "/python/deploy/*.whl" in (REPOSITORY / ".gitignore").read_text().splitlines()


# --- the app --------------------------------------------------------------------------------------


def test_the_apps_environment_is_known_to_the_code() -> None:
    names = [item["name"] for item in APP_YAML["env"]]
    assert set(names) <= VARIABLES
    declared = {resource["name"] for resource in APP["resources"]}
    used = {item["valueFrom"] for item in APP_YAML["env"] if "valueFrom" in item}
    assert used <= declared
    assert declared - used == {"job"}, "which the database names (configure_agent)"
    kinds = {kind for resource in APP["resources"] for kind in resource if kind != "name"}
    assert kinds == {"postgres", "job", "uc_securable", "sql_warehouse", "experiment", "secret"}


def test_the_apps_command_listens_where_the_platform_says() -> None:
    program, *arguments = APP_YAML["command"]
    assert program == "lakequeue"
    name, command, rest = cli.resolve_command(click.Context(cli), arguments)
    assert (name, command is None) == ("up", False)
    assert command is not None
    options = command.make_context("up", rest).params
    assert (options["host"], options["port"]) == ("0.0.0.0", None)
    assert Settings.from_environment({"DATABRICKS_APP_PORT": "8123"}).port == 8123


def test_a_key_that_could_be_guessed_is_refused() -> None:
    assert Settings.from_environment({"LAKEQUEUE_SECRET_KEY": "k" * 32}).secret_key == "k" * 32
    with pytest.raises(WrongUse, match="LAKEQUEUE_SECRET_KEY is too short"):
        Settings.from_environment({"LAKEQUEUE_SECRET_KEY": "k" * 31})


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_the_app_starts_as_the_platform_starts_it(
    database: Database, clock: Clock, workspace: Workspace, tmp_path: Path
) -> None:
    """Its command and its variables; the database behind a gate that wants a credential."""
    values = {
        "postgres": "projects/lakequeue/branches/production/endpoints/primary",
        "volume": "/Volumes/main/lakequeue/documents",
        "warehouse": "abc123",
        "experiment": "4711",
        "web-key": "k" * 64,
    }
    with gate(database, workspace) as way, login(database), socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        environment = {
            **os.environ,
            **{item["name"]: item.get("value") or values[item["valueFrom"]] for item in
               APP_YAML["env"]},
            "PGHOST": "127.0.0.1",
            "PGPORT": str(way.port),
            "PGDATABASE": database.name,
            "PGUSER": LOGIN,
            "PGSSLMODE": "disable",  # the gate has no certificate
            "DATABRICKS_APP_PORT": str(port),
            "LAKEQUEUE_DATA_DIR": str(tmp_path / "data"),
        }  # fmt: skip
        with subprocess.Popen(APP_YAML["command"], env=environment) as app:
            try:
                until(lambda: answers(port), 60)
                until(lambda: database.value("select count(*) from lakequeue.workers"), 60)
                began = time.monotonic()
                app.send_signal(signal.SIGTERM)
                assert app.wait(60) == 0
                assert time.monotonic() - began < 15
            finally:
                app.kill()
        assert way.refused == 0
    assert not (tmp_path / "data/web.secret").exists(), "the key is the given one"


LOGIN = "test_app_service"


@contextlib.contextmanager
def login(database: Database) -> Iterator[None]:
    """What README grants to the app's login."""
    database.query(f"create role {LOGIN} login in role lakequeue_web, lakequeue_worker")
    try:
        yield
    finally:
        database.query(f"drop role {LOGIN}")


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


# --- what is said, and what is not ----------------------------------------------------------------


def test_there_is_no_secret_and_no_machine_in_it() -> None:
    for file in FOLDER.iterdir():
        if file.suffix == ".whl":
            continue
        text = file.read_text()
        assert not re.search(r"/home/|/root/|/tmp/|/Users/|dapi[0-9a-f]{8}|@[\w-]+\.\w+", text)
        addresses = set(re.findall(r"https?://(?!<)[\w.-]+", text))
        assert addresses == set(), f"{file.name}: {addresses}"
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text), "an application id"


def test_the_readme_tells_of_it() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    start = readme.index("## Deploy to Databricks")
    page = readme[start : readme.index("\n## ", start + 5)]
    assert "databricks bundle deploy" in page
    needed = [name for name, what in BUNDLE["variables"].items() if "default" not in what]
    for name in (*needed, "database_host", "callback_url"):
        assert f"{name}=" in page, name
    for key in ("web-key", "job-client-secret"):
        assert key in TEXT
        assert f"put-secret lakequeue {key}" in page, key
    (app,) = RESOURCES["apps"]
    assert f"databricks bundle run {app}" in page
    for name in (variable["name"] for variable in APP_YAML["env"]):
        assert f"`{name}`" in readme, name
