"""One snapshot for a whole transaction: whoever changes a task refuses it (LQ428).

Under REPEATABLE READ or SERIALIZABLE a statement that has waited for a task's lock sees what there
was before the wait. Where another session has changed the task's row it gets 40001. Where that has
changed an attempt, a run or a bill of it, and has only locked the task, nothing warns: the task
would move with sums that are not true any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from tests.conftest import Clock
from tests.race.harness import Connection, holding
from tests.race.scene import (
    RESULT,
    Row,
    assert_sound,
    call,
    claim,
    configure,
    enqueue,
    limit_endpoint,
    report,
    violations,
)
from tests.race.test_books import COMPARISON
from tests.servers import Database

PGTAP = Path(__file__).resolve().parents[1] / "pgtap"
LEVELS = ("repeatable read", "serializable")

one_server = pytest.mark.parametrize("server", ["embedded"], indirect=True)
each_level = pytest.mark.parametrize("level", LEVELS)


class Scene:
    """A task of a Databricks job, with an attempt of which nothing was reported but its failure."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.clock = clock
        clock.set("2026-01-01 12:00+00")
        self.owner = database.connect()
        configure(database, job_id=7, max_attempts=2, reconcile_grace="0 s")
        (self.task,) = enqueue(database, 1)
        self.database = database
        self.first = claim(database)

    def failed(self) -> None:
        """The task has failed in one attempt."""
        report(self.owner, self.first, "permanent_failure")

    def completed(self) -> None:
        """The task was completed in one attempt."""
        report(self.owner, self.first, "success", result=RESULT)

    def waiting(self) -> None:
        """The task waits for its second attempt."""
        report(self.owner, self.first, "failure")
        self.clock.advance(minutes=2)
        call(self.owner, "sweep_leases")

    def running(self) -> Row:
        """The second attempt."""
        self.waiting()
        return claim(self.database)

    def failed_twice(self) -> Row:
        """The second attempt has failed, too."""
        second = self.running()
        report(self.owner, second, "failure")
        return second

    # What happens elsewhere; it locks the task's row and does not change it.

    def told(self) -> None:
        """What the first attempt has used becomes known."""
        usage = {"input_tokens": 1000, "output_tokens": 100, "llm_cost": 2}
        call(self.owner, "record_usage", attempt=self.first["attempt_id"], **usage)

    def ran(self, row: Row | None = None, run: int = 1) -> None:
        """So does a run."""
        attempts = [(row or self.first)["attempt_id"]]
        call(self.owner, "record_runs", attempts=attempts, run_ids=[run])

    def ask(self) -> int:
        """Somebody asks billing."""
        (begun,) = call(self.owner, "begin_compute_fetch")
        return int(begun["fetch_id"])

    def bill(self, connection: Connection, fetch: int) -> None:
        """Billing answers."""
        cost = {"kind": "run", "name": "1", "sku": "JOBS", "unit": "DBU", "day": "2026-01-01"}
        cost |= {"currency": "USD", "quantity": "1", "cost": "3"}
        call(connection, "record_compute_cost", fetch_id=fetch, workspace="w", rows=Json([cost]))


Act = Callable[[Connection], object]
Play = Callable[[Scene], tuple[Callable[[], object], Act]]
"""Sets a scene; returns what happens elsewhere, and what an old snapshot does then."""


def reports(row: Row, outcome: str, **more: Any) -> Act:
    return lambda old: report(old, row, outcome, **more)


def calls(function: str, **arguments: Any) -> Act:
    return lambda old: call(old, function, **arguments)


def of(row: Row) -> dict[str, Any]:
    return {"attempt": row["attempt_id"], "token": row["callback_token"]}


def record_callback(scene: Scene) -> tuple[Callable[[], object], Act]:
    return scene.told, reports(scene.running(), "success", result=RESULT)


def record_callback_of_a_failure(scene: Scene) -> tuple[Callable[[], object], Act]:
    return scene.told, reports(scene.running(), "failure")


def record_callbacks(scene: Scene) -> tuple[Callable[[], object], Act]:
    entry = of(scene.running()) | {"outcome": "success", "result": [1]}
    return scene.told, calls("record_callbacks", callbacks=Json([entry]))


def store_result(scene: Scene) -> tuple[Callable[[], object], Act]:
    return scene.told, calls("store_result", **of(scene.running()), result=RESULT)


def fail_attempt(scene: Scene) -> tuple[Callable[[], object], Act]:
    attempt = scene.running()["attempt_id"]
    return scene.told, calls("fail_attempt", attempt=attempt, error_class="gone")


def extend_leases(scene: Scene) -> tuple[Callable[[], object], Act]:
    row = scene.running()
    one = {"attempts": [row["attempt_id"]], "tokens": [row["callback_token"]]}
    return scene.told, calls("extend_leases", **one, input_tokens=[5])


def record_usage(scene: Scene) -> tuple[Callable[[], object], Act]:
    attempt = scene.running()["attempt_id"]
    usage = {"input_tokens": 10, "output_tokens": 1, "llm_cost": 1}
    return scene.told, calls("record_usage", attempt=attempt, **usage)


def record_runs(scene: Scene) -> tuple[Callable[[], object], Act]:
    attempt = scene.failed_twice()["attempt_id"]
    return scene.ran, calls("record_runs", attempts=[attempt], run_ids=[2])


def sweep_leases(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.running()
    scene.clock.advance(minutes=10)
    return scene.told, calls("sweep_leases")


def cancel_tasks(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.waiting()
    return scene.told, calls("cancel_tasks", tasks=[scene.task])


def cancel_task(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.waiting()
    return scene.told, calls("cancel_task", task=scene.task)


def retry_tasks(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.failed()
    return scene.told, calls("retry_tasks", tasks=[scene.task])


def retry_task(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.failed()
    return scene.told, calls("retry_task", task=scene.task)


def retry_of_what_was_billed(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.failed()
    scene.ran()
    fetch = scene.ask()
    return lambda: scene.bill(scene.owner, fetch), calls("retry_tasks", tasks=[scene.task])


def reprocess_tasks(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.completed()
    act = calls("reprocess_tasks", tasks=[scene.task])
    return lambda: act(scene.owner), act


def purge_tasks(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.failed()
    scene.ran()
    scene.clock.advance(days=2)
    act = calls("purge_tasks", older_than="1 day")
    return lambda: scene.bill(scene.owner, scene.ask()), act


def quiesce(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.running()
    return scene.told, calls("quiesce", reason="a copy", is_copy=True)


def record_compute_cost(scene: Scene) -> tuple[Callable[[], object], Act]:
    second = scene.failed_twice()
    scene.ran()
    fetch = scene.ask()
    return lambda: scene.ran(second, 2), lambda old: scene.bill(old, fetch)


def adopt_attempts(scene: Scene) -> tuple[Callable[[], object], Act]:
    beat = calls("worker_heartbeat", worker="w", host="h", pid=1, version="1", relay="databricks")
    beat(scene.owner)
    scene.running()
    scene.clock.advance(minutes=2)  # silent for long, and then not
    return lambda: beat(scene.owner), calls("adopt_attempts", worker="thief")


def configure_agent(scene: Scene) -> tuple[Callable[[], object], Act]:
    """It voids pages of the throttle's books: not one that a model call has just opened."""
    size: dict[str, Any] = {"tokens_per_task": 1000, "tokens_per_page": 0, "output_share": 0.25}
    configure(scene.database, "caller", model_endpoint="parser", reserves_calls=True)
    enqueue(scene.database, 1, "caller")
    caller = claim(scene.database, agents=["caller"])
    configure(scene.database, **size)
    limit_endpoint(scene.database, "parser", max_output_tpm=10000)
    ask = calls("reserve_tokens", **of(caller), input_tokens=1, max_output_tokens=1)
    act = calls("configure_agent", agent="parser", output_share=1)
    return lambda: ask(scene.owner), act


def begin_compute_fetch(scene: Scene) -> tuple[Callable[[], object], Act]:
    scene.failed()
    scene.ran()
    return scene.ask, calls("begin_compute_fetch")


PLAYS: list[Play] = [
    record_callback,
    record_callback_of_a_failure,
    record_callbacks,
    store_result,
    fail_attempt,
    extend_leases,
    record_usage,
    record_runs,
    sweep_leases,
    cancel_tasks,
    cancel_task,
    retry_tasks,
    retry_task,
    retry_of_what_was_billed,
    reprocess_tasks,
    purge_tasks,
    quiesce,
    record_compute_cost,
    adopt_attempts,
    configure_agent,
    begin_compute_fetch,
]


@one_server
@each_level
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_nothing_is_decided_by_what_was_true_before(
    database: Database, clock: Clock, play: Play, level: str
) -> None:
    scene = Scene(database, clock)
    elsewhere, act = play(scene)
    said = None
    with holding(database) as old:
        old.execute(f"set transaction isolation level {level}".encode())
        old.execute("select count(*) from lakequeue.task_attempts")
        elsewhere()
        try:
            act(old)
            old.commit()
        except psycopg.Error as error:
            said = error.sqlstate
            old.rollback()
    watcher = database.connect()
    wrong = violations(watcher)
    wrong += [
        f"{what} of {holder} are {carried} in the books and {counted} in truth"
        for holder, what, carried, counted in database.query(COMPARISON, ["parser"])
        if carried is not None and carried < counted
    ]
    wrong += [
        f"{what} {count} times"
        for what, count in database.query(
            """select 'reprocessed', count(*) from lakequeue.tasks
                where reprocess_of is not null having count(*) > 1
               union all
               select 'adopted', count(*) from lakequeue.task_attempts where worker = 'thief'
               having count(*) > 0"""
        )
    ]
    assert wrong == []
    assert said == "LQ428"
    act(watcher)  # and now it can
    assert_sound(database)


# Volatile functions that need no refusal. They read; or they write what nobody else's rows decide;
# or the one row that decides is the one that they change, so that an old snapshot gets 40001.
FREE = {
    *("agent_pace", "agent_status", "check_home", "compute_fetch_status", "confirm_claims"),
    *("cost_report", "explain_throttle", "explain_throttles", "health", "list_workers"),
    *("needs_attention", "queue_history", "reporting_time", "response_history", "task_detail"),
    *("create_extraction", "enqueue_task", "enqueue_tasks", "set_model_price", "set_person"),
    *("worker_heartbeat", "fold_rollups", "move_here", "pause_agent", "resume_agent"),
    *("settle_tokens", "update_compute_fetch", "cancel_compute_fetch"),
}


@one_server
@each_level
def test_every_other_function_refuses_before_it_waits(database: Database, level: str) -> None:
    with psycopg.connect(database.scripting_conninfo("lakequeue,tap,test")) as prepare:
        prepare.execute("set session authorization test_owner")
        for name in ("scenarios.sql", "calls.sql"):
            prepare.execute((PGTAP / name).read_text().encode())
    with holding(database) as holder, holding(database) as old:
        holder.execute("select from lakequeue.tasks for update")
        holder.execute(
            """select pg_advisory_xact_lock(lakequeue._lock_class(), l.key)
                 from (select id from lakequeue.model_endpoints
                       union all select generate_series(-5, 0)) l(key)"""
        )
        old.execute(f"set transaction isolation level {level}".encode())
        old.execute("set local lock_timeout = '1 ms'")
        rows = old.execute(
            """select f.name::text, p.provolatile = 'v', scenario.attempt_call(scenario.call(f.oid))
                 from scenario.public_function f join pg_proc p using (oid)"""
        ).fetchall()
        old.rollback()
    refusals = {name: said for name, _, said in rows if said.startswith("LQ428")}
    assert set(refusals) == {name for name, volatile, _ in rows if volatile} - FREE
    for name, said in refusals.items():
        # one task is refused by the function for many: set_priority by set_priorities
        assert re.match(rf"LQ428 {name[:-1]}\w* cannot run in a {level} transaction, ", said)
