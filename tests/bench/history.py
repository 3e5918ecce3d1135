"""A queue with a long past, or a long backlog: copies of what the functions themselves have left.

A small seed goes through the SQL API. Then SQL copies its rows with new keys and other times, and
writes the deltas that the functions would have written; folding them is the product's own. So a
copy has whatever columns a task of today has. `scene.violations` is the proof.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from psycopg.types.json import Json

from tests.bench.queues import LIMITS, RESULT, Connection
from tests.servers import Database, Server

LIMITED = "limited"
"""The agent with every limit; the others have none."""
AGENTS = ("invoices", "contracts", "letters", "reports", LIMITED)
CUSTOMERS = ("acme", "globex", "initech", "umbrella", "")
RARE = "rare"
"""A customer with one task in a thousand."""
SEED = 1000
DAYS = 180
COPIES_AT_ONCE = 100
FOLD = 100_000

KEYS = ("id", "task_id", "attempt_id", "extraction_id", "run_id")
TABLES = {
    "extractions": "id",
    "extraction_documents": "id",
    "tasks": "id",
    "task_attempts": "id",
    "results": "attempt_id",
    "task_events": "id",
    "compute_runs": "attempt_id",
    "compute_costs": "attempt_id",
}
"""What is copied, with its key."""
USAGE = (
    *("input_tokens", "output_tokens", "cached_tokens", "llm_cost", "ran", "priced"),
    *("input_told", "output_told", "cached_told", "cost_told"),
)
"""As _task_usage tells it, in this order; its last number is that of job runs."""


def built(server: Server, finished: int, waiting: int) -> Database:
    """A new database with so many tasks; says how long that took."""
    started = time.monotonic()
    database = server.clone("pristine")
    build(database, finished, waiting)
    print(f"{finished + waiting:,} tasks made in {time.monotonic() - started:.0f} s", flush=True)
    return database


def build(database: Database, finished: int, waiting: int) -> None:
    """Leave so many finished tasks, evenly over the last days, and so many that wait."""
    with database.server.admin(database.name) as admin:
        configure(admin)
        admin.execute("set session_replication_role = replica")  # nobody is to be nudged
        admin.execute("set synchronous_commit = off")
        admin.execute("set maintenance_work_mem = '512MB'")
        dice = random.Random(8)
        seeds = []
        for count, make, seconds in (
            (finished, finish, DAYS * 86_400),
            (waiting, enqueue, 600),
        ):
            size = min(count, SEED)
            if size:
                before = highest(admin)
                make(admin, size, dice)
                seeds.append((before, highest(admin), count // size - 1, seconds))
        admin.execute(
            "create temporary table seeds as select s.*, lakequeue._task_usage(s.id) as usage"
            " from lakequeue.tasks s"
        )
        admin.execute(
            "create temporary table bills as"
            " select c.* from lakequeue._task_compute(array(select s.id from seeds s)) c"
        )
        with without_indexes(admin):
            for seed in seeds:
                multiply(admin, *seed)
        sample(admin)
        fold(admin)
        admin.execute("reset session_replication_role")
        admin.execute("vacuum (analyze, parallel 0)")


def configure(admin: Connection) -> None:
    """The agents; whatever fails is tried again at once, and never pauses one."""
    limits = "".join(f", {name} => {value}" for name, value in LIMITS.items())
    for agent in AGENTS:
        admin.execute(
            "select lakequeue.configure_agent(%s, job_id => 7, retry_base => '0',"
            " breaker_failures => 0" + (limits if agent == LIMITED else "") + ")",
            [agent],
        )
    admin.execute("select lakequeue.worker_heartbeat('w', relay => 'databricks')")
    admin.execute("select lakequeue.set_person('ann', 'operator')")


def enqueue(admin: Connection, count: int, dice: random.Random) -> None:
    """Enqueue so many, an extraction for each agent and customer."""
    kinds = [(agent, customer) for customer in CUSTOMERS for agent in AGENTS]
    kinds = kinds[: max(len(AGENTS), count // 10)]
    shares = [count // len(kinds) + (number < count % len(kinds)) for number in range(len(kinds))]
    for (agent, customer), share in zip(kinds, shares, strict=True):
        documents = [
            {"document_path": f"/Volumes/main/audit/{agent}/{n:04}.pdf", "priority": n % 3}
            | {"page_count": n % 7 + 1, "dedup_key": dice.randbytes(16).hex()}
            for n in range(share)
        ]
        found = admin.execute(
            "select lakequeue.create_extraction('documents', customer => %s)", [customer]
        ).fetchone()
        assert found is not None
        admin.execute(
            "select count(*)"
            " from lakequeue.enqueue_tasks(%s, %s, customer => %s, extraction => %s)",
            [agent, Json(documents), customer, found[0]],
        )


def finish(admin: Connection, count: int, dice: random.Random) -> None:
    """Enqueue so many and let them end as tasks do: most well, some at the second attempt."""
    enqueue(admin, count - 1, dice)
    admin.execute("select lakequeue.enqueue_task(%s, '/a.pdf', customer => %s)", [AGENTS[0], RARE])
    admin.execute(
        "select count(*) from lakequeue.cancel_tasks(array(select id from lakequeue.tasks"
        " where status = 'enqueued' order by id limit %s), reason => 'not needed')",
        [count // 50],
    )
    while rows := admin.execute(
        "select attempt_id, callback_token from lakequeue.dequeue_tasks('w', 40)"
        " where outcome = 'claimed'"
    ).fetchall():
        runs = [attempt for attempt, _ in rows]
        admin.execute("select count(*) from lakequeue.record_runs(%s, %s)", [runs, runs])
        reports = [{"attempt": attempt, "token": token} | report(dice) for attempt, token in rows]
        admin.execute("select count(*) from lakequeue.record_callbacks(%s)", [Json(reports)])
        admin.execute("select * from lakequeue.sweep_leases()")
    bill(admin, dice)


def report(dice: random.Random) -> dict[str, Any]:
    """What an agent says at the end; not every one knows what the run cost."""
    used: dict[str, Any] = {"input_tokens": dice.randint(500, 9000), "usage_complete": True}
    used["output_tokens"] = used["input_tokens"] // 9
    if dice.random() < 0.9:
        used["llm_cost"] = used["input_tokens"] / 1_000_000
    (outcome,) = dice.choices(("success", "failure", "permanent_failure"), (90, 5, 5))
    if outcome == "success":
        return {"outcome": outcome, "result": RESULT, "confidence": dice.random()} | used
    return {"outcome": outcome, "error": {"class": "unreadable", "message": "no page"}} | used


def bill(admin: Connection, dice: random.Random) -> None:
    """Ask billing once, which knows most of the runs, and not of all what they cost."""
    asked = admin.execute(
        "select fetch_id, run_ids from lakequeue.begin_compute_fetch('ann', batch_size => 10000)"
    ).fetchone()
    assert asked is not None
    fetch, runs = asked
    used: dict[str, str | None] = {"kind": "run", "sku": "JOBS", "unit": "DBU", "quantity": "1"}
    used["day"] = "2026-01-01"
    rows = [
        used
        | {"name": str(run), "currency": "EUR" if dice.random() < 0.1 else "USD"}
        | {"cost": str(dice.randint(1, 999) / 1000) if dice.random() < 0.95 else None}
        for run in runs
        if dice.random() < 0.9
    ]
    admin.execute("select lakequeue.record_compute_cost(%s, 'w', %s)", [fetch, Json(rows)])


def highest(admin: Connection) -> dict[str, int]:
    """The highest key of each table."""
    found = {}
    for table, column in TABLES.items():
        row = admin.execute(f"select coalesce(max({column}), 0) from lakequeue.{table}").fetchone()
        assert row is not None
        found[table] = row[0]
    return found


@contextlib.contextmanager
def without_indexes(admin: Connection) -> Iterator[None]:
    """Meanwhile the tables have no index but those of their keys; the others are made after it."""
    found = admin.execute(
        "select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i"
        " where i.indrelid = any(%s::regclass[])"
        " and not exists (select from pg_constraint c where c.conindid = i.indexrelid)",
        [[f"lakequeue.{table}" for table in TABLES]],
    ).fetchall()
    for name, _ in found:
        admin.execute(f"drop index {name}")
    yield
    for _, definition in found:
        admin.execute(definition)


def multiply(
    admin: Connection, before: dict[str, int], after: dict[str, int], copies: int, seconds: int
) -> None:
    """Copy what is between these keys; the oldest copy has the lowest keys of them.

    A copy's times are the seed's, moved back and stretched by a factor of its own: so order and
    intervals fit each other as they did, and response times are as many as tasks.
    """
    row = admin.execute(
        "select clock_timestamp(), time_zone from lakequeue.installation"
    ).fetchone()
    assert row is not None
    anchor, zone = row
    stride = max(highest(admin).values())

    admin.execute(
        "create temporary table copies as select k, k * %s::bigint as keys,"
        " %s::float8 * (%s - k) * interval '1 s' as back,"
        " 300 * 8 ^ (k * 0.618034 %% 1)::float8 as slower"
        " from generate_series(1, %s) k",
        [stride, seconds / max(copies, 1), copies, copies],
    )

    def at(column: str) -> str:
        return f"('{anchor}'::timestamptz - back + ({column} - '{anchor}'::timestamptz) * slower)"

    for first in range(1, copies + 1, COPIES_AT_ONCE):
        last = min(first + COPIES_AT_ONCE - 1, copies)
        for table, key in TABLES.items():
            into, values = copied(admin, table, at)
            admin.execute(
                f"insert into lakequeue.{table} ({into}) overriding system value"
                f" select {values} from copies, lakequeue.{table} s"
                f" where k between {first} and {last}"
                f" and s.{key} > {before[table]} and s.{key} <= {after[table]}"
                f" order by k, s.{key}"
            )
        seeds = f"s.id > {before['tasks']} and s.id <= {after['tasks']}"
        admin.execute(deltas(at, zone, seeds, f"k between {first} and {last}"))
        admin.execute(compute_deltas(at, zone, seeds, f"k between {first} and {last}"))
        fold(admin)
    admin.execute("drop table copies")
    for table, key in TABLES.items():
        admin.execute(  # null, hence nothing, of results and of what is empty
            f"select setval(pg_get_serial_sequence('lakequeue.{table}', '{key}'),"
            f" (select max({key}) from lakequeue.{table}))"
        )


def copied(admin: Connection, table: str, at: Callable[[str], str]) -> tuple[str, str]:
    """The columns of a table, and what each is in copy k of row s."""
    columns = admin.execute(
        "select attname, atttypid::regtype::text from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
        [f"lakequeue.{table}"],
    ).fetchall()

    def value(name: str, kind: str) -> str:
        if name in KEYS:
            return f"s.{name} + keys"
        if kind == "timestamp with time zone":
            return at(f"s.{name}")
        if name == "dedup_key":
            return f"s.{name} || '-' || k"
        return "gen_random_uuid()" if kind == "uuid" else f"s.{name}"

    names = ", ".join(name for name, _ in columns)
    return names, ", ".join(value(name, kind) for name, kind in columns)


def deltas(at: Callable[[str], str], zone: str, seeds: str, copies: str) -> str:
    """The statement that writes the deltas of copies, as those of new tasks in their last state."""
    return (
        "insert into lakequeue.task_deltas (agent_id, customer, to_status, to_day, to_hour,"
        f" to_bucket, tasks, to_billable, {', '.join(f'to_{name}' for name in USAGE)})"
        f" select c.agent_id, c.customer, c.status, (c.finished_at at time zone '{zone}')::date,"
        f" date_trunc('hour', c.finished_at, '{zone}'), case when c.status = 'completed'"
        " then lakequeue._response_bucket(c.finished_at - c.created_at) end, count(*),"
        " count(*) filter (where c.finished_at is not null and c.usage[11] > 0), "
        + ", ".join(f"sum(c.usage[{place}])" for place in range(1, len(USAGE) + 1))
        + f" from (select s.agent_id, s.customer, s.status, s.usage, {at('s.created_at')} as"
        f" created_at, {at('s.finished_at')} as finished_at"
        f" from seeds s, copies where {seeds} and {copies}) c"
        " group by 1, 2, 3, 4, 5, 6"
    )


def compute_deltas(at: Callable[[str], str], zone: str, seeds: str, copies: str) -> str:
    """The statement that writes what billing has told of copies."""
    return (
        "insert into lakequeue.compute_deltas"
        " (agent_id, customer, status, day, currency, tasks, priced, list_cost)"
        " select c.agent_id, c.customer, c.status, c.day, c.currency, count(*),"
        " count(*) filter (where c.billed_runs = c.runs and not c.unpriced), sum(c.list_cost)"
        " from (select s.agent_id, s.customer, s.status, s.usage[11] as runs, b.currency,"
        f" b.list_cost, b.billed_runs, b.unpriced,"
        f" ({at('s.finished_at')} at time zone '{zone}')::date as day"
        f" from seeds s join bills b on b.task_id = s.id, copies where {seeds} and {copies}"
        " and s.finished_at is not null) c"
        " group by 1, 2, 3, 4, 5"
    )


def sample(admin: Connection) -> None:
    """The lengths of the queue that were noted all the time, but for the last minutes."""
    admin.execute(
        "insert into lakequeue.queue_samples (at, agent_id, enqueued, processing)"
        " select at, a.id, 100 + a.id, a.id from lakequeue.agents a, generate_series("
        " date_bin('5 minutes', now() - interval '35 days', '2000-01-01 00:00+00'),"
        " now() - interval '5 minutes', interval '5 minutes') at on conflict do nothing"
    )
    # The next fold takes a new one, and then forgets what is too old.
    admin.execute("delete from lakequeue.queue_samples where at > now() - interval '6 minutes'")


def fold(admin: Connection) -> None:
    """Fold all deltas."""
    while admin.execute("select lakequeue.fold_rollups(%s)", [FOLD]).fetchone() == (FOLD,):
        pass
