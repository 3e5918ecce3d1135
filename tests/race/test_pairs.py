"""Every ordered pair of functions that meet on the same tasks, attempts and agent.

The first one is called in an open transaction; the second one is started from another connection
and ends or waits; then the first one commits, and once more it rolls back. Whatever came of it must
be what one of the serial orders gives: state and both answers, task by task. Those are found by
playing them on one connection and rolling back.

All pairs share one database: `Stage` puts a task into each state there is (CAST), keeps a copy of
every table, and lays it back after a pair that committed. The clock stands still.

To save time they run on the embedded server only, and without those of RARE functions;
LAKEQUEUE_TEST_PAIRS=all runs every pair on both servers.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest

from tests.conftest import Clock, bed
from tests.race.harness import SECONDS, Connection, Outcome, in_background
from tests.race.scene import (
    RESULT,
    Row,
    call,
    claim,
    configure,
    enqueue,
    report,
    store,
    violations,
)
from tests.race.test_books import COMPARISON
from tests.servers import Database, ServerName, temporary

LONG_AGO = "2026-01-01 12:00+00"
AN_HOUR_AGO = "2026-01-04 11:00+00"
NOW = "2026-01-04 12:00+00"
ENDPOINTS = ["model", "other"]
EVERYWHERE = os.environ.get("LAKEQUEUE_TEST_PAIRS") == "all"

# What is called: each returns rows of a task (or its attempt's) and what was answered about it.
TASKS = "array(select distinct p.task from public.players p order by p.task)"
ATTEMPTS = "array(select p.attempt from public.players p where p.attempt is not null order by 1)"
TOKENS = ATTEMPTS.replace("select p.attempt", "select p.token").replace("by 1", "by p.attempt")
USED = "input_tokens => 700, output_tokens => 70, llm_cost => 0.5, usage_complete => true"
KEYS = "failed", "cancelled", "completed", "twice"
DOCUMENTS = ", ".join(f'{{"document_path": "/{key}", "dedup_key": "{key}"}}' for key in KEYS)


# Each fetch is told other amounts.
BILL = """record_compute_cost(
  (select max(f.id) from lakequeue.compute_fetches f), 'w',
  (select coalesce(json_agg(json_build_object(
            'kind', 'run', 'name', r.run_id, 'sku', 'JOBS', 'unit', 'DBU', 'day', '2026-01-04',
            'currency', 'USD', 'quantity', '1', 'cost', r.fetch_id)), '[]')
     from lakequeue.compute_runs r))"""


def of_each(call: str, said: str = "r") -> str:
    """A call for one attempt after the other; $1 is its id, $2 its token."""
    return f"select * from public.of_each($call$select {said} from lakequeue.{call} r$call$)"


def of_tasks(call: str) -> str:
    """A call for all tasks."""
    return f"select r.task_id, concat_ws(': ', r.outcome, r.detail) from lakequeue.{call} r"


def silent(call: str) -> str:
    """A call that answers for nothing in particular."""
    return f"select null::bigint, null::text from lakequeue.{call}"


FUNCTIONS = {
    "dequeue": """select d.task_id, d.outcome from lakequeue.dequeue_tasks('v', 100) d
                where d.outcome <> 'busy'""",
    "sweep": silent("sweep_leases(100)"),
    "success": of_each(f"record_callback($1, $2, 'success', '[1]', {USED})"),
    "confirm": of_each(f"record_callback($1, $2, 'success', {USED})"),
    "failure": of_each("record_callback($1, $2, 'failure', input_tokens => 9000)"),
    "rate_limited": of_each("record_callback($1, $2, 'rate_limited')"),
    "store": of_each("store_result($1, $2, '[2]', 0.5)"),
    "usage": of_each("record_usage($1, 800, 80, 8, 0.8)"),
    "extend": f"""select p.task, e.answer
                    from lakequeue.extend_leases({ATTEMPTS}, {TOKENS}, array_fill(
                           5000::bigint, array[cardinality({ATTEMPTS})])) e
                    join public.players p on p.attempt = e.attempt_id""",
    "fail": of_each("fail_attempt($1, 'gone')"),
    "record_runs": f"""select p.task, r.answer
                         from lakequeue.record_runs({ATTEMPTS}, {ATTEMPTS}) r
                         join public.players p on p.attempt = r.attempt_id""",
    "check": "select r.task_id, r.why from lakequeue.runs_to_check('v', 100) r",
    "adopt": "select d.task_id, d.outcome from lakequeue.adopt_attempts('v', 100) d",
    "cancel": of_tasks(f"cancel_tasks({TASKS})"),
    "retry": of_tasks(f"retry_tasks({TASKS})"),
    "reprocess": of_tasks(f"reprocess_tasks({TASKS})"),
    "prioritise": of_tasks(f"set_priorities({TASKS}, 5)"),
    "configure": silent(
        """configure_agent('parser', model_endpoint => 'other', max_concurrent_tasks => 90,
                           max_attempts => 1, lease_duration => '2 minutes')"""
    ),
    "enqueue": f"""select null::bigint, string_agg(e.created::text, ' ' order by e.position)
                     from lakequeue.enqueue_tasks('parser', '[{DOCUMENTS}]') e""",
    "fold": silent("fold_rollups()"),
    "purge": silent("purge_tasks('1 day', 100, completed => true)"),
    # What it answers is no promise: it waits for no report that comes at the same time.
    "cool": of_each("report_rate_limit($1, $2, '30 seconds')", "'told'"),
    "reserve": of_each("reserve_tokens($1, $2, 600, 60, md5($1::text)::uuid)", "r.answer"),
    "bill": silent(BILL),
    "settle": of_each("settle_tokens($1, $2, md5($1::text)::uuid, 700, 70)"),
}

# Their pairs have been tried as well, and are left out to save time.
RARE = {"confirm", "record_runs", "check", "settle"}
# These pass over what somebody holds, or give up a wait (Locks in db/README.md): they are called
# again, as workers do, and take then what they left.
COME_AGAIN = {"dequeue", "sweep", "check", "adopt", "purge", "fold", "reserve"}
# Only these may answer 55P03.
GIVE_UP = {"dequeue", "sweep", "check", "adopt", "purge"}
NAMES = [name for name in FUNCTIONS if EVERYWHERE or name not in RARE]

HELPERS = """
create table public.players (task bigint, attempt bigint, number integer, token text);
grant select on public.players to public;

create function public.of_each(call text) returns table (task bigint, said text)
language plpgsql as $$
declare
  p record;
begin
  for p in select * from public.players where attempt is not null order by task, number loop
    task := p.task;
    begin
      execute call into said using p.attempt, p.token;
    exception when others then
      if sqlstate not like 'LQ4%' then
        raise;
      end if;
      said := sqlstate;
    end;
    return next;
  end loop;
end $$;

"""
SAVE = """
create schema saved;
do $$
declare
  v_laid_back text := '';
  t record;
begin
  for t in
    select c.relname as name, string_agg(quote_ident(a.attname), ', ') as columns
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'r'
       and c.relname !~ '^(extraction|endpoint_costs|people|model_prices|installation)'
     group by c.relname
  loop
    execute format('create table saved.%I as table lakequeue.%1$I', t.name);
    v_laid_back := v_laid_back || format(
      'delete from lakequeue.%I; '
      'insert into lakequeue.%1$I (%2$s) overriding system value select %2$s from saved.%1$I; ',
      t.name, t.columns);
  end loop;
  execute format('create procedure saved.lay_back() language plpgsql '
                 'set session_replication_role = replica as %L', 'begin ' || v_laid_back || 'end');
end $$;
"""

# A row for each thing that can be told apart, whatever ids were drawn. Of agents and endpoints
# every column is a thing by itself: two functions may each change one. Left out is what is no
# promise: of outcomes in the same instant one counts for the breaker, and overdue_at is a hint.
STATE = """
select 'task ' || coalesce(p.task::text, 'new ' || coalesce(t.reprocess_of::text, t.document_path)),
       (to_jsonb(t) - '{id,created_at,lane}'::text[] || jsonb_build_object(
         'attempts', (select jsonb_agg(to_jsonb(a) - '{id,task_id,run_key,place}'::text[]
                                       order by a.number)
                        from lakequeue.task_attempts a where a.task_id = t.id),
         'compute', (select jsonb_agg(to_jsonb(c) - 'task_id' order by c.attempt_id)
                       from lakequeue.compute_costs c where c.task_id = t.id),
         'results', (select jsonb_agg(to_jsonb(r) - '{attempt_id,task_id}'::text[]
                                      order by r.attempt_id)
                       from lakequeue.results r where r.task_id = t.id),
         'calls', (select jsonb_agg(to_jsonb(c) - '{id,place}'::text[] order by c.key)
                     from lakequeue.model_calls c
                     join lakequeue.task_attempts a on a.id = c.attempt_id
                    where a.task_id = t.id)))::text
  from lakequeue.tasks t
  left join (select distinct p.task from public.players p) p on p.task = t.id
union all
select 'events of ' || coalesce(p.task::text, 'new'), jsonb_agg(e.kind order by e.kind)::text
  from lakequeue.task_events e
  left join (select distinct p.task from public.players p) p on p.task = e.task_id
 where e.task_id is not null
 group by 1
union all
select 'agent ' || e.key, e.value::text
  from lakequeue.agents g cross join lateral jsonb_each(to_jsonb(g)) e
union all
select 'endpoint ' || m.name || ' ' || e.key, e.value::text
  from lakequeue.model_endpoints m cross join lateral jsonb_each(to_jsonb(m) - 'overdue_at') e
union all
select 'worker ' || w.name, to_jsonb(w)::text from lakequeue.workers w
"""

Said = dict[str, list[str]]
State = dict[str, list[Any]]


def together(state: dict[str, Any], first: Said, second: Said) -> State:
    """The state, each thing together with what the two were answered about it."""
    keys = {*state, *first, *second}
    return {key: [state.get(key), first.get(key), second.get(key)] for key in keys}


class Stage:
    """The shared database, its cast, and those who act."""

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.server.admin(database.name) as admin:
            admin.execute(HELPERS)
        self.cast = self._fill(Clock(database))
        self.admin = database.connect("postgres")
        self.admin.execute(SAVE)
        self.first = database.connect(autocommit=False)
        self.second = database.connect(autocommit=False)
        self.watcher = database.connect()
        self._serial: dict[tuple[str, ...], tuple[dict[str, Any], list[Said]]] = {}

    def _fill(self, clock: Clock) -> dict[str, int]:
        """A task in each state, all of one agent; returns what each was made for."""
        database, tasks = self.database, {}
        worker, agent = database.connect("test_worker"), database.connect("test_agent")
        operator = database.connect("test_operator")

        def waiting(name: str, **document: Any) -> int:
            (tasks[name],) = enqueue(database, 1, priority=document.pop("priority", 9), **document)
            return tasks[name]

        def running(name: str, by: str = "w", **document: Any) -> Row:
            task = waiting(name, **document)
            claimed = claim(database, worker=by)
            assert claimed["task_id"] == task
            if by == "w":
                attempt = [claimed["attempt_id"]]
                call(worker, "record_runs", attempts=attempt, run_ids=attempt)
            return claimed

        def failed(name: str, **document: Any) -> Row:
            claimed = running(name, **document)
            report(agent, claimed, "permanent_failure", input_tokens=10)
            return claimed

        def age(name: str) -> None:
            database.query(
                """update lakequeue.tasks set lease_expires_at = lakequeue._now() - interval '1 h'
                    where id = %s""",
                tasks[name],
            )

        def expired(name: str, **document: Any) -> Row:
            claimed = running(name, **document)
            age(name)
            call(worker, "sweep_leases")
            return claimed

        def bill() -> None:
            call(operator, "begin_compute_fetch")
            database.query(FUNCTIONS["bill"])

        clock.set(LONG_AGO)
        limits: dict[str, Any] = {"max_concurrent_tasks": 100, "max_tpm": 10_000_000}
        configure(database, model_endpoint="model", job_id=7, retry_base="0 seconds", **limits)
        configure(database, "unused", model_endpoint="other")
        failed("failed", dedup_key="failed")
        store(agent, failed("failed with a late result"))
        failed("failed, its key asked for twice", dedup_key="twice")
        failed("failed, the same key", dedup_key="twice")
        call(operator, "cancel_task", task=waiting("cancelled", dedup_key="cancelled"))
        completed = running("completed", dedup_key="completed")
        report(agent, completed, "success", result=RESULT, input_tokens=10, output_tokens=1)
        early = expired("overtaken")
        claim(database, worker="w")
        store(agent, early)

        bill()

        clock.set(AN_HOUR_AGO)
        call(worker, "worker_heartbeat", worker="dead")
        expired("its lease was lost", priority=1)
        report(agent, running("to be tried again"), "failure")

        clock.set(NOW)
        for name in "wv":
            call(worker, "worker_heartbeat", worker=name)
        store(agent, running("completed, not confirmed"))
        running("running")
        asking = running("running, with a call under way")
        reserved = {"attempt": asking["attempt_id"], "token": asking["callback_token"]}
        key = database.value("select md5(%s::text)::uuid", asking["attempt_id"])
        call(agent, "reserve_tokens", **reserved, input_tokens=600, max_output_tokens=60, call=key)
        running("left by a dead worker", by="dead")
        call(operator, "cancel_task", task=running("asked to stop")["task_id"])
        running("expired")
        call(operator, "cancel_task", task=running("asked to stop, expired")["task_id"])
        age("expired")
        age("asked to stop, expired")
        waiting("waiting", priority=1, page_count=3)
        call(operator, "begin_compute_fetch")
        database.query("delete from lakequeue.agents where name = 'unused'")
        # Some are left for the pairs.
        database.query(
            """select lakequeue.fold_rollups((select count(*)::integer - 4
                                                from lakequeue.task_deltas))"""
        )
        with database.server.admin(database.name) as admin:
            admin.execute(
                """insert into public.players
                   select t.id, a.id, a.number, lakequeue._callback_token(a.id, a.run_key)
                     from lakequeue.tasks t
                     left join lakequeue.task_attempts a on a.task_id = t.id"""
            )
        return tasks

    # --- calls and what they leave ---

    def play(self, connection: Connection, name: str) -> Said:
        """Call a function; returns its answers, by task of the cast."""
        said = defaultdict(list)
        for task, what in connection.execute(FUNCTIONS[name].encode()).fetchall():
            if what is not None and (task is None or task in self.cast.values()):
                said[f"task {task}"].append(re.sub(r"\d+", "#", what))
        return {task: sorted(answers) for task, answers in said.items()}

    def state(self, connection: Connection) -> dict[str, Any]:
        """All there is to see."""
        return dict(connection.execute(STATE).fetchall())

    def serial(self, *names: str) -> tuple[dict[str, Any], list[Said]]:
        """What comes of calling these one after the other, and what each was answered.

        What comes of every other second one is found along with it.
        """
        if names not in self._serial:
            first = names[0]
            said = self.play(self.first, first)
            self._serial[first,] = self.state(self.first), [said]
            for second in NAMES:
                self.first.execute("savepoint before_the_second")
                answers = [said, self.play(self.first, second)]
                self._serial[first, second] = self.state(self.first), answers
                if first in COME_AGAIN:
                    answers = [*answers, self.play(self.first, first)]
                    self._serial[first, second, first] = self.state(self.first), answers
                self.first.execute("rollback to savepoint before_the_second")
            self.first.rollback()
        return self._serial[names]

    def orders(self, first: str, second: str) -> list[State]:
        """What the serial orders of the two give."""
        state, (one, two) = self.serial(first, second)
        there = together(state, one, two)
        state, (two, one) = self.serial(second, first)
        back = together(state, one, two)
        if second not in COME_AGAIN:
            return [there, back]
        state, (two, one, again) = self.serial(second, first, second)
        return [there, back, together(state, one, two | again)]

    def alone(self, name: str) -> list[State]:
        """What one gives that meets nobody."""
        state, (said,) = self.serial(name)
        once = together(state, {}, said)
        if name not in COME_AGAIN:
            return [once]
        state, (said, again) = self.serial(name, name)
        return [once, together(state, {}, said | again)]

    def problems(self, connection: Connection) -> list[str]:
        """The rules that are broken now, the throttle's books among them."""
        books = connection.execute(COMPARISON, [ENDPOINTS]).fetchall()
        return violations(connection) + [
            f"books of {holder}: {kind} {carried} < {counted}"
            for holder, kind, carried, counted in books
            if carried is not None and carried < counted
        ]

    def blocked(self) -> bool:
        """Whether the second one waits for a lock."""
        row = self.admin.execute(
            "select cardinality(pg_blocking_pids(%s))", [self.second.info.backend_pid]
        ).fetchone()
        return row is not None and row[0] > 0

    def meet(self, first: str, second: str, *, commits: bool) -> State:
        """Let the second one come while the first one's transaction is open, which then ends."""

        def act() -> Said:
            said = self.play(self.second, second)
            if commits:
                self.second.commit()
            return said

        said = self.play(self.first, first)
        with in_background(act) as outcome:
            deadline = time.monotonic() + SECONDS
            while outcome.value is None and outcome.error is None and not self.blocked():
                assert time.monotonic() < deadline, self.database.server_activity()
                time.sleep(0.001)
            if commits:
                self.first.commit()
            else:
                self.first.rollback()
        if outcome.sqlstate == "55P03" and second in GIVE_UP:
            self.second.rollback()
            outcome = Outcome(act())
        elif second in COME_AGAIN:
            outcome.result().update(act())
        if not commits:  # seen by the second one only
            return together(self.state(self.second), {}, outcome.result())
        assert self.problems(self.watcher) == []
        return together(self.state(self.watcher), said, outcome.result())

    def clear(self) -> None:
        """Forget what was not committed."""
        self.first.rollback()
        self.second.rollback()

    def lay_back(self) -> None:
        """Everything is again as it was before."""
        self.clear()
        self.admin.execute("call saved.lay_back()")


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The stage on one of the servers, shared by all its pairs."""
    used = bed(request.config)
    with temporary(used.server(request.param).clone, used.coverage.read) as database:
        yield Stage(database)


@pytest.fixture
def clean(stage: Stage) -> Iterator[Stage]:
    """The stage as it was made, and left so."""
    yield stage
    stage.lay_back()


def pairs() -> Iterator[Any]:
    """What is played where."""
    servers = get_args(ServerName) if EVERYWHERE else ["embedded"]
    for server, first, second in itertools.product(servers, NAMES, NAMES):
        yield pytest.param(server, first, second, id=f"{server}-{first}-{second}")


def differences(found: State, allowed: Sequence[State]) -> list[str]:
    """What is as in none of the states that are allowed."""
    nothing = [None, None, None]
    return [
        f"{key}: {_short(found.get(key, nothing), [s.get(key, nothing) for s in allowed])}"
        for key in sorted({key for state in (found, *allowed) for key in state})
        if found.get(key, nothing) not in [state.get(key, nothing) for state in allowed]
    ]


def _short(found: list[Any], allowed: list[list[Any]]) -> str:
    """Only the columns that differ."""
    rows = [json.loads(row or "null") for row, *_ in (found, *allowed)]
    if all(isinstance(row, dict) for row in rows):
        same = [key for key in rows[0] if all(row.get(key) == rows[0][key] for row in rows)]
        rows = [{key: value for key, value in row.items() if key not in same} for row in rows]
    (row, *others), said = rows, [said for _, *said in (found, *allowed)]
    return f"{row} {said[0]} is none of {list(zip(others, said[1:], strict=True))}"


@pytest.mark.parametrize(
    ("stage", "first", "second"), [*pairs()], indirect=["stage"], scope="module"
)
def test_a_pair_leaves_what_a_serial_order_leaves(clean: Stage, first: str, second: str) -> None:
    stage = clean
    alone, orders = stage.alone(second), stage.orders(first, second)
    assert differences(stage.meet(first, second, commits=False), alone) == []
    stage.clear()
    assert differences(stage.meet(first, second, commits=True), orders) == []
