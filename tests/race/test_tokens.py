"""Rule 4a and 4c over random tasks: no 60-second window exceeds a token limit.

Nobody knows when within its run an agent spends, so the worst is assumed: a window is charged with
all that was spent by every run that overlaps it. (Spending all at the start, all at the end, or
anything between then stays within the limit too.) The clock stands still and jumps from event to
event.
"""

from __future__ import annotations

import datetime
import heapq
import random
from typing import Any

from tests.race.scene import (
    RESULT,
    Row,
    assert_sound,
    call,
    configure,
    limit_endpoint,
    report,
)
from tests.servers import Database

START = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
# More where no profiler slows the functions down.
TASKS = {"debian": 120, "embedded": 300}

TOKENS_PER_PAGE = 1000
ENDPOINT_TPM = 100_000
AGENT_A_TPM = 60_000

# Windows matter only where they end with a claim: everything that overlaps the 60 s before it.
WINDOWS = """
with spent as (
  select a.*, case when a.usage_complete then a.input_tokens + a.output_tokens
                   else greatest(a.estimated_tokens, coalesce(a.input_tokens + a.output_tokens, 0))
              end as tokens
    from lakequeue.task_attempts a
)
select c.started_at, sum(o.tokens) as tokens, count(*) filter (where o.tokens > 0) as spenders,
       max(o.estimated_tokens) as largest
  from spent c
  join spent o on o.started_at <= c.started_at
              and (o.run_ended_at is null or o.run_ended_at > c.started_at - interval '60 seconds')
              and (%(agent)s::text is null
                   or o.agent_id = (select g.id from lakequeue.agents g where g.name = %(agent)s))
 group by c.id, c.started_at
"""


class Simulation:
    """A queue with random arrivals, lengths, estimates, usage and ends."""

    def __init__(self, database: Database, tasks: int) -> None:
        self.tasks = tasks
        self.random = random.Random(tasks)
        self.connection = database.connect()
        # Faster than the test bed's clock, which is a table.
        self.connection.execute(
            """create or replace function lakequeue._now() returns timestamptz language plpgsql
               as $$ begin
                 return coalesce(current_setting('simulated.now', true)::timestamptz, now());
               end $$"""
        )
        self.now = START
        self.events: list[tuple[datetime.datetime, int, Row | None]] = []
        self.number = 0
        self.enqueued = 0

    def at(self, seconds: float, claimed: Row | None) -> None:
        self.number += 1
        when = self.now + datetime.timedelta(seconds=seconds)
        heapq.heappush(self.events, (when, self.number, claimed))

    def run(self) -> None:
        self.at(0, None)
        while self.events:
            self.now, _, claimed = heapq.heappop(self.events)
            self.connection.execute(
                "select set_config('simulated.now', %s, false)", [self.now.isoformat()]
            )
            if claimed is None:
                self.arrive()
                call(self.connection, "sweep_leases")
            else:
                self.end(claimed)
            for row in call(self.connection, "dequeue_tasks", worker="w", batch_size=3):
                assert row["outcome"] == "claimed"
                self.at(self.random.choice([0.1, 5, 30, 61, 200]) * self.random.random(), row)

    def arrive(self) -> None:
        """A task of 1 to 20 pages comes, or now and then one that is larger than any limit."""
        if self.enqueued < self.tasks:
            self.enqueued += 1
            pages = 150 if self.random.random() < 0.01 else self.random.randint(1, 20)
            self.call_enqueue(pages)
        elif not self.unfinished():
            return
        self.at(self.random.expovariate(1 / 4), None)

    def call_enqueue(self, pages: int) -> None:
        call(
            self.connection,
            "enqueue_task",
            agent=self.random.choice("ab"),
            document_path="/x",
            priority=self.random.randint(0, 9),
            page_count=pages,
        )

    def unfinished(self) -> bool:
        return bool(
            self.connection.execute(
                "select from lakequeue.tasks where status in ('enqueued', 'processing') limit 1"
            ).fetchall()
        )

    def end(self, claimed: Row) -> None:
        """A run ends, one way or the other, and has used no more than was estimated."""
        most = claimed["page_count"] * TOKENS_PER_PAGE
        assert most <= claimed["estimated_tokens"], "estimates learn, but not too low"
        used = self.random.choice([0, most // 3, most, most])
        known: dict[str, Any] = {"input_tokens": used, "output_tokens": 0}
        if self.random.random() < 0.3:
            beat = {"attempts": [claimed["attempt_id"]], "input_tokens": [used // 2]}
            call(self.connection, "extend_leases", tokens=[claimed["callback_token"]], **beat)
        outcome = self.random.choices(
            ["success", "failure", "rate_limited", "permanent_failure"], [80, 10, 5, 5]
        )[0]
        complete = self.random.random() < 0.7
        more = {"result": RESULT} if outcome == "success" else {}
        report(
            self.connection,
            claimed,
            outcome,
            usage_complete=complete,
            **(known if complete or self.random.random() < 0.5 else {}),
            **more,
        )


def test_no_window_exceeds_a_limit_whenever_agents_spend(database: Database) -> None:
    for agent, tpm in (("a", AGENT_A_TPM), ("b", None)):
        configure(
            database,
            agent,
            model_endpoint="shared",
            max_tpm=tpm,
            tokens_per_task=0,
            tokens_per_page=TOKENS_PER_PAGE,
            lease_duration="1 hour",
            max_attempts=3,
        )
    limit_endpoint(database, "shared", max_tpm=ENDPOINT_TPM)
    simulation = Simulation(database, TASKS[database.server.name])
    simulation.run()

    states = dict(database.query("select status, count(*) from lakequeue.tasks group by status"))
    assert set(states) <= {"completed", "failed"}, "everything gets its turn"
    assert sum(states.values()) == simulation.tasks
    limits: list[tuple[str | None, int]] = [(None, ENDPOINT_TPM), ("a", AGENT_A_TPM)]
    for limited, limit in limits:
        windows = simulation.connection.execute(WINDOWS, {"agent": limited}).fetchall()
        fullest = 0
        for started_at, tokens, spenders, largest in windows:
            if tokens > limit:
                # Only a task that is larger than the limit, and then nothing else has spent.
                assert largest > limit, (started_at, tokens)
                assert spenders == 1, (started_at, tokens)
            else:
                fullest = max(fullest, tokens)
        assert fullest > 0.8 * limit, "the limit is used"
    assert_sound(database)
