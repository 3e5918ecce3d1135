"""A database, or a login, whose default is another isolation level than READ COMMITTED.

The functions refuse it (LQ428), so every connection of the product says what it needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from lakequeue import database as db
from tests.python import web_server
from tests.python.test_parse import DOCUMENTS, parse
from tests.python.test_worker import Queue, make_worker, running
from tests.servers import Database

one_server = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture(params=["repeatable read", "serializable"])
def elsewhere(pristine: Database, request: pytest.FixtureRequest) -> Database:
    """A database whose connections have another level by default."""
    with pristine.server.admin(pristine.name) as admin:
        admin.execute(
            f"alter database {pristine.name} "
            f"set default_transaction_isolation to '{request.param}'".encode()
        )
        with psycopg.connect(pristine.conninfo()) as connection:
            assert level(connection) == request.param
    return pristine


def level(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute("show transaction_isolation").fetchone()
    assert row is not None
    return str(row["transaction_isolation"] if isinstance(row, dict) else row[0])


@one_server
def test_every_connection_says_what_it_needs(elsewhere: Database) -> None:
    for autocommit in (True, False):
        with db.connect(elsewhere.conninfo(), autocommit=autocommit) as connection:
            idle = psycopg.pq.TransactionStatus.IDLE
            assert connection.info.transaction_status == idle, "no transaction is left open"
            assert level(connection) == "read committed"
            connection.rollback()
            with connection.transaction():
                assert level(connection) == "read committed"
    with (
        db.pool(elsewhere.conninfo(), max_size=2) as pool,
        db.checkout(pool) as one,
        db.checkout(pool) as other,
    ):
        assert [level(one), level(other)] == ["read committed"] * 2


@one_server
def test_who_wants_another_level_gets_it(elsewhere: Database) -> None:
    with db.connect(elsewhere.conninfo()) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            assert level(connection) == "repeatable read"


@one_server
def test_tasks_are_run(elsewhere: Database, tmp_path: Path) -> None:
    """By the worker and its runs."""
    queue = Queue(*map(elsewhere.conninfo, (None, "test_worker", "test_agent")))
    queue.configure(max_attempts=1)
    queue.enqueue(2, seconds=0.1)
    queue.enqueue(1, fail="it broke")
    with running(make_worker(queue, tmp_path)):
        queue.wait_for(completed=2, failed=1)


@one_server
def test_the_application_takes_documents_reports_and_actions(
    elsewhere: Database, tmp_path: Path
) -> None:
    queue = web_server.Queue(elsewhere)
    with web_server.application(elsewhere, tmp_path) as app:
        client = app.test_client()
        sent = web_server.upload(client, (web_server.pdf(), "a.pdf"), customer="acme")
        assert sent.status_code == 303
        row = queue.claim()
        body = {"attempt": row["attempt_id"], "token": row["callback_token"]}
        body |= {"outcome": "permanent_failure", "error": "it broke"}
        answer = client.post("/api/callbacks", json=body)
        assert web_server.as_json(answer)["answer"] == "accepted"
        assert queue.statuses() == {"failed": 1}
        fields = {"action": "retry", "task": row["task_id"], "confirmed": "yes"}
        form = {"csrf_token": web_server.token_of(client), **fields}
        assert client.post("/tasks/actions", data=form).status_code == 303
        assert queue.statuses() == {"enqueued": 1}


def test_the_whole_product(tmp_path: Path) -> None:
    """Its own server, worker and document parser, where libpq is told another default."""
    (row,) = parse(
        *("--data-dir", tmp_path, DOCUMENTS / "invoice-en.pdf"),
        PGOPTIONS="-c default_transaction_isolation=serializable",
    )
    assert row["status"] == "completed"
