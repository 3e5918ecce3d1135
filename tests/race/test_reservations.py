"""Rule 4b under many connections and on a simulated clock: no minute exceeds any limit."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
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
    RESULT,
    Row,
    answer,
    assert_sound,
    call,
    configure,
    dequeue,
    enqueue,
    limit_endpoint,
    report,
    watching,
)
from tests.servers import Database

MINUTE = timedelta(seconds=60)

# Calls spend at any moment between grant and end. Every window that could be the fullest one ends
# with a grant.
WINDOWS = """
select count(*) as requests, coalesce(sum(other.input_tokens + other.output_tokens), 0) as tokens,
       coalesce(sum(other.input_tokens), 0) as input,
       coalesce(sum(other.output_tokens), 0) as output
  from lakequeue.model_calls this
  join lakequeue.model_calls other
    on other.endpoint_id = this.endpoint_id and other.granted_at <= this.granted_at
   and (other.ended_at is null or other.ended_at > this.granted_at - interval '60 seconds')
 where this.granted_at is not null
 group by this.id
"""


def reserving(database: Database, count: int, agent: str = "parser", **settings: Any) -> list[Row]:
    """So many running attempts of an agent that reserves its calls."""
    configure(
        database, agent, reserves_calls=True, tokens_per_task=1, tokens_per_page=0, **settings
    )
    enqueue(database, count, agent)
    return dequeue(database.connect("test_worker"), batch_size=count, agents=[agent])


def ask(
    connection: Connection, row: Row, tokens: tuple[int, int], key: uuid.UUID | None = None
) -> Row:
    """What reserve_tokens says to this attempt."""
    (said,) = call(
        connection,
        "reserve_tokens",
        attempt=row["attempt_id"],
        token=row["callback_token"],
        input_tokens=tokens[0],
        max_output_tokens=tokens[1],
        call=key or uuid.uuid4(),
    )
    return said


def settle(connection: Connection, row: Row, key: uuid.UUID, used: tuple[int, int]) -> str:
    """What settle_tokens says."""
    return str(
        answer(
            connection,
            "settle_tokens",
            attempt=row["attempt_id"],
            token=row["callback_token"],
            call=key,
            input_tokens=used[0],
            output_tokens=used[1],
        )
    )


# --- several connections ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [{"max_tpm": 1100}, {"max_input_tpm": 740}, {"max_output_tpm": 400}, {"max_rpm": 10}]
)
def test_eight_connections_never_exceed_a_limit(database: Database, limits: dict[str, int]) -> None:
    """Each call takes 70 and 40 tokens: ten fit, whoever asks and however often."""
    rows = reserving(database, 8, model_endpoint="model")
    limit_endpoint(database, "model", **limits)
    hands = iter(rows)

    def take(connection: Connection) -> int:
        row = next(hands)
        granted = 0
        for _ in range(4):
            granted += ask(connection, row, (70, 40))["answer"] == "granted"
        return granted

    outcomes = together(database, [take] * len(rows), user="test_agent")
    assert sum(outcome.result() for outcome in outcomes) <= 10
    # Nobody was granted less than there is: those who wait get it when they ask.
    connection = database.connect("test_agent")
    database.query("delete from lakequeue.model_calls where granted_at is null")
    while ask(connection, rows[0], (70, 40))["answer"] == "granted":
        pass
    assert (
        database.value("select count(*) from lakequeue.model_calls where granted_at is not null")
        == 10
    )


def test_every_window_holds_while_calls_come_and_go(database: Database) -> None:
    """Real time, eight connections: settled calls give room back, and no window exceeds a limit."""
    limits = {"max_tpm": 3000, "max_input_tpm": 2300, "max_output_tpm": 1000, "max_rpm": 40}
    rows = reserving(database, 8, model_endpoint="model")
    limit_endpoint(database, "model", **limits)
    hands = iter(rows)

    def work(connection: Connection) -> int:
        dice = random.Random(threading.get_ident())
        row = next(hands)
        done = 0
        for _ in repeated(2):
            key, size = uuid.uuid4(), (dice.randint(1, 200), dice.randint(1, 100))
            for _ in range(5):
                if ask(connection, row, size, key)["answer"] == "granted":
                    used = (dice.randint(0, size[0]) // 4, dice.randint(0, size[1]) // 4)
                    assert settle(connection, row, key, used) == "settled"
                    done += 1
                    break
        return done

    outcomes = together(database, [work] * len(rows), user="test_agent")
    assert sum(outcome.result() for outcome in outcomes) > 20
    for requests, tokens, prompt, output in database.query(WINDOWS):
        assert requests <= limits["max_rpm"]
        assert tokens <= limits["max_tpm"]
        assert prompt <= limits["max_input_tpm"]
        assert output <= limits["max_output_tpm"]


def test_who_waits_for_the_lock_counts_after_it(database: Database) -> None:
    """Two that count before they take would both see room for the last call."""
    rows = reserving(database, 2, model_endpoint="model")
    limit_endpoint(database, "model", max_rpm=1)
    second = database.connect("test_agent")
    with holding(database, "test_agent") as first:
        assert ask(first, rows[0], (1, 1))["answer"] == "granted"
        with in_background(lambda: ask(second, rows[1], (1, 1))) as outcome:
            wait_until_blocked(database, second)
            first.commit()
    assert outcome.result()["answer"] == "wait"


def test_a_reservation_that_is_rolled_back_took_nothing(database: Database) -> None:
    rows = reserving(database, 2, model_endpoint="model")
    limit_endpoint(database, "model", max_rpm=1)
    second = database.connect("test_agent")
    with holding(database, "test_agent") as first:
        assert ask(first, rows[0], (1, 1))["answer"] == "granted"
        with in_background(lambda: ask(second, rows[1], (1, 1))) as outcome:
            wait_until_blocked(database, second)
            first.rollback()
    assert outcome.result()["answer"] == "granted"


def test_a_lock_held_for_long_makes_an_agent_wait_not_fail(database: Database) -> None:
    (row,) = reserving(database, 1, model_endpoint="model")
    limit_endpoint(database, "model", max_rpm=5)
    connection = database.connect("test_agent")
    with holding(database, "test_operator") as operator:
        call(operator, "configure_endpoint", endpoint="model", max_rpm=6)
        started = time.monotonic()
        said = ask(connection, row, (1, 1))
        assert said["answer"] == "wait"
        assert said["wait"] > timedelta(0)
        assert 0.2 < time.monotonic() - started < 5
    assert ask(connection, row, (1, 1))["answer"] == "granted"


def test_a_waiting_call_that_somebody_holds_is_asked_for_again(database: Database) -> None:
    (row,) = reserving(database, 1, model_endpoint="model")
    limit_endpoint(database, "model", max_tpm=1000)
    connection, key = database.connect("test_agent"), uuid.uuid4()
    assert ask(connection, row, (900, 0))["answer"] == "granted"
    assert ask(connection, row, (500, 0), key)["answer"] == "wait"
    with holding(database, "test_operator") as operator:
        call(operator, "set_priority", task=row["task_id"], priority=9)
        started = time.monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            ask(connection, row, (400, 0), key)
        assert 0.2 < time.monotonic() - started < 5
    assert ask(connection, row, (50, 0), key)["answer"] == "granted"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_from_before_the_lock_is_refused(database: Database, level: str) -> None:
    (row,) = reserving(database, 1)
    with holding(database, "test_agent") as connection:
        connection.execute(f"set transaction isolation level {level}")
        with pytest.raises(Exception, match="cannot run in a") as refused:
            ask(connection, row, (1, 1))
        assert refused.value.sqlstate == "LQ428"  # type: ignore[attr-defined]
        connection.rollback()


def test_a_cancel_and_the_end_of_a_run_race_with_its_calls(database: Database) -> None:
    """Whoever comes first: no call of a run that has ended stays under way."""
    connections = itertools.cycle([database.connect("test_agent") for _ in range(2)])
    rows = reserving(database, 30, model_endpoint="model")
    limit_endpoint(database, "model", max_rpm=1000)
    for row in rows:
        outcomes = together(
            database,
            [
                lambda connection, row=row: ask(connection, row, (1, 1))["answer"],  # type: ignore[misc]
                lambda connection, row=row: report(connection, row, "success", result=RESULT),  # type: ignore[misc]
            ],
            user="test_agent",
        )
        assert outcomes[1].result() == "accepted"
        assert ask(next(connections), row, (1, 1))["answer"] == "lost"
    assert (
        database.value(
            """select count(*) from lakequeue.model_calls c
                 join lakequeue.task_attempts a on a.id = c.attempt_id
                where a.run_ended_at is not null and c.ended_at is null"""
        )
        == 0
    )
    assert_sound(database)


def test_twelve_that_hammer_an_agent_with_a_limit_of_five_never_show_six(
    database: Database,
) -> None:
    configure(database, max_concurrent_tasks=5, retry_base="0 seconds")
    enqueue(database, 400)

    def work(connection: Connection) -> int:
        done = 0
        for number in repeated(1.5):
            rows = dequeue(connection, f"w{threading.get_ident()}", batch_size=3)
            for row in rows:
                more = {"result": RESULT} if number % 3 else {}
                report(connection, row, "success" if number % 3 else "failure", **more)
            done += len(rows)
        return done

    with watching(database):
        outcomes = together(database, [work] * 12)
    assert sum(outcome.result() for outcome in outcomes) > 5


def test_failures_reported_in_batches_do_not_lock_each_other_out(database: Database) -> None:
    """The breaker counts in the agent's row, which batches of reports hold in any order."""
    for agent in ("a", "b"):
        configure(database, agent, breaker_failures=0, max_attempts=1)
        enqueue(database, 40, agent)
    rows = dequeue(database.connect("test_worker"), batch_size=80)
    assert len(rows) == 80
    hands = iter([rows[0::4], rows[1::4], rows[2::4], rows[3::4]])

    def work(connection: Connection) -> int:
        mine = next(hands)
        random.Random(len(mine)).shuffle(mine)
        connection.execute("begin")
        for row in mine:
            report(connection, row, "failure")
        connection.execute("commit")
        return len(mine)

    outcomes = together(database, [work] * 4)
    assert [outcome.result() for outcome in outcomes] == [20] * 4
    assert 1 <= database.value("select min(failures) from lakequeue.breaker_books") <= 40
    assert_sound(database)


# --- a simulated clock --------------------------------------------------------------------------


@dataclass(order=True)
class Due:
    """Something that happens at a time."""

    at: datetime
    number: int
    row: Row
    key: uuid.UUID
    reserved: tuple[int, int]
    used: tuple[int, int] | None = None


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
def test_no_window_of_many_random_calls_exceeds_a_limit(
    database: Database, clock: Clock, seed: int
) -> None:
    """Random sizes, durations and usages, several attempts and priorities; some never settle."""
    dice = random.Random(seed)
    now = clock.set("2026-01-01 12:00+00")
    limits = {"max_tpm": 20_000, "max_input_tpm": 15_000, "max_output_tpm": 8_000, "max_rpm": 30}
    rows = reserving(database, 12, "a", model_endpoint="model", lease_duration="1 day")
    rows += reserving(database, 4, "b", model_endpoint="model", lease_duration="1 day", max_rpm=8)
    limit_endpoint(database, "model", **limits)
    connection = database.connect()
    numbers = itertools.count()
    due: list[Due] = []
    granted: list[tuple[datetime, datetime, str, tuple[int, int]]] = []

    def another(at: datetime, row: Row) -> None:
        size = (dice.randint(1, 2500), dice.randint(1, 1200))
        heapq.heappush(due, Due(at, next(numbers), row, uuid.uuid4(), size))

    for row in rows:
        another(now, row)
    begun: dict[uuid.UUID, datetime] = {}
    waits = 0
    for _ in range(900):
        event = heapq.heappop(due)
        now = max(now, event.at)
        clock.set(now)
        if event.used is not None:
            assert settle(connection, event.row, event.key, event.used) == "settled"
            granted.append((begun[event.key], now, event.row["agent"], event.used))
            another(now + timedelta(seconds=dice.uniform(0, 2)), event.row)
            continue
        said = ask(connection, event.row, event.reserved, event.key)
        event.number = next(numbers)
        if said["answer"] == "wait":
            assert timedelta(0) < said["wait"] <= timedelta(seconds=8)
            waits += 1
            event.at = now + said["wait"]
        else:
            assert said["answer"] == "granted"
            begun[event.key] = now
            event.used = (dice.randint(0, event.reserved[0]), dice.randint(0, event.reserved[1]))
            event.at = now + timedelta(seconds=dice.choice([0.01, 1, 4, 20, 90]) * dice.random())
        heapq.heappush(due, event)

    assert waits > 50, "the limits were never reached"
    largest = 0.0
    for start, _, _, _ in granted:
        window = [c for c in granted if c[0] <= start and c[1] > start - MINUTE]
        tokens = [sum(c[3]) for c in window]
        assert len(window) <= limits["max_rpm"]
        assert len([c for c in window if c[2] == "b"]) <= 8
        assert sum(tokens) <= limits["max_tpm"]
        assert sum(c[3][0] for c in window) <= limits["max_input_tpm"]
        assert sum(c[3][1] for c in window) <= limits["max_output_tpm"]
        largest = max(largest, len(window) / limits["max_rpm"], sum(tokens) / limits["max_tpm"])
    assert largest > 0.6, "the limits were never used"


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_a_call_that_used_more_than_it_reserved_takes_nothing_along_when_it_leaves(
    database: Database, clock: Clock
) -> None:
    """What it used beyond is gone with the call, and not once more with its attempt."""
    clock.set("2026-01-01 12:00+00")
    rows = reserving(database, 3, model_endpoint="model", lease_duration="1 day")
    limit_endpoint(database, "model", max_tpm=1000)
    agent = database.connect("test_agent")
    key = uuid.uuid4()
    assert ask(agent, rows[0], (50, 50), key)["answer"] == "granted"
    assert settle(agent, rows[0], key, (500, 450)) == "settled"
    clock.advance(seconds=61)
    report(agent, rows[0], "success", result=RESULT)
    clock.advance(seconds=30)
    assert ask(agent, rows[1], (500, 450))["answer"] == "granted"
    clock.advance(seconds=31)
    assert ask(agent, rows[2], (400, 300))["answer"] == "wait", "950 and 700 of 1,000"


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_usage_that_rose_and_fell_takes_nothing_along_when_it_leaves(
    database: Database, clock: Clock
) -> None:
    """Heartbeats said 9,000 tokens, the callback 100: then 100 leave the window."""
    clock.set("2026-01-01 12:00+00")
    settings: dict[str, Any] = {"max_tpm": 10_000, "lease_duration": "1 day"}
    configure(database, tokens_per_task=1000, tokens_per_page=0, **settings)
    worker, agent = database.connect("test_worker"), database.connect("test_agent")
    enqueue(database, 1)
    (row,) = dequeue(worker)
    beat = {"attempts": [row["attempt_id"]], "tokens": [row["callback_token"]]}
    call(agent, "extend_leases", **beat, input_tokens=[9000], output_tokens=[0], cached_tokens=[0])
    usage = {"input_tokens": 100, "output_tokens": 0, "usage_complete": True}
    report(agent, row, "success", result=RESULT, **usage)
    fit = 9900 // row["estimated_tokens"]
    enqueue(database, fit)
    assert len(dequeue(worker, batch_size=20)) == fit
    clock.advance(seconds=61)
    enqueue(database, 1)
    while more := dequeue(worker):  # if at all, then what still fits beside those that run
        fit += len(more)
        enqueue(database, 1)
    running = database.value(
        "select sum(estimated_tokens) from lakequeue.task_attempts where run_ended_at is null"
    )
    assert running <= 10_000


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
def test_no_task_is_passed_over_beyond_the_bound(
    database: Database, clock: Clock, seed: int
) -> None:
    """Rule 5: from two minutes after it was first passed, nothing of its priority or lower goes."""
    dice = random.Random(seed)
    now = clock.set("2026-01-01 12:00+00")
    for agent in ("a", "b"):
        configure(
            database,
            agent,
            model_endpoint="model",
            tokens_per_task=0,
            tokens_per_page=1,
            lease_duration="1 day",
        )
    limit_endpoint(database, "model", max_tpm=1000)
    connection = database.connect()
    running: list[tuple[datetime, Row]] = []
    held_up = 0
    for _ in range(250):
        now += timedelta(seconds=dice.choice([1, 5, 20]))
        clock.set(now)
        for agent in ("a", "b"):
            pages = dice.choice([20, 50, 100, 300, 900, 3000])
            if dice.random() < 0.25:
                enqueue(database, 1, agent, page_count=pages, priority=dice.choice([3, 5, 5, 5, 9]))
        for at, row in [entry for entry in running if entry[0] <= now]:
            report(
                connection,
                row,
                "success",
                result=RESULT,
                input_tokens=row["page_count"],
                output_tokens=0,
                usage_complete=True,
            )
            running.remove((at, row))
        overdue = connection.execute(
            """select id, priority, created_at, page_count from lakequeue.tasks
                where status = 'enqueued'
                  and passed_over_at <= lakequeue._now() - interval '2 minutes'"""
        ).fetchall()
        agents = dice.choice([None, ["a"], ["b"]])
        claimed = dequeue(connection, batch_size=dice.choice([1, 5]), agents=agents)
        for row in claimed:
            running.append((now + timedelta(seconds=dice.choice([1, 10, 60])), row))
        overdue = [task for task in overdue if task[0] not in {r["task_id"] for r in claimed}]
        if not overdue:
            continue
        held_up += 1
        _, first, pages = min((-p, task, pages) for task, p, _, pages in overdue)
        (priority,) = {p for task, p, _, _ in overdue if task == first}
        passing = [
            row
            for row in claimed
            if row["priority"] < priority
            or (row["priority"] == priority and row["task_id"] > first)
        ]
        if passing:  # then only because there is room for both
            used = database.value(
                """select sum(used[2]) from lakequeue._spending(
                     array(select id from lakequeue.model_endpoints), true)"""
            )
            assert used + pages <= 1000, (overdue, claimed)
    assert held_up > 5, "nothing was ever overdue"
    assert database.value("select count(*) from lakequeue.tasks where attempt_count > 0") > 30
    assert database.value("select count(*) from lakequeue.task_attempts where status = 'succeeded'")
    assert_sound(database)
