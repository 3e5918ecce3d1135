"""Quiescing, purging and priorities while others work."""

from __future__ import annotations

from decimal import Decimal

import pytest
from psycopg.types.json import Json

from tests.conftest import Clock
from tests.race.harness import (
    Connection,
    holding,
    in_background,
    together,
    wait_until_blocked,
)
from tests.race.scene import (
    RESULT,
    answer,
    assert_sound,
    call,
    claim,
    configure,
    dequeue,
    enqueue,
    report,
    store,
    watching,
)
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


def test_nothing_is_claimed_around_a_quiesce(database: Database) -> None:
    """A worker that is connected already: what its dequeue under way claims is closed as well."""
    configure(database, max_concurrent_tasks=5)
    enqueue(database, 10)
    operator = database.connect("test_operator")

    def quiesce() -> int:
        (said,) = call(operator, "quiesce", reason="a copy", is_copy=True)
        return int(said["attempts_closed"])

    with holding(database, "test_worker") as worker:
        claimed = dequeue(worker, batch_size=3)
        with in_background(quiesce) as outcome:
            wait_until_blocked(database, operator)
            worker.commit()
        assert outcome.result() == len(claimed) == 3
        assert dequeue(worker) == []
        assert call(worker, "adopt_attempts", worker="heir") == []
        (answered,) = call(worker, "record_runs", attempts=[claimed[0]["attempt_id"]], run_ids=[7])
        assert answered["answer"] == "recorded", "what it had submitted stays known"
        assert call(worker, "runs_to_check", worker="w") == []
    assert database.value("select count(*) from lakequeue.tasks where status = 'enqueued'") == 10
    assert_sound(database)


def test_a_retry_under_way_is_not_purged(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database, max_attempts=1)
    tasks = enqueue(database, 2)
    for row in dequeue(database.connect("test_worker")):
        assert report(database.connect("test_agent"), row, "failure") == "accepted"
    clock.advance(days=2)
    with holding(database, "test_operator") as operator:
        assert answer(operator, "retry_task", task=tasks[0]) == "enqueued"
        (purged,) = call(database.connect("test_operator"), "purge_tasks", older_than="1 day")
        assert purged["tasks"] == 1
    (purged,) = call(database.connect("test_operator"), "purge_tasks", older_than="1 day")
    assert purged["tasks"] == 0
    assert database.query("select id from lakequeue.tasks") == [(tasks[0],)]
    assert_sound(database)


def test_totals_are_exact_while_tasks_are_purged(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database)

    def work(connection: Connection) -> int:
        done = 0
        while done < 40:  # a dequeue passes over what somebody is changing
            for row in dequeue(connection, batch_size=4):
                used = {"input_tokens": 10, "output_tokens": 1, "llm_cost": Decimal("0.5")}
                report(connection, row, "success", result=RESULT, usage_complete=True, **used)
                done += 1
        return done

    enqueue(database, 40)
    assert work(database.connect()) == 40
    database.query("update lakequeue.task_attempts set run_ended_at = ended_at")
    clock.advance(days=2)
    tasks = enqueue(database, 40)

    def purge(connection: Connection) -> int:
        gone = 0
        for _ in range(40):
            (purged,) = call(
                connection, "purge_tasks", older_than="1 day", batch_size=3, completed=True
            )
            gone += purged["tasks"]
        return gone

    def fold(connection: Connection) -> int:
        for _ in range(40):
            answer(connection, "fold_rollups", batch_size=7)
        return 0

    def hurry(connection: Connection) -> int:
        for number in range(20):
            call(connection, "set_priorities", tasks=tasks, priority=number % 10)
        return 0

    with watching(database):
        outcomes = together(database, [work, purge, purge, fold, hurry, hurry])
        done, first, second, *_ = [outcome.result() for outcome in outcomes]
    assert (done, first + second) == (40, 40)
    with holding(database) as connection:
        while answer(connection, "fold_rollups"):
            pass
    assert_sound(database)
    assert database.value("select sum(tasks) from lakequeue.task_rollups") == 80


def test_a_task_is_not_claimed_twice_when_its_priority_changes(database: Database) -> None:
    """The change holds the row; a dequeue passes it over and takes it the next time."""
    configure(database)
    (task,) = enqueue(database, 1)
    with holding(database, "test_operator") as operator:
        (changed,) = call(operator, "set_priorities", tasks=[task], priority=9)
        assert changed["outcome"] == "changed"
        assert dequeue(database.connect("test_worker")) == []
    assert claim(database)["priority"] == 9
    assert_sound(database)


@pytest.mark.parametrize("first", ["the bill", "the purge"])
def test_a_task_is_purged_with_a_bill_that_comes_meanwhile(
    database: Database, clock: Clock, first: str
) -> None:
    """Tasks are locked before their runs and costs, by both: nothing is left of any."""
    clock.set("2026-01-01 12:00+00")
    configure(database, max_attempts=1, job_id=7)
    enqueue(database, 1)
    claimed = claim(database)
    attempt = claimed["attempt_id"]
    call(database.connect("test_worker"), "record_runs", attempts=[attempt], run_ids=[1])
    assert report(database.connect("test_agent"), claimed, "failure") == "accepted"
    clock.advance(days=2)
    operator = database.connect("test_operator")
    (begun,) = call(operator, "begin_compute_fetch")
    used = {"sku": "JOBS", "unit": "DBU", "day": "2026-01-01", "currency": "USD"}
    bill = [{"kind": "run", "name": "1", "quantity": "1", "cost": "2", **used}]
    said = {"fetch_id": begun["fetch_id"], "workspace": "w", "rows": Json(bill)}

    def purged(connection: Connection) -> int:
        (row,) = call(connection, "purge_tasks", older_than="1 day")
        return int(row["tasks"])

    with holding(database, "test_operator") as other:
        if first == "the bill":
            (recorded,) = call(other, "record_compute_cost", **said)
            assert recorded["billed"] == 1
            assert purged(operator) == 0, "it goes the next time"
            other.commit()
            assert purged(operator) == 1
        else:
            assert purged(other) == 1
            with in_background(lambda: call(operator, "record_compute_cost", **said)) as outcome:
                wait_until_blocked(database, operator)
                other.commit()
            assert outcome.result() == [{"runs": 1, "billed": 0, "ignored": 1}]
    for table in ("compute_runs", "compute_costs"):
        assert database.value(f"select count(*) from lakequeue.{table}") == 0, table
    assert_sound(database)


@pytest.mark.parametrize(
    "how", ["store_result", "record_callback", "failure", "fail_attempt", "report_rate_limit"]
)
def test_who_reports_while_its_task_is_purged_is_told_that_it_is_gone(
    database: Database, clock: Clock, how: str
) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database, max_attempts=1)
    enqueue(database, 1)
    claimed = claim(database)
    assert report(database.connect("test_agent"), claimed, "failure") == "accepted"
    clock.advance(days=2)
    database.query("update lakequeue.task_attempts set reported_at = null")
    agent = database.connect("test_worker" if how == "fail_attempt" else "test_agent")
    attempt = claimed["attempt_id"]

    def late() -> str:
        if how == "fail_attempt":
            return str(answer(agent, how, attempt=attempt, error_class="gone"))
        if how == "report_rate_limit":
            return str(answer(agent, how, attempt=attempt, token=claimed["callback_token"]))
        if how == "store_result":
            return store(agent, claimed)
        if how == "failure":
            return report(agent, claimed, how)
        return report(agent, claimed, "success", result=RESULT)

    with holding(database, "test_operator") as operator:
        (purged,) = call(operator, "purge_tasks", older_than="1 day")
        assert purged["tasks"] == 1
        with in_background(late) as outcome:
            wait_until_blocked(database, agent)
            operator.commit()
    assert outcome.sqlstate == "LQ404"
    assert database.value("select count(*) from lakequeue.task_events where task_id > 0") == 0
    assert_sound(database)
