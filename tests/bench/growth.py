"""What a task costs: WAL and index entries of each step, and what it leaves when it is finished.

Everything is on: an extraction, a dedup key, every limit, a run that is noted, one heartbeat,
result and usage, the fold. WAL is counted record by record (pg_walinspect), without commits and
without full page images, of which there are more the more often checkpoints come. No neighbour
disturbs that, nor rows and bytes; the backend's processor time only by what it takes from caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.types.json import Json

from tests.bench.measure import DURABLE
from tests.bench.queues import DOCUMENT, LIMITS, RESULT, Connection, Lakequeue
from tests.servers import Database, Server

BATCHES = {1: 1_000, 10: 1_000, 100: 10_000}  # size: tasks; the last leave more than whole pages
QUICK = 200
RELATIONS = """
select coalesce(h.relname, c.relname), c.relkind = 'i', c.reltuples::bigint,
       pg_relation_size(c.oid) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)
  from pg_class c
  left join pg_index i on i.indexrelid = c.oid
  left join pg_class h on h.oid = i.indrelid
 where c.relnamespace = 'lakequeue'::regnamespace and c.relkind in ('r', 'i')
"""
COUNTS = """
select coalesce(sum(count) filter (where t <> 'Transaction/COMMIT'), 0)::bigint,
       coalesce(sum(record_size) filter (where t <> 'Transaction/COMMIT'), 0)::bigint,
       coalesce(sum(count) filter (where t like 'Btree/INSERT%%'), 0)::bigint
  from pg_get_wal_stats(%s, %s, true) s(t, count, count_percentage, record_size)
"""
STEPS = ("enqueue", "claim", "note the run", "heartbeat", "complete", "fold")


@dataclass
class Cost:
    """Of a step, so far."""

    records: int = 0
    bytes: int = 0
    entries: int = 0


def run(quick: bool) -> dict[str, Any]:
    """Measure, and print a table for each size of batch, and one of what stays."""
    # What others write meanwhile would be counted.
    server = Server("embedded", DURABLE | {"autovacuum": "off", "wal_keep_size": "4GB"})
    try:
        answer: dict[str, Any] = {}
        for batch, tasks in BATCHES.items():
            database = server.clone("pristine")
            answer[f"batches of {batch}"] = measure(database, batch, QUICK if quick else tasks)
        return answer | {"on disk": left(database)}
    finally:
        server.stop()


def measure(database: Database, batch: int, tasks: int) -> dict[str, Any]:
    """What each step writes for a task."""
    Lakequeue("", LIMITS).install(database)
    costs = {step: Cost() for step in STEPS}
    tasks = max(1, tasks // batch) * batch
    with database.server.admin(database.name) as admin, database.connect() as client:
        admin.execute("create extension if not exists pg_walinspect")
        row = client.execute("select lakequeue.create_extraction('documents')").fetchone()
        assert row is not None

        def written(step: str, act: Callable[[], Any]) -> Any:
            """What the step returned; what it wrote is counted."""
            (before,) = admin.execute("select pg_current_wal_flush_lsn()").fetchone() or ()
            found = act()
            (after,) = admin.execute("select pg_current_wal_flush_lsn()").fetchone() or ()
            if after != before:
                counted = admin.execute(COUNTS, [before, after]).fetchone()
                assert counted is not None
                cost = costs[step]
                cost.records += counted[0]
                cost.bytes += counted[1]
                cost.entries += counted[2]
            return found

        before = processor_seconds(client)
        for first in range(0, tasks, batch):
            for step, act in life(client, row[0], first, batch):
                written(step, act)
        written("fold", lambda: client.execute("select lakequeue.fold_rollups(100000)"))
        processor_ms = 1000 * (processor_seconds(client) - before) / tasks
    heads = "".join(f"{head:>14}" for head in ("WAL records", "WAL bytes", "index entries"))
    print(f"\nbatches of {batch:<5}{heads}   a task")
    answer: dict[str, Any] = {}
    for name, cost in [*costs.items(), ("all", total(costs))]:
        answer[name] = {key: round(value / tasks, 2) for key, value in vars(cost).items()}
        print(f"{name:16}" + "".join(f"{value:14.1f}" for value in answer[name].values()))
    print(f"{'processor, ms':16}{processor_ms:14.2f}")
    return answer | {"processor_ms": round(processor_ms, 2)}


def processor_seconds(client: Connection) -> float:
    """What a client's backend has used of a processor so far."""
    fields = Path(f"/proc/{client.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def total(costs: dict[str, Cost]) -> Cost:
    """Of all steps."""
    return Cost(
        sum(cost.records for cost in costs.values()),
        sum(cost.bytes for cost in costs.values()),
        sum(cost.entries for cost in costs.values()),
    )


def life(
    client: Connection, extraction: int, first: int, batch: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The steps of so many tasks, to be taken one after the other."""
    documents = [DOCUMENT | {"dedup_key": f"{n:064x}"} for n in range(first, first + batch)]
    claims: list[tuple[Any, ...]] = []

    def call(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return client.execute(statement, values).fetchall()

    yield (
        "enqueue",
        lambda: call(
            "select count(*) from lakequeue.enqueue_tasks('reader', %s, extraction => %s)",
            Json(documents),
            extraction,
        ),
    )
    yield (
        "claim",
        lambda: claims.extend(
            call("select attempt_id, callback_token from lakequeue.dequeue_tasks('w', %s)", batch)
        ),
    )
    assert len(claims) == batch
    attempts = [attempt for attempt, _ in claims]
    yield (
        "note the run",
        lambda: call("select * from lakequeue.record_runs(%s, %s)", attempts, attempts),
    )
    tokens = [token for _, token in claims]
    yield (
        "heartbeat",
        lambda: call("select * from lakequeue.extend_leases(%s, %s)", attempts, tokens),
    )
    reports = [
        {"attempt": attempt, "token": token, "outcome": "success", "result": RESULT}
        | {"confidence": 0.95, "input_tokens": 900, "output_tokens": 100, "usage_complete": True}
        for attempt, token in claims
    ]
    yield (
        "complete",
        lambda: call("select count(*) from lakequeue.record_callbacks(%s)", Json(reports)),
    )


def left(database: Database) -> dict[str, dict[str, float]]:
    """Rows, index entries and bytes that a finished task has left, by table."""
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum (full, analyze)")
        admin.execute("vacuum")
        found = admin.execute(RELATIONS).fetchall()
        (tasks,) = admin.execute("select count(*) from lakequeue.tasks").fetchone() or ()
    answer: dict[str, dict[str, float]] = {}
    for table, is_index, rows, size in found:
        row = answer.setdefault(table, {"rows": 0, "entries": 0, "bytes": 0, "index_bytes": 0})
        row["entries" if is_index else "rows"] += rows / tasks
        row["index_bytes" if is_index else "bytes"] += size / tasks
    answer = {table: row for table, row in answer.items() if row["rows"] > 0.1}
    answer["all"] = {key: sum(row[key] for row in answer.values()) for key in answer["tasks"]}
    heads = "".join(f"{head:>15}" for head in ("rows", "index entries", "bytes", "index bytes"))
    print(f"\n{'on disk':22}{heads}   a finished task")
    for table, row in answer.items():
        print(f"{table:22}" + "".join(f"{value:15.1f}" for value in row.values()))
    return {
        table: {key: round(value, 2) for key, value in row.items()} for table, row in answer.items()
    }
