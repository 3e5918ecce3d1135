"""What health says of other sessions: open and prepared transactions, dead rows, a full queue.

Nobody here may read all statistics, as on a managed platform, unless a test grants it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock
from tests.race.harness import Connection
from tests.race.scene import Row, answer, call, configure
from tests.servers import Database, Server

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


def leave_dead_rows(owner: psycopg.Connection[Any], rows: int) -> None:
    """Leave so many in task_deltas, and let the server's statistics know."""
    owner.execute(
        """insert into lakequeue.task_deltas (agent_id, customer, tasks, to_status)
           select 1, '', 0, 'enqueued' from generate_series(1, %s)""",
        [rows],
    )
    for statement in ("delete from lakequeue.task_deltas", "select pg_stat_force_next_flush()"):
        owner.execute(statement)


def test_dead_rows_are_told_by_table(database: Database) -> None:
    owner = database.connect()
    leave_dead_rows(owner, 10_001)
    found = checks(database)["dead_rows"]
    assert (found["status"], int(found["value"])) == ("warning", 10_001)
    assert "vacuum lakequeue.task_deltas" in found["words"]
    leave_dead_rows(owner, 90_000)
    found = checks(database)["dead_rows"]
    assert (found["status"], int(found["value"])) == ("alarm", 100_001)
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
    shout = "select pg_notify('somewhere', n || repeat('x', 7000)) from generate_series(1, %s) n"
    busy.execute(shout, [120])
    found = checks(database)["notify_queue"]
    assert found["status"] == "warning"
    assert 0.1 <= found["value"] < 0.5
    assert "pg_stat_activity" in found["words"]
    busy.execute(shout, [450])
    found = checks(database)["notify_queue"]
    assert found["status"] == "alarm"
    assert found["value"] < 1
    listener.execute("rollback")  # now it hears everything
    busy.execute(shout, [10])  # and whoever notifies next tidies up
    assert checks(database)["notify_queue"]["status"] == "ok"


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


# --- replication ------------------------------------------------------------------------------


class Standby(Server):
    """A copy of a server that follows it and lets it know what its own readers need."""

    def __init__(self, primary: Server) -> None:
        self.primary = primary
        super().__init__(primary.name, {"hot_standby_feedback": "on"})

    def _initialise(self) -> None:
        subprocess.run(
            [
                *self._prefix,
                self.program("pg_basebackup"),
                f"--pgdata={self.folder / 'data'}",
                f"--dbname={self.primary.conninfo('postgres')} application_name=second",
                "--checkpoint=fast",
                "--no-sync",
                "--write-recovery-conf",
            ],
            env=self._environment,
            cwd=self.folder,
            check=True,
        )
        self._configure({"wal_receiver_status_interval": "1s"})

    def use_slot(self, name: str) -> None:
        """Follow by a slot from now on."""
        with self.admin() as admin:
            admin.execute(f"alter system set primary_slot_name = {name}")
            admin.execute("select pg_reload_conf()")


@pytest.fixture(scope="module")
def replicating(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that can be followed."""
    server = Server("embedded", {"wal_level": "logical", "max_wal_senders": "5"})
    yield server
    server.stop()


@pytest.fixture
def followed(replicating: Server) -> Iterator[Database]:
    """A database of it."""
    database = replicating.clone()
    yield database
    database.drop()


def until(condition: Callable[[], bool]) -> None:
    """Wait for the other server, which tells every second what it needs."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def spend_transactions(admin: psycopg.Connection[Any], number: int) -> None:
    admin.execute(
        f"""do $$ begin
              for n in 1..{number} loop perform pg_current_xact_id(); commit; end loop;
            end $$"""
    )


def removed(database: Database) -> bool:
    """Whether a vacuum removes what a transaction of now leaves behind."""
    owner = database.connect()
    leave_dead_rows(owner, 10_001)
    owner.execute("vacuum lakequeue.task_deltas")
    owner.execute("select pg_stat_force_next_flush()")
    return bool(checks(database)["dead_rows"]["status"] == "ok")


def holders(database: Database) -> list[tuple[Any, ...]]:
    """Who holds the horizon, for a login that may not read all statistics."""
    return database.query("select kind, who, ends_by, here from lakequeue._horizon_holders()")


def test_a_standby_and_a_slot_that_it_leaves_behind_hold_the_horizon(followed: Database) -> None:
    server = followed.server
    second = Standby(server)
    try:
        with server.admin(followed.name) as admin:
            reader = psycopg.connect(second.conninfo(followed.name))
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select count(*) from lakequeue.tasks")
            until(lambda: bool(holders(followed)))
            (held,) = holders(followed)
            assert held[0] == "standby"
            assert "postgres in replication (second)" in held[1]
            assert held[2:] == ("hot_standby_feedback off on the standby second", True)
            spend_transactions(admin, 500)
            assert 500 <= checks(followed)["horizon"]["value"] < 5000
            assert not removed(followed)

            admin.execute("select pg_create_physical_replication_slot('forgotten')")
            second.use_slot("forgotten")
            until(lambda: [kind for kind, *_ in holders(followed)] == ["slot"])
            (held,) = holders(followed)
            assert held[1:] == (
                "replication slot forgotten (active)",
                "select pg_drop_replication_slot('forgotten')",
                True,
            )
            reader.close()
            second.stop()
            until(lambda: "nobody reads it" in str(holders(followed)))
            spend_transactions(admin, 100_000)
            found = checks(followed)["horizon"]
            assert (found["status"], found["value"] < 105_000) == ("warning", True)
            assert "forgotten (nobody reads it)" in found["words"]
            assert checks(followed)["long_transaction"]["status"] == "ok"
            assert not removed(followed)
            admin.execute(holders(followed)[0][2])
        assert checks(followed)["horizon"]["status"] == "ok"
        assert removed(followed)
    finally:
        second.stop()


def test_a_slot_of_changes_keeps_no_rows_of_ours(followed: Database) -> None:
    """It keeps what the catalogs were, which no claim reads."""
    with followed.server.admin(followed.name) as admin:
        admin.execute("select pg_create_logical_replication_slot('changes', 'pgoutput')")
        spend_transactions(admin, 500)
        assert removed(followed)
        assert checks(followed)["horizon"]["value"] == 0
        assert holders(followed) == []
        admin.execute("select pg_drop_replication_slot('changes')")
