"""One document, one task, however many submit it at once, and whatever becomes of the first."""

from __future__ import annotations

import pytest
from psycopg.types.json import Json

from tests.race.harness import (
    Connection,
    holding,
    in_background,
    repeated,
    together,
    wait_until_blocked,
)
from tests.race.scene import answer, assert_sound, call, claim, configure, enqueue, report, store
from tests.servers import Database


@pytest.fixture
def app(database: Database) -> Connection:
    configure(database)
    return database.connect("test_app")


def submit(connection: Connection, key: str = "sha") -> int:
    document = {"agent": "parser", "document_path": f"/{key}.pdf", "dedup_key": key}
    return int(answer(connection, "enqueue_task", **document))


def submit_all(connection: Connection, keys: list[str]) -> list[int]:
    documents = [{"document_path": f"/{key}.pdf", "dedup_key": key} for key in keys]
    rows = call(connection, "enqueue_tasks", agent="parser", documents=Json(documents))
    return [row["task_id"] for row in rows]


def test_many_submit_the_same_document(database: Database, app: Connection) -> None:
    for number in repeated(1, at_most=10):
        outcomes = together(database, [lambda c, n=number: submit(c, f"k{n}")] * 8)  # type: ignore[misc]
        assert len({outcome.result() for outcome in outcomes}) == 1
    assert_sound(database)


def test_the_holder_is_being_claimed_or_completed(database: Database, app: Connection) -> None:
    """Still the same document: whoever submits it waits a moment and gets that task."""
    task = submit(app)
    with holding(database, "test_worker") as worker:
        call(worker, "dequeue_tasks", worker="w")
        with in_background(lambda: submit(app)) as second:
            wait_until_blocked(database, app)
            worker.commit()
    assert second.result() == task
    database.query(
        "update lakequeue.tasks set status = 'enqueued', locked_by = null, lease_expires_at = null"
    )
    database.query(
        "update lakequeue.task_attempts"
        " set status = 'failed', ended_at = now(), run_ended_at = now()"
    )
    claimed = claim(database)
    with holding(database, "test_agent") as agent:
        store(agent, claimed)
        with in_background(lambda: submit(app)) as third:
            wait_until_blocked(database, app)
            agent.commit()
    assert third.result() == task


def test_holders_fail_and_come_back_all_the_time(database: Database, app: Connection) -> None:
    """Submitting, cancelling and retrying one document: never two live tasks, never an error."""
    keys = ["a", "b", "c"]

    def submitting(connection: Connection) -> None:
        for number in repeated(1.5):
            submit_all(connection, keys if number % 2 else keys[::-1])

    def cancelling(connection: Connection) -> None:
        for _ in repeated(1.5):
            rows = connection.execute("select id from lakequeue.tasks order by id").fetchall()
            tasks = [row[0] for row in rows]
            call(connection, "cancel_tasks", tasks=tasks[-4:])
            call(connection, "retry_tasks", tasks=tasks[-6::2])

    outcomes = together(database, [submitting] * 3 + [cancelling] * 2)
    states = [outcome.sqlstate for outcome in outcomes]
    assert states == [None] * 5, [outcome.error for outcome in outcomes]
    assert_sound(database)


def test_calls_with_the_same_keys_in_opposite_orders(database: Database, app: Connection) -> None:
    for number in repeated(1, at_most=12):
        keys = [f"{number}-{n}" for n in range(40)]
        outcomes = together(
            database,
            [
                lambda c, k=keys: submit_all(c, k),  # type: ignore[misc]
                lambda c, k=keys: submit_all(c, k[::-1]),  # type: ignore[misc]
            ]
            * 3,
        )
        tasks = {task for outcome in outcomes for task in outcome.result()}
        assert len(tasks) == 40
    assert_sound(database)


def test_a_retry_of_many_and_an_enqueue_of_the_same_keys(
    database: Database, app: Connection
) -> None:
    """Both take keys one after the other, so both must take them in the same order."""
    tasks = submit_all(app, ["b", "a"])  # ids against the order of the keys
    operator = database.connect("test_operator")
    call(operator, "cancel_tasks", tasks=tasks)
    with holding(database) as gate:
        # The enqueue comes as far as "a", the retry as far as its first key; both wait for a third.
        gate.execute("select from lakequeue.tasks where id = any(%s) for key share", [tasks])
        middle = submit(gate, "aa")
        with (
            in_background(lambda: submit_all(app, ["a", "aa", "b"])) as submitted,
        ):
            wait_until_blocked(database, app)
            with in_background(lambda: call(operator, "retry_tasks", tasks=tasks)) as retried:
                wait_until_blocked(database, operator)
                gate.commit()
    assert submitted.result()[1] == middle
    assert {row["outcome"] for row in retried.result()} == {"skipped"}
    assert_sound(database)


def test_a_failed_document_is_submitted_again(database: Database, app: Connection) -> None:
    """A late result of the failed task and a new task of the same key live beside each other."""
    enqueue(database, 1, dedup_key="sha")
    old = claim(database)
    agent = database.connect("test_agent")
    report(agent, old, "permanent_failure")
    newer = submit(app)
    assert store(agent, old) == "superseded"
    operator = database.connect("test_operator")
    assert str(newer) in str(answer(operator, "retry_task", task=old["task_id"]))
    assert_sound(database)
