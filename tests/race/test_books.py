"""The throttle's books never say less than a count: after every step, and from several connections.

The books carry an upper bound of what is spent of each limit (procedures/_recount.sql); as long as
it leaves room nothing is counted, so one that is too low overruns the limit unnoticed. Random steps
do whatever moves the truth or the bound, and each is followed by a comparison of both. Only what is
used must be bounded: what is booked is a forecast, and calls that wait come and go.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock
from tests.race.harness import Connection, together
from tests.race.scene import RESULT, Row, answer, call, violations
from tests.servers import Database

START = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ENDPOINTS = ("x", "y", "z")
AGENTS = ("a", "b", "c", "d", "e")
RESERVING = ("c", "d")
LIMITS = {
    "max_concurrent_tasks": (3, 12),
    "max_tpm": (3_000, 12_000),
    "max_input_tpm": (2_000, 9_000),
    "max_output_tpm": (800, 3_000),
    "max_rpm": (6, 30),
}
STEPS = 600

# A row for each holder and kind with a ceiling. The bound is read first: what leaves the window in
# between only lowers the count.
COMPARISON = """
with asked as materialized (
  select array_agg(e.id) as endpoints from lakequeue.model_endpoints e where e.name = any(%s)
), carried as materialized (
  select c.* from asked a cross join lateral lakequeue._limits(a.endpoints, true) c
), counted as materialized (
  select t.* from (select count(*) from carried) first, asked a
   cross join lateral lakequeue._limits(a.endpoints, first.count < 0) t
)
select coalesce(g.name, 'endpoint ' || e.name) as holder, k.kind, k.carried, k.counted
  from carried c
  full join counted t
    on t.endpoint_id = c.endpoint_id and coalesce(t.agent_id, 0) = coalesce(c.agent_id, 0)
  left join lakequeue.model_endpoints e on e.id = t.endpoint_id
  left join lakequeue.agents g on g.id = t.agent_id
 cross join lateral unnest(lakequeue._kinds(), t.ceilings, c.used, t.used)
       k(kind, ceiling, carried, counted)
 where k.ceiling is not null
"""


@dataclass
class Comparisons:
    """What the comparisons found."""

    made: int = 0
    compared: int = 0
    void: int = 0
    equal: int = 0
    too_low: list[str] = field(default_factory=list)

    def make(self, connection: Connection, after: str) -> None:
        """Everywhere, and at one endpoint by itself, as a dequeue or a call would ask."""
        self.made += 1
        for asked in (ENDPOINTS, ENDPOINTS[self.made % 3 :][:1]):
            rows = connection.execute(COMPARISON, [list(asked)]).fetchall()
            for holder, kind, carried, counted in rows:
                self.compared += 1
                self.void += carried is None
                self.equal += carried == counted
                if carried is not None and carried < counted:
                    self.too_low.append(f"{holder}: {kind} {carried} < {counted} after {after}")


@dataclass
class World:
    """What all who act share."""

    running: list[Row] = field(default_factory=list)  # as far as is known here
    ended: list[Row] = field(default_factory=list)
    calls: list[tuple[Row, uuid.UUID, tuple[int, int]]] = field(default_factory=list)


NOBODY: Row = {"attempt_id": 0, "callback_token": "", "agent": "", "estimated_tokens": 1}


class Actor:
    """Does one random thing after another."""

    def __init__(self, connection: Connection, world: World, seed: int) -> None:
        self.connection = connection
        self.world = world
        self.dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.steps = {
            self.enqueue: 12,
            self.dequeue: 22,
            self.heartbeat: 10,
            self.finish: 18,
            self.say_all_but_the_result: 2,
            self.store: 2,
            self.trace: 10,
            self.reserve: 24,
            self.settle: 20,
            self.sweep: 4,
            self.cancel: 1,
            self.count: 2,
            self.configure_endpoint: 4,
            self.configure_agent: 2,
            self.move: 2,
        }

    def act(self) -> str:
        (step,) = self.dice.choices(list(self.steps), list(self.steps.values()))
        name = step.__name__
        try:
            said = step()
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith("LQ"):
                raise
            said = str(error.sqlstate)
        self.done[f"{name} {said}"] += 1
        return f"{name} {said}"

    # --- work -------------------------------------------------------------------------------------

    def enqueue(self) -> str:
        for _ in range(self.dice.randint(1, 3)):
            call(
                self.connection,
                "enqueue_task",
                agent=self.dice.choice(AGENTS),
                document_path="/x",
                priority=self.dice.choice([3, 5, 5, 5, 8]),
                page_count=self.dice.choice([1, 1, 3, 8, 25]),
            )
        return ""

    def dequeue(self) -> str:
        agents = None if self.dice.random() < 0.4 else self.dice.sample(AGENTS, 2)
        rows = call(
            self.connection,
            "dequeue_tasks",
            worker="w",
            batch_size=self.dice.choice([1, 1, 2, 5]),
            agents=agents,
        )
        claimed = [row for row in rows if row["outcome"] == "claimed"]
        self.world.running += claimed
        return "claimed" if claimed else rows[0]["outcome"] if rows else "nothing"

    def attempt(self, ended: float = 0.1) -> Row:
        """Whose turn it is: one that runs, or now and then one that should have ended."""
        running, gone = list(self.world.running), list(self.world.ended)
        if gone and (self.dice.random() < ended or not running):
            return self.dice.choice(gone[-12:])
        return self.dice.choice(running or [NOBODY])

    def usage(self, row: Row) -> tuple[int, int]:
        """Mostly less than was estimated, now and then twice as much."""
        most = row["estimated_tokens"] * self.dice.choice([0.1, 0.5, 1, 1, 1.3, 2.5])
        total = round(most * self.dice.random())
        output = round(total * self.dice.choice([0.05, 0.25, 0.25, 0.9]))
        return total - output, output

    def finish(self) -> str:
        row = self.attempt()
        input_tokens, output_tokens = self.usage(row)
        how: dict[str, Any] = self.dice.choice(
            [
                {},
                {"input_tokens": input_tokens},
                {"input_tokens": input_tokens, "output_tokens": output_tokens},
                *[
                    {
                        "input_tokens": input_tokens,
                        "output_tokens": output_tokens,
                        "usage_complete": True,
                    }
                ]
                * 3,
            ]
        )
        outcome = self.dice.choice(["success"] * 4 + ["failure", "rate_limited", "cancelled"])
        if outcome == "success":
            how["result"] = RESULT
        self.forget(row)
        return str(
            answer(
                self.connection,
                "record_callback",
                attempt=row["attempt_id"],
                token=row["callback_token"],
                outcome=outcome,
                **how,
            )
        )

    def forget(self, row: Row) -> None:
        with contextlib.suppress(ValueError):  # somebody else was faster
            self.world.running.remove(row)
            self.world.ended.append(row)

    def say_all_but_the_result(self) -> str:
        """Complete usage of a run that goes on."""
        row = self.attempt()
        input_tokens, output_tokens = self.usage(row)
        return str(
            answer(
                self.connection,
                "record_callback",
                attempt=row["attempt_id"],
                token=row["callback_token"],
                outcome="success",
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                usage_complete=True,
            )
        )

    def store(self) -> str:
        row = self.attempt()
        return str(
            answer(
                self.connection,
                "store_result",
                attempt=row["attempt_id"],
                token=row["callback_token"],
                result=RESULT,
            )
        )

    def heartbeat(self) -> str:
        rows = {row["attempt_id"]: row for row in (self.attempt() for _ in range(3))}
        used = [self.usage(row) for row in rows.values()]
        said = call(
            self.connection,
            "extend_leases",
            attempts=list(rows),
            tokens=[row["callback_token"] for row in rows.values()],
            input_tokens=[tokens[0] for tokens in used],
            output_tokens=[self.dice.choice([None, tokens[1]]) for tokens in used],
        )
        for row, heard in zip(rows.values(), said, strict=True):
            if heard["answer"] == "lost":
                self.forget(row)
        return str(said[0]["answer"])

    def trace(self) -> str:
        row = self.attempt(ended=0.6)
        input_tokens, output_tokens = self.usage(row)
        return str(
            answer(
                self.connection,
                "record_usage",
                attempt=row["attempt_id"],
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                complete=self.dice.random() < 0.7,
                source=self.dice.choice(["trace", "trace", "callback"]),
            )
        )

    def reserve(self) -> str:
        row = self.attempt()
        if row.get("agent") not in RESERVING and self.dice.random() < 0.95:
            asking = [row for row in self.world.running if row["agent"] in RESERVING]
            if not asking:
                return "nobody"
            row = self.dice.choice(asking)
        tokens = (self.dice.randint(0, 600), self.dice.randint(0, 200))
        key = uuid.UUID(int=self.dice.getrandbits(128))
        (said,) = call(
            self.connection,
            "reserve_tokens",
            attempt=row["attempt_id"],
            token=row["callback_token"],
            input_tokens=tokens[0],
            max_output_tokens=tokens[1],
            call=key,
        )
        if said["answer"] == "granted":
            self.world.calls.append((row, key, tokens))
        elif said["answer"] == "lost":
            self.forget(row)
        return str(said["answer"])

    def settle(self) -> str:
        calls = list(self.world.calls)
        if not calls:
            return "nothing"
        row, key, tokens = one = self.dice.choice(calls[-8:])
        if self.dice.random() < 0.9:  # or it will be settled again
            with contextlib.suppress(ValueError):
                self.world.calls.remove(one)
        used = [
            self.dice.choice([None, n, n // 2, 0, round(n * self.dice.uniform(1, 3)) + 1])
            for n in tokens
        ]
        return str(
            answer(
                self.connection,
                "settle_tokens",
                attempt=row["attempt_id"],
                token=row["callback_token"],
                call=key,
                input_tokens=used[0],
                output_tokens=used[1],
            )
        )

    # --- upkeep -----------------------------------------------------------------------------------

    def sweep(self) -> str:
        call(self.connection, "sweep_leases")
        return ""

    def cancel(self) -> str:
        row = self.attempt()
        if "task_id" in row:
            call(self.connection, "cancel_task", task=row["task_id"], actor="ops")
        return ""

    def count(self) -> str:
        """As a dequeue does that finds no room."""
        with self.connection.transaction():
            endpoints = self.connection.execute(
                """select id, pg_advisory_xact_lock(lakequeue._lock_class(), id)
                     from (select id from lakequeue.model_endpoints order by id) e"""
            ).fetchall()
            some = [row[0] for row in endpoints if self.dice.random() < 0.7]
            self.connection.execute("select lakequeue._recount(%s::integer[])", [some])
        return ""

    def configure_endpoint(self) -> str:
        call(
            self.connection,
            "configure_endpoint",
            endpoint=self.dice.choice(ENDPOINTS),
            **(self.limits(0.5) if self.dice.random() < 0.6 else dict.fromkeys(LIMITS, 0)),
        )
        return ""

    def configure_agent(self) -> str:
        changes = self.limits(0.3) | {
            "output_share": self.dice.random(),
            "tokens_per_page": self.dice.choice([20, 50, 200]),
        }
        if self.dice.random() < 0.2:
            changes["reserves_calls"] = self.dice.random() < 0.5
        call(self.connection, "configure_agent", agent=self.dice.choice(AGENTS), **changes)
        return ""

    def move(self) -> str:
        call(
            self.connection,
            "configure_agent",
            agent=self.dice.choice(AGENTS),
            model_endpoint=self.dice.choice(ENDPOINTS),
        )
        return ""

    def limits(self, part: float) -> dict[str, int]:
        return {
            name: self.dice.choice([0, self.dice.randint(*span), self.dice.randint(*span)])
            for name, span in LIMITS.items()
            if self.dice.random() < part
        }


def prepare(connection: Connection, dice: random.Random) -> None:
    """Three endpoints with limits, and five agents, two of which reserve their calls."""
    call(connection, "set_person", identity="ops", role="operator")
    for endpoint in ENDPOINTS:
        limits = {name: dice.randint(*span) for name, span in LIMITS.items() if dice.random() < 0.8}
        call(connection, "configure_endpoint", endpoint=endpoint, **limits)
    for number, agent in enumerate(AGENTS):
        call(
            connection,
            "configure_agent",
            agent=agent,
            model_endpoint=ENDPOINTS[number % 3],
            tokens_per_task=100,
            tokens_per_page=50,
            lease_duration="90 seconds",
            reconcile_grace="30 seconds",
            max_attempts=5,
            breaker_failures=0,
            reserves_calls=agent in RESERVING,
            **{name: dice.randint(*span) for name, span in LIMITS.items() if dice.random() < 0.3},
        )


def assert_sound_but_for_limits(database: Database) -> None:
    """Every rule holds; but limits on tasks may have been lowered under what runs."""
    lowered = ("rule 3: agent ", "rule 3: endpoint ")
    broken = violations(database.connect())
    assert [what for what in broken if not what.startswith(lowered)] == []


def simulate(connection: Connection, seed: int, steps: int) -> tuple[Comparisons, Counter[str]]:
    """Random steps and what a comparison after each of them found, until one is wrong."""
    # Faster than the test bed's clock, which is a table.
    connection.execute(
        """create or replace function lakequeue._now() returns timestamptz language plpgsql
           as $$ begin
             return coalesce(current_setting('simulated.now', true)::timestamptz, now());
           end $$"""
    )
    connection.execute("set plan_cache_mode = force_generic_plan")  # as the functions have it
    now = START
    connection.execute("select set_config('simulated.now', %s, false)", [now.isoformat()])
    dice = random.Random(seed)
    prepare(connection, dice)
    actor = Actor(connection, World(), seed)
    found = Comparisons()
    for step in range(steps):
        # What leaves the window does so between two steps: a comparison for that alone, too.
        seconds = dice.choice([0, 0, 0, 0.5, 2, 5, 15]) if dice.random() < 0.97 else 60
        if seconds:
            now += datetime.timedelta(seconds=seconds)
            connection.execute("select set_config('simulated.now', %s, false)", [now.isoformat()])
            found.make(connection, f"{seconds} seconds before step {step}")
        did = actor.act()
        found.make(connection, f"{did} at step {step}")
        if found.too_low:
            break
    return found, actor.done


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
def test_after_every_random_step_the_books_say_no_less_than_a_count(
    database: Database, seed: int
) -> None:
    found, done = simulate(database.connect(), seed, STEPS)
    assert found.too_low == []
    # Something must have happened for that to mean something.
    assert found.compared > 10 * STEPS
    assert found.void < found.compared / 3, "the books were void too often"
    assert found.equal < found.compared * 0.9, "the bound hardly ever differed from the count"
    for step in (
        "dequeue claimed",
        "finish accepted",
        "heartbeat extended",
        "trace recorded",
        "reserve granted",
        "settle settled",
    ):
        assert done[step] >= 15, (step, done)
    assert_sound_but_for_limits(database)


def test_nor_do_they_while_four_connections_act_at_once(database: Database, clock: Clock) -> None:
    """As above, while time runs fast, and a watcher holds the locks whenever it compares."""
    clock.set(START)
    prepare(database.connect(), random.Random(4))
    world, found, done = World(), Comparisons(), Counter[str]()
    seconds = 4.0
    deadline = time.monotonic() + seconds
    seeds = itertools.count(1)

    def act(connection: Connection) -> None:
        connection.execute("set plan_cache_mode = force_generic_plan")
        actor = Actor(connection, world, next(seeds))
        while time.monotonic() < deadline and not found.too_low:
            actor.act()
        done.update(actor.done)

    def let_time_pass(connection: Connection) -> None:
        dice = random.Random(5)
        while time.monotonic() < deadline and not found.too_low:
            by = datetime.timedelta(seconds=dice.choice([0.001, 0.5, 2, 5, 20]))
            connection.execute("select test.advance(%s)", [by])
            time.sleep(0.02)

    def watch(connection: Connection) -> None:
        connection.execute("set plan_cache_mode = force_generic_plan")
        while time.monotonic() < deadline and not found.too_low:
            # Once the locks are held nobody is admitted. Reports are not kept from anything: one
            # snapshot, taken after the locks, says both numbers.
            lock = "select pg_{}(lakequeue._lock_class(), id) from lakequeue.model_endpoints"
            connection.execute(lock.format("advisory_lock") + " order by id")
            with connection.transaction():
                connection.execute("set transaction isolation level repeatable read")
                found.make(connection, f"{found.compared} comparisons")
            connection.execute(lock.format("advisory_unlock"))
            time.sleep(0.02)

    for outcome in together(database, [act] * 4 + [let_time_pass, watch]):
        outcome.result()
    assert found.too_low == []
    assert found.compared > 300
    assert found.equal < found.compared - found.void, "the bound never differed from the count"
    assert done["dequeue claimed"] > 10
    assert done["reserve granted"] > 10
    assert done["settle settled"] > 10
    assert_sound_but_for_limits(database)
