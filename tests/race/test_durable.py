"""What a crash of the server leaves of claims that did not wait for the disk, and of runs."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from lakequeue import database as db
from lakequeue.relay.base import Run
from lakequeue.worker import Worker
from tests.python.test_worker import TroubledRelay, running, until
from tests.race.scene import assert_sound, call, configure, enqueue
from tests.servers import SERVER_NAMES, Database, Server, temporary

# Nothing but who waits for it has WAL written within ten seconds.
PATIENT = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}


@pytest.fixture(scope="module", params=SERVER_NAMES)
def mortal(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of their own, which these tests crash."""
    server = Server(request.param, PATIENT)
    yield server
    server.stop()


@pytest.fixture
def crashing(mortal: Server) -> Iterator[Database]:
    """A database with a waiting task on it."""
    with temporary(mortal.clone, assert_sound) as database:
        configure(database)
        enqueue(database, 1)
        yield database


def crash(database: Database) -> None:
    database.server.crash()
    database.server.start_again()


def status(database: Database) -> str:
    (found,) = database.query("select t.status::text from lakequeue.tasks t")
    return str(found[0])


def claim(database: Database, *, durable: bool) -> dict[str, object]:
    with database.connect("test_worker") as connection:
        (row,) = call(connection, "dequeue_tasks", worker="w", durable=durable)
    assert row["outcome"] == "claimed"
    return row


def test_a_claim_waits_for_the_disk(crashing: Database) -> None:
    claim(crashing, durable=True)
    crash(crashing)
    assert status(crashing) == "processing"


def test_one_that_did_not_wait_never_was(crashing: Database) -> None:
    lost = claim(crashing, durable=False)
    assert status(crashing) == "processing", "for others it is there at once"
    crash(crashing)
    assert status(crashing) == "enqueued"
    again = claim(crashing, durable=True)
    assert again["attempt_number"] == 1
    with (
        crashing.connect("test_agent") as agent,
        pytest.raises(psycopg.Error) as refused,
    ):
        call(
            agent,
            "record_callback",
            attempt=lost["attempt_id"],
            token=lost["callback_token"],
            outcome="success",
        )
    assert refused.value.sqlstate in ("LQ401", "LQ404"), "the lost token is not the new one"


def test_make_durable_waits_for_all_that_was_committed(crashing: Database) -> None:
    claim(crashing, durable=False)
    with crashing.connect("test_worker") as connection:
        call(connection, "make_durable")
    crash(crashing)
    assert status(crashing) == "processing"


class CrashingRelay(TroubledRelay):
    """One whose server crashes just when a run is submitted."""

    calls_at_once = 1  # so that the worker's loop does nothing meanwhile

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    def submit(self, run: Run) -> int:
        if not self.submitted:
            self.server.crash()
        return super().submit(run)


def test_no_run_starts_before_its_claim_is_durable(crashing: Database) -> None:
    relay = CrashingRelay(crashing.server)
    with running(Worker(crashing.conninfo("test_worker"), relay)):
        until(lambda: relay.submitted)
        crashing.server.start_again()
        until(lambda: attempts(crashing))
    (run,) = relay.submitted
    assert attempts(crashing) == [(run.attempt_id, run.run_key)]


def attempts(database: Database) -> list[tuple[object, ...]]:
    try:
        return database.query("select a.id, a.run_key from lakequeue.task_attempts a")
    except (db.DatabaseUnavailable, psycopg.OperationalError):
        return []
