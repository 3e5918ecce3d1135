"""Rules 3, 4 and 6 under many workers: no limit is ever exceeded, nothing is handed out twice."""

from __future__ import annotations

import threading
import time
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock
from tests.race.harness import (
    Connection,
    holding,
    in_background,
    repeated,
    together,
    wait_until_blocked,
)
from tests.race.scene import (
    ONE_PLACE,
    RESULT,
    Row,
    assert_sound,
    call,
    claim,
    configure,
    dequeue,
    enqueue,
    limit_endpoint,
    one_place,
    report,
    violations,
    watching,
)
from tests.servers import Database

WORKERS = 10
LIMIT = 5

# Which limits, of two agents that share an endpoint or not, and how many may run in all.
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int], int]] = {
    "agent": ({"max_concurrent_tasks": LIMIT}, {"max_concurrent_tasks": 2}, {}, LIMIT + 2),
    "endpoint": (
        {"model_endpoint": "shared"},
        {"model_endpoint": "shared"},
        {"max_concurrent_tasks": LIMIT},
        LIMIT,
    ),
    "both": (
        {"model_endpoint": "shared", "max_concurrent_tasks": 2},
        {"model_endpoint": "shared"},
        {"max_concurrent_tasks": LIMIT},
        LIMIT,
    ),
    # 1,000 tokens a task: 5 fit, whichever limit is the stricter one
    "tokens": (
        {"model_endpoint": "shared", "max_tpm": 3000},
        {"model_endpoint": "shared", "max_tpm": 20_000},
        {"max_tpm": 5500},
        LIMIT,
    ),
    "tokens and tasks": (
        {"model_endpoint": "shared", "max_tpm": 3000},
        {"model_endpoint": "shared"},
        {"max_tpm": 10_500, "max_concurrent_tasks": LIMIT},
        LIMIT,
    ),
}


def two_agents(database: Database, first: dict[str, Any], second: dict[str, Any]) -> None:
    for agent, settings in (("a", first), ("b", second)):
        configure(database, agent, tokens_per_task=1000, tokens_per_page=0, **settings)


@pytest.mark.parametrize("limits", LIMITS)
def test_many_workers_fill_a_limit_and_never_exceed_it(database: Database, limits: str) -> None:
    first, second, shared, places = LIMITS[limits]
    two_agents(database, first, second)
    if shared:
        limit_endpoint(database, "shared", **shared)
    for agent in ("a", "b"):
        enqueue(database, 20, agent)

    def take(connection: Connection) -> list[Row]:
        # until it is told "nothing", which must be true for all
        taken: list[Row] = []
        while rows := dequeue(connection, f"w{threading.get_ident()}", batch_size=2):
            taken += rows
        return taken

    outcomes = together(database, [take] * WORKERS, user="test_worker")
    taken = [row for outcome in outcomes for row in outcome.result()]
    assert len({row["task_id"] for row in taken}) == len(taken) == places
    assert_sound(database)


@pytest.mark.parametrize("limits", ["agent", "both"])
def test_limits_hold_while_tasks_come_and_go(database: Database, limits: str) -> None:
    first, second, shared, _places = LIMITS[limits]
    two_agents(database, first | {"retry_base": "0 seconds"}, second)
    if shared:
        limit_endpoint(database, "shared", **shared)
    for agent in ("a", "b"):
        enqueue(database, 300, agent)

    def work(connection: Connection) -> int:
        done = 0
        for number in repeated(1.5):
            rows = dequeue(connection, "w", batch_size=3)
            for row in rows:
                more = {"result": RESULT} if number % 2 else {}
                report(connection, row, "success" if number % 2 else "failure", **more)
            done += len(rows)
        return done

    with watching(database):
        outcomes = together(database, [work] * 6)
    assert sum(outcome.result() for outcome in outcomes) > 20
    assert_sound(database)


def test_unlimited_workers_share_all_tasks_and_none_gets_one_twice(database: Database) -> None:
    configure(database)
    tasks = enqueue(database, 200)

    def take(connection: Connection) -> list[int]:
        taken: list[int] = []
        while rows := dequeue(connection, "w", batch_size=3):
            taken += [row["task_id"] for row in rows]
        return taken

    outcomes = together(database, [take] * WORKERS, user="test_worker")
    taken = [task for outcome in outcomes for task in outcome.result()]
    assert sorted(taken) == tasks
    assert_sound(database)


def test_tasks_go_out_in_order_of_priority_to_whoever_asks(database: Database) -> None:
    """Under a limit claims are serial, so the order of the claims is rule 2's, over all workers."""
    configure(database, max_concurrent_tasks=1000)
    for priority in (5, 0, 9, 4, 5, 1):
        enqueue(database, 10, priority=priority)

    def take(connection: Connection) -> None:
        while dequeue(connection, "w", batch_size=2):
            pass

    for outcome in together(database, [take] * 6, user="test_worker"):
        outcome.result()
    claimed = database.query(
        """select t.priority, t.created_at, t.id
             from lakequeue.task_attempts a join lakequeue.tasks t on t.id = a.task_id
            order by a.id"""
    )
    assert claimed == sorted(claimed, key=lambda row: (-row[0], row[1], row[2]))


def test_eight_workers_get_shares_within_a_factor_of_two(database: Database) -> None:
    configure(database, max_concurrent_tasks=10_000)
    enqueue(database, 4000)
    tried: list[float] = []

    def work(connection: Connection) -> int:
        done, last = 0, time.monotonic()
        deadline = last + 2
        while time.monotonic() < deadline:
            rows = call(connection, "dequeue_tasks", worker="w", batch_size=1)
            if rows and rows[0]["outcome"] == "claimed":
                now = time.monotonic()
                tried.append(now - last)
                last = now
                done += 1
            else:
                time.sleep(0.01)  # as a worker does that was told "busy"
        return done

    shares = sorted(o.result() for o in together(database, [work] * 8, user="test_worker"))
    assert shares[0] * 2 >= shares[-1], shares
    # 250 ms is what a worker waits at most for its turn. A hundredth of the waits may be the
    # machine's, and one with other work to do is slower as a whole.
    tried.sort()
    assert tried[int(0.99 * len(tried))] < 0.25 + 10 * tried[len(tried) // 2]
    assert_sound(database)


# Whose limits, the workers' batch, and whether an agent's backlog is older than the next one's.
AGENTS: dict[str, tuple[dict[str, Any], dict[str, int], int, bool]] = {
    "own endpoints": ({"max_concurrent_tasks": 4}, {}, 1, False),
    "own endpoints, by age": ({"max_concurrent_tasks": 4}, {}, 4, True),
    "own endpoints, tokens": ({"max_tpm": 10**9}, {}, 1, False),
    "shared endpoint": ({"model_endpoint": "shared"}, {"max_concurrent_tasks": 12}, 1, False),
    "shared endpoint, by age": (
        {"model_endpoint": "shared"},
        {"max_concurrent_tasks": 10_000},
        4,
        True,
    ),
    "shared endpoint, both": (
        {"model_endpoint": "shared", "max_concurrent_tasks": 4},
        {"max_tpm": 10**9},
        1,
        False,
    ),
}


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("case", AGENTS)
def test_four_agents_get_shares_within_a_factor_of_two(database: Database, case: str) -> None:
    """Neither the order of the tasks nor that of the locks favours an agent (rules 2 and 6)."""
    own, shared, batch, by_age = AGENTS[case]
    agents, backlog, portion = ("a", "b", "c", "d"), 800, 800 if by_age else 4
    for agent in agents:
        configure(database, agent, **own)
    if shared:
        limit_endpoint(database, "shared", **shared)
    database.query(
        """select lakequeue.enqueue_tasks(a.name, (
                    select json_agg(json_build_object('document_path', '/' || p || '/' || n))
                      from generate_series(1, %s) n))
             from generate_series(1, %s) p, unnest(%s::text[]) with ordinality a(name, place)
            order by p, a.place""",
        portion,
        backlog // portion,
        list(agents),
    )

    def work(connection: Connection) -> list[tuple[str, float]]:
        claimed: list[tuple[str, float]] = []
        deadline = time.monotonic() + 1.5
        while (now := time.monotonic()) < deadline:
            rows = call(connection, "dequeue_tasks", worker="w", batch_size=batch)
            if not rows or rows[0]["outcome"] == "busy":
                time.sleep(0.01)  # as a worker does
                continue
            claimed += [(row["agent"], now) for row in rows]
            for row in rows:
                report(connection, row, "success", result=RESULT)
        return claimed

    claims = [outcome.result() for outcome in together(database, [work] * 8)]
    workers = [len(claimed) for claimed in claims]
    assert min(workers) > sum(workers) / len(workers) / 4, "a worker was left out"
    order = [agent for agent, _ in sorted(chain(*claims), key=itemgetter(1))]
    shares = sorted(order.count(agent) for agent in agents)
    assert shares[0] * 2 >= shares[-1], shares
    assert shares[-1] < backlog, "an agent had nothing left, which hides who was favoured"
    for agent in agents:
        turns = [-1, *(turn for turn, who in enumerate(order) if who == agent), len(order)]
        longest = max(later - turn for turn, later in pairwise(turns))
        assert longest < len(order) / 2, f"{agent} was left out for half of the time"
    assert_sound(database)


def test_busy_is_not_empty(database: Database) -> None:
    """A limited dequeue waits 250 ms for the lock, then says so; nobody takes it for an end."""
    configure(database, max_concurrent_tasks=2)
    enqueue(database, 3)
    connection = database.connect("test_worker")
    with holding(database, "test_worker") as first:
        assert len(call(first, "dequeue_tasks", worker="v")) == 2
        started = time.monotonic()
        (row,) = call(connection, "dequeue_tasks", worker="w")
        waited = time.monotonic() - started
        assert row["outcome"] == "busy"
        assert set(row.values()) == {"busy", None}
        assert 0.2 < waited < 5
        first.rollback()
        # What was rolled back is there again, and the limit has room again.
        assert len(call(connection, "dequeue_tasks", worker="w")) == 2
    assert call(connection, "dequeue_tasks", worker="w") == []
    assert connection.execute("show lock_timeout").fetchone() == ("0",)
    assert_sound(database)


def test_an_empty_queue_is_not_busy(database: Database) -> None:
    """Told so, a worker would come again at once as long as somebody configures without an end."""
    configure(database)
    worker = database.connect("test_worker")
    with holding(database) as operator:
        call(operator, "configure_agent", agent="parser", max_attempts=5)
        assert call(worker, "dequeue_tasks", worker="w") == []
        enqueue(database, 1)
        (row,) = call(worker, "dequeue_tasks", worker="w")
        assert row["outcome"] == "busy"


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("where", ["agent", "endpoint"])
@pytest.mark.parametrize("limit", ONE_PLACE)
def test_a_limit_that_is_full_anyway_keeps_nobody_busy(
    database: Database, where: str, limit: str
) -> None:
    """Two endpoints are full, and the lock of one is taken: there is nothing, to wait for either.

    Told "busy", workers would come again at once, and each be the reason for the other's "busy".
    """
    for agent in ("a", "b"):
        one_place(database, where, limit, agent)
        enqueue(database, 3, agent)
    worker = database.connect("test_worker")
    assert {row["agent"] for row in dequeue(worker)} == {"a", "b"}
    with holding(database, "test_operator") as other:
        call(other, "configure_endpoint", endpoint="b")
        assert call(worker, "dequeue_tasks", worker="w") == []
        assert call(worker, "dequeue_tasks", worker="w", agents=["b"]) == []
        call(other, "configure_endpoint", endpoint="a")
        assert call(worker, "dequeue_tasks", worker="w") == []
    assert call(worker, "dequeue_tasks", worker="w") == []
    assert_sound(database)


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("where", ["agent", "endpoint"])
@pytest.mark.parametrize("limit", ONE_PLACE)
def test_room_behind_a_lock_is_busy(database: Database, where: str, limit: str) -> None:
    """An endpoint is full, the other has room, but its lock is taken."""
    for agent in ("a", "b"):
        one_place(database, where, limit, agent)
        enqueue(database, 3, agent)
    worker = database.connect("test_worker")
    assert len(dequeue(worker, agents=["a"])) == 1
    with holding(database, "test_operator") as other:
        call(other, "configure_endpoint", endpoint="b")
        for agents in (None, ["b"]):
            (row,) = call(worker, "dequeue_tasks", worker="w", agents=agents)
            assert row["outcome"] == "busy"
    assert [row["agent"] for row in call(worker, "dequeue_tasks", worker="w")] == ["b"]
    assert_sound(database)


@pytest.mark.parametrize(
    ("shared", "own", "later"),
    [
        # an agent of the endpoint has no place left, the other has
        ({}, {"a": {"max_concurrent_tasks": 1}, "b": {"max_concurrent_tasks": 1}}, ("b", 0)),
        ({"max_tpm": 5000}, {"a": {"max_tpm": 1800}, "b": {}}, ("b", 1)),
        # the next task does not fit, one behind it does
        ({"max_tpm": 1800}, {"a": {}, "b": {}}, ("a", 100)),
        ({"max_tpm": 1800}, {"a": {}, "b": {}}, ("b", 100)),
    ],
)
def test_what_fits_behind_what_does_not_is_busy_too(
    database: Database,
    shared: dict[str, int],
    own: dict[str, dict[str, Any]],
    later: tuple[str, int],
) -> None:
    for agent, settings in own.items():
        configure(
            database,
            agent,
            model_endpoint="shared",
            tokens_per_task=0,
            tokens_per_page=1,
            **settings,
        )
    if shared:
        limit_endpoint(database, "shared", **shared)
    enqueue(database, 2, "a", page_count=1000)
    worker = database.connect("test_worker")
    assert len(dequeue(worker)) == 1
    assert call(worker, "dequeue_tasks", worker="w") == []
    agent, pages = later
    enqueue(database, 1, agent, page_count=pages)
    with holding(database, "test_operator") as other:
        call(other, "configure_endpoint", endpoint="shared")
        (row,) = call(worker, "dequeue_tasks", worker="w")
        assert row["outcome"] == "busy"
    assert [row["agent"] for row in call(worker, "dequeue_tasks", worker="w")] == [agent]
    assert_sound(database)


@pytest.mark.parametrize("used", [400, 600])
def test_what_is_too_large_is_not_busy_where_half_is_left(database: Database, used: int) -> None:
    """Who finds half of a limit left waits without a look at what it would claim, else looks.

    The next task asks for more than is left either way. Told "busy" after all, workers would come
    again at once, as long as something runs.
    """
    configure(database, tokens_per_task=0, tokens_per_page=1, max_tpm=1000, estimate_factor=1)
    enqueue(database, 1, page_count=used)
    enqueue(database, 2, page_count=700)
    worker = database.connect("test_worker")
    assert len(dequeue(worker)) == 1
    with holding(database, "test_operator") as other:
        call(other, "configure_endpoint", endpoint="parser")
        started = time.monotonic()
        assert call(worker, "dequeue_tasks", worker="w") == []
        waited = time.monotonic() - started
    assert waited > 0.2 if used < 500 else waited < 0.2
    assert call(worker, "dequeue_tasks", worker="w") == []
    assert_sound(database)


def test_a_dequeue_keeps_nothing_of_agents_it_does_not_serve(database: Database) -> None:
    """It may look at them, where they share a limit; their tasks stay free for others."""
    configure(database, "limited", max_concurrent_tasks=2)
    configure(database, "neighbour", model_endpoint="limited", max_concurrent_tasks=2)
    configure(database, "free")
    agents = ("limited", "neighbour", "free")
    for agent in agents:
        enqueue(database, 3, agent)
    with holding(database, "test_worker") as first:
        assert len(call(first, "dequeue_tasks", worker="v", agents=["limited"])) == 2
        locked = database.query(
            """select g.name from lakequeue.tasks t join lakequeue.agents g on g.id = t.agent_id
                where t.id not in (
                  select f.id from lakequeue.tasks f for no key update skip locked)"""
        )
        assert sorted(locked) == [("limited",), ("limited",)]
        rows = call(database.connect("test_worker"), "dequeue_tasks", worker="w")
        assert [row["agent"] for row in rows] == ["free"] * 3
    assert_sound(database)


def test_who_waited_counts_after_the_lock(database: Database) -> None:
    """A snapshot from before the wait would see room that is gone."""
    configure(database, max_concurrent_tasks=1)
    enqueue(database, 2)
    second = database.connect("test_worker")
    for _ in repeated(20, at_most=5):
        with (
            holding(database, "test_worker") as first,
            in_background(lambda: call(second, "dequeue_tasks", worker="w")) as outcome,
        ):
            assert len(call(first, "dequeue_tasks", worker="v")) <= 1
            first.commit()
        assert outcome.result() == [] or outcome.result()[0]["outcome"] in ("busy", "claimed")
        assert_sound(database)
    assert database.value("select count(*) from lakequeue.task_attempts") == 1


# --- limits that change meanwhile -------------------------------------------------------------


def test_a_limit_that_appears_while_somebody_claims_without_one(database: Database) -> None:
    """configure_agent waits for the dequeue; who dequeues after it counts what that one took."""
    configure(database)
    enqueue(database, 10)
    operator = database.connect("test_operator")
    with holding(database, "test_worker") as first:
        assert len(call(first, "dequeue_tasks", worker="v", batch_size=2)) == 2
        with in_background(
            lambda: call(operator, "configure_agent", agent="parser", max_concurrent_tasks=3)
        ) as configured:
            wait_until_blocked(database, operator)
            first.commit()
    configured.result()
    assert len(dequeue(database.connect("test_worker"))) == 1
    assert_sound(database)


def test_a_limit_that_appears_while_a_dequeue_waits_for_it(database: Database) -> None:
    """It peeked when there was no limit, and holds a shared lock only: it must leave the agent."""
    configure(database)
    enqueue(database, 10)
    worker = database.connect("test_worker")
    for _ in range(5):
        with holding(database, "test_operator") as operator:
            call(operator, "configure_agent", agent="parser", max_concurrent_tasks=3)
            with in_background(lambda: call(worker, "dequeue_tasks", worker="w")) as outcome:
                wait_until_blocked(database, worker)
                operator.commit()
        assert outcome.result() == [] or outcome.result()[0]["outcome"] == "busy"
        configure(database, max_concurrent_tasks=0)
    configure(database, max_concurrent_tasks=3)
    assert len(dequeue(worker)) == 3


def test_a_pause_that_has_returned_lets_nothing_through(database: Database) -> None:
    configure(database)
    enqueue(database, 50)
    operator = database.connect("test_operator")
    with holding(database, "test_worker") as first:
        assert len(call(first, "dequeue_tasks", worker="v", batch_size=2)) == 2
        with in_background(lambda: call(operator, "pause_agent", agent="parser")) as paused:
            wait_until_blocked(database, operator)
            first.commit()
    paused.result()
    assert dequeue(database.connect("test_worker")) == []


def test_an_agent_that_moves_keeps_its_own_limit(database: Database) -> None:
    """What it claimed at its former endpoint still counts for it, and there for that endpoint."""
    configure(database, "a", model_endpoint="old", max_concurrent_tasks=3)
    configure(database, "b", model_endpoint="old")
    limit_endpoint(database, "old", max_concurrent_tasks=3)
    for agent in ("a", "b"):
        enqueue(database, 10, agent)
    worker = database.connect("test_worker")
    assert len(dequeue(worker, batch_size=2, agents=["a"])) == 2
    configure(database, "a", model_endpoint="new")
    assert len(dequeue(worker, agents=["a"])) == 1
    assert len(dequeue(worker, agents=["b"])) == 1
    assert_sound(database)


def test_an_agent_that_two_operators_move_keeps_its_own_limit(database: Database) -> None:
    """The second one must know where the first one has moved it, and take that endpoint's lock.

    Otherwise a dequeue there goes on while the agent leaves, and another one at the agent's new
    endpoint does not see what the first has claimed.
    """
    configure(database, "x", model_endpoint="first", max_concurrent_tasks=1)
    for endpoint in ("second", "third"):
        limit_endpoint(database, endpoint, max_concurrent_tasks=5)
    configure(database, "y", model_endpoint="third")
    enqueue(database, 5, "x")
    enqueue(database, 1, "y")
    worker, late_operator = database.connect("test_worker"), database.connect("test_operator")
    with (
        holding(database, "test_worker") as at_third,
        holding(database, "test_operator") as operator,
        holding(database, "test_worker") as at_second,
    ):
        assert len(call(at_third, "dequeue_tasks", worker="v", agents=["y"])) == 1
        call(operator, "configure_agent", agent="x", model_endpoint="second")
        with in_background(
            lambda: call(late_operator, "configure_agent", agent="x", model_endpoint="third")
        ) as moved:
            wait_until_blocked(database, late_operator)  # for the first endpoint, or the operator
            operator.commit()
            time.sleep(0.1)  # it goes on as far as it can: to the third endpoint's lock
            claimed = call(at_second, "dequeue_tasks", worker="w", agents=["x"])
            at_third.commit()
            time.sleep(0.1)
            more = [
                row
                for row in call(worker, "dequeue_tasks", worker="u", agents=["x"])
                if row["outcome"] == "claimed"
            ]
            at_second.commit()
        moved.result()
    assert len([row for row in claimed if row["outcome"] == "claimed"]) + len(more) <= 1
    assert_sound(database)


def test_limits_hold_while_agents_move(database: Database) -> None:
    two_agents(
        database,
        {"model_endpoint": "one", "max_concurrent_tasks": 3},
        {"model_endpoint": "two", "max_concurrent_tasks": 4},
    )
    for endpoint in ("one", "two", "three"):
        limit_endpoint(database, endpoint, max_concurrent_tasks=LIMIT)
    for agent in ("a", "b"):
        enqueue(database, 200, agent)

    def work(connection: Connection) -> None:
        for _ in repeated(1.5):
            for row in dequeue(connection, "w", batch_size=3):
                report(connection, row, "success", result=RESULT)

    def move(connection: Connection) -> None:
        for number in repeated(1.5):
            endpoint = ("one", "two", "three")[number % 3]
            agent = "ab"[number // 2 % 2]
            call(connection, "configure_agent", agent=agent, model_endpoint=endpoint)

    with watching(database):
        for outcome in together(database, [work] * 4 + [move] * 2):
            outcome.result()


# --- who else is at the queue -----------------------------------------------------------------


def test_a_cancel_that_waited_for_a_dequeue_asks_the_run_to_stop(database: Database) -> None:
    configure(database)
    (task,) = enqueue(database, 1)
    operator = database.connect("test_operator")
    with holding(database, "test_worker") as worker:
        call(worker, "dequeue_tasks", worker="w")
        with in_background(lambda: call(operator, "cancel_task", task=task)) as cancelled:
            wait_until_blocked(database, operator)
            worker.commit()
    assert "requested" in str(cancelled.result())
    assert_sound(database)


def test_leases_and_windows_start_after_the_wait_for_the_lock(
    database: Database, clock: Clock
) -> None:
    """A clock read before the wait would give a lease that is partly over (rule 12)."""
    started = clock.set("2026-01-01 12:00+00")
    configure(database, max_concurrent_tasks=5, lease_duration="1 minute")
    enqueue(database, 2)
    worker = database.connect("test_worker")
    rows: list[Row] = []
    while not rows or rows[0]["outcome"] == "busy":
        clock.set(started)
        with holding(database, "test_worker") as first:
            call(first, "dequeue_tasks", worker="v", batch_size=1)
            first.execute("select test.advance('30 s')")  # seen by others once it is committed
            with in_background(lambda: dequeue(worker, "w")) as outcome:
                wait_until_blocked(database, worker)
                first.commit()
        rows = outcome.result()
    assert (rows[0]["lease_expires_at"] - started).total_seconds() == 90


def test_other_isolation_levels_are_refused(database: Database) -> None:
    configure(database)
    for level in ("repeatable read", "serializable"):
        with holding(database, "test_worker") as connection:
            connection.execute(f"set transaction isolation level {level}")
            with pytest.raises(psycopg.Error) as refused:
                call(connection, "dequeue_tasks", worker="w")
            assert refused.value.sqlstate == "LQ428"


def test_the_watcher_would_notice(database: Database) -> None:
    """The watcher is worth something only if it sees what it is there for."""
    configure(database, max_concurrent_tasks=1)
    enqueue(database, 2)
    claim(database)
    with holding(database) as owner:
        owner.execute("update lakequeue.agents set max_concurrent_tasks = 2")
        call(owner, "dequeue_tasks", worker="w")
        owner.execute("update lakequeue.agents set max_concurrent_tasks = 1")
        owner.execute("update lakequeue.tasks set priority = 0, estimated_tokens = 0")
        owner.execute("delete from lakequeue.task_deltas where to_status = 'processing'")
        problems = violations(owner)
        owner.rollback()
    assert any("agent parser has 2 of 1" in problem for problem in problems)
    assert any("rule 15" in problem for problem in problems)
