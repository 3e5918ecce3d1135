"""Rule 16: claims pass no dead entries, and never a live one.

Where an agent's claimable tasks begin (claim_books) may only move past what nobody can commit any
more. So here others enqueue and give back in transactions that stay open, the clock goes back, and
all the time what a claim would find is compared with what there is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from tests.bench.measure import pages_read
from tests.conftest import Clock
from tests.race.harness import Connection, Crowd, holding
from tests.race.scene import (
    RESULT,
    assert_sound,
    call,
    claim,
    configure,
    dequeue,
    enqueue,
    report,
)
from tests.servers import Database, temporary

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
ADVANCE = """
select lakequeue._advance_lanes(id, '{0,1,2,3,4,5,6,7,8,9}') from lakequeue.agents
"""
# How many tasks are claimable, and which of them a claim would not find in their place.
HIDDEN = """
with there as (
  select t.id, row_number() over (order by t.priority desc, t.created_at, t.id) as no
    from lakequeue.tasks t where t.status = 'enqueued' and t.retry_at is null
), found as (
  select c.id, c.ordinality as no
    from lakequeue.agents a
   cross join lateral lakequeue._candidates(a.id, 1000) with ordinality c
)
select (select count(*) from there), array(
  select coalesce(t.id, f.id) from there t full join found f on f.id = t.id and f.no = t.no
   where t.id is null or f.id is null)
"""
BEGINS = """
select b.lane, max(s.created_from), max(s.id_from)
  from (select * from lakequeue.claim_books order by no desc limit 1) b
 cross join lateral unnest(b.lanes, b.created_from, b.id_from) s(lane, created_from, id_from)
 where s.lane = 0 group by b.lane
"""


class Users(Crowd):
    """Random steps of an application, workers and operators."""

    def __init__(self, database: Database, clock: Clock, seed: int) -> None:
        super().__init__(database, seed)
        self.clock = clock
        self.now = START

    def enqueue(self, connection: Connection) -> None:
        for _ in range(self.dice.randint(1, 6)):
            priority = self.dice.choice([0, 3, 5, 5, 5, 9])
            call(connection, "enqueue_task", agent="parser", document_path="/x", priority=priority)

    def dequeue(self, connection: Connection) -> None:
        call(connection, "dequeue_tasks", worker="w", batch_size=self.dice.choice([1, 1, 3, 10]))

    def report(self, connection: Connection) -> None:
        running = connection.execute(
            """select a.id, lakequeue._callback_token(a.id, a.run_key)
                 from lakequeue.task_attempts a where a.status = 'running'
                order by hashint8(a.id + %s) limit %s""",
            [self.dice.randint(1, 1000), self.dice.randint(1, 6)],
        ).fetchall()
        for attempt, token in running:
            row = {"attempt_id": attempt, "callback_token": token}
            outcome = self.dice.choice(["success"] * 4 + ["failure", "failure", "rate_limited"])
            report(connection, row, outcome, **({"result": RESULT} if outcome == "success" else {}))

    def expire(self, connection: Connection) -> None:
        connection.execute(
            """update lakequeue.tasks set lease_expires_at = lease_expires_at - interval '1 day'
                where id = (select min(id) from lakequeue.tasks where status = 'processing')"""
        )
        call(connection, "sweep_leases")

    def act(self, connection: Connection, function: str, status: str, **more: Any) -> None:
        tasks = connection.execute(
            """select array(select id from lakequeue.tasks where status::text = any(%s)
                             order by hashint8(id + %s) limit 4)""",
            [status.split(), self.dice.randint(1, 1000)],
        ).fetchone()
        assert tasks is not None
        call(connection, function, tasks=tasks[0], reason="because", **more)

    def cancel(self, connection: Connection) -> None:
        self.act(connection, "cancel_tasks", "enqueued")

    def retry(self, connection: Connection) -> None:
        self.act(connection, "retry_tasks", "failed cancelled")

    def reprocess(self, connection: Connection) -> None:
        self.act(connection, "reprocess_tasks", "completed")

    def set_priorities(self, connection: Connection) -> None:
        self.act(connection, "set_priorities", "enqueued", priority=self.dice.choice([2, 5, 9]))

    def step(self) -> None:
        """One thing that happens."""
        kind = self.dice.random()
        if kind < 0.15:
            self.clock.set(self.now)
            self.now += datetime.timedelta(seconds=self.dice.choice([0, 0, 0.001, 5, 5, 60, -5]))
        elif kind < 0.45:
            self.owner.execute(ADVANCE)
        elif kind < 0.6 and self.open:
            self.end_one(commits=0.7)
        else:
            self.act_on_one()

    def act_on_one(self) -> None:
        """A step in a new transaction or one that is open; a new one may stay open."""
        steps: list[Callable[[Connection], None]] = [
            *[self.enqueue] * 3,
            *[self.dequeue] * 4,
            *[self.report] * 3,
            *[self.expire, self.cancel, self.retry, self.reprocess, self.set_priorities],
        ]
        does = self.dice.choice(steps)
        connection, again = self.pick()
        if not again and len(self.idle) > 1 and self.dice.random() < 0.1:
            # One snapshot for all that it will do, perhaps much later.
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select count(*) from lakequeue.agents")
            self.keep_open(connection)
            self.done["one snapshot"] += 1
        # LQ428: anything but an enqueue in one that has one snapshot
        elif self.attempt(connection, does, "55P03", "40001", "LQ428") and not again:
            self.end_first(connection, stays_open=0.3)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_a_claim_finds_what_there_is_in_its_order(
    database: Database, clock: Clock, seed: int
) -> None:
    clock.set(START)
    configure(database, max_attempts=3, max_rate_limited=2, lease_duration="1 minute")
    crowd = Users(database, clock, seed)
    watcher = database.connect(autocommit=False)
    watcher.execute("set default_transaction_isolation = 'repeatable read'")
    watcher.commit()
    began = set()
    there = 0
    for number in range(500):
        crowd.step()
        row = watcher.execute(HIDDEN).fetchone()
        assert row is not None
        assert row[1] == [], f"hidden or out of order after step {number}"
        there += row[0]
        began.update(watcher.execute(BEGINS).fetchall())
        watcher.commit()
    # Something must have happened for that to mean something.
    assert len(began) > 20, began
    assert len({lane for lane, _, _ in began}) > 10
    assert there > 1500
    assert min(crowd.done.values()) >= 5, crowd.done
    crowd.end_all()
    assert_sound(database)


STEPS = 5  # of upkeep: a note, a look, another one, and all that once more


def advance(database: Database) -> list[tuple[Any, ...]]:
    """Where claims begin after some upkeep."""
    for _ in range(STEPS):
        database.query(ADVANCE)
    return database.query(
        """select s.* from lakequeue.agents a cross join lateral lakequeue._lanes(a.id) s
            order by s.lane, s.highest desc"""
    )


def enqueue_late(connection: Connection) -> int:
    """Enqueues in a transaction that stays open, and says which task that is."""
    (row,) = call(connection, "enqueue_task", agent="parser", document_path="/late")
    return int(row["enqueue_task"])


@pytest.mark.parametrize("what", ["enqueued", "given back"])
@pytest.mark.parametrize("committed", [True, False])
def test_what_comes_late_is_claimed_in_its_place(
    database: Database, what: str, committed: bool
) -> None:
    """Nothing is passed while somebody could still commit it."""
    configure(database, max_attempts=1)
    enqueue(database, 2)
    report(database.connect("test_agent"), failed := claim(database), "failure")
    claim(database)
    advance(database)
    database.query(ADVANCE)  # the last step is a note: who comes now may not have read it
    with holding(database, "test_app" if what == "enqueued" else "test_operator") as late:
        if what == "enqueued":
            task = enqueue_late(late)
        else:
            task = failed["task_id"]
            call(late, "retry_task", task=task, reason="because")
        enqueue(database, 3)
        for _ in range(2):
            claim(database)
        before = advance(database)
        assert advance(database) == before
        if not committed:
            late.rollback()
    assert (claim(database)["task_id"] == task) == committed
    assert advance(database) != before, "now it moves on"
    rest = dequeue(database.connect("test_worker"))
    assert len(rest) == int(committed)


def test_who_comes_after_the_look_is_behind_the_note(database: Database) -> None:
    """Lane 0 begins no later than the time that was noted, whatever is there by then."""
    configure(database)
    enqueue(database, 1)
    claim(database)
    advance(database)  # the last step is a note
    with holding(database, "test_app") as looked_at, holding(database, "test_app") as late:
        enqueue_late(looked_at)
        database.query(ADVANCE)
        task = enqueue_late(late)
        (newer,) = enqueue(database, 1)
        looked_at.rollback()
        database.query(ADVANCE)
    assert [claim(database)["task_id"], claim(database)["task_id"]] == [task, newer]


def test_who_looks_is_looked_at(database: Database) -> None:
    """A dequeue in a longer transaction sees what this has enqueued; others do not."""
    configure(database)
    enqueue(database, 1)
    claim(database)
    advance(database)
    with holding(database) as late:
        with holding(database, "test_app") as other:
            enqueue_late(other)
            database.query(ADVANCE)
            task = enqueue_late(late)
            other.rollback()
        database.query(ADVANCE)  # notes a later time
        with holding(database, "test_app") as other:
            enqueue_late(other)
            late.execute(ADVANCE)
            other.rollback()
        enqueue(database, 1)
        claim(database)
        before = advance(database)
    assert claim(database)["task_id"] == task
    assert advance(database) != before


def test_whoever_has_one_snapshot_is_found(database: Database, clock: Clock) -> None:
    """However much has moved on since: it cannot have read that."""
    clock.set(START)
    configure(database)
    enqueue(database, 2)
    claim(database)
    advance(database)
    with holding(database) as late:
        late.execute("set transaction isolation level repeatable read")
        late.execute("select count(*) from lakequeue.agents")
        claim(database)
        for _ in range(2):
            clock.advance(minutes=1)
            advance(database)
        clock.set(START + datetime.timedelta(seconds=1))
        task = enqueue_late(late)
    advance(database)
    assert claim(database)["task_id"] == task


def test_an_idle_writer_in_another_database_stalls_nothing(database: Database) -> None:
    """It holds back what a new snapshot calls its oldest transaction, here as well."""
    configure(database)
    enqueue(database, 2)
    claim(database)
    with temporary(database.server.empty_database) as other:
        writer = other.connect(autocommit=False)
        writer.execute("create table written (n integer)")
        before = advance(database)
        enqueue(database, 2)
        claim(database)
        assert advance(database) != before
        row = writer.execute("select pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        oldest = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        assert database.value(oldest) <= row[0], "(it does hold that back)"
        writer.close()


def test_what_is_claimed_just_now_is_not_passed_where_nothing_is_limited(
    database: Database,
) -> None:
    """Such claims go on side by side: none notes where what runs begins while another is open."""
    configure(database)
    enqueue(database, 1000)
    begins = "select coalesce(max(b.place_from), 0) from lakequeue.running_books b"
    runs = """select count(*) from lakequeue.agents a
               cross join lateral lakequeue._running(array[a.model_endpoint_id])"""
    worker = database.connect("test_worker")
    with holding(database, "test_worker") as late:
        assert len(dequeue(late, "late", batch_size=5)) == 5
        for row in dequeue(worker, batch_size=400):  # so many that some are due for upkeep
            call(worker, "fail_attempt", attempt=row["attempt_id"], error_class="gone")
        assert database.value(begins) == 0
    assert database.value(runs) == 5
    dequeue(worker, batch_size=400)
    assert database.value(begins) > 0, "(nobody else claimed)"
    assert database.value(runs) == 405


def pages(database: Database, function: str) -> int:
    """How many pages a read of the queue touches."""
    with psycopg.connect(database.conninfo(), autocommit=True) as connection:
        connection.execute("set enable_seqscan = off; set plan_cache_mode = force_generic_plan")
        read = f"select f.* from lakequeue.agents a cross join lateral lakequeue.{function} f"
        connection.execute(read)  # what it reads of the catalog, it reads once
        row = connection.execute(f"explain (analyze, buffers, format json) {read}").fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("limits", [{}, {"max_concurrent_tasks": 1000, "max_tpm": 10**9}])
def test_what_is_finished_is_not_passed_again_and_again(
    database: Database, clock: Clock, limits: dict[str, Any]
) -> None:
    """A held snapshot keeps all of it; some runs never end."""
    clock.set(START)
    configure(database, **limits)
    enqueue(database, 300)
    worker, web = database.connect("test_worker"), database.connect("test_web")
    dequeue(worker, "straggler", batch_size=20)
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum analyze")
    functions = [
        "_candidates(a.id, 10)",
        "_running(array[a.model_endpoint_id])",
        "agent_status()",
        "latest_change()",
        "fold_rollups()",
        "sweep_leases()",
        "runs_to_check('w')",
        "list_workers()",
    ]
    before = [pages(database, function) for function in functions]
    holder = database.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from lakequeue.agents")
    for _ in range(20):
        enqueue(database, 50)
        reports = [
            {"attempt": row["attempt_id"], "token": row["callback_token"], "outcome": "success"}
            | {"result": {}}
            for row in dequeue(worker, batch_size=50)
        ]
        call(web, "record_callbacks", callbacks=Json(reports))
        database.query(
            """insert into lakequeue.task_deltas (agent_id, customer, tasks, to_status)
               select a.id, '', 0, 'enqueued' from lakequeue.agents a, generate_series(1, 300)"""
        )
        call(worker, "fold_rollups")
    clock.advance(minutes=1)  # what has ended within a minute is read, and not dead
    after = [pages(database, function) for function in functions]
    assert [a / b <= 3 for a, b in zip(after, before, strict=True)] == [True] * len(before), (
        before,
        after,
    )
    print(before, after)


def test_nothing_that_changes_all_the_time_is_passed_by_claims(database: Database) -> None:
    """Under a held snapshot: what the breaker counts, what the throttle and runs have noted."""
    configure(database, breaker_failures=0, max_tpm=10**9)
    enqueue(database, 10)
    owner = database.connect()
    dequeue(owner, batch_size=5)
    owner.execute("select lakequeue._note_running(array(select id from lakequeue.model_endpoints))")
    claims = "select * from lakequeue.dequeue_tasks('w', 1)"
    calls = [claims, "select * from lakequeue.agent_status()"]

    def read() -> list[int]:
        """Once for what a session reads of the catalog, once to count."""
        return [[pages_read(owner, statement) for _ in range(2)][1] for statement in calls]

    before = read()
    holder = database.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from lakequeue.agents")
    owner.execute(
        """do $$ begin
             for n in 1 .. 800 loop
               perform lakequeue._count_outcome(a.id, n % 2 = 0, 'x') from lakequeue.agents a;
               update lakequeue.throttle_books set no = no + 1;
               update lakequeue.running_books set no = no + 1;
               commit;
             end loop;
           end $$"""
    )
    assert call(owner, "agent_status")[0]["failures_in_a_row"] == 1
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum analyze")  # plans are made anew: a row on many pages
    after = read()
    # Some pages are new levels of indexes; 800 versions would be more.
    assert all(b - a < 15 for a, b in zip(before, after, strict=True)), (before, after)
