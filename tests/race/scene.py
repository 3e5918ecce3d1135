"""What the race tests set up, call and look at, said once.

`VIOLATIONS` is the heart: one statement, hence one snapshot, that recounts from tasks and attempts
what the rules promise, and returns a row for whatever is wrong. `watching` asks it all the time
while others act.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Json

from tests.race.harness import Connection
from tests.servers import Database

Row = dict[str, Any]

RESULT = Json({"pages": ["…"]})

# Limits that one task of an agent which `one_place` configures fits, and two do not; also while its
# estimate has a margin of a half.
ONE_PLACE = {
    "max_concurrent_tasks": 1,
    "max_tpm": 1800,
    "max_input_tpm": 1300,
    "max_output_tpm": 450,
    "max_rpm": 1,
}

# What must hold in every snapshot (design rules 1, 3, 4a, 7, 9, 15, 16). Limits are taken as they
# are now, so that a test which lowers one has to wait until the old attempts are gone.
VIOLATIONS = """
with usage as (
  select a.task_id,
         coalesce(sum(a.input_tokens), 0) as input, coalesce(sum(a.output_tokens), 0) as output,
         coalesce(sum(a.cached_tokens), 0) as cached, coalesce(sum(a.llm_cost), 0) as cost,
         1 as ran, (count(a.llm_cost) = count(*))::integer as priced,
         (count(a.input_tokens) > 0)::integer as input_told,
         (count(a.output_tokens) > 0)::integer as output_told,
         (count(a.cached_tokens) > 0)::integer as cached_told,
         (count(a.llm_cost) > 0)::integer as cost_told,
         count(*) filter (where a.run_id is not null and a.job_id is not null) as job_runs,
         count(*) as attempts,
         count(*) filter (where a.status = 'running') as running,
         count(*) filter (where a.status = 'succeeded') as succeeded
    from lakequeue.task_attempts a
   group by a.task_id
), counted as (
  select t.agent_id, t.customer, t.status, lakequeue._day(t.finished_at) as day,
         case when t.status = 'completed'
              then lakequeue._response_bucket(t.finished_at - t.created_at) end as bucket,
         lakequeue._hour(t.finished_at) as hour, 1 as tasks, u.input, u.output, u.cached, u.cost,
         u.ran, u.priced, u.input_told, u.output_told, u.cached_told, u.cost_told,
         case when t.finished_at is not null then (u.job_runs > 0)::integer end as billable
    from lakequeue.tasks t
    left join usage u on u.task_id = t.id
  union all
  select p.agent_id, p.customer, p.status, lakequeue._day(p.hour), p.bucket, p.hour,
         p.tasks, p.input_tokens, p.output_tokens, p.cached_tokens, p.llm_cost,
         p.ran, p.priced, p.input_told, p.output_told, p.cached_told, p.cost_told, p.billable
    from lakequeue.purged_tasks p
), brute as (
  select c.agent_id, c.customer, c.status, c.day,
         sum(c.tasks)::numeric as tasks, coalesce(sum(c.input), 0) as input,
         coalesce(sum(c.output), 0) as output, coalesce(sum(c.cached), 0) as cached,
         coalesce(sum(c.cost), 0) as cost, coalesce(sum(c.ran), 0) as ran,
         coalesce(sum(c.priced), 0) as priced, coalesce(sum(c.input_told), 0) as input_told,
         coalesce(sum(c.output_told), 0) as output_told,
         coalesce(sum(c.cached_told), 0) as cached_told, coalesce(sum(c.cost_told), 0) as cost_told,
         coalesce(sum(c.billable), 0) as billable
    from counted c
   group by 1, 2, 3, 4
), kept as (
  select s.agent_id, s.customer, s.status, s.day, sum(s.tasks) as tasks,
         sum(s.input_tokens) as input, sum(s.output_tokens) as output,
         sum(s.cached_tokens) as cached, sum(s.llm_cost) as cost, sum(s.ran) as ran,
         sum(s.priced) as priced, sum(s.input_told) as input_told,
         sum(s.output_told) as output_told, sum(s.cached_told) as cached_told,
         sum(s.cost_told) as cost_told, sum(s.billable) as billable
    from (select r.agent_id, r.customer, r.status, r.day, r.tasks, r.input_tokens, r.output_tokens,
                 r.cached_tokens, r.llm_cost, r.ran, r.priced, r.input_told, r.output_told,
                 r.cached_told, r.cost_told, r.billable
            from lakequeue.task_rollups r
          union all
          select s.agent_id, s.customer, s.status, s.day, s.tasks, s.input_tokens, s.output_tokens,
                 s.cached_tokens, s.llm_cost, s.ran, s.priced, s.input_told, s.output_told,
                 s.cached_told, s.cost_told, s.billable
            from lakequeue.task_deltas d cross join lateral lakequeue._delta_sides(d) s) s
   group by 1, 2, 3, 4
  having sum(s.tasks) <> 0 or sum(s.input_tokens) <> 0 or sum(s.output_tokens) <> 0
      or sum(s.cached_tokens) <> 0 or sum(s.llm_cost) <> 0 or sum(s.ran) <> 0
      or sum(s.priced) <> 0 or sum(s.input_told) <> 0 or sum(s.output_told) <> 0
      or sum(s.cached_told) <> 0 or sum(s.cost_told) <> 0
      or sum(s.billable) <> 0
), compute_brute as (
  select c.agent_id, c.customer, c.status, c.day, c.currency, sum(c.tasks) as tasks,
         sum(c.priced) as priced, sum(c.list_cost) as list_cost
    from (select t.agent_id, t.customer, t.status, lakequeue._day(t.finished_at) as day, o.currency,
                 1 as tasks, sum(o.list_cost) as list_cost,
                 (t.finished_at is not null
                  and u.job_runs = (select count(*) from lakequeue.compute_runs r
                                     where r.task_id = t.id and r.billed)
                  and not exists (select from lakequeue.compute_costs n
                                   where n.task_id = t.id and n.list_cost is null)
                 )::integer as priced
            from lakequeue.compute_costs o
            join lakequeue.tasks t on t.id = o.task_id
            join usage u on u.task_id = t.id
           where o.list_cost is not null
           group by t.id, o.currency, u.job_runs
          union all
          select p.agent_id, p.customer, p.status, p.day, p.currency, p.tasks, p.list_cost, p.priced
            from lakequeue.purged_compute p) c
   group by 1, 2, 3, 4, 5
), compute_kept as (
  select c.agent_id, c.customer, c.status, c.day, c.currency, sum(c.tasks) as tasks,
         sum(c.priced) as priced, sum(c.list_cost) as list_cost
    from (select r.agent_id, r.customer, r.status, r.day, r.currency, r.tasks, r.priced, r.list_cost
            from lakequeue.compute_rollups r
          union all
          select d.agent_id, d.customer, d.status, d.day, d.currency, d.tasks, d.priced, d.list_cost
            from lakequeue.compute_deltas d) c
   group by 1, 2, 3, 4, 5
  having sum(c.tasks) <> 0 or sum(c.priced) <> 0 or sum(c.list_cost) <> 0
), times_brute as (
  select coalesce(c.agent_id, 0) as agent_id, c.customer, s.*, c.bucket,
         sum(c.tasks)::numeric as tasks
    from counted c
   cross join lateral (values (false, c.day), (true, c.day - extract(day from c.day)::int + 1))
         s(by_month, day)
   where c.bucket is not null
   group by cube (c.agent_id, c.customer), s.by_month, s.day, c.bucket
), times_kept as (
  select h.agent_id, h.customer, h.by_month, h.day, h.bucket, sum(h.tasks) as tasks
    from (select r.agent_id, r.customer, r.by_month, r.day, r.bucket, r.tasks
            from lakequeue.response_histogram r
          union all
          select coalesce(s.agent_id, 0), s.customer, m.by_month, m.day, s.bucket, sum(s.tasks)
            from lakequeue.task_deltas d cross join lateral lakequeue._delta_sides(d) s
           cross join lateral (values (false, s.day), (true, date_trunc('month', s.day)::date))
                 m(by_month, day)
           where s.bucket is not null
           group by cube (s.agent_id, s.customer), m.by_month, m.day, s.bucket) h
   group by 1, 2, 3, 4, 5
  having sum(h.tasks) <> 0
), remembered as materialized (  -- older ones are forgotten; one look at a clock that others move
  select lakequeue._now() - interval '34 days'
), hour_times_brute as (
  select coalesce(c.agent_id, 0) as agent_id, c.customer, c.hour, c.bucket,
         sum(c.tasks)::numeric as tasks
    from counted c
   where c.bucket is not null and c.hour >= (table remembered)
   group by cube (c.agent_id, c.customer), c.hour, c.bucket
), hour_times_kept as (
  select h.agent_id, h.customer, h.hour, h.bucket, sum(h.tasks) as tasks
    from (select r.agent_id, r.customer, r.hour, r.bucket, r.tasks
            from lakequeue.hourly_histogram r
          union all
          select coalesce(s.agent_id, 0), s.customer, s.hour, s.bucket, sum(s.tasks)
            from lakequeue.task_deltas d cross join lateral lakequeue._delta_sides(d) s
           where s.bucket is not null
           group by cube (s.agent_id, s.customer), s.hour, s.bucket) h
   where h.hour >= (table remembered)
   group by 1, 2, 3, 4
  having sum(h.tasks) <> 0
), hours_brute as (
  select c.agent_id, c.customer, c.status, c.hour, sum(c.tasks) as tasks
    from (select t.agent_id, t.customer, t.status, lakequeue._hour(t.finished_at) as hour,
                 1 as tasks
            from lakequeue.tasks t where t.finished_at is not null
          union all
          select p.agent_id, p.customer, p.status, p.hour, p.tasks
            from lakequeue.purged_tasks p) c
   group by 1, 2, 3, 4
), hours_kept as (
  select h.agent_id, h.customer, h.status, h.hour, sum(h.tasks) as tasks
    from (select r.agent_id, r.customer, r.status, r.hour, r.tasks
            from lakequeue.hourly_rollups r
          union all
          select s.agent_id, s.customer, s.status, s.hour, s.tasks
            from lakequeue.task_deltas d cross join lateral lakequeue._delta_sides(d) s
           where s.hour is not null) h
   group by 1, 2, 3, 4
  having sum(h.tasks) <> 0
), alive as (
  select a.agent_id, a.endpoint_id from lakequeue.task_attempts a where a.run_ended_at is null
)
select 'rule 1: task ' || t.id || ' is ' || t.status || ' with ' || coalesce(u.running, 0)
       || ' running attempts' as problem
  from lakequeue.tasks t
  left join usage u on u.task_id = t.id
 where (t.status = 'processing') <> (coalesce(u.running, 0) = 1) or u.running > 1
union all
select 'rule 1: lease and status of task ' || t.id
  from lakequeue.tasks t
 where (t.status = 'processing') <> (t.locked_by is not null)
    or (t.status = 'processing') <> (t.lease_expires_at is not null)
union all
select 'rule 3: agent ' || g.name || ' has ' || count(*) || ' of ' || g.max_concurrent_tasks
  from lakequeue.agents g join alive l on l.agent_id = g.id
 group by g.id having count(*) > g.max_concurrent_tasks
union all
select 'rule 3: endpoint ' || e.name || ' has ' || count(*) || ' of ' || e.max_concurrent_tasks
  from lakequeue.model_endpoints e join alive l on l.endpoint_id = e.id
 group by e.id having count(*) > e.max_concurrent_tasks
union all
select 'rule 3: attempt ' || a.id || ' would count for ever'
  from lakequeue.task_attempts a
 where a.status <> 'running' and a.run_ended_at is null and a.presumed_dead_at is null
union all
select 'rule 7: task ' || t.id || ' counts ' || t.attempt_count || ' of ' || coalesce(u.attempts, 0)
  from lakequeue.tasks t
  left join usage u on u.task_id = t.id
 where t.attempt_count <> coalesce(u.attempts, 0)
union all
select 'rule 9: task ' || t.id || ' is ' || t.status || ' with ' || coalesce(u.succeeded, 0)
       || ' successes'
  from lakequeue.tasks t
  left join usage u on u.task_id = t.id
 where (t.status = 'completed') <> (coalesce(u.succeeded, 0) = 1)
union all
select 'rule 9: attempt ' || a.id || ' succeeded without a result'
  from lakequeue.task_attempts a
 where a.status = 'succeeded'
   and not exists (select from lakequeue.results r where r.attempt_id = a.id)
union all
select 'dedup: ' || t.dedup_key || ' is held ' || count(*) || ' times'
  from lakequeue.tasks t
 where t.dedup_key is not null and t.status not in ('failed', 'cancelled')
 group by t.agent_id, t.customer, t.dedup_key having count(*) > 1
union all
select 'rule 15: delta ' || d.id || ' came below the mark'
  from lakequeue.task_deltas d where d.id <= lakequeue._folded_to()
union all
select 'rule 16: ' || h.what || ' ' || h.id || ' is hidden below ' || h.mark
  from (select 'open call' as what, c.id, c.place,
               case when c.place < 1::bigint << 62 then b.call_from
                    else coalesce(b.calls_overtaken_from, 9223372036854775807) end as mark
          from lakequeue.model_calls c cross join lateral (
            select k.* from lakequeue.running_books k where k.endpoint_id = c.endpoint_id
             order by k.no desc limit 1) b
         where c.ended_at is null
        union all
        select 'run of attempt', a.id, a.place,
               case when a.place < 1::bigint << 62 then b.place_from
                    else coalesce(b.overtaken_from, 9223372036854775807) end
          from lakequeue.task_attempts a cross join lateral (
            select k.* from lakequeue.running_books k where k.endpoint_id = a.endpoint_id
             order by k.no desc limit 1) b
         where a.run_ended_at is null) h
 where h.place < h.mark
union all
select 'rule 15: ' || p.how || ' ' || p::text
  from ((select 'kept, not true:' as how, k.* from (table kept except table brute) k)
        union all
        (select 'true, not kept:', b.* from (table brute except table kept) b)) p
union all
select 'rule 15, compute: ' || p.how || ' ' || p::text
  from ((select 'kept, not true:' as how, k.*
           from (table compute_kept except table compute_brute) k)
        union all
        (select 'true, not kept:', b.*
           from (table compute_brute except table compute_kept) b)) p
union all
select 'rule 15, response times: ' || p.how || ' ' || p::text
  from ((select 'kept, not true:' as how, k.* from (table times_kept except table times_brute) k)
        union all
        (select 'true, not kept:', b.* from (table times_brute except table times_kept) b)) p
union all
select 'rule 15, response times by the hour: ' || p.how || ' ' || p::text
  from ((select 'kept, not true:' as how, k.*
           from (table hour_times_kept except table hour_times_brute) k)
        union all
        (select 'true, not kept:', b.*
           from (table hour_times_brute except table hour_times_kept) b)) p
union all
select 'rule 15, hours: ' || p.how || ' ' || p::text
  from ((select 'kept, not true:' as how, k.* from (table hours_kept except table hours_brute) k)
        union all
        (select 'true, not kept:', b.* from (table hours_brute except table hours_kept) b)) p
"""


def call(connection: psycopg.Connection[Any], function: str, **arguments: Any) -> list[Row]:
    """The rows of `select * from lakequeue.function(argument => value, …)`.

    Calls again, as callers should, what gave up a wait that could have closed a circle.
    """
    names = ", ".join(f"{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        for tries_left in reversed(range(5 if connection.autocommit else 1)):
            try:
                cursor.execute(f"select * from lakequeue.{function}({names})", arguments)
                break
            except psycopg.errors.LockNotAvailable:
                if not tries_left:
                    raise
        return cursor.fetchall()


def answer(connection: psycopg.Connection[Any], function: str, **arguments: Any) -> Any:
    """What a function that returns one value returned."""
    (row,) = call(connection, function, **arguments)
    (value,) = row.values()
    return value


def configure(database: Database, agent: str = "parser", **settings: Any) -> None:
    """Make or change an agent, with estimates as configured; a breaker would stop the stress."""
    settings = {"breaker_failures": 0, "estimate_factor": 1} | settings
    with psycopg.connect(database.conninfo("test_operator"), autocommit=True) as connection:
        call(connection, "configure_agent", agent=agent, **settings)


def limit_endpoint(database: Database, endpoint: str, **limits: int) -> None:
    """Set the limits of an endpoint."""
    with psycopg.connect(database.conninfo("test_operator"), autocommit=True) as connection:
        call(connection, "configure_endpoint", endpoint=endpoint, **limits)


def one_place(database: Database, where: str, limit: str, agent: str = "parser") -> None:
    """Give an agent or its endpoint one of the limits of ONE_PLACE."""
    sizes = {"tokens_per_task": 1000, "tokens_per_page": 0, "output_share": 0.25}
    one = {limit: ONE_PLACE[limit]}
    configure(database, agent, **sizes, **(one if where == "agent" else {}))
    if where == "endpoint":
        limit_endpoint(database, agent, **one)


def enqueue(database: Database, count: int, agent: str = "parser", **document: Any) -> list[int]:
    """Enqueue so many documents of one kind and return their tasks."""
    documents = [{"document_path": f"/{agent}/{n}.pdf"} | document for n in range(count)]
    with psycopg.connect(database.conninfo("test_app"), autocommit=True) as connection:
        rows = call(connection, "enqueue_tasks", agent=agent, documents=Json(documents))
    return [row["task_id"] for row in rows]


def dequeue(
    connection: psycopg.Connection[Any],
    worker: str = "w",
    batch_size: int = 10,
    agents: Sequence[str] | None = None,
) -> list[Row]:
    """Claim, and try again as long as others hold the locks."""
    while True:
        rows = call(
            connection,
            "dequeue_tasks",
            worker=worker,
            batch_size=batch_size,
            agents=None if agents is None else list(agents),
        )
        if not rows or rows[0]["outcome"] != "busy":
            return rows


def claim(database: Database, **arguments: Any) -> Row:
    """Claim exactly one task."""
    with psycopg.connect(database.conninfo("test_worker"), autocommit=True) as connection:
        (row,) = dequeue(connection, **({"batch_size": 1} | arguments))
    return row


def report(connection: psycopg.Connection[Any], claimed: Row, outcome: str, **more: Any) -> str:
    """What an agent's callback was answered."""
    return str(
        answer(
            connection,
            "record_callback",
            attempt=claimed["attempt_id"],
            token=claimed["callback_token"],
            outcome=outcome,
            **more,
        )
    )


def store(connection: psycopg.Connection[Any], claimed: Row) -> str:
    """What store_result answered."""
    return str(
        answer(
            connection,
            "store_result",
            attempt=claimed["attempt_id"],
            token=claimed["callback_token"],
            result=RESULT,
        )
    )


def violations(connection: psycopg.Connection[Any]) -> list[str]:
    """What is wrong in this snapshot."""
    return [row[0] for row in connection.execute(VIOLATIONS).fetchall()]


def assert_sound(database: Database) -> None:
    """Fail with whatever rule is broken now."""
    with psycopg.connect(database.conninfo(), autocommit=True) as connection:
        assert violations(connection) == []


@dataclass
class Watch:
    """What a watcher saw."""

    looks: int = 0
    problems: list[str] = field(default_factory=list)


@contextlib.contextmanager
def watching(database: Database) -> Iterator[Watch]:
    """Recount all the time from a connection of its own while the block goes on.

    Fails if any snapshot broke a rule.
    """
    watch = Watch()
    over = threading.Event()
    connection: Connection = database.connect()

    def look() -> None:
        while not over.is_set() and not watch.problems:
            watch.problems += violations(connection)
            watch.looks += 1
            over.wait(0.01)  # leave the processor to those who race

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join(60)
        connection.close()
    assert watch.problems == [], watch.problems
    assert watch.looks > 0
