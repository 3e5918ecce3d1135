"""Runs on a simulated clock: the real SQL functions, a strict endpoint, many tasks.

Nothing sleeps. Everything that would take time is an event; before each call of a function the
database's clock is set to the event's time. The endpoint refuses whatever would take one of its
60-second windows above a limit: requests and prompt tokens count from their arrival, answer tokens
as reserved while the call is under way and as used for 60 seconds after its end.
"""

from __future__ import annotations

import datetime
import functools
import heapq
import itertools
import math
import random
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Json

from tests.servers import Database

Policy = Literal["reserved", "totals", "retries", "cap"]

MINUTE = 60.0
NETWORK_SECONDS = 0.02
MOST_RETRIES = 8
"""A client that was refused so often in a row gives up, and its attempt fails."""
START = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)

CLOCK = """
create or replace function lakequeue._now() returns timestamptz
language plpgsql volatile set search_path = pg_catalog, lakequeue, pg_temp
as $$ begin return current_setting('bench.now')::timestamptz; end $$
"""


@dataclass(frozen=True)
class Limits:
    """What the endpoint allows in a minute."""

    requests: int
    input: int
    output: int


@dataclass(frozen=True)
class Call:
    """One model call as it will turn out."""

    input: int
    max_output: int
    output: int
    seconds: float


@dataclass
class Task:
    """One document, and what became of it."""

    created: float
    priority: int
    calls: list[Call]
    pause: float
    """Seconds before each call: reading the document, the agent's own work."""
    id: int = 0
    claimed: float | None = None
    finished: float | None = None


@dataclass
class Window:
    """The sum of what was counted in the last minute."""

    limit: int
    sum: int = 0
    largest: int = 0
    entries: deque[tuple[float, int]] = field(default_factory=deque)

    def room(self, now: float) -> int:
        """What may still come."""
        while self.entries and self.entries[0][0] <= now - MINUTE:
            self.sum -= self.entries.popleft()[1]
        return self.limit - self.sum

    def add(self, amount: int, now: float) -> None:
        """Count an amount from now on, for a minute."""
        self.entries.append((now, amount))
        self.sum += amount
        self.largest = max(self.largest, self.sum)


class Endpoint:
    """Refuses what would exceed a window; counts what it served."""

    def __init__(self, limits: Limits) -> None:
        self.requests = Window(limits.requests)
        self.input = Window(limits.input)
        self.output = Window(limits.output)
        self.reserved = 0
        self.rejected = 0
        self.served: list[tuple[float, Call]] = []

    def arrives(self, call: Call, now: float) -> bool:
        """Whether the call is taken."""
        output_room = self.output.room(now) - self.reserved
        if (
            self.requests.room(now) < 1
            or self.input.room(now) < call.input
            or output_room < call.max_output
        ):
            # As with most providers: what is refused counts as a request all the same.
            self.rejected += 1
            self.requests.add(1, now)
            return False
        self.requests.add(1, now)
        self.input.add(call.input, now)
        self.reserved += call.max_output
        self.served.append((now, call))
        return True

    def ends(self, call: Call, now: float) -> None:
        """The call was answered."""
        self.output.room(now)
        self.reserved -= call.max_output
        self.output.add(call.output, now)

    def quota_used(self, limits: Limits, since: float, until: float) -> float:
        """Share of the limit that binds, in this span."""
        minutes = (until - since) / MINUTE
        span = [call for at, call in self.served if since <= at < until]
        return max(
            len(span) / limits.requests / minutes,
            sum(call.input for call in span) / limits.input / minutes,
            sum(call.output for call in span) / limits.output / minutes,
        )


class Simulation:
    """One policy with one workload."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        limits: Limits,
        tasks: list[Task],
        *,
        seconds: float,
        cap: int,
        tokens_per_call: int,
        output_share: float,
        seed: int = 1,
    ) -> None:
        self.policy = policy
        self.limits = limits
        self.tasks = tasks
        self.seconds = seconds
        self.endpoint = Endpoint(limits)
        self.random = random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.by_id: dict[int, Task] = {}
        self.calls_made = 0
        self.call_waits: list[float] = []
        self.running = 0
        self.nudged = False
        self.wasted: list[Call] = []
        self.most_running = 0
        self.connection = psycopg.connect(
            database.conninfo(), autocommit=True, row_factory=dict_row, prepare_threshold=1
        )
        self.connection.execute(CLOCK)
        self._tick()
        settings: dict[str, Any] = {
            "agent": "agent",
            "lease_duration": datetime.timedelta(days=1),
            "tokens_per_task": 0,
            "tokens_per_page": tokens_per_call,
            "output_share": output_share,
        }
        if policy == "cap":
            settings["max_concurrent_tasks"] = cap
        elif policy in ("reserved", "totals"):
            self.call(
                "configure_endpoint",
                endpoint="model",
                max_input_tpm=limits.input,
                max_output_tpm=limits.output,
                max_rpm=limits.requests,
            )
            settings |= {"model_endpoint": "model", "reserves_calls": policy == "reserved"}
        self.call("configure_agent", **settings)

    # --- the database at the simulated time

    def _tick(self) -> None:
        at = START + datetime.timedelta(seconds=self.now)
        self.connection.execute("select set_config('bench.now', %s, false)", [at.isoformat()])

    def call(self, function: str, **arguments: Any) -> list[dict[str, Any]]:
        """Call a function of the schema now."""
        names = ", ".join(f"{name} => %({name})s" for name in arguments)
        self._tick()
        return self.connection.execute(
            f"select * from lakequeue.{function}({names})", arguments
        ).fetchall()

    # --- events

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self.events, (when, next(self.numbers), what))

    def run(self) -> Simulation:
        """Let the time pass."""
        arrivals: dict[float, list[Task]] = {}
        for task in self.tasks:
            arrivals.setdefault(task.created, []).append(task)
        for created, group in arrivals.items():
            self.at(created, functools.partial(self._enqueue, group))
        self.at(0.001, self._poll)
        self.at(5.0, self._sweep)
        while self.events and self.now <= self.seconds:
            self.now, _, what = heapq.heappop(self.events)
            what()
        self.connection.close()
        return self

    def _enqueue(self, tasks: list[Task]) -> None:
        documents = [
            {"document_path": "/d.pdf", "priority": t.priority, "page_count": len(t.calls)}
            for t in tasks
        ]
        rows = self.call("enqueue_tasks", agent="agent", documents=Json(documents))
        for row, task in zip(rows, tasks, strict=True):
            task.id = row["task_id"]
            self.by_id[task.id] = task

    def _sweep(self) -> None:
        self.call("sweep_leases")
        self.at(self.now + 10, self._sweep)

    def _poll(self) -> None:
        self._work()
        self.at(self.now + 2, self._poll)

    def nudge(self) -> None:
        """Something may be claimable, as a worker hears by NOTIFY."""
        if not self.nudged:
            self.nudged = True
            self.at(self.now + 0.1, self._work)

    def _work(self) -> None:
        self.nudged = False
        for row in self.call("dequeue_tasks", worker="worker", batch_size=20):
            task = self.by_id[row["task_id"]]
            task.claimed = self.now
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            run = _Run(self, task, row["attempt_id"], row["callback_token"])
            self.at(self.now + task.pause, run.ask)


class _Run:
    """The agent's side: one call after the other."""

    def __init__(self, simulation: Simulation, task: Task, attempt: int, token: str) -> None:
        self.simulation = simulation
        self.task = task
        self.attempt = {"attempt": attempt, "token": token}
        self.done = 0
        self.key: uuid.UUID | None = None
        self.asked = 0.0
        self.refused = 0

    @property
    def call(self) -> Call:
        return self.task.calls[self.done]

    def ask(self) -> None:
        sim = self.simulation
        if sim.policy != "reserved":
            self.arrive()
            return
        if self.key is None:
            self.key = uuid.UUID(int=sim.random.getrandbits(128), version=4)
            self.asked = sim.now
        (row,) = sim.call(
            "reserve_tokens",
            **self.attempt,
            input_tokens=self.call.input,
            max_output_tokens=self.call.max_output,
            call=self.key,
        )
        if row["answer"] == "wait":
            sim.at(sim.now + row["wait"].total_seconds(), self.ask)
        else:
            assert row["answer"] == "granted", row
            sim.call_waits.append(sim.now - self.asked)
            sim.at(sim.now + NETWORK_SECONDS, self.arrive)

    def arrive(self) -> None:
        sim = self.simulation
        if sim.endpoint.arrives(self.call, sim.now):
            sim.at(sim.now + self.call.seconds, self.answered)
            return
        # What clients do without a throttle: wait, twice as long each time, with jitter.
        self.refused += 1
        if self.refused > MOST_RETRIES:
            sim.call("record_callback", **self.attempt, outcome="failure")
            sim.wasted += self.task.calls[: self.done]
            sim.running -= 1
            sim.nudge()
            return
        pause = min(60.0, 2.0 ** min(self.refused, 6)) * sim.random.uniform(0.5, 1)
        if sim.policy in ("reserved", "totals"):
            sim.call("report_rate_limit", **self.attempt)
        sim.at(sim.now + pause, self.arrive)

    def answered(self) -> None:
        sim = self.simulation
        sim.endpoint.ends(self.call, sim.now)
        sim.calls_made += 1
        self.refused = 0
        sim.at(sim.now + NETWORK_SECONDS, self.settle)

    def settle(self) -> None:
        sim = self.simulation
        if self.key is not None:
            sim.call(
                "settle_tokens",
                **self.attempt,
                call=self.key,
                input_tokens=self.call.input,
                output_tokens=self.call.output,
            )
            self.key = None
        self.done += 1
        if self.done < len(self.task.calls):
            sim.at(sim.now + self.task.pause, self.ask)
            return
        sim.call(
            "record_callback",
            **self.attempt,
            outcome="success",
            result=Json({"pages": len(self.task.calls)}),
            input_tokens=sum(call.input for call in self.task.calls),
            output_tokens=sum(call.output for call in self.task.calls),
            usage_complete=True,
        )
        self.task.finished = sim.now
        sim.running -= 1
        sim.nudge()


# --- what came out ------------------------------------------------------------------------------


def percentile(values: list[float], share: float) -> float:
    """The value below which this share lies; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def wait_beyond_turn(tasks: list[Task], end: float) -> float:
    """The longest that a task waited after another of its priority or a lower one went first."""
    claimed = sorted(
        (t for t in tasks if t.claimed is not None), key=lambda t: (t.claimed, -t.priority, t.id)
    )
    longest = 0.0
    for task in tasks:
        for other in claimed:
            if other.claimed >= (task.claimed or end):  # type: ignore[operator]
                break
            after = other.priority < task.priority or (
                other.priority == task.priority and other.id > task.id
            )
            if after and other.claimed >= task.created:  # type: ignore[operator]
                longest = max(longest, (task.claimed or end) - other.claimed)  # type: ignore[operator]
                break
    return longest
