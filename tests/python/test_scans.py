"""No function scans the big tables, whatever the statistics say.

The tables hold 200,000 tasks, the planner's statistics were taken while they were empty, and
nothing vacuums. Then every public function is called once, and the server's own counters of that
transaction say how the big tables were read: never from one end to the other, and only a bounded
number of rows and blocks. Each is called on a fresh connection and on one that has kept its plans,
as a worker does: it began when there were no rows and met the first hundred. Until then nobody had
analysed the tables on one server (Debian's), and somebody had, at one row, on the other: then the
planner thinks that reading all of an index costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.conftest import bed
from tests.servers import SERVER_NAMES, Database, temporary

FEW, TASKS = 100, 200_000
BIG_TABLES = (
    "tasks",
    "task_attempts",
    "results",
    "extraction_documents",
    "task_events",
    "model_calls",
    "task_deltas",
)
BIG_TABLES_OF_OURS = [f"lakequeue.{table}" for table in BIG_TABLES]
DOCUMENTS = 50  # of the small extraction
PLANS = ("new_plans", "kept_plans")
WARM_UP_CALLS = 6  # from the sixth on a plan may be kept whatever the arguments

Facts = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of a function as one of the logins, and how much it may read."""

    user: str
    statement: str
    check: Callable[[list[tuple[Any, ...]]], bool] = bool
    rows: int = 1000
    blocks: int = 1000

    @property
    def function(self) -> str:
        return self.statement.split("(")[0].removeprefix("select * from ").split(" ")[0]


def gives(*values: Any) -> Callable[[list[tuple[Any, ...]]], bool]:
    """The first column of the rows."""
    return lambda rows: [row[0] for row in rows] == list(values)


def any_rows(_rows: list[tuple[Any, ...]]) -> bool:
    return True


WORKER, AGENT, APP = "test_worker", "test_agent", "test_app"
OPERATOR, READER, WEB = "test_operator", "test_reader", "test_web"
NOTHING = {
    **dict.fromkeys(("crowd", "extraction", "running", "unsubmitted", "succeeded", "waiting"), 0),
    **dict.fromkeys(("processing", "completed", "failed", "cancelled"), 0),
    "dedup_key": "none",
    "token": "none",
    "call": "00000000-0000-0000-0000-000000000000",
}
"""Of an empty database."""
A_FETCH = "(select fetch_id from begin_compute_fetch(batch_size => 100))"
# When somebody presses: of the newest 5,000 finished tasks, those never asked for.
FETCH_ROWS, FETCH_BLOCKS = 200_000, 150_000

CALLS = [
    # the worker's
    Call(WORKER, "check_home()"),
    Call(WORKER, "worker_heartbeat('alive')"),
    Call(
        WORKER,
        "dequeue_tasks('alive', 10)",
        lambda rows: [row[0] for row in rows] == ["claimed"] * 10,
        rows=3000,  # each attempt that runs under a limit
        blocks=2000,  # now and then with the upkeep of lanes
    ),
    Call(
        WORKER,
        "dequeue_tasks('alive', 10, array['limited'])",
        lambda rows: {row[0] for row in rows} == {"claimed"},
        rows=3000,
        blocks=1500,
    ),
    Call(WORKER, "dequeue_tasks('alive', 10, array['full'])", gives()),
    Call(
        WORKER,
        "confirm_claims('alive', array[%(running)s::bigint], array[gen_random_uuid()])",
        gives(),
    ),
    Call(
        WORKER,
        "adopt_attempts('alive')",
        lambda rows: {row[0] for row in rows} == {"adopted"},
        rows=3000,
    ),
    Call(
        WORKER,
        "record_runs(array[%(unsubmitted)s::bigint], array[4711])",
        lambda rows: rows[0][1] == "recorded",
    ),
    Call(
        WORKER,
        "record_runs(array[%(succeeded)s::bigint], array[4712])",
        lambda rows: rows[0][1] == "recorded",
    ),
    Call(WORKER, "runs_to_check('alive')", rows=3000, blocks=3500),
    Call(
        WORKER,
        "extend_leases(array[%(running)s::bigint])",
        lambda rows: rows[0][1] == "extended",
    ),
    Call(WORKER, "fail_attempt(%(running)s, 'crashed')"),
    Call(
        WORKER,
        "sweep_leases(50)",
        lambda rows: rows[0][0] > 0 and rows[0][1] == 50,
        rows=8000,
        blocks=13_500,
    ),
    Call(WORKER, "record_usage(%(succeeded)s, 1000, 100)", gives("recorded")),
    Call(WORKER, "attempts_to_settle(100)"),
    Call(WORKER, "fold_rollups(100)", gives(100)),
    Call(WORKER, "schema_version()"),
    # the agent's
    Call(
        AGENT,
        "extend_leases(array[%(running)s::bigint], array[%(token)s], array[10::bigint],"
        " array[10::bigint], array[0::bigint])",
        lambda rows: rows[0][1] == "extended",
    ),
    Call(AGENT, "store_result(%(running)s, %(token)s, '{\"a\": 1}', 0.5)", gives("accepted")),
    Call(
        AGENT,
        "record_callback(%(running)s, %(token)s, 'success', result => '{\"a\": 1}',"
        " input_tokens => 10, output_tokens => 10, usage_complete => true)",
        gives("accepted"),
    ),
    Call(AGENT, "record_callback(%(running)s, %(token)s, 'failure')", gives("accepted")),
    Call(AGENT, "report_rate_limit(%(running)s, %(token)s, '5 seconds')"),
    Call(
        AGENT,
        "reserve_tokens(%(running)s, %(token)s, 1000, 100)",
        lambda rows: rows[0][0] == "granted",
        rows=6000,
        blocks=3000,
    ),
    Call(AGENT, "settle_tokens(%(running)s, %(token)s, %(call)s, 10, 10)", gives("settled")),
    # the web process's
    Call(
        WEB,
        "record_callbacks(json_build_array(json_build_object('attempt', %(running)s::bigint,"
        " 'token', %(token)s::text, 'outcome', 'failure')))",
        lambda rows: rows[0][2] == "accepted",
    ),
    # an application's
    Call(APP, "create_extraction('new')"),
    Call(APP, "enqueue_task('plain', '/new.pdf', dedup_key => 'new')"),
    Call(APP, "enqueue_task('plain', '/again.pdf', dedup_key => %(dedup_key)s)"),
    Call(
        APP,
        'enqueue_tasks(\'plain\', \'[{"document_path": "/a.pdf", "dedup_key": "a"},'
        ' {"document_path": "/b.pdf"}]\', extraction => %(extraction)s)',
        lambda rows: [row[2] for row in rows] == [True, True],
    ),
    Call(APP, "estimate_tokens('plain', 3)"),
    Call(APP, "extraction_progress(%(extraction)s)"),
    Call(APP, "extraction_results(%(extraction)s)", lambda rows: len(rows) == DOCUMENTS),
    # an operator's
    Call(OPERATOR, "configure_endpoint('plain', max_concurrent_tasks => 5)"),
    Call(OPERATOR, "configure_agent('plain', max_attempts => 5)"),
    Call(OPERATOR, "configure_agent('plain', model_endpoint => 'limited')"),
    Call(OPERATOR, "set_model_price('simulator', 1, 2)"),
    Call(OPERATOR, "set_person('somebody', 'operator')"),
    Call(OPERATOR, "set_time_zone('UTC')"),
    Call(OPERATOR, "pause_agent('plain', 'a reason')"),
    Call(OPERATOR, "resume_agent('paused')"),
    Call(OPERATOR, "cancel_task(%(waiting)s)", gives("cancelled")),
    Call(OPERATOR, "cancel_tasks(array[%(waiting)s, %(processing)s]::bigint[])"),
    Call(OPERATOR, "set_priority(%(waiting)s, 1)", lambda rows: rows[0][0].startswith("changed")),
    Call(OPERATOR, "set_priorities(array[%(waiting)s, %(processing)s]::bigint[], 7)"),
    Call(OPERATOR, "move_here('tests')", gives("moved")),
    Call(
        OPERATOR,
        "quiesce('tests', is_copy => true)",
        lambda rows: rows[0][1] > 100,
        rows=20_000,  # whatever is open
        blocks=60_000,
    ),
    Call(
        OPERATOR,
        "purge_tasks('1 day', 100)",
        lambda rows: rows[0][0] == 100,
        rows=20_000,
        blocks=20_000,
    ),
    Call(
        OPERATOR,
        "purge_tasks('1 day', 100, completed => true)",
        lambda rows: rows[0][0] == 100,
        rows=20_000,
        blocks=20_000,
    ),
    Call(
        OPERATOR,
        "begin_compute_fetch(batch_size => 100)",
        lambda rows: len(rows[0][2]) == 100,
        rows=FETCH_ROWS,
        blocks=FETCH_BLOCKS,
    ),
    Call(
        OPERATOR,
        f"update_compute_fetch({A_FETCH}, phase => 'running')",
        gives("running"),
        rows=FETCH_ROWS,
        blocks=FETCH_BLOCKS,
    ),
    Call(OPERATOR, f"cancel_compute_fetch({A_FETCH})", rows=FETCH_ROWS, blocks=FETCH_BLOCKS),
    Call(
        OPERATOR,
        f"record_compute_cost({A_FETCH}, 'a workspace', '[]')",
        rows=FETCH_ROWS,
        blocks=FETCH_BLOCKS,
    ),
    Call(OPERATOR, "retry_task(%(failed)s)", any_rows),
    Call(OPERATOR, "retry_tasks(array[%(failed)s, %(cancelled)s]::bigint[])"),
    Call(OPERATOR, "reprocess_task(%(completed)s)"),
    Call(OPERATOR, "reprocess_tasks(array[%(completed)s]::bigint[])"),
    # reading
    Call(READER, "queue_metrics()", lambda rows: len(rows) == 5, rows=3000),
    Call(READER, "action_scope('retry')", lambda rows: len(rows) == 5, rows=3000),
    Call(READER, "queue_metrics(current_date - 7, current_date, array['failed'], array['plain'])"),
    Call(READER, "list_tasks()", lambda rows: len(rows) == 50, rows=10_000, blocks=10_000),
    Call(
        READER,
        "list_tasks(current_date - 7, current_date, array['failed'], array['plain'])",
        lambda rows: len(rows) == 50,
    ),
    Call(READER, "task_detail(%(completed)s)"),
    Call(READER, "confidence_summary(sample => 100)", rows=5000, blocks=5000),
    Call(READER, "list_extractions(1)", lambda rows: rows[0][5] == DOCUMENTS),
    Call(READER, "extraction_detail(%(extraction)s)"),
    Call(READER, "list_extraction_documents(%(extraction)s)", lambda rows: len(rows) == DOCUMENTS),
    Call(READER, "list_extraction_documents(%(crowd)s, 20)", lambda rows: len(rows) == 20),
    Call(READER, "latest_change()"),
    Call(READER, "list_events()", lambda rows: len(rows) == 50),
    Call(READER, "list_events(agents => '{plain}', kinds => '{rate_limited}')"),
    Call(READER, "list_workers()"),
    Call(READER, "configuration()"),
    Call(READER, "may_operate()"),
    Call(READER, "needs_attention()", rows=8000, blocks=4000),
    # needs_attention, agent_status and explain_throttles, and what is open
    Call(READER, "health()", lambda rows: len(rows) == 22, rows=25_000, blocks=12_000),
    Call(READER, "health(false)", lambda rows: len(rows) == 16, rows=3000, blocks=3000),
    Call(READER, "agent_totals()"),
    Call(READER, "queue_history()"),
    Call(READER, "response_history()", any_rows),
    Call(READER, "response_summary(sample => 100)"),
    Call(READER, "agent_pace()"),
    Call(READER, "cost_report(most_tasks => 100)", rows=3000, blocks=3000),
    Call(READER, "cost_report(current_date - 7, agents => '{plain}', by => '{}', most_tasks => 9)"),
    Call(READER, "endpoint_cost_report()", any_rows),
    Call(
        READER,
        "runs_to_price(batch_size => 100)",
        lambda rows: len(rows) == 100,
        rows=FETCH_ROWS,
        blocks=FETCH_BLOCKS,
    ),
    Call(READER, "compute_fetch_status()", any_rows),
    Call(READER, "reporting_time()"),
    Call(READER, "agent_status()", rows=6000, blocks=3000),
    Call(READER, "explain_throttle('limited')", rows=6000, blocks=3000),
    Call(READER, "explain_throttles()", rows=8000, blocks=4000),
    Call(READER, "task_costs where task_id = %(completed)s", lambda rows: len(rows) == 1),
    Call(READER, "task_timeline where task_id = %(completed)s", lambda rows: len(rows) >= 3),
]

FILL = """
insert into workers (name, started_at, heartbeat_at)
values ('alive', now(), now() + interval '1 day'), ('dead', now() - interval '2 days',
        now() - interval '1 day')
on conflict do nothing;

-- Of each hundred tasks 50 are completed, 6 failed, 4 cancelled and 40 wait; of the newest
-- thousand some wait for a retry and some are processing. %(first)s to %(last)s are their ids.
insert into tasks (id, agent_id, extraction_id, document_path, dedup_key, priority, status,
                   created_at, retry_at, estimated_tokens, attempt_count, locked_by,
                   lease_expires_at, finished_at, failures)
overriding system value
select kind.id, agent.id, %(extraction)s, '/documents/' || kind.id || '.pdf', 'key-' || kind.id,
       kind.id %% 10, kind.status::task_status,
       now() - interval '30 days' * ((%(last)s - kind.id)::float / %(last)s),
       case when kind.retries
            then now() + case kind.id %% 2 when 0 then interval '-1 s' else interval '1 h' end end,
       100,
       case when kind.status = 'enqueued' then 0 else 1 end,
       case when kind.status = 'processing'
            then case when kind.id %% 7 = 0 then 'dead' else 'alive' end end,
       case when kind.status = 'processing'
            then now() + case when kind.id %% 11 = 0 then interval '-1 h' else interval '4 min' end
       end,
       case when kind.status in ('completed', 'failed', 'cancelled')
            then now() - interval '29 days' * ((%(last)s - kind.id)::float / %(last)s) end,
       case when kind.status = 'failed' then 3 else 0 end
  from (select id, id > %(last)s - 1000 and id %% 4 = 0 as retries,
               case when id > %(last)s - 1000 and id %% 4 = 0 then 'enqueued'
                    when id > %(last)s - 1000 and id %% 4 = 1 then 'processing'
                    when id %% 100 < 50 then 'completed'
                    when id %% 100 < 56 then 'failed'
                    when id %% 100 < 60 then 'cancelled'
                    else 'enqueued' end as status
          from generate_series(%(first)s::bigint, %(last)s::bigint) as id) as kind
  join agents as agent
    on agent.name = case when kind.status = 'processing' and kind.id %% 8 = 1
                           or kind.id %% 100 = 99 then 'full'
                         when kind.id %% 5 < 3 then 'plain'
                         when kind.id %% 5 = 3 then 'limited' else 'other' end;

insert into task_attempts (id, task_id, number, agent_id, endpoint_id, estimated_tokens, worker,
                           run_id, status, started_at, ended_at, reported_at, run_ended_at,
                           input_tokens, output_tokens, usage_source, job_id)
overriding system value
select task.id, task.id, 1, task.agent_id, agent.model_endpoint_id, 100,
       coalesce(task.locked_by, 'alive'),
       case when task.id %% 3 = 0 and task.status = 'processing' then null else task.id end,
       case task.status when 'completed' then 'succeeded' when 'processing' then 'running'
            else 'failed' end::attempt_status,
       coalesce(task.finished_at, now()) - interval '1 min', task.finished_at, task.finished_at,
       task.finished_at, 80, 20, 'callback', agent.job_id
  from tasks as task
  join agents as agent on agent.id = task.agent_id
 where task.attempt_count = 1 and task.id between %(first)s and %(last)s;

-- Of each hundred attempts one has made a call whose row is still there; of those that run some
-- make one now.
insert into model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens,
                         output_tokens, asked_at, seen_at, granted_at, ended_at)
select attempt.id, md5(attempt.id::text)::uuid, attempt.endpoint_id, attempt.agent_id, 5, 80, 20,
       attempt.started_at, attempt.started_at, attempt.started_at,
       case when attempt.status <> 'running' then attempt.started_at end
  from task_attempts as attempt
 where attempt.id between %(first)s and %(last)s
   and (attempt.id %% 100 = 0 or (attempt.status = 'running' and attempt.id %% 20 = 1));

insert into results (attempt_id, task_id, result, confidence, stored_at)
select task.id, task.id, '{"document_type": "invoice"}', 0.9, task.finished_at
  from tasks as task
 where task.status = 'completed' and task.id between %(first)s and %(last)s;

insert into extraction_documents (extraction_id, name, task_id)
select task.extraction_id, task.document_path, task.id
  from tasks as task where task.id between %(first)s and %(last)s;

insert into task_events (at, kind, task_id, actor, session_actor)
select task.finished_at, 'cancelled', task.id, 'somebody', 'test_operator'
  from tasks as task
 where task.status = 'cancelled' and task.id between %(first)s and %(last)s;

-- What failed was given back for a rate limit, and each of these runs had reported it.
update task_attempts set status = 'rate_limited'
 where status = 'failed' and id between %(first)s and %(last)s;
insert into task_events (at, kind, task_id, agent_id, actor, session_actor)
select attempt.ended_at, 'rate_limited', attempt.task_id, attempt.agent_id, 'w', 'test_agent'
  from task_attempts as attempt
 where attempt.status = 'rate_limited' and attempt.id between %(first)s and %(last)s;

insert into task_deltas (agent_id, customer, tasks, to_status)
select agent.id, '', 1, 'enqueued' from agents as agent, generate_series(1, 10);
"""


def fill(database: Database, first: int, last: int) -> Facts:
    """Put in tasks of every kind, past the functions, and say which ones to act on."""
    owner = database.connect(autocommit=False)
    owner.execute("set search_path = lakequeue")

    def value(statement: str, *values: Any) -> Any:
        row = owner.execute(statement, values or None).fetchone()
        assert row is not None, statement
        return row[0]

    crowd = value("select create_extraction('crowd')")
    with psycopg.ClientCursor(owner) as cursor:  # several statements in one
        cursor.execute(FILL, {"first": first, "last": last, "extraction": crowd})
    owner.execute(
        "update extractions set created_at = now() - interval '60 days' where id = %s", [crowd]
    )
    # What is acted on is among the newest, but not what runs into another rule.
    facts: Facts = {
        "crowd": crowd,
        "extraction": value(  # the application's own
            """insert into extractions (name, submitted_by, login, created_at)
               values ('small', 'ann', 'test_app', now()) returning id"""
        ),
        "dedup_key": f"key-{last}",
        "running": value(
            """select a.id from task_attempts a join tasks t on t.id = a.task_id
                where a.status = 'running' and a.run_id is not null and a.worker = 'alive'
                  and t.lease_expires_at > now() and t.id between %s and %s
                  and a.agent_id = (select id from agents where name = 'plain')
                order by a.id limit 1""",
            first,
            last,
        ),
        "unsubmitted": value(
            """select id from task_attempts
                where status = 'running' and run_id is null and worker = 'alive'
                  and id between %s and %s order by id limit 1""",
            first,
            last,
        ),
        "succeeded": value(  # of a job run that nobody has noted
            """update task_attempts set run_id = null, job_id = 7
                where id = (select max(id) from task_attempts
                             where status = 'succeeded' and id <= %s)
                returning id""",
            last,
        ),
        "waiting": value(
            "select max(id) from tasks where status = 'enqueued' and retry_at is null and id <= %s",
            last,
        ),
    }
    for status in ("processing", "completed", "failed", "cancelled"):
        facts[status] = value(
            "select max(id) from tasks where status = %s and id between %s and %s",
            status,
            first,
            last,
        )
    facts["token"] = value(
        "select _callback_token(id, run_key) from task_attempts where id = %s", facts["running"]
    )
    facts["call"] = value(
        """insert into model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens,
                                    output_tokens, asked_at, seen_at, granted_at)
           select id, gen_random_uuid(), endpoint_id, agent_id, 5, 80, 20, now(), now(), now()
             from task_attempts where id = %s returning key""",
        facts["running"],
    )
    owner.execute(
        """insert into extraction_documents (extraction_id, name, task_id)
           select %s, document_path, id from tasks order by id limit %s""",
        [facts["extraction"], DOCUMENTS],
    )
    owner.commit()
    owner.close()
    return facts


class Filled:
    """A full database, with connections that knew it when it was empty, and nearly so."""

    def __init__(self, database: Database) -> None:
        self.database = database
        for statement in (
            "configure_agent('plain', job_id => 7)",
            "configure_agent('other')",
            "configure_agent('paused')",
            "pause_agent('paused', 'a reason')",
            "configure_agent('limited', max_concurrent_tasks => 100000, max_tpm => 1000000000)",
            "configure_agent('full', max_concurrent_tasks => 1)",
        ):
            database.query(f"select lakequeue.{statement}", user=OPERATOR)
        for table in ("tasks", "task_attempts"):  # ids that `fill` does not use
            database.query(
                "select setval(pg_get_serial_sequence('lakequeue.' || %s, 'id'), 1000000)", table
            )
        with database.server.admin(database.name) as admin:
            admin.execute("analyze")  # while the tables are empty
        self.kept = {user: self.connect(user) for user in sorted({call.user for call in CALLS})}
        if database.server.name == "embedded":
            self.believe_in_one_row()
        for call in CALLS * WARM_UP_CALLS:
            with contextlib.suppress(psycopg.Error):  # what is not there
                run(self.kept[call.user], call, NOTHING)
        small = fill(database, 1, FEW)
        for call in CALLS * WARM_UP_CALLS:
            run(self.kept[call.user], call, small)
        self.facts = fill(database, FEW + 1, TASKS)
        self.watched = [
            row[0]
            for row in database.query(
                """with big as (select unnest(%s::text[])::regclass::oid as oid)
                   select oid from big
                   union all
                   select i.indexrelid from pg_index i join big on big.oid = i.indrelid""",
                [BIG_TABLES_OF_OURS],
            )
        ]

    def believe_in_one_row(self) -> None:
        """Let the planner believe that every big table was analysed with a row on a page.

        Only before plans that are to be kept: they are made anew when this changes.
        """
        with self.database.server.admin(self.database.name) as admin:
            admin.execute("set allow_system_table_mods = on")
            admin.execute(
                "update pg_class set relpages = 1, reltuples = 1 where oid = any(%s::regclass[])",
                [BIG_TABLES_OF_OURS],
            )

    def connect(self, user: str) -> psycopg.Connection[tuple[Any, ...]]:
        connection = self.database.connect(user, autocommit=False)
        connection.execute("set search_path = lakequeue")
        connection.commit()
        return connection


def run(
    connection: psycopg.Connection[tuple[Any, ...]], call: Call, facts: Facts
) -> list[tuple[Any, ...]]:
    """Call the function in a transaction that is undone."""
    with connection.transaction(force_rollback=True):
        return connection.execute(f"select * from {call.statement}", facts).fetchall()


COUNTERS = """
select c.relname::text, c.relkind = 'r', pg_stat_get_xact_numscans(c.oid),
       pg_stat_get_xact_tuples_returned(c.oid), pg_stat_get_xact_tuples_fetched(c.oid),
       pg_stat_get_xact_blocks_fetched(c.oid)
  from pg_class as c where c.oid = any(%s) order by c.relname
"""


@dataclass(frozen=True)
class Reading:
    """How one function read the big tables."""

    scanned: list[str]
    rows: int
    blocks: int
    detail: str


def measure(
    connection: psycopg.Connection[tuple[Any, ...]], call: Call, filled: Filled
) -> tuple[Reading, list[tuple[Any, ...]]]:
    """Call the function, and ask the server how the tables were read in that transaction."""
    connection.execute("set search_path = lakequeue")
    with connection.transaction(force_rollback=True):
        before = connection.execute(COUNTERS, [filled.watched]).fetchall()
        answer = connection.execute(f"select * from {call.statement}", filled.facts).fetchall()
        after = connection.execute(COUNTERS, [filled.watched]).fetchall()
    scanned, rows, blocks, detail = [], 0, 0, []
    for (name, is_table, *was), (_, _, *now) in zip(before, after, strict=True):
        scans, returned, fetched, read = (int(b) - int(a) for a, b in zip(was, now, strict=True))
        if is_table and scans:
            scanned.append(name)
        rows += returned + (fetched if is_table else 0)
        blocks += read
        if scans or fetched or read:
            detail.append(f"{name}: {scans} scans, {returned} + {fetched} rows, {read} blocks")
    return Reading(scanned, rows, blocks, "\n".join(detail)), answer


@pytest.fixture(scope="module", params=SERVER_NAMES)
def filled(request: pytest.FixtureRequest) -> Iterator[Filled]:
    """Made once for each server: the calls undo what they do."""
    the_bed = bed(request.config)
    with temporary(the_bed.server(request.param).clone, the_bed.coverage.read) as database:
        yield Filled(database)


def test_every_public_function_is_called(filled: Filled) -> None:
    public = {
        name
        for (name,) in filled.database.query(
            """select proname::text from pg_proc
                where pronamespace = 'lakequeue'::regnamespace
                  and not starts_with(proname, '_') and prorettype <> 'trigger'::regtype
               union all
               select relname::text from pg_class
                where relnamespace = 'lakequeue'::regnamespace and relkind in ('v', 'm')"""
        )
    }
    assert {call.function for call in CALLS} == public


@pytest.mark.parametrize("plans", PLANS)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.function)
def test_a_call_reads_little(filled: Filled, call: Call, plans: str) -> None:
    if plans == "kept_plans":
        reading, answer = measure(filled.kept[call.user], call, filled)
    else:
        connection = filled.connect(call.user)
        reading, answer = measure(connection, call, filled)
        connection.close()
    assert call.check(answer), f"this call did not do what it is here for: {answer[:3]}"
    assert not reading.scanned, f"scanned {reading.scanned}\n{reading.detail}"
    assert reading.rows <= call.rows, f"{reading.rows} rows\n{reading.detail}"
    assert reading.blocks <= call.blocks, f"{reading.blocks} blocks\n{reading.detail}"


def test_a_scan_would_be_seen(filled: Filled) -> None:
    """The counters are the right ones: the owner scans, and it shows."""
    connection = filled.database.connect(autocommit=False)
    filled_call = Call("", "tasks where document_path = '/documents/5.pdf'")
    reading, answer = measure(connection, filled_call, filled)
    assert len(answer) == 1
    assert reading.scanned == ["tasks"]
    assert reading.rows >= TASKS
