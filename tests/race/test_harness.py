"""The race harness: it would be worthless if it could not catch a race."""

from __future__ import annotations

import psycopg
import pytest

from tests.race.harness import (
    Connection,
    holding,
    in_background,
    together,
    wait_until_blocked,
)
from tests.servers import Database


@pytest.fixture
def counters(database: Database) -> Database:
    database.query("create table public.counters (id int primary key, value int not null)")
    database.query("insert into public.counters values (1, 0)")
    return database


def careless_increment(connection: Connection) -> int:
    """Reads, waits for the others, writes: every update but one is lost."""
    with connection.transaction():
        row = connection.execute("select value from public.counters").fetchone()
        assert row is not None
        connection.execute("select pg_sleep(0.2)")
        connection.execute("update public.counters set value = %s", [row[0] + 1])
        return int(row[0])


def careful_increment(connection: Connection) -> int:
    row = connection.execute(
        "update public.counters set value = value + 1 returning value"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_lost_update_is_caught(counters: Database) -> None:
    outcomes = together(counters, [careless_increment] * 5)
    assert [outcome.result() for outcome in outcomes] == [0] * 5
    assert counters.value("select value from public.counters") == 1


def test_no_update_is_lost_where_none_should_be(counters: Database) -> None:
    outcomes = together(counters, [careful_increment] * 5)
    assert sorted(outcome.result() for outcome in outcomes) == [1, 2, 3, 4, 5]


def test_errors_come_back_with_their_sqlstate(counters: Database) -> None:
    def insert(connection: Connection) -> None:
        connection.execute("insert into public.counters values (2, 0)")

    outcomes = together(counters, [insert] * 4)
    assert sorted(outcome.sqlstate or "" for outcome in outcomes) == ["", *["23505"] * 3]
    with pytest.raises(psycopg.errors.UniqueViolation):
        next(outcome for outcome in outcomes if outcome.error).result()


def test_who_waits_for_a_lock_is_seen(counters: Database) -> None:
    waiting = counters.connect()
    with holding(counters) as holder:
        holder.execute("update public.counters set value = 10")
        with in_background(lambda: careful_increment(waiting)) as outcome:
            wait_until_blocked(counters, waiting)
            holder.commit()
    assert outcome.result() == 11


def test_an_action_that_hangs_fails_the_test(counters: Database) -> None:
    with holding(counters) as holder:
        holder.execute("update public.counters set value = 10")
        with pytest.raises(AssertionError, match=r"action-0 did not end(.|\n)*Lock"):
            together(counters, [careful_increment], seconds=0.5)
