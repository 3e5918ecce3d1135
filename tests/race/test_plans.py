"""Plans must not depend on statistics: whatever the planner believes, no hot function reads a
whole table.

Queues are the place where statistics are wrong: gathered while the queue was empty, or full. One
public queue needed 116 s for a dequeue that way. Here 8,000 tasks of one agent meet statistics of
an empty queue and of one with nothing but history; the server counts the rows that were read.
(tests/python/test_scans.py looks at every function, with more rows.)
"""

from __future__ import annotations

import pytest
from psycopg.types.json import Json

from tests.race.harness import Connection
from tests.race.scene import RESULT, answer, call, configure, dequeue, enqueue, report, store
from tests.servers import Database

TASKS = 4_000
FILL = """
insert into lakequeue.tasks (agent_id, document_path, priority, created_at, estimated_tokens,
                             status, attempt_count, finished_at, dedup_key)
select g.id, '/' || n, n %% 10, now() - interval '1 day', 0, %s::lakequeue.task_status, %s,
       case when %s then now() - interval '1 day' end, %s || n
  from generate_series(1, %s) n, lakequeue.agents g where g.name = 'parser'
"""
ATTEMPTS = """
insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, estimated_tokens,
  worker, status, started_at, ended_at, run_ended_at, reported_at, run_id)
select t.id, 1, t.agent_id, g.model_endpoint_id, 0, 'w', 'succeeded', t.created_at, t.finished_at,
       t.finished_at, t.finished_at, t.id
  from lakequeue.tasks t join lakequeue.agents g on g.id = t.agent_id where t.status = 'completed'
"""


def fill(database: Database, status: str) -> None:
    owner = database.connect()
    finished = status == "completed"
    owner.execute(FILL, [status, int(finished), finished, status, TASKS])
    if finished:
        owner.execute(ATTEMPTS)
    flush(owner)


def analyze(database: Database) -> None:
    with database.server.admin(database.name) as admin:
        admin.execute("analyze")
        flush(admin)


def rows_read(database: Database) -> int:
    """How many rows and index entries of the tables that grow have been read so far."""
    return int(
        database.value(
            """select (select sum(t.seq_tup_read) from pg_stat_user_tables t
                        where t.relname in ('tasks', 'task_attempts', 'results', 'task_events'))
                    + (select sum(i.idx_tup_read) from pg_stat_user_indexes i
                        where i.relname in ('tasks', 'task_attempts', 'results', 'task_events'))"""
        )
    )


def flush(connection: Connection) -> None:
    """Let the server know now what this connection has read."""
    connection.execute("select pg_stat_force_next_flush()")


def everything_hot(database: Database) -> None:
    """One round of all that workers, agents and applications call."""
    worker, agent, web, app = (
        database.connect(f"test_{name}") for name in ("worker", "agent", "web", "app")
    )
    document = {"document_path": "/new.pdf", "dedup_key": "f7"}
    for _ in range(3):
        call(app, "enqueue_tasks", agent="parser", documents=Json([document] * 3))
        call(worker, "dequeue_tasks", worker="w", batch_size=5)
        call(worker, "sweep_leases")
        call(worker, "adopt_attempts", worker="v")
        call(worker, "runs_to_check", worker="w")
        call(worker, "attempts_to_settle")
        call(worker, "fold_rollups")
    first, second, third, *rest = dequeue(worker, batch_size=10)
    ids = [row["attempt_id"] for row in (first, second, third)]
    tokens = [row["callback_token"] for row in (first, second, third)]
    call(worker, "record_runs", attempts=ids, run_ids=[1, 2, 3])
    call(agent, "extend_leases", attempts=ids, tokens=tokens)
    assert store(agent, first) == "accepted"
    assert report(agent, second, "failure") == "accepted"
    reports = [
        {
            "attempt": row["attempt_id"],
            "token": row["callback_token"],
            "outcome": "success",
            "result": RESULT.obj,
        }
        for row in (first, third, *rest)
    ]
    answers = call(web, "record_callbacks", callbacks=Json(reports))
    assert {row["answer"] for row in answers} == {"accepted"}
    call(worker, "record_usage", attempt=ids[0], input_tokens=1, output_tokens=1)
    assert answer(worker, "fail_attempt", attempt=ids[1], error_class="gone") == "superseded"
    for connection in (worker, agent, web, app):
        flush(connection)


@pytest.mark.parametrize("believed", ["empty", "finished"])
def test_no_hot_function_reads_a_whole_table(database: Database, believed: str) -> None:
    configure(database)
    if believed == "empty":
        analyze(database)
    fill(database, "completed")
    if believed == "finished":
        analyze(database)
    fill(database, "enqueued")
    before = rows_read(database)
    everything_hot(database)
    configure(database, max_concurrent_tasks=1000, max_tpm=10**9)
    everything_hot(database)
    assert rows_read(database) - before < TASKS * 0.7


@pytest.mark.parametrize("batch_size", [1, 7])
def test_a_dequeue_claims_no_more_than_it_was_asked(database: Database, batch_size: int) -> None:
    """LIMIT in a subquery that is run again claims every row; statistics of one row provoke it."""
    configure(database)
    enqueue(database, 1)
    analyze(database)
    enqueue(database, 20)
    assert len(dequeue(database.connect("test_worker"), batch_size=batch_size)) == batch_size
    processing = "select count(*) from lakequeue.tasks where status = 'processing'"
    assert database.value(processing) == batch_size


def test_a_plan_from_when_there_was_little_reads_little(database: Database) -> None:
    """To read a whole small table is cheap; a session keeps that plan while the table grows."""
    configure(database)
    worker = database.connect("test_worker")

    def claim_and_tell() -> None:
        enqueue(database, 1, priority=9)
        (row,) = dequeue(worker, batch_size=1)
        assert row["priority"] == 9
        call(worker, "record_runs", attempts=[row["attempt_id"]], run_ids=[1])
        call(worker, "extend_leases", attempts=[row["attempt_id"]])
        flush(worker)

    enqueue(database, 300)
    dequeue(worker, batch_size=300)
    analyze(database)
    claim_and_tell()
    fill(database, "completed")
    before = rows_read(database)
    claim_and_tell()
    assert rows_read(database) - before < 300


def test_upkeep_reads_what_runs_once(database: Database) -> None:
    """Not once per other run, which looked cheaper by statistics from before anything ran."""
    runs = 200
    configure(database)
    fill(database, "completed")
    analyze(database)
    enqueue(database, runs)
    worker = database.connect("test_worker")
    claimed = [row["attempt_id"] for row in dequeue(worker, batch_size=runs)]
    half = claimed[::2]
    call(worker, "record_runs", attempts=half, run_ids=half)
    database.query(
        """update lakequeue.tasks set lease_expires_at = now() + interval '1 minute'
            where status = 'processing'"""
    )
    for function, arguments in (
        ("adopt_attempts", {"worker": "v"}),
        ("runs_to_check", {"worker": "v"}),
        ("sweep_leases", {}),
        ("agent_status", {}),
    ):
        owner = database.connect()
        flush(worker)
        flush(owner)
        before = rows_read(database)
        call(owner, function, **arguments)
        flush(owner)
        owner.close()
        assert rows_read(database) - before < 10 * runs, function
