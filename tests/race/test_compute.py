"""Compute cost in the ledger while tasks move: it is never counted where its task is not."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from tests.conftest import Clock
from tests.race.harness import Connection, holding, in_background, together, wait_until_blocked
from tests.race.scene import (
    RESULT,
    Row,
    answer,
    assert_sound,
    call,
    claim,
    configure,
    dequeue,
    enqueue,
    report,
    watching,
)
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture(autouse=True)
def _set_up(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database, job_id=7, max_attempts=1, reconcile_grace="0 s")


def failed(database: Database, run: int) -> Row:
    """What was claimed of a task that has failed after this job run."""
    enqueue(database, 1)
    claimed = claim(database)
    call(
        database.connect("test_worker"),
        "record_runs",
        attempts=[claimed["attempt_id"]],
        run_ids=[run],
    )
    assert report(database.connect("test_agent"), claimed, "failure") == "accepted"
    return claimed


def bill(connection: Connection, costs: dict[int, list[tuple[str, int | None]]]) -> None:
    """Ask billing, which answers with these amounts of runs, each in its currency."""
    (begun,) = call(connection, "begin_compute_fetch")
    if begun["joined"]:
        return
    record(connection, begun["fetch_id"], costs)


def record(
    connection: Connection, fetch: int, costs: dict[int, list[tuple[str, int | None]]]
) -> None:
    """What billing answers to a fetch."""
    used: dict[str, str | None] = {"kind": "run", "sku": "JOBS", "unit": "DBU", "quantity": "1"}
    used["day"] = "2026-01-01"
    rows = [
        used | {"name": str(run), "currency": currency, "cost": None if cost is None else str(cost)}
        for run, amounts in costs.items()
        for currency, cost in amounts
    ]
    call(connection, "record_compute_cost", fetch_id=fetch, workspace="w", rows=Json(rows))


def costs(database: Database) -> list[tuple[Any, ...]]:
    """Status, priced tasks and cost, as the report tells them."""
    return database.query(
        "select status, priced, cost::integer from lakequeue.cost_report(by => '{status}')"
        " where kind = 'compute' and cost is not null"
    )


def test_a_retry_waits_for_the_bill_and_takes_it_along(database: Database) -> None:
    task = failed(database, 1)["task_id"]
    operator = database.connect("test_operator")
    (begun,) = call(operator, "begin_compute_fetch")
    with holding(database, "test_operator") as biller:
        record(biller, begun["fetch_id"], {1: [("USD", 2)]})
        with in_background(lambda: call(operator, "retry_tasks", tasks=[task])) as outcome:
            wait_until_blocked(database, operator)
            biller.commit()
        assert outcome.result()[0]["outcome"] == "enqueued"
    assert costs(database) == [("enqueued", 0, 2)]
    assert_sound(database)


def test_a_bill_waits_for_a_retry_and_finds_the_task_gone_on(database: Database) -> None:
    task = failed(database, 1)["task_id"]
    biller = database.connect("test_operator")
    (begun,) = call(biller, "begin_compute_fetch")
    with holding(database, "test_operator") as operator:
        call(operator, "retry_tasks", tasks=[task])
        with in_background(lambda: record(biller, begun["fetch_id"], {1: [("USD", 2)]})) as outcome:
            wait_until_blocked(database, biller)
            operator.commit()
        outcome.result()
    assert costs(database) == [("enqueued", 0, 2)]
    assert_sound(database)
    again = claim(database)
    assert report(database.connect("test_agent"), again, "success", result=RESULT) == "accepted"
    assert costs(database) == [("completed", 1, 2)]
    assert_sound(database)


def test_a_late_success_takes_the_bill_of_a_failure_along(database: Database) -> None:
    """Its task has failed, was billed and retried, and waits, when the first agent answers."""
    claimed = failed(database, 1)
    bill(database.connect("test_operator"), {1: [("USD", 2)]})
    call(database.connect("test_operator"), "retry_tasks", tasks=[claimed["task_id"]])
    (stored,) = call(
        database.connect("test_agent"),
        "store_result",
        attempt=claimed["attempt_id"],
        token=claimed["callback_token"],
        result=RESULT,
    )
    assert list(stored.values()) == ["accepted"]
    assert costs(database) == [("completed", 1, 2)]
    assert_sound(database)


def test_a_purge_keeps_the_sums(database: Database, clock: Clock) -> None:
    failed(database, 1)
    bill(database.connect("test_operator"), {1: [("USD", 2)]})
    clock.advance(days=2)
    (purged,) = call(database.connect("test_operator"), "purge_tasks", older_than="1 day")
    assert purged["tasks"] == 1
    assert costs(database) == [("failed", 1, 2)]
    assert_sound(database)
    answer(database.connect("test_worker"), "fold_rollups")
    assert_sound(database)


def test_sums_are_exact_while_bills_come_and_tasks_move(database: Database, clock: Clock) -> None:
    """Bills in two currencies, some without a price, retries, runs told of late, purges."""
    tasks = enqueue(database, 60)

    def work(seed: int) -> Any:
        dice = random.Random(seed)

        def act(connection: Connection) -> int:
            done = 0
            for _ in range(60):
                for row in dequeue(connection, batch_size=2):
                    attempt = row["attempt_id"]
                    runs = {"attempts": [attempt], "run_ids": [attempt]}
                    early = dice.random() < 0.6
                    if early:
                        call(connection, "record_runs", **runs)
                    outcome = dice.choice(("success", "permanent_failure", "failure"))
                    result = {"result": RESULT} if outcome == "success" else {}
                    report(connection, row, outcome, llm_cost=attempt, **result)
                    if not early:
                        call(connection, "record_runs", **runs)
                    done += 1
            return done

        return act

    def ask(connection: Connection) -> int:
        dice = random.Random(3)
        for _ in range(25):
            (begun,) = call(connection, "begin_compute_fetch", batch_size=20)
            amounts = {
                run: [(c, dice.choice((1, 2, None))) for c in ("USD", "EUR") if dice.random() < 0.7]
                for run in begun["run_ids"]
            }
            try:
                record(connection, begun["fetch_id"], amounts)
            except psycopg.DatabaseError as lost:  # the clock was moved
                assert lost.sqlstate == "LQ409"  # noqa: PT017
        done = "select count(*) from lakequeue.compute_fetches where state = 'done'"
        return int(database.value(done))

    def retry(connection: Connection) -> int:
        done = 0
        for number in range(40):
            some = tasks[number % 3 :: 3]
            rows = call(connection, "retry_tasks", tasks=some)
            done += sum(row["outcome"] != "skipped" for row in rows)
        return done

    def fold(connection: Connection) -> int:
        return sum(answer(connection, "fold_rollups", batch_size=7) for _ in range(40))

    def purge(connection: Connection) -> int:
        gone = 0
        for number in range(200):
            (purged,) = call(connection, "purge_tasks", older_than="1 day", batch_size=2)
            gone += purged["tasks"]
            if gone > 5:
                break
            if number % 10 == 9:
                clock.advance(hours=13)
        return gone

    with watching(database):
        outcomes = together(database, [work(1), work(2), ask, retry, fold, purge])
        done, more, asked, retried, _, gone = [outcome.result() for outcome in outcomes]
    assert done + more > 60
    assert asked > 5
    assert retried > 0
    assert gone > 0
    while answer(database.connect("test_worker"), "fold_rollups"):
        pass
    assert_sound(database)
    assert database.value("select sum(list_cost) from lakequeue.compute_rollups") > 0
    assert database.value("select count(*) from lakequeue.compute_deltas") == 0
