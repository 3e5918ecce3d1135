"""What a crash of the server leaves of claims that did not wait for the disk, and of runs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lakequeue import database as db
from lakequeue.agents.document_parser.attempt import Attempt, Stopped
from lakequeue.relay.base import Run
from lakequeue.worker import Worker
from tests.python.test_worker import TroubledRelay, running, until
from tests.race.scene import Row, assert_sound, call, configure, enqueue
from tests.race.test_deltas import ADD_A_DELTA, drawn, fold
from tests.servers import SERVER_NAMES, Database, Server, temporary

# Only a commit that waits has its WAL flushed within ten seconds.
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


def claim(database: Database, *, durable: bool) -> Row:
    with database.connect("test_worker") as connection:
        (row,) = call(connection, "dequeue_tasks", worker="w", durable=durable)
    assert row["outcome"] == "claimed"
    return row


def test_a_claim_waits_for_the_disk(crashing: Database) -> None:
    claim(crashing, durable=True)
    crash(crashing)
    assert status(crashing) == "processing"


def test_a_prepared_writer_is_waited_for_under_its_other_name(crashing: Database) -> None:
    """Rule 15: it has another name than the one noted once the server was started anew."""
    with crashing.connect(autocommit=False) as late:
        late.execute(ADD_A_DELTA)
        mine = drawn(crashing)
        enqueue(crashing, 1)
        assert fold(crashing) < mine
        late.execute("prepare transaction 'late'")
    ((noted,),) = crashing.query(
        "select holders from lakequeue.fold_books order by no desc limit 1"
    )
    crash(crashing)
    writers = "select names from lakequeue._writers('lakequeue.task_deltas', '{}')"
    ((name,),) = crashing.query(writers)[0]
    assert name.startswith("-1/")
    assert name not in noted
    assert fold(crashing) < mine
    crashing.query("commit prepared 'late'")
    assert crashing.query(writers) == [([],)]
    assert fold(crashing) == drawn(crashing)


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


def confirmed(database: Database, claimed: Row) -> list[int]:
    with database.connect("test_worker") as connection:
        rows = call(
            connection,
            "confirm_claims",
            worker="w",
            attempts=[claimed["attempt_id"]],
            run_keys=[claimed["run_key"]],
        )
    return [row["attempt_id"] for row in rows]


def test_a_claim_is_confirmed_once_it_is_on_the_disk(crashing: Database) -> None:
    claimed = claim(crashing, durable=False)
    assert confirmed(crashing, claimed) == [claimed["attempt_id"]]
    crash(crashing)
    assert status(crashing) == "processing"
    assert confirmed(crashing, claimed) == [claimed["attempt_id"]], "asking again does no harm"


def test_what_a_crash_has_undone_is_not_confirmed(crashing: Database) -> None:
    lost = claim(crashing, durable=False)
    crash(crashing)
    assert confirmed(crashing, lost) == []
    again = claim(crashing, durable=False)
    assert again["attempt_id"] == lost["attempt_id"], "the sequence was undone, too"
    assert confirmed(crashing, lost) == [], "so it is the key that tells them apart"
    assert confirmed(crashing, again) == [again["attempt_id"]]


def test_a_grant_is_safe_once_it_was_asked_for_again(crashing: Database) -> None:
    configure(crashing, reserves_calls=True, max_rpm=2)
    run = claim(crashing, durable=True)
    keys = [uuid.uuid4() for _ in range(3)]

    def ask(key: uuid.UUID, *, durable: bool) -> str:
        with crashing.connect("test_agent") as agent:
            (row,) = call(
                agent,
                "reserve_tokens",
                attempt=run["attempt_id"],
                token=run["callback_token"],
                input_tokens=1,
                max_output_tokens=1,
                call=key,
                durable=durable,
            )
        return str(row["answer"])

    assert ask(keys[0], durable=False) == "granted"
    crash(crashing)
    granted = "select key from lakequeue.model_calls where granted_at is not null order by id"
    assert crashing.query(granted) == [], "it never was"
    assert ask(keys[0], durable=True) == "granted"
    with holding_throttle_locks(crashing):
        assert ask(keys[1], durable=False) == "wait", "others are there first"
        assert ask(keys[0], durable=True) == "granted", "what is granted needs no lock"
    assert ask(keys[1], durable=False) == "granted"
    assert ask(keys[1], durable=True) == "granted"
    crash(crashing)
    assert crashing.query(granted) == [(key,) for key in keys[:2]]
    assert ask(keys[2], durable=True) == "wait"


class CrashedAttempt(Attempt):
    """An agent's; its server crashes after its first question."""

    def __init__(self, database: Database, run: Row) -> None:
        self.database = database
        self.asked: list[bool] = []
        key, token = run["attempt_id"], run["callback_token"]
        super().__init__(key, token, 300, database.conninfo("test_agent"), estimate=1000)

    def _call(self, function: str, patience: float, **parameters: Any) -> list[Row]:
        rows = super()._call(function, patience, **parameters)
        self.asked.append(parameters["durable"])
        if len(self.asked) == 1:
            crash(self.database)
        return rows


def test_no_model_is_called_before_the_grant_is_safe(crashing: Database) -> None:
    configure(crashing, reserves_calls=True, max_rpm=1)
    attempt = CrashedAttempt(crashing, claim(crashing, durable=True))
    first, second = uuid.uuid4(), uuid.uuid4()
    assert attempt.reserve_call(first, 1, 1) is None
    assert attempt.asked == [False, True]
    crash(crashing)
    granted = "select key from lakequeue.model_calls where granted_at is not null"
    assert crashing.query(granted) == [(first,)]
    assert (attempt.reserve_call(second, 1, 1) or 0) > 0, "what is not granted is not asked twice"
    assert attempt.asked == [False, True, False]
    crashing.query("update lakequeue.tasks set cancel_requested_at = now()")
    with pytest.raises(Stopped):
        attempt.reserve_call(first, 1, 1)
    attempt.close()


@contextlib.contextmanager
def holding_throttle_locks(database: Database) -> Iterator[None]:
    with database.connect() as connection, connection.transaction():
        connection.execute(
            "select pg_advisory_xact_lock(lakequeue._lock_class(), e.id)"
            " from lakequeue.model_endpoints e"
        )
        yield


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


def test_what_a_crash_undoes_before_it_is_confirmed_is_not_started(crashing: Database) -> None:
    """The worker asks again what it could not confirm, and goes on with what it claims anew."""
    worker = CrashedWorker(crashing)
    with running(worker):
        until(lambda: worker.claimed)
        crashing.server.start_again()
        until(lambda: worker.relay.submitted)
    (run,) = worker.relay.submitted
    (claimed, *_) = worker.claimed
    assert run.run_key != claimed["run_key"]
    assert attempts(crashing) == [(run.attempt_id, run.run_key)]


class CrashedWorker(Worker):
    """One whose server crashes between a claim and its confirmation, the first time."""

    def __init__(self, database: Database) -> None:
        self.relay = TroubledRelay()
        self.claimed: list[Row] = []
        self.database = database
        super().__init__(database.conninfo("test_worker"), self.relay)

    def _take_runs(self, rows: list[Row], *, confirmed: bool) -> None:
        if not self.claimed:
            self.database.server.crash()
        self.claimed += rows
        super()._take_runs(rows, confirmed=confirmed)


def attempts(database: Database) -> list[tuple[object, ...]]:
    try:
        return database.query("select a.id, a.run_key from lakequeue.task_attempts a")
    except (db.DatabaseUnavailable, psycopg.OperationalError):
        return []
