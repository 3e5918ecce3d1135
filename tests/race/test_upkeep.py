"""Workers that do the same upkeep at the same time: adopting, checking runs, sweeping, folding."""

from __future__ import annotations

from decimal import Decimal

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


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("dequeue_tasks", {"worker": "w"}),
        ("sweep_leases", {}),
        ("adopt_attempts", {"worker": "w"}),
        ("runs_to_check", {"worker": "w"}),
    ],
)
def test_what_skips_locked_rows_waits_for_nothing(
    database: Database, function: str, arguments: dict[str, str]
) -> None:
    """PostgreSQL itself waits where SKIP LOCKED says it would not, see Locks in db/README.md."""
    configure(database)
    enqueue(database, 1)
    connection = database.connect("test_worker")
    connection.execute("set statement_timeout = '10s'")
    with database.server.admin(database.name) as holder, holder.transaction():
        holder.execute("lock table lakequeue.tasks in access exclusive mode")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            call(connection, function, **arguments)
    call(connection, function, **arguments)


def test_a_task_is_finished_by_the_zone_that_is_being_set(database: Database) -> None:
    """Its day is kept, so none may be counted by one zone and taken off by another."""
    configure(database)
    (task,) = enqueue(database, 1)
    canceller = database.connect("test_operator")
    with holding(database, "test_operator") as operator:
        call(operator, "set_time_zone", time_zone="Pacific/Kiritimati")
        with in_background(lambda: answer(canceller, "cancel_task", task=task)) as cancelled:
            wait_until_blocked(database, canceller)
            operator.commit()
    assert cancelled.result() == "cancelled"
    assert database.query(
        """select d.to_day = (t.finished_at at time zone 'Pacific/Kiritimati')::date
             from lakequeue.task_deltas d cross join lakequeue.tasks t where d.to_day is not null"""
    ) == [(True,)]


def test_a_zone_is_not_set_beside_a_task_that_is_being_finished(database: Database) -> None:
    configure(database)
    (task,) = enqueue(database, 1)
    operator = database.connect("test_operator")
    with holding(database, "test_operator") as canceller:
        call(canceller, "cancel_task", task=task)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            call(operator, "set_time_zone", time_zone="Asia/Tokyo")
        with in_background(
            lambda: call(operator, "set_time_zone", time_zone="Asia/Tokyo")
        ) as refused:
            wait_until_blocked(database, operator)
            canceller.commit()
    assert refused.sqlstate == "LQ409"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_zone_is_not_set_by_an_old_snapshot(database: Database, level: str) -> None:
    with holding(database, "test_operator") as connection:
        connection.execute(f"set transaction isolation level {level}")
        with pytest.raises(psycopg.Error, match="cannot run in a") as refused:
            call(connection, "set_time_zone", time_zone="Asia/Tokyo")
        assert refused.value.sqlstate == "LQ428"
        connection.rollback()


def kill(database: Database, worker: str) -> None:
    """A worker says that it stops, and leaves everything as it is."""
    with holding(database, "test_worker") as connection:
        call(connection, "worker_heartbeat", worker=worker, stopping=True)


def test_an_attempt_is_adopted_once(database: Database) -> None:
    configure(database)
    for number in repeated(1.5):
        worker = f"dead-{number}"
        with holding(database, "test_worker") as connection:
            call(connection, "worker_heartbeat", worker=worker)
        enqueue(database, 30)
        claimed = dequeue(database.connect("test_worker"), worker, batch_size=30)
        kill(database, worker)

        def adopt(connection: Connection, name: str) -> list[int]:
            call(connection, "worker_heartbeat", worker=name)
            adopted = []
            while rows := call(connection, "adopt_attempts", worker=name, batch_size=3):
                adopted += [row["attempt_id"] for row in rows]
            return adopted

        outcomes = together(
            database,
            [lambda c, name=f"{n}-{number}": adopt(c, name) for n in range(6)],  # type: ignore[misc]
            user="test_worker",
        )
        adopted = [attempt for outcome in outcomes for attempt in outcome.result()]
        assert len(adopted) == len(set(adopted))
        assert set(adopted) <= {row["attempt_id"] for row in claimed}
    assert_sound(database)


def test_who_waited_for_an_adoption_does_not_adopt_again(database: Database) -> None:
    """The list is made before the locks are taken: it must be looked at again afterwards."""
    configure(database)
    with holding(database, "test_worker") as connection:
        call(connection, "worker_heartbeat", worker="dead")
    enqueue(database, 1)
    claim(database, worker="dead")
    kill(database, "dead")
    late = database.connect("test_worker")
    for worker in ("first", "late"):
        call(late, "worker_heartbeat", worker=worker)
    # The late one has made its list and waits at the door of the table; then the first one adopts.
    with (
        holding(database) as gate,
        in_background(lambda: call(late, "adopt_attempts", worker="late")) as outcome,
    ):
        gate.execute("lock table lakequeue.task_events in access exclusive mode")
        gate.rollback()
    assert [row["outcome"] for row in outcome.result()] == ["adopted"]
    assert call(late, "adopt_attempts", worker="first") == []


def test_a_worker_without_a_row_is_not_dead_at_once(database: Database, clock: Clock) -> None:
    """Somebody who dequeues by hand sends no heartbeats; a claim is a sign of life as well."""
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 1)
    claim(database, worker="by-hand")
    other = database.connect("test_worker")
    call(other, "worker_heartbeat", worker="other")
    assert call(other, "adopt_attempts", worker="other") == []
    clock.advance(seconds=61)
    assert len(call(other, "adopt_attempts", worker="other")) == 1


def test_two_workers_do_not_check_the_same_run(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 4)
    connection = database.connect("test_worker")
    ids = [row["attempt_id"] for row in dequeue(connection)]
    call(connection, "record_runs", attempts=ids, run_ids=[1, 2, 3, 4])
    clock.advance(minutes=4)
    with holding(database, "test_worker") as first:
        mine = call(first, "runs_to_check", worker="w", batch_size=2)
        assert len(mine) == 2
        # Does not wait for the first one, and gets the others.
        others = call(connection, "runs_to_check", worker="v")
    assert {row["attempt_id"] for row in mine + others} == set(ids)
    assert len(others) == 2
    assert call(connection, "runs_to_check", worker="w") == []


def test_checking_runs_never_touches_an_attempt_whose_task_is_locked(
    database: Database, clock: Clock
) -> None:
    """Whoever takes an attempt locks its task first: otherwise two could wait for each other."""
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 2)
    connection = database.connect("test_worker")
    first, second = dequeue(connection)
    ids = [first["attempt_id"], second["attempt_id"]]
    call(connection, "record_runs", attempts=ids, run_ids=[1, 2])
    clock.advance(minutes=4)
    with holding(database, "test_worker") as busy:
        call(busy, "extend_leases", attempts=[first["attempt_id"]], input_tokens=[1])
        rows = call(connection, "runs_to_check", worker="w")
        assert [row["attempt_id"] for row in rows] == [second["attempt_id"]]


def test_one_sweeper_at_a_time_and_the_second_does_not_wait(
    database: Database, clock: Clock
) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 3)
    dequeue(database.connect("test_worker"))
    clock.advance(minutes=20)
    with holding(database, "test_worker") as first:
        (swept,) = call(first, "sweep_leases")
        assert swept["expired"] == 3
        (nothing,) = call(database.connect("test_worker"), "sweep_leases")
        assert set(nothing.values()) == {0}
    assert_sound(database)


def test_the_sweep_passes_a_locked_task_over(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 2)
    first, _second = dequeue(database.connect("test_worker"))
    clock.advance(minutes=20)
    with holding(database, "test_agent") as agent:
        assert report(agent, first, "failure") == "accepted"
        (swept,) = call(database.connect("test_worker"), "sweep_leases")
        assert swept["expired"] == 1
    assert_sound(database)


def test_a_heartbeat_beats_a_sweep_that_waited(database: Database, clock: Clock) -> None:
    """And one that comes after the sweep is told so: never is a swept lease extended."""
    clock.set("2026-01-01 12:00+00")
    configure(database)
    enqueue(database, 1)
    claimed = claim(database)
    clock.advance(minutes=20)
    late = database.connect("test_agent")

    def beat() -> str:
        (row,) = call(
            late,
            "extend_leases",
            attempts=[claimed["attempt_id"]],
            tokens=[claimed["callback_token"]],
        )
        return str(row["answer"])

    with holding(database, "test_worker") as sweeper:
        call(sweeper, "sweep_leases")
        with in_background(beat) as outcome:
            wait_until_blocked(database, late)
            sweeper.commit()
    assert outcome.result() == "lost"
    assert_sound(database)


@pytest.mark.parametrize("folders", [1, 3])
def test_rollups_are_exact_while_everything_moves(database: Database, folders: int) -> None:
    """Readers add rollups and unfolded deltas: no snapshot may miss or double a delta."""
    configure(database, max_attempts=2, retry_base="0 seconds")
    enqueue(database, 60)

    def work(connection: Connection, worker: str) -> None:
        for number in repeated(1.5):
            call(connection, "sweep_leases")
            for row in dequeue(connection, worker, batch_size=3):
                outcome = ("success", "failure", "rate_limited", "success")[number % 4]
                used = {
                    "input_tokens": 10 + number,
                    "output_tokens": number,
                    "llm_cost": Decimal("0.5"),
                }
                more = {"result": RESULT} if outcome == "success" else {}
                report(connection, row, outcome, usage_complete=True, **used, **more)
                attempt = row["attempt_id"]
                call(connection, "record_usage", attempt=attempt, input_tokens=7, output_tokens=1)
            enqueue(database, 2)

    def fold(connection: Connection, _worker: str) -> None:
        for _ in repeated(1.5):
            answer(connection, "fold_rollups", batch_size=7)

    with watching(database) as watch:
        actions = [
            lambda c, n=n, do=do: do(c, f"w{n}")
            for n, do in enumerate([work] * 3 + [fold] * folders)
        ]
        for outcome in together(database, actions):
            outcome.result()
    assert watch.looks > 5
    with holding(database) as connection:
        while answer(connection, "fold_rollups"):
            pass
    assert database.value("select count(*) from lakequeue.task_deltas") == 0
    assert_sound(database)
