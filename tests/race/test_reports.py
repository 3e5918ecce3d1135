"""Rules 8 to 10 under repeats and crossings: reports, results, sweeps, cancels and retries meet."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from psycopg.types.json import Json

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
    claim,
    configure,
    dequeue,
    enqueue,
    report,
    store,
)
from tests.servers import Database

START = "2026-01-01 12:00+00"
USED = {"input_tokens": 100, "output_tokens": 20, "llm_cost": Decimal("0.25")}


@pytest.fixture
def agent(database: Database, clock: Clock) -> Connection:
    clock.set(START)
    configure(database, retry_base="0 seconds")
    return database.connect("test_agent")


def status(database: Database, task: int) -> str:
    return str(database.value("select status from lakequeue.tasks where id = %s", task))


def attempts(database: Database, task: int) -> list[str]:
    rows = database.query(
        "select status from lakequeue.task_attempts where task_id = %s order by number", task
    )
    return [str(row[0]) for row in rows]


def expire(database: Database, clock: Clock) -> None:
    """Let all leases and graces run out, and sweep."""
    clock.advance(minutes=20)
    with holding(database, "test_worker") as worker:
        call(worker, "sweep_leases")


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_who_has_no_token_locks_nothing(database: Database) -> None:
    configure(database)
    enqueue(database, 2)
    rows = dequeue(database.connect("test_worker"), "w", batch_size=2)
    tokens = [rows[0]["callback_token"], "forged"]
    reports = [
        {"attempt": row["attempt_id"], "token": token, "outcome": "success", "result": {"total": 1}}
        for row, token in zip(rows, tokens, strict=True)
    ]
    with holding(database, "test_web") as web:
        said = call(web, "record_callbacks", callbacks=Json(reports))
        assert [row["answer"] for row in said] == ["accepted", "refused"]
        free = database.query("select id from lakequeue.tasks for update skip locked")
        assert free == [(rows[1]["task_id"],)]
    ids = [row["attempt_id"] for row in rows]
    with holding(database, "test_agent") as agent:
        said = call(agent, "extend_leases", attempts=ids, tokens=tokens)
        assert [row["answer"] for row in said] == ["lost", "lost"], "the first has reported"
        assert database.query("select id from lakequeue.tasks for update skip locked") == free


# --- the same report again and again ----------------------------------------------------------


@pytest.mark.parametrize("outcome", ["success", "failure", "rate_limited"])
def test_a_report_that_comes_fifty_times_counts_once(
    database: Database, agent: Connection, outcome: str
) -> None:
    enqueue(database, 1)
    claimed = claim(database)
    more = {"result": RESULT} if outcome == "success" else {}

    def deliver(connection: Connection) -> list[str]:
        return [
            report(connection, claimed, outcome, usage_complete=True, run_id=7, **USED, **more)
            for _ in range(5)
        ]

    outcomes = together(database, [deliver] * 10, users=["test_agent", "test_web"] * 5)
    answers = Counter(answer for outcome in outcomes for answer in outcome.result())
    assert answers == {"accepted": 1, "duplicate": 49}
    task = claimed["task_id"]
    assert database.query("select * from lakequeue.task_costs where task_id = %s", task) == [
        (task, 1, 100, 20, None, Decimal("0.25"), True)
    ]
    assert database.query("select failures, rate_limited from lakequeue.tasks") == [
        (int(outcome == "failure"), int(outcome == "rate_limited"))
    ]
    assert_sound(database)


def test_only_one_of_many_different_reports_decides(database: Database, agent: Connection) -> None:
    def once() -> None:
        enqueue(database, 1)
        claimed = claim(database)
        kinds = ["success", "failure", "permanent_failure", "rate_limited", "cancelled"] * 2
        outcomes = together(
            database,
            [
                lambda c, kind=kind: report(  # type: ignore[misc]
                    c, claimed, kind, **({"result": RESULT} if kind == "success" else {})
                )
                for kind in kinds
            ],
        )
        assert Counter(o.result() for o in outcomes) == {"accepted": 1, "duplicate": 9}
        decided = kinds[[o.result() for o in outcomes].index("accepted")]
        assert attempts(database, claimed["task_id"])[0] == {
            "success": "succeeded",
            "permanent_failure": "failed",
            "failure": "failed",
        }.get(decided, decided)
        assert_sound(database)
        # nothing of this task is left for the next round
        database.query("select lakequeue.cancel_tasks(array[%s])", claimed["task_id"])

    for _ in repeated(1, at_most=10):
        once()


def test_results_and_their_confirmations_cross(database: Database, agent: Connection) -> None:
    """store_result from many threads and the webhook's confirmation: one result, one success."""

    def once() -> None:
        enqueue(database, 1)
        claimed = claim(database)
        stores = [lambda c: store(c, claimed)] * 4
        confirms = [lambda c: report(c, claimed, "success", result=RESULT, **USED)] * 4
        answers = [o.result() for o in together(database, stores + confirms)]
        assert set(answers) <= {"accepted", "duplicate"}
        assert answers[4:].count("accepted") == 1
        assert answers[:4].count("accepted") <= 1
        assert status(database, claimed["task_id"]) == "completed"
        assert_sound(database)

    for _ in repeated(1, at_most=10):
        once()


# --- reports and sweeps -----------------------------------------------------------------------


def test_reports_and_sweeps_race(database: Database, clock: Clock, agent: Connection) -> None:
    for _ in repeated(1, at_most=8):
        tasks = enqueue(database, 12)
        claimed = dequeue(database.connect("test_worker"), batch_size=12)
        clock.advance(minutes=20)
        halves = [claimed[::2], claimed[1::2]]

        def deliver(connection: Connection, rows: list[Row], outcome: str) -> list[str]:
            more = {"result": RESULT} if outcome == "success" else {}
            return [report(connection, row, outcome, **more) for row in rows]

        successes, failures, _sweep = together(
            database,
            [
                lambda c, rows=halves[0]: deliver(c, rows, "success"),  # type: ignore[misc]
                lambda c, rows=halves[1]: deliver(c, rows, "failure"),  # type: ignore[misc]
                lambda c: [str(call(c, "sweep_leases", batch_size=2)) for _ in range(6)],
            ],
        )
        assert set(successes.result()) == {"accepted"}
        assert set(failures.result()) <= {"accepted", "superseded"}
        for row in halves[0]:
            assert status(database, row["task_id"]) == "completed"
        assert database.value("select max(failures) from lakequeue.tasks") == 1
        assert_sound(database)
        database.query("select lakequeue.cancel_tasks(%s)", tasks)


# --- two attempts of one task -----------------------------------------------------------------


def two_attempts(database: Database, clock: Clock) -> tuple[Row, Row]:
    """An attempt that the sweep has closed, though its run lives, and the one after it."""
    enqueue(database, 1)
    old = claim(database)
    expire(database, clock)
    return old, claim(database)


def test_both_attempts_succeed_at_the_same_moment(
    database: Database, clock: Clock, agent: Connection
) -> None:
    def once() -> None:
        old, new = two_attempts(database, clock)
        outcomes = together(
            database,
            [
                lambda c: store(c, old),
                lambda c: store(c, new),
                lambda c: report(c, old, "success", result=RESULT, **USED),
                lambda c: report(c, new, "success", result=RESULT, **USED),
            ],
        )
        answers = [outcome.result() for outcome in outcomes]
        assert sorted(answers[2:]) == ["accepted", "superseded"], answers
        assert status(database, old["task_id"]) == "completed"
        assert_sound(database)

    for _ in repeated(1, at_most=8):
        once()


def test_a_superseded_run_counts_until_it_is_known_to_have_ended(
    database: Database, clock: Clock, agent: Connection
) -> None:
    """And is told so: its lease is lost, the worker is to stop it, then its place is free."""
    configure(database, max_concurrent_tasks=1)
    old, new = two_attempts(database, clock)
    worker = database.connect("test_worker")
    call(worker, "record_runs", attempts=[new["attempt_id"]], run_ids=[2])
    assert store(agent, old) == "accepted"
    enqueue(database, 1)
    assert dequeue(worker) == []
    beat = {"attempts": [new["attempt_id"]], "tokens": [new["callback_token"]]}
    assert [row["answer"] for row in call(agent, "extend_leases", **beat)] == ["lost"]
    (lost,) = call(worker, "runs_to_check", worker="w")
    assert (lost["attempt_id"], lost["why"]) == (new["attempt_id"], "lost")
    fail = {"attempt": new["attempt_id"], "error_class": "stopped"}
    assert answer(worker, "fail_attempt", **fail) == "superseded"
    assert len(dequeue(worker)) == 1
    assert_sound(database)


def test_a_superseded_run_of_which_nobody_hears_again_counts_no_longer_than_its_grace(
    database: Database, clock: Clock, agent: Connection
) -> None:
    configure(database, max_concurrent_tasks=1)
    old, _new = two_attempts(database, clock)
    assert store(agent, old) == "accepted"
    enqueue(database, 1)
    worker = database.connect("test_worker")
    clock.advance(minutes=9)  # lease and grace are 5 minutes each
    call(worker, "sweep_leases")
    assert dequeue(worker) == []
    clock.advance(minutes=1)
    (swept,) = call(worker, "sweep_leases")
    assert swept["runs_ended"] == 1
    assert len(dequeue(worker)) == 1
    assert_sound(database)


# --- cancel and retry -------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["cancel", "success"])
def test_a_cancel_and_a_success_cross(database: Database, agent: Connection, first: str) -> None:
    (task,) = enqueue(database, 1)
    claimed = claim(database)
    operator = database.connect("test_operator")
    if first == "success":
        with holding(database, "test_agent") as early:
            store(early, claimed)
            with in_background(lambda: answer(operator, "cancel_task", task=task)) as cancelled:
                wait_until_blocked(database, operator)
                early.commit()
        assert cancelled.result() == "skipped: it is completed"
    else:
        with holding(database, "test_operator") as early:
            call(early, "cancel_task", task=task)
            with in_background(lambda: store(agent, claimed)) as stored:
                wait_until_blocked(database, agent)
                early.commit()
        assert stored.result() == "accepted"  # a success that comes first wins
    assert status(database, task) == "completed"
    assert_sound(database)


def test_whatever_ends_a_run_that_was_asked_to_stop_cancels_its_task(
    database: Database, clock: Clock, agent: Connection
) -> None:
    tasks = enqueue(database, 5)
    rows = dequeue(database.connect("test_worker"))
    call(database.connect("test_operator"), "cancel_tasks", tasks=tasks)
    for row, outcome in zip(rows, ["failure", "rate_limited", "cancelled"], strict=False):
        report(agent, row, outcome)
    worker = database.connect("test_worker")
    answer(worker, "fail_attempt", attempt=rows[3]["attempt_id"], error_class="gone")
    expire(database, clock)
    assert [status(database, task) for task in tasks] == ["cancelled"] * 5
    assert_sound(database)


@pytest.mark.parametrize("first", ["retry", "result"])
def test_a_retry_and_a_late_result_cross(database: Database, agent: Connection, first: str) -> None:
    """Whichever comes first, the task is completed and what was paid for is not run again."""
    (task,) = enqueue(database, 1)
    claimed = claim(database)
    report(agent, claimed, "permanent_failure")
    operator = database.connect("test_operator")
    if first == "retry":
        with holding(database, "test_operator") as early:
            assert answer(early, "retry_task", task=task) == "enqueued"
            with in_background(lambda: store(agent, claimed)) as stored:
                wait_until_blocked(database, agent)
                early.commit()
        assert stored.result() == "accepted"
    else:
        with holding(database, "test_agent") as early:
            assert store(early, claimed) == "superseded"
            with in_background(lambda: answer(operator, "retry_task", task=task)) as retried:
                wait_until_blocked(database, operator)
                early.commit()
        assert retried.result() == "completed: a stored result was waiting"
    assert status(database, task) == "completed"
    assert dequeue(database.connect("test_worker")) == []
    assert_sound(database)


def test_actions_of_many_operators_each_happen_once(database: Database, agent: Connection) -> None:
    tasks = enqueue(database, 10)
    for action, done in (("cancel_tasks", "cancelled"), ("retry_tasks", "enqueued")):
        outcomes = together(
            database,
            [lambda c, action=action: call(c, action, tasks=tasks)] * 6,  # type: ignore[misc]
            user="test_operator",
        )
        counts = Counter(row["outcome"] for o in outcomes for row in o.result())
        assert counts == {done: 10, "skipped": 50}
        assert_sound(database)


def test_a_task_is_reprocessed_by_one_of_two_who_ask_at_once(
    database: Database, agent: Connection
) -> None:
    """The second one meets a task whose key has moved on; nothing is paid twice unasked."""
    (task,) = enqueue(database, 1, dedup_key="sha")
    store(agent, claim(database))
    operator = database.connect("test_operator")
    app = database.connect("test_app")
    with holding(database, "test_operator") as early:
        first = answer(early, "reprocess_task", task=task)
        with in_background(
            lambda: answer(app, "enqueue_task", agent="parser", document_path="/p", dedup_key="sha")
        ) as enqueued:
            wait_until_blocked(database, app)
            early.commit()
    assert first == f"enqueued: {enqueued.result()}"
    assert "skipped" in str(answer(operator, "reprocess_task", task=task))
    assert_sound(database)


# --- runs and usage ---------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", [7, 8])
def test_a_report_comes_before_its_run_is_known(
    database: Database, agent: Connection, run_id: int
) -> None:
    """The webhook is faster than the worker's own books: the run is kept, the first one counts."""
    enqueue(database, 1)
    claimed = claim(database)
    worker = database.connect("test_worker")
    with holding(database, "test_agent") as early:
        assert report(early, claimed, "success", result=RESULT, run_id=7) == "accepted"
        runs = {"attempts": [claimed["attempt_id"]], "run_ids": [run_id]}
        with in_background(lambda: call(worker, "record_runs", **runs)) as recorded:
            wait_until_blocked(database, worker)
            early.commit()
    assert recorded.result()[0]["answer"] == {7: "duplicate", 8: "conflict"}[run_id]
    assert database.value("select run_id from lakequeue.task_attempts") == 7


def test_usage_from_trace_and_report_is_settled_the_same_in_any_order(
    database: Database, agent: Connection
) -> None:
    def once() -> None:
        enqueue(database, 1)
        claimed = claim(database)
        attempt = claimed["attempt_id"]
        beat = {"attempts": [attempt], "input_tokens": [5], "output_tokens": [1]}
        trace = {"attempt": attempt, "input_tokens": 90, "output_tokens": 10}
        half = {"attempt": attempt, "input_tokens": 300, "output_tokens": 1, "complete": False}
        outcomes = together(
            database,
            [
                lambda c: report(c, claimed, "success", result=RESULT, **USED),
                lambda c: call(c, "record_usage", **trace),
                lambda c: call(c, "record_usage", **half),
                lambda c: call(c, "extend_leases", **beat),
            ],
            users=["test_agent", "test_worker", "test_worker", "test_worker"],
        )
        for outcome in outcomes:
            outcome.result()
        settled = database.query(
            """select input_tokens, output_tokens, llm_cost, usage_complete, usage_source
                 from lakequeue.task_attempts where id = %s""",
            attempt,
        )
        assert settled == [(90, 10, Decimal("0.25"), True, "trace")]
        assert_sound(database)

    for _ in repeated(1, at_most=8):
        once()


def test_batches_of_reports_in_opposite_orders_do_not_deadlock(
    database: Database, agent: Connection
) -> None:
    def once() -> None:
        enqueue(database, 20)
        rows = dequeue(database.connect("test_worker"), batch_size=20)
        ids = [row["attempt_id"] for row in rows]
        reports = [
            {
                "attempt": row["attempt_id"],
                "token": row["callback_token"],
                "outcome": "success",
                "result": RESULT.obj,
            }
            for row in rows
        ]
        back = ids[::-1]
        used = {"input_tokens": [1] * 20, "output_tokens": [1] * 20}
        outcomes = together(
            database,
            [
                lambda c: call(c, "record_callbacks", callbacks=Json(reports)),
                lambda c: call(c, "record_callbacks", callbacks=Json(reports[::-1])),
                lambda c: call(c, "extend_leases", attempts=ids, **used),
                lambda c: call(c, "extend_leases", attempts=back, **used),
                lambda c: call(c, "record_runs", attempts=ids, run_ids=ids),
                lambda c: call(c, "record_runs", attempts=back, run_ids=back),
            ],
            users=["test_web"] * 2 + ["test_worker"] * 4,
        )
        answers = Counter(r["answer"] for o in outcomes[:2] for r in o.result())
        assert answers == {"accepted": 20, "duplicate": 20}
        for outcome in outcomes:
            outcome.result()
        assert_sound(database)

    for _ in repeated(1, at_most=6):
        once()
