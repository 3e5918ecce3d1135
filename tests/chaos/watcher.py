"""Who looks at the rules while everything breaks, and at the books when it is over.

The rules that one snapshot can prove are those of tests.race.scene; here are those that need a
record of what happened, which triggers keep, and those about time and tokens.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from tests.race.scene import VIOLATIONS
from tests.servers import Database

# A clock that runs faster, and a record of every change of status, result, run and settled usage.
PREPARE = """
create schema chaos;
create table chaos.seen (
  id bigint generated always as identity, what text, which bigint, was text, became text,
  query text);
create function chaos.note() returns trigger language plpgsql security definer
set search_path = pg_catalog, chaos as $$
declare
  v_query text := left(current_query(), 200);
begin
  if tg_table_name = 'tasks' then
    insert into seen (what, which, was, became, query)
    values (case when old.cancel_requested_at is not null and old.status = 'processing'
                      and new.status not in ('completed', 'cancelled')
                 then 'cancelled task' else 'task' end, old.id, old.status, new.status, v_query);
  elsif tg_table_name = 'results' then
    insert into seen (what, which, query) values ('result', old.attempt_id, v_query);
  else
    insert into seen (what, which, was, became, query)
    select w.what, old.id, w.was, w.became, v_query
    from (values ('attempt', old.status::text, new.status::text),
                 ('run', old.run_id::text, coalesce(new.run_id::text, 'none')),
                 ('key', old.run_key::text, new.run_key::text),
                 ('report', old.reported_at::text, coalesce(new.reported_at::text, 'none')),
                 ('usage',
                  case when old.usage_complete
                       then concat_ws(' ', old.input_tokens, old.output_tokens, old.llm_cost) end,
                  concat_ws(' ', new.input_tokens, new.output_tokens, new.llm_cost))
         ) w(what, was, became)
    where w.was <> w.became;
  end if;
  return null;
end $$;
create trigger chaos_seen after update of status on lakequeue.tasks
for each row when (old.status <> new.status) execute function chaos.note();
create trigger chaos_seen after update on lakequeue.task_attempts
for each row execute function chaos.note();
create trigger chaos_seen after update or delete on lakequeue.results
for each row execute function chaos.note();
"""

CLOCK = """
create or replace function lakequeue._now() returns timestamptz
language sql volatile set search_path = pg_catalog, pg_temp as $$
  select timestamptz '{base}' + {speed} * (clock_timestamp() - timestamptz '{base}')
$$
"""

# What may become of a task, and of an attempt; only retry_task leaves failed and cancelled.
LEGAL = """
with seen as (
  delete from chaos.seen returning *
)
select s.what, count(*),
       min(format('%s %s went from %s to %s by %s', s.what, s.which, s.was, s.became, s.query))
         filter (where not coalesce(
           case s.what
             when 'task' then
               (s.was, s.became) in (
                 ('enqueued', 'processing'), ('enqueued', 'completed'), ('enqueued', 'cancelled'),
                 ('processing', 'completed'), ('processing', 'failed'),
                 ('processing', 'cancelled'), ('processing', 'enqueued'))
               or s.was in ('failed', 'cancelled') and s.became in ('enqueued', 'completed')
                  and s.query like '%retry_task%'
             when 'attempt' then
               s.was = 'running' or s.was <> 'succeeded' and s.became = 'succeeded'
           end, false)) as wrong
  from seen s
 group by s.what
"""

# Rules 3 (what is overtaken may spend), 4 (a: totals, b: calls), 7 and 12 in one snapshot. The
# clock is read first: what is written later cannot be in this snapshot.
MORE = """
with clock as materialized (
  select lakequeue._now() as now
), spent as (
  select g.name, g.max_tpm,
         sum(case when a.run_ended_at is not null and a.usage_complete
                  then a.input_tokens + a.output_tokens
                  else greatest(a.estimated_tokens,
                                coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0))
             end) as tokens
    from lakequeue.agents g
    join lakequeue.task_attempts a on a.agent_id = g.id
   cross join clock c
   where not a.reserves_calls
     and (a.run_ended_at is null or a.run_ended_at > c.now - interval '60 seconds')
   group by g.id
), called as (
  select g.name, g.max_rpm, count(*) as calls
    from lakequeue.agents g
    join lakequeue.model_calls m on m.agent_id = g.id
   cross join clock c
   where m.granted_at is not null
     and (m.ended_at is null or m.ended_at > c.now - interval '60 seconds')
   group by g.id
)
select 'rule 4a: agent ' || s.name || ' spends ' || s.tokens || ' of ' || s.max_tpm as problem
  from spent s where s.tokens > s.max_tpm
union all
select 'rule 4b: agent ' || c.name || ' calls ' || c.calls || ' times of ' || c.max_rpm
  from called c where c.calls > c.max_rpm
union all
select 'rule 3: attempt ' || a.id || ' was overtaken, and its run forgotten'
  from lakequeue.task_attempts a
 where a.status = 'superseded' and a.run_ended_at <= a.ended_at
union all
select 'rule 7: task ' || t.id || ' is ' || t.status || ' after ' || t.failures || ' failures, '
       || t.rate_limited || ' rate limits'
  from lakequeue.tasks t join lakequeue.agents g on g.id = t.agent_id
 where t.failures > g.max_attempts or t.rate_limited > g.max_rate_limited + 1
    or t.status in ('enqueued', 'processing')
       and (t.failures >= g.max_attempts or t.rate_limited > g.max_rate_limited)
union all
select 'rule 12: task ' || t.id || ' has a lease until ' || t.lease_expires_at
  from lakequeue.tasks t join lakequeue.agents g on g.id = t.agent_id
 cross join (select lakequeue._now() as later) l
 where t.lease_expires_at > l.later + g.lease_duration
    or t.finished_at > l.later or t.created_at > l.later
    or t.cancel_requested_at > l.later
union all
select 'rule 12: attempt ' || a.id || ' is of another time'
  from lakequeue.task_attempts a join lakequeue.tasks t on t.id = a.task_id
 cross join (select lakequeue._now() as later) l
 where greatest(a.started_at, a.ended_at, a.reported_at, a.run_ended_at, a.checked_at) > l.later
    or least(a.started_at, a.ended_at, a.reported_at, a.run_ended_at, a.checked_at) < t.created_at
union all
select 'rule 12: worker ' || w.name || ' is of another time'
  from lakequeue.workers w cross join (select lakequeue._now() as later) l
 where greatest(w.started_at, w.heartbeat_at, w.stopped_at) > l.later
    or w.started_at < '{base}'
"""

RULES = sorted(set(re.findall(r"select '((?:rule \d+\w?|dedup)[^:|]*):?", VIOLATIONS + MORE)))
"""The rules that every look checks."""


class Watcher:
    """Looks at the rules all the time, from a connection of its own, which faults may cut."""

    def __init__(self, database: Database, pause: float, base: str) -> None:
        """`pause`: least seconds between two looks; `base`: nothing in the database is older."""
        self._database = database
        self._pause = pause
        self._statement = f"{VIOLATIONS} union all select * from ({MORE.format(base=base)}) m"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.problems: list[str] = []
        self.checks: Counter[str] = Counter()
        self.transitions: Counter[str] = Counter()
        self._took = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)

    def look(self, connection: psycopg.Connection[Any]) -> None:
        """Check every rule once."""
        began = time.monotonic()
        self.problems += [row[0] for row in connection.execute(self._statement).fetchall()]
        self.checks.update(RULES)
        for what, count, wrong in connection.execute(LEGAL).fetchall():
            self.transitions[what] += count
            if wrong is not None:
                self.problems.append(f"transition: {wrong}")
        self.checks["transition"] = sum(self.transitions.values())
        self._took = time.monotonic() - began

    def _look_on(self) -> None:
        connection = None
        while not self._over.is_set() and len(self.problems) < 100:
            try:
                if connection is None:
                    connection = psycopg.connect(self._database.conninfo("postgres"))
                    connection.autocommit = True
                self.look(connection)
            except psycopg.OperationalError:
                connection = None
            except Exception as error:  # noqa: BLE001 - a watcher that sees nothing proves nothing
                self.problems.append(f"the watcher has failed: {error!r}")
                return
            self._over.wait(max(self._pause, 2 * self._took))
        if connection is not None:
            connection.close()


@dataclass
class Ledgers:
    """What all agents have done, by their own word."""

    acts: Counter[str] = field(default_factory=Counter)
    begun: Counter[int] = field(default_factory=Counter)
    sent: dict[int, set[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(set))
    settled: set[int] = field(default_factory=set)
    """Attempts whose complete usage the database has confirmed."""
    accepted: set[int] = field(default_factory=set)
    """Attempts whose success was accepted, or repeated."""
    reported: Counter[int] = field(default_factory=Counter)
    """How many reports of an attempt were accepted by the webhook."""
    kept: set[int] = field(default_factory=set)
    """Attempts that were told that their result is kept, for the task or all the same."""
    answers: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, folder: Path) -> Ledgers:
        """Read all files; the last line of a killed process may be half."""
        found = cls()
        for path in folder.glob("*.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    found._take(json.loads(line))
                except ValueError:
                    found.errors["half a line"] += 1
        return found

    def _take(self, line: dict[str, Any]) -> None:
        if "act" in line:
            self.acts[line["act"]] += 1
        elif "begin" in line:
            self.begun[line["begin"]] += 1
        elif "sent" in line:
            self.sent[line["sent"]].add(tuple(line["usage"]))
        elif "answered" in line:
            self.answers[f"{line['outcome']}: {line['answer']}"] += 1
            if line["result"] and line["answer"] in ("accepted", "superseded"):
                self.kept.add(line["answered"])
            if line["usage"]:
                self.settled.add(line["answered"])
                self.reported[line["answered"]] += line["answer"] == "accepted"
            if line["outcome"] == "success" and line["answer"] == "accepted":
                self.accepted.add(line["answered"])
        elif "undelivered" in line:
            self.answers["never delivered"] += 1
        else:
            self.errors[line.get("why") or line.get("error") or str(line)] += 1


@dataclass
class Verdict:
    """What was wrong in the end."""

    violations: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    double_charged: list[str] = field(default_factory=list)


ATTEMPTS = """
select a.id, a.task_id, a.status::text, a.input_tokens, a.output_tokens, a.llm_cost,
       a.usage_complete, a.run_id, a.run_key::text, r.result
  from lakequeue.task_attempts a
  left join lakequeue.results r on r.attempt_id = a.id
"""

FINAL = {
    "good": ("completed",),
    "cancel": ("completed", "cancelled"),
    "bad": ("failed",),
    "broken": ("failed",),
    "limited": ("failed",),
}
"""The right ends of a task, by its kind. (An operator retries a good one that has failed.)"""

LEFT_OVER = """
select 'task ' || t.id || ' holds a lease'
  from lakequeue.tasks t where t.locked_by is not null or t.lease_expires_at is not null
union all
select 'attempt ' || a.id || ' is open' from lakequeue.task_attempts a
 where a.ended_at is null or a.run_ended_at is null
union all
select 'call ' || m.id || ' is open' from lakequeue.model_calls m
 where m.ended_at is null
union all
select 'worker ' || w.name || ' is not known to have ended'
  from lakequeue.workers w where w.stopped_at is null
union all
select 'a lock of ' || coalesce(a.application_name, 'nobody') || ' is held'
  from pg_locks l left join pg_stat_activity a using (pid)
 where l.locktype = 'advisory' and l.classid = lakequeue._lock_class()::oid
union all
select a.application_name || ' is connected' from pg_stat_activity a
 where a.datname = current_database() and a.pid <> pg_backend_pid()
   and a.backend_type = 'client backend'
union all
select 'deltas are not folded' where exists (select from lakequeue.task_deltas)
"""

COSTS = """
select (select sum(c.llm_cost) from lakequeue.task_costs c),
       (select sum(m.llm_cost) from lakequeue.queue_metrics() m)
"""


def audit(
    database: Database,
    ledgers: Ledgers,
    enqueued: dict[str, str],
    runs: dict[str, list[int]],
) -> Verdict:
    """Compare the books with what was enqueued (path: kind), reported and run (run key: runs)."""
    verdict = Verdict()
    verdict.violations += [row[0] for row in database.query(LEFT_OVER, user="postgres")]
    tasks = {
        path: (task, status, result)
        for path, task, status, result in database.query(
            """select t.document_path, t.id, t.status::text, r.result
                 from lakequeue.tasks t
                 left join lakequeue.task_attempts a on a.task_id = t.id and a.status = 'succeeded'
                 left join lakequeue.results r on r.attempt_id = a.id"""
        )
    }
    for path, kind in enqueued.items():
        task, status, result = tasks.pop(path, (0, "missing", None))
        if status not in FINAL[kind]:
            verdict.lost.append(f"task {task} ({kind}, {path}) is {status}")
        elif status == "completed" and result["document"] != path:
            verdict.lost.append(f"task {task} has the result of {result['document']}")
    verdict.violations += [f"nobody enqueued {path}" for path in tasks]

    attempts = {row[0]: row[1:] for row in database.query(ATTEMPTS)}
    reported = Decimal(0)
    for attempt, row in attempts.items():
        task, status, tokens, answer, cost, complete, run_id, key, result = row
        usage = (tokens, answer, None if cost is None else float(cost))
        reports = ledgers.sent.get(attempt, set())
        costs = [Decimal(str(report[2])) for report in reports if report[2] is not None]
        if attempt in ledgers.settled or cost is not None:
            reported += max(costs, default=Decimal(0))
        if tokens is not None and usage not in reports:
            verdict.double_charged.append(f"attempt {attempt} has {usage}, reported: {reports}")
        if attempt in ledgers.settled and not complete:
            verdict.lost.append(f"usage of attempt {attempt}: {usage} of {reports}")
        if ledgers.begun[attempt] > 1 or len(runs.get(key, [])) > 1:
            verdict.double_charged.append(f"attempt {attempt} ran {ledgers.begun[attempt]} times")
        if run_id is not None and key in runs and runs[key] != [run_id]:
            verdict.double_charged.append(f"attempt {attempt} has run {run_id}, not {runs[key]}")
        if result is None and attempt in ledgers.kept:
            verdict.lost.append(f"the result of attempt {attempt}")
        if result is not None and result["attempt"] != attempt:
            verdict.lost.append(f"attempt {attempt} has the result of {result['attempt']}")
        if attempt in ledgers.accepted and status != "succeeded":
            verdict.lost.append(f"success of attempt {attempt} of task {task}: it is {status}")
    verdict.violations += [
        f"rule 8: {times} reports of attempt {attempt} were accepted"
        for attempt, times in ledgers.reported.items()
        if times > 1
    ]
    known = {row[7] for row in attempts.values()}
    verdict.lost += [f"run {runs[key]} of no attempt" for key in runs if key not in known]
    strangers = (set(ledgers.begun) | set(ledgers.sent)) - set(attempts)
    verdict.lost += [f"attempt {attempt} is in no book" for attempt in strangers]

    ((by_task, by_rollup),) = database.query(COSTS)
    if not by_task == by_rollup == reported:
        verdict.double_charged.append(
            f"costs: {by_task} by task, {by_rollup} by rollup, {reported} reported"
        )
    return verdict
