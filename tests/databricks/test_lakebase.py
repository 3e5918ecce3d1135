"""Database logins by short-lived credentials, through a gate that checks them as Lakebase does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from lakequeue import database as db
from lakequeue.agents.document_parser.__main__ import main as agent
from lakequeue.commands import psql
from lakequeue.commands._place import Target
from lakequeue.database import DatabaseUnavailable
from lakequeue.lakebase import AGAIN_SECONDS, Login
from lakequeue.listener import Listener
from lakequeue.worker import Worker
from tests.databricks.lakebase import Gate, gate
from tests.databricks.workspace import Workspace
from tests.python import web_server
from tests.python.test_worker import Queue, TroubledRelay, running, until
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

ENDPOINT = "projects/lakequeue/branches/production/endpoints/primary"
LIFE = 3600.0


class Time:
    """The time of workspace and client alike."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(workspace: Workspace) -> Time:
    made = Time()
    workspace.now = made
    return made


@pytest.fixture
def way(database: Database, workspace: Workspace) -> Iterator[Gate]:
    with gate(database, workspace) as made:
        yield made


@pytest.fixture
def login(workspace: Workspace, clock: Time) -> Iterator[Login]:
    made = Login(ENDPOINT, clock=clock)
    db.log_in_with(made)
    yield made
    db.log_in_with(None)


def minted(workspace: Workspace) -> int:
    return workspace.called("postgres/credentials")


def whoami(connection: psycopg.Connection[dict[str, str]]) -> str:
    row = connection.execute("select session_user::text as name").fetchone()
    assert row is not None
    return row["name"]


def test_the_password_is_a_credential(way: Gate, login: Login, workspace: Workspace) -> None:
    with db.connect(way.conninfo()) as connection:
        assert whoami(connection) == "test_worker"
    with db.connect(way.conninfo("test_web")) as connection:
        assert whoami(connection) == "test_web"
    assert (way.logins, way.refused, minted(workspace)) == (2, 0, 1)


def test_without_a_login_nobody_gets_in(way: Gate, workspace: Workspace) -> None:
    with pytest.raises(DatabaseUnavailable, match="password"):
        db.connect(way.conninfo())


def test_a_password_of_its_own_wins(
    way: Gate, login: Login, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = login.password()
    workspace.calls.clear()
    with db.connect(f"{way.conninfo()} password={token}") as connection:
        assert whoami(connection) == "test_worker"
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(DatabaseUnavailable, match="authentication failed"):
        db.connect(way.conninfo())
    assert minted(workspace) == 0


def test_a_token_goes_out_encrypted_or_not_at_all(way: Gate, login: Login) -> None:
    with pytest.raises(DatabaseUnavailable, match="SSL"):
        db.connect(way.conninfo(sslmode=None))
    assert (way.logins, way.refused) == (0, 0)


def test_tokens_end_while_20_connections_are_open(
    way: Gate, login: Login, workspace: Workspace, clock: Time
) -> None:
    with db.pool(way.conninfo(), min_size=20, max_size=25) as pool:
        pool.wait(60)
        assert minted(workspace) == 1, "20 connections, one credential"
        clock.now += LIFE + 1
        with ThreadPoolExecutor(20) as threads:
            names = list(threads.map(lambda _: in_pool(pool), range(60)))
        assert names == ["test_worker"] * 60, "what is open goes on"
        assert minted(workspace) == 1
        way.cut()
        assert in_pool(pool) == "test_worker", "what is lost is replaced, and nobody notices"
        with ThreadPoolExecutor(20) as threads:
            names = list(threads.map(lambda _: in_pool(pool), range(60)))
        assert names == ["test_worker"] * 60
        assert (minted(workspace), way.refused) == (2, 0)


def in_pool(pool: db.Pool) -> str:
    with db.checkout(pool) as connection:
        return whoami(connection)


def test_a_credential_is_renewed_before_it_ends(
    way: Gate, login: Login, workspace: Workspace, clock: Time
) -> None:
    first = login.password()
    clock.now += LIFE - 301
    assert login.password() == first
    clock.now += 2
    second = login.password()
    assert second != first
    assert workspace.accepts(first), "which would still do"
    clock.now += 60
    assert login.password() == second


def test_while_it_cannot_be_renewed_the_old_one_serves(
    way: Gate, login: Login, workspace: Workspace, clock: Time
) -> None:
    login.password()
    workspace.fault("credentials", status=429, retry_after=60, times=None)
    clock.now += LIFE - 100
    for _ in range(5):
        db.connect(way.conninfo()).close()
    assert minted(workspace) == 2, "and the workspace is left alone for a while"
    clock.now += AGAIN_SECONDS
    db.connect(way.conninfo()).close()
    assert minted(workspace) == 3
    clock.now += 100
    with pytest.raises(DatabaseUnavailable, match="no database credential"):
        db.connect(way.conninfo())
    workspace.mend()
    db.connect(way.conninfo()).close()
    assert way.refused == 0


def test_a_credential_that_is_not_taken_is_replaced_at_once(
    way: Gate, login: Login, workspace: Workspace
) -> None:
    with db.pool(way.conninfo(), min_size=2, max_size=2) as pool:
        assert in_pool(pool) == "test_worker"
        workspace.credentials.clear()
        way.cut()
        assert in_pool(pool) == "test_worker"
    assert way.refused >= 1


def test_a_wrong_endpoint_is_told_in_words(
    database: Database, workspace: Workspace, way: Gate
) -> None:
    for endpoint, words in (
        ("production", "Invalid endpoint name: production"),
        ("projects/other/branches/production/endpoints/primary", "does not exist"),
    ):
        with pytest.raises(DatabaseUnavailable, match=words) as raised:
            Login(endpoint).password()
        assert "LAKEBASE_ENDPOINT" in str(raised.value)


def test_listening_goes_on_after_a_suspension(
    way: Gate, login: Login, workspace: Workspace, clock: Time, database: Database
) -> None:
    listener = Listener(way.conninfo(), "somewhere")
    assert listener.keep(), "newly connected"
    clock.now += LIFE + 1
    way.cut()
    until(lambda: listener.poll() or listener.fileno() is None)
    until(listener.keep)  # True: whoever listens looks for what has come meanwhile
    database.query("select pg_notify('somewhere', '')")
    assert listener.wait(60)
    assert minted(workspace) == 2
    listener.close()


def test_a_worker_survives_suspension_and_expiry(
    way: Gate,
    login: Login,
    workspace: Workspace,
    clock: Time,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = Queue(database.conninfo(), way.conninfo(), "")
    relay = TroubledRelay()
    with running(Worker(way.conninfo(), relay)):
        queue.enqueue(1)
        until(lambda: [a["run_id"] for a in queue.attempts()] == [1001])
        clock.now += LIFE + 1
        way.open = False
        way.cut()
        until(lambda: "trying again until it is back" in caplog.text)
        queue.enqueue(1)
        way.open = True
        until(lambda: [a["run_id"] for a in queue.attempts()] == [1001, 1002])
    assert (minted(workspace), way.refused) == (2, 0)


def test_a_command_logs_in_so(way: Gate, workspace: Workspace) -> None:
    environment = {
        **os.environ,
        "LAKEBASE_ENDPOINT": ENDPOINT,
        "LAKEQUEUE_DATABASE_URL": way.conninfo("test_operator"),
    }
    command = [sys.executable, "-m", "lakequeue", "status", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (way.logins, minted(workspace)) == (1, 1)


def test_psql_logs_in_so(way: Gate, login: Login) -> None:
    assert psql._run(Target(way.conninfo(), None), ["-qc", "select 1"]) == 0
    assert (way.logins, way.refused) == (1, 0)


def test_the_web_part_logs_in_so_after_its_fork(
    way: Gate, workspace: Workspace, database: Database, tmp_path: Path
) -> None:
    variables = {
        "LAKEBASE_ENDPOINT": ENDPOINT,
        "LAKEQUEUE_DATABASE_URL": way.conninfo("test_web"),
    }
    with web_server.server(database, tmp_path, **variables) as (address, _):
        assert page(address) == 200
        assert minted(workspace) == 1, "the parent's credential serves its child, too"
        workspace.credentials.clear()
        way.cut()
        until(lambda: page(address) == 200 and minted(workspace) == 2)


def page(address: str) -> int:
    with urllib.request.urlopen(address, timeout=20) as response:
        return int(response.status)


def test_an_agent_logs_in_so(
    way: Gate, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBASE_ENDPOINT", ENDPOINT)
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", way.conninfo("test_agent"))
    monkeypatch.setenv("LAKEQUEUE_CHAT_URL", "http://127.0.0.1:9/v1")
    options = {
        "task-id": "1",
        "attempt-id": "1",
        "run-key": "k",
        "callback-token": "t",
        "document-path": "/a.pdf",
        "lease-seconds": "30",
        "parameters": '{"model": "m"}',
        "callback-url": "",
    }
    try:
        done = CliRunner().invoke(
            agent, [part for name, value in options.items() for part in (f"--{name}", value)]
        )
    finally:
        db.log_in_with(None)
    assert done.exit_code != 0, "there is no such attempt"
    assert (way.logins, way.refused) == (1, 0)
