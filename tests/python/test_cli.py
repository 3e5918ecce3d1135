"""The command line as a person or a script meets it: output, exit codes, signals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue import __version__, migrate
from lakequeue.cli import COMMANDS, cli
from lakequeue.config import Settings, describe
from lakequeue.errors import WrongUse
from tests.servers import Database

PROGRAM = [sys.executable, "-m", "lakequeue"]

on_one_server = pytest.mark.parametrize("server", ["embedded"], indirect=True)


def run(*arguments: str, url: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """One call, with nothing of this process's configuration but what is given."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEQUEUE_", "PG"))}
    if url is not None:
        environment["LAKEQUEUE_DATABASE_URL"] = url
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=environment | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lq-", dir="/tmp") as base:
        yield Path(base).resolve() / "data"


# --- the group --------------------------------------------------------------------------------


def test_help_lists_the_commands() -> None:
    result = run("--help")
    assert result.returncode == 0
    for name, words in COMMANDS.items():
        assert f"{name} " in result.stdout
        assert words in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str) -> None:
    result = run(name, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith(f"Usage: lakequeue {name}")


def test_help_and_version_import_nothing_slow() -> None:
    check = (
        "import sys\n"
        "from lakequeue.cli import cli\n"
        "try:\n    cli(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "slow = {'psycopg', 'yoyo', 'mlflow', 'openai', 'pdfplumber', 'sqlalchemy'}\n"
        "sys.exit(', '.join(slow & set(sys.modules)) or 0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_version() -> None:
    assert run("--version").stdout == f"lakequeue, version {__version__}\n"


def test_without_a_command_it_helps() -> None:
    result = run()
    assert result.returncode == 2
    assert "Commands:" in result.stdout + result.stderr


@pytest.mark.parametrize(
    "arguments", [["prase"], ["--no-such"], ["migrate", "--no-such"], ["migrate", "extra"]]
)
def test_wrong_use(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("agents", [["other"], ["document-parser", "other"]])
def test_a_worker_refuses_agents_that_cannot_run_here(folder: Path, agents: list[str]) -> None:
    """It would claim their tasks, and fail them for good."""
    options = [word for agent in agents for word in ("--agent", agent)]
    result = run("worker", "--data-dir", str(folder), *options)
    assert result.returncode == 2
    assert "agent 'other' cannot run on this machine" in result.stderr
    assert "hint: these can: document-parser" in result.stderr
    assert "LAKEQUEUE_RELAY=databricks" in result.stderr
    assert "is ready" not in result.stderr
    assert not folder.exists(), "it is refused before anything is started"


def test_unknown_command_names_the_known() -> None:
    assert f"no command 'prase': there are {', '.join(COMMANDS)}" in run("prase").stderr


def test_output_that_nobody_reads() -> None:
    with subprocess.Popen(
        [*PROGRAM, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as p:
        assert p.stdout
        assert p.stderr
        p.stdout.close()
        assert b"Traceback" not in p.stderr.read()


# --- settings ---------------------------------------------------------------------------------


def test_settings_come_from_the_environment() -> None:
    assert Settings.from_environment({}) == Settings()
    settings = Settings.from_environment(
        {
            "LAKEQUEUE_DATABASE_URL": " postgresql://db/x ",
            "LAKEQUEUE_DATA_DIR": "~/lq",
            "LAKEQUEUE_CHAT_TOKEN": "secret",
            "LAKEQUEUE_LOG_LEVEL": "DEBUG",
            "LAKEQUEUE_CHAT_URL": "",
            "DATABRICKS_APP_PORT": "8000",
        }
    )
    assert settings.database_url == "postgresql://db/x"
    assert settings.data_dir == Path.home() / "lq"
    assert settings.chat_url is None
    assert settings.log_level == "debug"
    assert settings.port == 8000
    assert "secret" not in repr(settings)


def test_wrong_log_level() -> None:
    with pytest.raises(WrongUse, match="LAKEQUEUE_LOG_LEVEL is 'loud'"):
        Settings.from_environment({"LAKEQUEUE_LOG_LEVEL": "loud"})
    result = run("migrate", LAKEQUEUE_LOG_LEVEL="loud")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "lakequeue: LAKEQUEUE_LOG_LEVEL is 'loud'",
        "hint: use one of debug, info, warning, error",
    ]


def test_every_setting_is_described() -> None:
    names = [variable.name for variable in describe()]
    assert "LAKEQUEUE_DATABASE_URL" in names
    assert all(variable.default and variable.meaning for variable in describe())


# --- migrate ----------------------------------------------------------------------------------


@on_one_server
def test_migrate(empty_database: Database) -> None:
    url = empty_database.conninfo()
    names = migrate.installed_source().migration_names

    result = run("migrate", "--status", url=url)
    assert result.returncode == 1
    assert [f"pending  {name}" for name in names] == result.stdout.splitlines()[: len(names)]

    result = run("migrate", url=url)
    assert result.returncode == 0, result.stderr
    assert [f"applied {name}" for name in names] == result.stdout.splitlines()[: len(names)]

    result = run("migrate", "--status", url=url)
    assert result.returncode == 0
    assert result.stdout.endswith("nothing to do\n")

    result = run("migrate", url=url)
    assert result.stdout.startswith("nothing to do")

    result = run("migrate", "--revert-to", "nothing", url=url)
    assert result.returncode == 2
    assert "--yes" in result.stderr

    for options in ([], ["--yes"]):
        result = run("migrate", "--revert-to", "9999", *options, url=url)
        assert result.returncode == 1
        assert "no migration 9999 is applied" in result.stderr

    result = run("migrate", "--revert-to", "nothing", "--yes", url=url)
    assert result.returncode == 0
    assert f"reverted {names[0]}" in result.stdout


@on_one_server
@pytest.mark.parametrize(
    ("by", "words", "advice"),
    [(-1, "older than", "lakequeue migrate"), (+1, "newer than", "upgrade Lakequeue here")],
)
def test_another_version_is_refused_in_words(
    pristine: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by: int,
    words: str,
    advice: str,
) -> None:
    """By whatever works with the database; job workers see it at their first heartbeat."""
    pristine.query("select lakequeue._set_schema_version(%s)", migrate.code_version() + by)
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", pristine.conninfo())
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        document = Path(__file__).parents[1] / "documents" / "letter-nl.pdf"
        for command in (
            "status",
            "doctor",
            "worker",
            "web --port 0",
            "up --port 0",
            f"parse {document}",
        ):
            with pytest.raises(SystemExit) as ended:
                cli(command.split())
            said = "".join(capsys.readouterr())
            assert ended.value.code == 1, f"{command}: {said}"
            assert words in said, command
            assert advice in said, command
    finally:
        signal.signal(signal.SIGTERM, terminated)


def test_migrate_excluding_options() -> None:
    assert run("migrate", "--status", "--revert-to", "nothing").returncode == 2


def test_unreachable_database() -> None:
    result = run("migrate", url="postgresql://me:secret@127.0.0.1:1/db")
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("lakequeue: cannot reach the database (host=127.0.0.1 port=1")
    assert lines[1].startswith("hint: ")
    assert "secret" not in result.stderr


def test_data_dir_beside_a_database_url(folder: Path) -> None:
    result = run("migrate", "--data-dir", str(folder), url="postgresql://127.0.0.1:1/db")
    assert result.returncode == 2
    assert "leave one of them out" in result.stderr
    assert not folder.exists()


# --- psql -------------------------------------------------------------------------------------


@on_one_server
def test_psql_on_a_given_database(empty_database: Database) -> None:
    url = empty_database.conninfo()
    result = run("psql", "-X", "-At", "-c", "select current_database()", url=url)
    assert (result.returncode, result.stdout) == (0, f"{empty_database.name}\n")
    result = run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "select 1/0", url=url)
    assert result.returncode == 1
    assert "division by zero" in result.stderr


def test_psql_hides_the_password(tmp_path: Path) -> None:
    """Everyone on a machine can see command lines."""
    fake = tmp_path / "psql"
    fake.write_text('#!/bin/sh\necho "$@"; echo "password $PGPASSWORD"\n')
    fake.chmod(0o755)
    url = "postgresql://me:secret@127.0.0.1:1/db"
    result = run("psql", "-l", url=url, PATH=f"{tmp_path}:{os.environ['PATH']}")
    arguments, password = result.stdout.splitlines()
    assert "secret" not in arguments
    assert arguments.endswith(" -l")
    assert password == "password secret"


def test_psql_help_of_psql(folder: Path) -> None:
    result = run("psql", "--data-dir", str(folder), "--", "--help")
    assert "psql is the PostgreSQL interactive terminal" in result.stdout


def test_embedded_database_runs_as_long_as_its_command(folder: Path) -> None:
    result = run("migrate", "--data-dir", str(folder))
    assert result.returncode == 0, result.stderr
    result = run(
        "psql",
        "-X",
        "-At",
        "-c",
        "select lakequeue.schema_version()",
        LAKEQUEUE_DATA_DIR=str(folder),
    )
    assert result.stdout == f"{migrate.code_version()}\n"
    assert not (folder / "postgres" / "postmaster.pid").exists()


def test_terminated_command_leaves_no_server(folder: Path) -> None:
    command = [*PROGRAM, "psql", "--data-dir", str(folder), "-X", "-c", "select pg_sleep(600)"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while "SELECT" not in _server_titles(folder):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert _server_titles(folder) == ""


def _server_titles(folder: Path) -> str:
    titles = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(path / "cwd") == str(folder / "postgres"):
                titles.append((path / "cmdline").read_text())
        except OSError:
            continue
    return "\n".join(titles)


def test_program_is_installed_under_its_name() -> None:
    """The environment in which the tests run has the package installed."""
    program = shutil.which("lakequeue", path=str(Path(sys.executable).parent))
    assert program is not None
    result = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"lakequeue, version {__version__}\n"
