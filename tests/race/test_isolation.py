"""Every limit on every isolation trap: who waits for the lock counts what is true after the wait.

A count from before the wait sees room that is gone (`research/postgres.md`, 1.1). Which snapshot a
statement reads depends on its caller, too; so dequeue_tasks and reserve_tokens are called in every
way in which a caller brings a snapshot that is older than the wait.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.race.harness import Connection, holding, in_background, wait_until_blocked
from tests.race.scene import (
    ONE_PLACE,
    Row,
    assert_sound,
    dequeue,
)
from tests.servers import Database

# How it is called: what is done beforehand, and the call, where {what} is a query of one text.
CALLS: dict[str, tuple[str | None, str]] = {
    "by itself": (None, "{what}"),
    "after having read": ("select count(*) from lakequeue.task_attempts", "{what}"),
    "from a cursor": ("declare called cursor for {what}", "fetch from called"),
    "in a statement that reads": (
        None,
        """with before as materialized (select count(*) from lakequeue.task_attempts)
           select ({what}), before.count from before""",
    ),
    "from a stable function": (None, "select public.stable($call${what}$call$)"),
    "from a function that has read": (None, "select public.reading($call${what}$call$)"),
}
CALLERS = """
create function public.stable(what text) returns text language plpgsql stable as $$
declare
  v_before bigint := (select count(*) from lakequeue.task_attempts);
  v_said text;
begin
  execute what into v_said;
  return v_said;
end $$;
create function public.reading(what text) returns text language plpgsql volatile as $$
declare
  v_before bigint := (select count(*) from lakequeue.task_attempts);
  v_said text;
begin
  execute what into v_said;
  return v_said;
end $$;
"""


@dataclass(frozen=True)
class Pair:
    """Two queries that ask for the same last place; the first one is granted it."""

    first: str
    second: str
    granted: str
    taken: str
    """What the second one is told then."""


def scenes(
    database: Database, limit: str, where: str, count: int, prepare: Callable[[], object]
) -> list[tuple[str, str]]:
    """So many endpoints with two agents each; then the limit, of the endpoint or the first agent.

    It has room for one task of 1,000 tokens, or one such call. Returns who shares each limit.
    """
    database.query(
        """select lakequeue.configure_agent(
                    e || '-' || a, model_endpoint => e, tokens_per_task => 1000,
                    tokens_per_page => 0, output_share => 0.25, breaker_failures => 0),
                  lakequeue.enqueue_task(e || '-' || a, '/1.pdf'),
                  lakequeue.enqueue_task(e || '-' || a, '/2.pdf')
             from generate_series(1, %s) n, lateral (select 'model-' || n) m(e),
                  unnest(array['a', 'b']) a""",
        count,
    )
    prepare()
    change = "endpoint(e" if where == "endpoint" else "agent(e || '-a'"
    database.query(
        f"""select lakequeue.configure_{change}, {limit} => %s)
              from generate_series(1, %s) n, lateral (select 'model-' || n) m(e)""",
        ONE_PLACE[limit],
        count,
    )
    second = "b" if where == "endpoint" else "a"
    return [(f"model-{n}-a", f"model-{n}-{second}") for n in range(1, count + 1)]


def dequeues(database: Database, limit: str, where: str, count: int) -> Iterator[Pair]:
    """Two workers that want a task each."""
    for agents in scenes(database, limit, where, count, lambda: None):
        first, second = (
            f"""select coalesce(min(d.outcome), 'nothing')
                  from lakequeue.dequeue_tasks($${agent}$$, 1, array[$${agent}$$]) d"""
            for agent in agents
        )
        yield Pair(first, second, "claimed", "nothing")


def reservations(database: Database, limit: str, where: str, count: int) -> Iterator[Pair]:
    """Two attempts that want a call each."""
    running: dict[str, list[Row]] = {}

    def claim_all() -> None:
        database.query("update lakequeue.agents set reserves_calls = true")
        with database.connect("test_worker") as worker:
            for row in dequeue(worker, batch_size=4 * count):
                running.setdefault(row["agent"], []).append(row)

    for agents in scenes(database, limit, where, count, claim_all):
        rows = [running[agent].pop() for agent in agents]
        first, second = (
            f"""select case when r.wait < '100 ms' then 'busy' else r.answer end
                  from lakequeue.reserve_tokens({row["attempt_id"]}, $${row["callback_token"]}$$,
                                                750, 250, $${uuid.uuid4()}$$) r"""
            for row in rows
        )
        yield Pair(first, second, "granted", "wait")


Make = Callable[[Database, str, str, int], Iterator[Pair]]
each_limit = pytest.mark.parametrize(
    ("make", "limit"),
    [
        pytest.param(make, limit, id=f"{make.__name__}-{limit}")
        for make in (dequeues, reservations)
        for limit in ONE_PLACE
        if make is dequeues or limit != "max_concurrent_tasks"
    ],
)
each_owner = pytest.mark.parametrize("where", ["agent", "endpoint"])
one_server = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def callers(database: Database) -> Database:
    """A database with functions that call ours."""
    with database.server.admin(database.name) as admin:
        admin.execute(CALLERS)
    return database


def prepared(connection: Connection, pair: Pair, how: str) -> str:
    """Do what this caller does first; returns its call."""
    before, query = CALLS[how]
    if before is not None:
        connection.execute(before.format(what=pair.second).encode())
    return query.format(what=pair.second)


def said(connection: Connection, query: str) -> str:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


@one_server
@each_owner
@each_limit
def test_who_waits_counts_after_the_wait(
    callers: Database, make: Make, limit: str, where: str
) -> None:
    pairs = make(callers, limit, where, len(CALLS) + 5)

    def told(how: str, end: Callable[[Connection], None]) -> tuple[Pair, str]:
        """What the second one is told who waited for the first one's end."""
        for pair in itertools.islice(pairs, 5):
            query = prepared(second, pair, how)
            assert said(first, pair.first) == pair.granted
            with in_background(lambda: said(second, query)) as outcome:  # noqa: B023 - used here
                wait_until_blocked(callers, second)
                end(first)
            second.commit()
            if outcome.result() != "busy":  # on a slow machine the wait was over before
                break
        return pair, outcome.result()

    with holding(callers) as second, holding(callers) as first:
        for how in CALLS:
            pair, answer = told(how, Connection.commit)
            assert answer == pair.taken, how
        pair, answer = told("by itself", Connection.rollback)
        assert answer == pair.granted
    assert_sound(callers)


@one_server
@each_owner
@each_limit
def test_other_levels_are_refused_at_once(
    callers: Database, make: Make, limit: str, where: str
) -> None:
    """They would count what was there before the wait. Nobody need hold the lock for it."""
    (pair,) = make(callers, limit, where, 1)
    counted = """select (select count(*) from lakequeue.task_attempts),
                        (select count(*) from lakequeue.model_calls)"""
    before = callers.query(counted)
    with holding(callers) as first, holding(callers) as second:
        for level, how in itertools.product(("repeatable read", "serializable"), CALLS):
            second.execute(f"set transaction isolation level {level}".encode())
            query = prepared(second, pair, how)
            second.execute("set local lock_timeout = '1 ms'")
            with pytest.raises(psycopg.Error) as refused:
                said(second, query)
            assert refused.value.sqlstate == "LQ428", (level, how)
            second.rollback()
            if (level, how) == ("repeatable read", "by itself"):
                assert said(first, pair.first) == pair.granted
        first.rollback()
    assert callers.query(counted) == before
