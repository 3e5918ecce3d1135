"""Rule 16 for model calls and sweeps: they pass little of what is over, and never what is not.

Where the open calls of an endpoint begin (running_books) may only move past what nobody can make
open any more. So here others ask, settle and end runs in transactions that stay open, and all the
time the calls that are read are compared with those there are.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.bench.measure import pages_read
from tests.conftest import Clock
from tests.race.harness import Connection, Crowd, holding, in_background, wait_until_blocked
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
from tests.race.test_reservations import ask, reserving, settle
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

RESERVE = "lakequeue.reserve_tokens(bigint, text, bigint, bigint, uuid, boolean)"
# The upkeep of every 64th call or so, where nobody holds the endpoint's lock.
NOTE = """
select lakequeue._note_calls(e.id) from lakequeue.model_endpoints e
 where pg_try_advisory_xact_lock(lakequeue._lock_class(), e.id)
"""
# As if so many calls had been asked for elsewhere, or by agents of one call each.
PASS = """
select setval('lakequeue.model_calls_id_seq', nextval('lakequeue.model_calls_id_seq') + 300)
"""
# How many calls are open, and which of them are not read or read though they are not.
UNREAD = """
with there as (
  select c.id from lakequeue.model_calls c where c.ended_at is null
), found as (
  select c.id from lakequeue._open_calls(array(select e.id from lakequeue.model_endpoints e)) c
)
select (select count(*) from there), array(
  select coalesce(t.id, f.id) from there t full join found f using (id)
   where t.id is null or f.id is null)
"""
IN_THE_WAY = ("55P03", "LQ404")  # others are, or the call has ended meanwhile
MARKS = """
select array(select max(k.call_from) from lakequeue.running_books k
              group by k.endpoint_id order by k.endpoint_id)
"""


def marks(database: Database) -> list[int]:
    """Where the open calls of each endpoint begin."""
    return list(database.value(MARKS))


def unread(database: Database) -> list[int]:
    """Calls that are open and not read."""
    ((_, calls),) = database.query(UNREAD)
    return list(calls)


class Agents(Crowd):
    """Random steps of agents."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, seed=16)
        self.clock = clock
        self.owner.execute("set lock_timeout = '20ms'")

    def some(self, condition: str) -> tuple[Row, uuid.UUID]:
        """An attempt that runs and one of its calls, or a new name where none is like that."""
        for row in self.owner.execute(
            f"""select a.id, lakequeue._callback_token(a.id, a.run_key), c.key
                  from lakequeue.task_attempts a
                  left join lakequeue.model_calls c on c.attempt_id = a.id and {condition}
                 where a.status = 'running'
                 order by c.key is null, hashint8(a.id + %s), c.id limit 1""",
            [self.dice.randint(1, 1000)],
        ):
            attempt = {"attempt_id": row[0], "callback_token": row[1]}
            return attempt, row[2] or uuid.UUID(int=self.dice.getrandbits(128))
        raise AssertionError("nothing runs")

    def ask_anew(self, connection: Connection) -> None:
        self.done[ask(connection, self.some("false")[0], (1, 1))["answer"]] += 1

    def ask_again(self, connection: Connection) -> None:
        row, key = self.some("c.granted_at is null")
        self.done[ask(connection, row, (1, 1), key)["answer"]] += 1

    def settle(self, connection: Connection) -> None:
        row, key = self.some("c.granted_at is not null and c.ended_at is null")
        settle(connection, row, key, (1, 1))

    def end(self, connection: Connection) -> None:
        report(connection, self.some("false")[0], "success", result=RESULT)

    def step(self) -> None:
        """One thing that happens."""
        kind = self.dice.random()
        if kind < 0.1:
            self.clock.advance(seconds=self.dice.choice([1, 5, 20]))
        elif kind < 0.25:
            self.owner.execute(NOTE)
        elif kind < 0.3:
            self.owner.execute(PASS)
        elif kind < 0.35:
            call(self.owner, "dequeue_tasks", worker="w", batch_size=2)
        elif kind < 0.39:
            self.attempt(self.owner, self.move, *IN_THE_WAY)
        elif kind < 0.5 and self.open:
            self.end_one(commits=0.6)
        else:
            self.act_on_one()

    def move(self, connection: Connection) -> None:
        """An agent moves: its runs go on spending at the endpoint where they are."""
        where = self.dice.choice(["here", "there"])
        call(connection, "configure_agent", agent="mover", model_endpoint=where)

    def act_on_one(self) -> None:
        """A step in a new transaction or one that is open; a new one may stay open."""
        does = self.dice.choice([*[self.ask_anew] * 6, *[self.ask_again] * 2, *[self.settle] * 4])
        if self.dice.random() < 0.05:
            does = self.end
        connection, again = self.pick()
        if self.attempt(connection, does, *IN_THE_WAY) and not again:
            self.end_first(connection, stays_open=0.25)


def test_whatever_happens_all_open_calls_are_read(database: Database, clock: Clock) -> None:
    clock.set("2026-01-01 12:00+00")
    for agent in ("stayer", "mover"):
        reserving(database, 6, agent, model_endpoint="here", lease_duration="1 day")
        enqueue(database, 60, agent)
    limit_endpoint(database, "here", max_rpm=12)
    limit_endpoint(database, "there", max_rpm=12)
    database.query(f"alter function {RESERVE} set lock_timeout = '2ms'")
    crowd = Agents(database, clock)
    watcher = database.connect(autocommit=False)
    watcher.execute("set default_transaction_isolation = 'repeatable read'")
    watcher.commit()
    there, moved, began = 0, 0, set()
    for number in range(250):
        crowd.step()
        row = watcher.execute(UNREAD).fetchone()
        assert row is not None
        assert row[1] == [], f"not read after step {number}"
        there += row[0]
        began.add(str(watcher.execute(MARKS).fetchone()))
        (moves,) = watcher.execute(
            "select count(*) from lakequeue.model_calls where ended_at is null and place > id"
        ).fetchone() or (0,)
        moved += moves
        watcher.commit()
    # Something must have happened for that to mean something.
    assert len(began) > 12, began
    assert there > 1000
    assert moved > 50
    steps = ("granted", "wait", "ask_anew", "ask_again", "settle", "end", "move")
    assert min(crowd.done[step] for step in steps) >= 3, crowd.done
    crowd.end_all()
    assert violations(crowd.owner) == []


def two(database: Database) -> tuple[list[Row], uuid.UUID]:
    """Two runs; the first has a call under way, which 300 others have overtaken."""
    rows = reserving(database, 2, model_endpoint="model")
    limit_endpoint(database, "model", max_rpm=1000)
    key = uuid.uuid4()
    assert ask(database.connect("test_agent"), rows[0], (1, 1), key)["answer"] == "granted"
    database.query(f"alter function {RESERVE} set lock_timeout = '30s'")
    return rows, key


@pytest.mark.parametrize("committed", [True, False])
def test_no_mark_passes_a_call_that_is_asked_for_meanwhile(
    database: Database, committed: bool
) -> None:
    rows, _ = two(database)
    agent = database.connect("test_agent")
    with holding(database, "test_agent") as asking:
        assert ask(asking, rows[0], (1, 1))["answer"] == "granted"
        database.query(PASS)
        database.query(NOTE)
        assert marks(database) == [], "who asks holds the lock, so nothing is noted"
        if not committed:
            asking.rollback()
    database.query(NOTE)
    assert unread(database) == []
    with holding(database) as noting:
        noting.execute(NOTE)
        with in_background(lambda: ask(agent, rows[1], (1, 1))) as outcome:
            wait_until_blocked(database, agent)
            noting.commit() if committed else noting.rollback()
    assert outcome.result()["answer"] == "granted"
    database.query(NOTE)
    assert unread(database) == []
    calls = database.value("select count(*) from lakequeue.model_calls where ended_at is null")
    assert calls == (3 if committed else 2)
    assert_sound(database)


@pytest.mark.parametrize("committed", [True, False])
def test_a_call_that_is_settled_meanwhile_is_open_until_that_is_committed(
    database: Database, committed: bool
) -> None:
    rows, key = two(database)
    place = "select place from lakequeue.model_calls"
    was = database.value(place)
    with holding(database, "test_agent") as settling:
        assert settle(settling, rows[0], key, (1, 1)) == "settled"
        database.query(PASS)
        database.query(NOTE)
        assert marks(database) == [was], "it cannot be moved now, and holds the mark back"
        assert unread(database) == []
        if not committed:
            settling.rollback()
    assert unread(database) == []
    database.query(NOTE)
    assert marks(database) > [was]
    assert (database.value(place) == was) == committed, "what is open is moved, what is not, is not"
    assert unread(database) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_call_that_is_moved_can_be_settled(database: Database, committed: bool) -> None:
    rows, key = two(database)
    agent = database.connect("test_agent")
    database.query(PASS)
    with holding(database) as noting:
        noting.execute(NOTE)
        with in_background(lambda: settle(agent, rows[0], key, (1, 1))) as outcome:
            wait_until_blocked(database, agent)
            noting.commit() if committed else noting.rollback()
    assert outcome.result() == "settled"
    assert database.query(UNREAD) == [(0, [])]
    assert len(marks(database)) == committed


def test_a_late_retry_is_found_whoever_holds_it(database: Database, clock: Clock) -> None:
    """Its transaction was open when the sweep came to its time, and later, and very late."""
    clock.set("2026-01-01 12:00+00")
    configure(database, retry_base="1 second", retry_cap="1 second")
    enqueue(database, 2)
    worker = database.connect("test_worker")

    def retries() -> int:
        return int(call(worker, "sweep_leases")[0]["retries"])

    for minutes in (0.1, 3):
        row = claim(database)
        retries()
        with holding(database, "test_agent") as late:
            report(late, row, "failure")
            for _ in range(2):
                clock.advance(minutes=minutes / 2)
                assert retries() == 0
        found = [retries()]
        for _ in range(6):
            clock.advance(minutes=1)
            found.append(retries())
        assert sum(found) == 1
        assert found[0] == (minutes < 1), "what was committed in time is found at once"
    assert_sound(database)


def test_a_retry_that_is_locked_is_found_by_the_next_sweep(
    database: Database, clock: Clock
) -> None:
    """However long it has been due: no mark passes what is left."""
    clock.set("2026-01-01 12:00+00")
    configure(database)
    tasks = enqueue(database, 2)
    database.query("update lakequeue.tasks set retry_at = lakequeue._now()")
    clock.advance(minutes=4)
    worker = database.connect("test_worker")
    for found in (1, 1):
        with holding(database, "test_operator") as operator:
            call(operator, "set_priority", task=tasks.pop(), priority=1)
            clock.advance(seconds=30)
            assert call(worker, "sweep_leases")[0]["retries"] == found
    assert call(worker, "sweep_leases")[0]["retries"] == 0


def test_what_is_over_is_not_passed_again_and_again(database: Database, clock: Clock) -> None:
    """A held snapshot keeps all of it; some calls never end, and some wait."""
    clock.set("2026-01-01 12:00+00")
    limits: dict[str, Any] = {"max_tpm": 10**9, "max_rpm": 10**8, "lease_duration": "1 day"}
    rows = reserving(database, 10, **limits)
    agent, owner = database.connect("test_agent"), database.connect()
    for row in rows:
        assert ask(agent, row, (1, 1))["answer"] == "granted"
    assert ask(agent, rows[0], (9 * 10**8, 0))["answer"] == "granted", "a large one"
    enqueue(database, 1000)
    owner.execute("set enable_seqscan = off; set plan_cache_mode = force_generic_plan")
    call(owner, "sweep_leases")
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum analyze")
    asks = "select * from lakequeue.reserve_tokens(%(attempt)s, %(token)s, {}, 1, %(key)s)"
    calls = {
        "granted": asks.format(1),
        "waits": asks.format(2 * 10**8),
        "counted": "select count(*) from lakequeue.agents a, lakequeue._spending("
        "array[a.model_endpoint_id], true)",
        "explained": "select * from lakequeue.explain_throttle('parser')",
        "status": "select * from lakequeue.agent_status()",
        "listed": "select * from lakequeue.list_tasks(statuses => '{enqueued}', page_size => 1)",
        "swept": "select * from lakequeue.sweep_leases()",
    }

    def pages() -> dict[str, int]:
        """Once for what a session reads of the catalog, once to count."""
        answer = {}
        for name, statement in calls.items():
            for _ in range(2):
                values = {"attempt": rows[1]["attempt_id"], "token": rows[1]["callback_token"]}
                answer[name] = pages_read(owner, statement, values | {"key": uuid.uuid4()})
        return answer

    before = pages()
    holder = database.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from lakequeue.agents")
    # Each call in a transaction of its own, as the lock of the endpoint is.
    owner.execute(
        """do $$ declare v_row record; v_call uuid; begin
             for v_row in select a.id, lakequeue._callback_token(a.id, a.run_key) as token
                            from lakequeue.task_attempts a, generate_series(1, 120) n loop
               v_call := gen_random_uuid();
               perform lakequeue.reserve_tokens(v_row.id, v_row.token, 1, 1, v_call);
               commit;
               perform lakequeue.settle_tokens(v_row.id, v_row.token, v_call, 1, 1);
               commit;
             end loop;
           end $$"""
    )
    # Runs that have ended, and used more than they should.
    owner.execute(
        """insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, worker,
             estimated_tokens, status, started_at, ended_at, presumed_dead_at, raised)
           select -n, 1, a.id, a.model_endpoint_id, 'w', 1, 'superseded', now(), now(), now(),
                  '{0,1,1,1,0}'
             from lakequeue.agents a, generate_series(1, 1000) n"""
    )
    owner.execute(
        "update lakequeue.task_attempts set run_ended_at = lakequeue._now() where task_id < 0"
    )
    owner.execute("select lakequeue._note_running(array(select id from lakequeue.model_endpoints))")
    owner.execute(
        "update lakequeue.tasks set retry_at = lakequeue._now() where status = 'enqueued'"
    )
    assert call(owner, "sweep_leases", batch_size=1000)[0]["retries"] == 1000
    clock.advance(minutes=3)
    call(owner, "sweep_leases", batch_size=1000)
    for _ in range(5):
        owner.execute("select lakequeue._advance_lanes(id, '{5}') from lakequeue.agents")
    with database.server.admin(database.name) as admin:
        admin.execute("analyze")  # plans are made anew, of tables with few rows on many pages
    after = pages()
    print(before, after)
    most = dict.fromkeys(calls, 3.0) | {"status": 1.5, "swept": 1.5}
    assert {name: after[name] for name in calls if after[name] > most[name] * before[name]} == {}
