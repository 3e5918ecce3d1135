"""What health says of other sessions: open and prepared transactions, dead rows, a full queue.

Nobody here may read all statistics, as on a managed platform, unless a test grants it.
"""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Clock
from tests.race.harness import Connection
from tests.race.scene import Row, answer, call, configure
from tests.servers import Database

Check = dict[str, Row]


def checks(database: Database) -> Check:
    """The rows of health, by name, as a reader sees them."""
    return {row["name"]: row for row in call(database.connect("test_reader"), "health")}


def sample(database: Database) -> None:
    """What a worker does every second; once in 5 minutes it leaves a row behind."""
    answer(database.connect("test_worker"), "fold_rollups")


def snapshot(database: Database, user: str = "test_reader") -> Connection:
    """A connection that holds a snapshot, as a backup or an analyst does."""
    connection = database.connect(user, autocommit=False)
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select count(*) from pg_class")
    return connection


def test_a_held_snapshot_is_dated_by_what_was_written_after_it(
    database: Database, clock: Clock
) -> None:
    configure(database)  # the samples are of agents
    start = clock.set("2026-01-01 12:00+00")
    held = snapshot(database)
    pid = held.info.backend_pid
    found = checks(database)["long_transaction"]
    assert (found["status"], found["value"]) == ("unknown", None)
    assert f"process {pid}, test_reader" in found["words"]
    assert "grant pg_read_all_stats to lakequeue_owner" in found["words"]
    clock.set(start)
    sample(database)  # is later than the snapshot, by 12:05 at the latest
    clock.advance(minutes=9, seconds=59)
    assert checks(database)["long_transaction"]["status"] == "ok"
    clock.advance(seconds=1)
    found = checks(database)["long_transaction"]
    assert (found["status"], int(found["value"])) == ("warning", 300)
    assert f"select pg_terminate_backend({pid})" in found["words"]
    young = snapshot(database, "test_worker")
    assert checks(database)["long_transaction"]["value"] == 300
    held.rollback()
    found = checks(database)["long_transaction"]
    assert (found["status"], found["value"]) == ("ok", 0), "younger than a sample is young"
    sample(database)
    clock.advance(hours=1, minutes=5)
    assert checks(database)["long_transaction"]["status"] == "alarm"
    young.rollback()
    assert checks(database)["long_transaction"]["status"] == "ok"


def test_who_may_read_statistics_sees_the_time_itself(database: Database, clock: Clock) -> None:
    with database.server.admin(database.name) as admin:
        admin.execute("grant pg_read_all_stats to lakequeue_owner")
        try:
            held = snapshot(database)
            row = admin.execute(
                "select xact_start from pg_stat_activity where pid = %s", [held.info.backend_pid]
            ).fetchone()
            assert row is not None
            clock.set(row[0])
            clock.advance(minutes=5)
            found = checks(database)["long_transaction"]
            assert (found["status"], int(found["value"])) == ("warning", 300)
        finally:
            admin.execute("revoke pg_read_all_stats from lakequeue_owner")


def test_a_prepared_transaction_and_the_horizon(database: Database, clock: Clock) -> None:
    with database.server.admin(database.name) as admin:
        admin.execute("begin")
        admin.execute("select pg_current_xact_id()")
        admin.execute("prepare transaction 'forgotten ''one'''")
        try:
            row = admin.execute("select prepared from pg_prepared_xacts").fetchone()
            assert row is not None
            clock.set(row[0])
            clock.advance(hours=1)
            before = checks(database)
            assert before["long_transaction"]["status"] == "alarm"
            words = before["long_transaction"]["words"]
            assert "rollback prepared 'forgotten ''one'''" in words
            admin.execute(
                """do $$ begin
                     for n in 1..500 loop perform pg_current_xact_id(); commit; end loop;
                   end $$"""
            )
            after = checks(database)
            grown = after["horizon"]["value"] - before["horizon"]["value"]
            assert 500 <= grown < 1000, "each transaction counts"
        finally:
            admin.execute("rollback prepared 'forgotten ''one'''")
    assert checks(database)["long_transaction"]["status"] == "ok"


def test_a_writer_in_another_database_counts_and_a_reader_there_does_not(
    database: Database, clock: Clock
) -> None:
    configure(database)
    clock.set("2026-01-01 12:00+00")
    with database.server.admin() as elsewhere:
        elsewhere.execute("begin isolation level repeatable read")
        elsewhere.execute("select count(*) from pg_class")
        assert checks(database)["long_transaction"]["status"] == "ok"
        elsewhere.execute("select pg_current_xact_id()")
        sample(database)
        clock.advance(hours=2)
        found = checks(database)
        assert found["long_transaction"]["status"] == "alarm"
        assert "in database postgres" in found["long_transaction"]["words"]
        assert found["horizon"]["status"] == "ok"
        elsewhere.execute("rollback")


def test_dead_rows_are_told_by_table(database: Database) -> None:
    owner = database.connect()
    owner.execute(
        """insert into lakequeue.task_deltas (agent_id, customer, tasks, to_status)
           select 1, '', 0, 'enqueued' from generate_series(1, 10001)"""
    )
    for statement in ("delete from lakequeue.task_deltas", "select pg_stat_force_next_flush()"):
        owner.execute(statement)
    found = checks(database)["dead_rows"]
    assert (found["status"], int(found["value"])) == ("warning", 10001)
    assert "vacuum lakequeue.task_deltas" in found["words"]
    owner.execute("vacuum lakequeue.task_deltas")
    owner.execute("select pg_stat_force_next_flush()")
    assert checks(database)["dead_rows"]["status"] == "ok"


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_a_listener_in_a_transaction_fills_the_queue_of_notify(database: Database) -> None:
    listener = database.connect()
    listener.execute("listen somewhere")
    listener.execute("begin")
    listener.execute("select 1")
    busy = database.connect()
    busy.execute(
        "select pg_notify('somewhere', n || repeat('x', 7000)) from generate_series(1, 120) n"
    )
    found = checks(database)["notify_queue"]
    assert found["status"] == "warning"
    assert 0.1 <= found["value"] < 0.5
    assert "pg_stat_activity" in found["words"]
    listener.execute("rollback")


def test_somebody_else_who_holds_a_lock_of_the_throttle_is_named(
    database: Database, clock: Clock
) -> None:
    configure(database)
    answer(database.connect("test_app"), "enqueue_task", agent="parser", document_path="/a.pdf")
    clock.advance(hours=2)
    stranger: psycopg.Connection[tuple[object, ...]] = database.connect("test_stranger")
    stranger.execute("select pg_advisory_lock(%s, 1)", [0x6C616B65])
    words = checks(database)["oldest_waiting"]["words"]
    assert f"select pg_terminate_backend({stranger.info.backend_pid})" in words
