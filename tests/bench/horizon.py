"""What a held snapshot does to claims, calls, counts, folds, sweeps and pages, as tasks complete.

Nothing that is finished can be cleaned away while an old snapshot may still see it. So whatever
passes dead rows on its way to the live ones gets slower with every completed task. Besides the time
of a call the pages that it touches are counted: those no neighbour disturbs.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from psycopg.types.json import Json

from tests.bench.measure import durable_server, pages_read, together
from tests.bench.queues import LIMITS, Connection
from tests.servers import Database

AIM = 3  # times as many pages
COMPLETIONS = 100_000
BATCH = 100
CLIENTS = 2
STRAGGLERS = 20
CALLS_EACH = 3  # model calls of a task whose agent reserves them
RETRIES = 20  # of so many tasks one is given back first
AGENTS = ("free", "limited", "calling")
SETTINGS: dict[str, dict[str, Any]] = {  # with places for all that runs
    "limited": LIMITS,
    "calling": {"max_tpm": 10**9, "max_rpm": 10**9, "reserves_calls": "true"},
}
RESERVE = (
    "select * from lakequeue.reserve_tokens(%(attempt)s, %(token)s, {}, 1, call => md5({})::uuid)"
)
CALLS = {  # those that claim come last: what they claim runs on
    "reserve, granted": RESERVE.format(1, "clock_timestamp()::text"),
    # one of the stragglers' calls takes nearly all
    "reserve, full": RESERVE.format(2 * 10**8, "'again and again'"),
    "throttle count": "select * from lakequeue.explain_throttle('limited')",
    "count with calls": "select * from lakequeue.explain_throttle('calling')",
    "agent_status": "select * from lakequeue.agent_status('{limited}')",
    "queue_metrics": "select * from lakequeue.queue_metrics()",
    "latest_change": "select lakequeue.latest_change()",
    "fold_rollups": "select lakequeue.fold_rollups()",
    "sweep_leases": "select * from lakequeue.sweep_leases()",
    "claim": "select * from lakequeue.dequeue_tasks('w', 1, '{free}')",
    "claim of 10": "select * from lakequeue.dequeue_tasks('w', 10, '{free}')",
    "throttled claim": "select * from lakequeue.dequeue_tasks('w', 1, '{limited}')",
}
# What was claimed, or granted, by the calls.
FINISH = """
with settled as (
  select lakequeue.settle_tokens(a.id, lakequeue._callback_token(a.id, a.run_key), c.key)
    from lakequeue.model_calls c join lakequeue.task_attempts a on a.id = c.attempt_id
   where c.granted_at is not null and c.ended_at is null and c.input_tokens = 1
), called as (select count(*) from settled)

select called.*, count(*) from called, lakequeue.record_callbacks((
  select json_agg(json_build_object('attempt', a.id, 'outcome', 'success', 'result', '{}'::json,
                                    'token', lakequeue._callback_token(a.id, a.run_key)))
    from lakequeue.task_attempts a where a.worker = 'w' and a.status = 'running'))
 group by 1
"""
# The call that waits is not asked for any more.
FORGET = """
update lakequeue.model_calls set seen_at = seen_at - interval '1 minute' where granted_at is null
"""


def run(quick: bool, tasks: int | None = None) -> dict[str, Any]:
    """Measure before and after so many completions, and print a table."""
    with durable_server() as server:
        database = server.clone("pristine")
        if quick:
            return measure(database, 1_200, 15, 0)
        # What has ended within a minute counts in limits, and calls are kept for two: that is read,
        # and it is not dead.
        return measure(database, tasks or COMPLETIONS, 50, 130)


def measure(database: Database, completions: int, samples: int, seconds: int) -> dict[str, Any]:
    """The median time and the pages of each call, before and after so many completions.

    `seconds` go by between the last of them and the second look.
    """
    values = prepare(database, samples)
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum analyze")
    before = {name: timed(database, call, values, samples) for name, call in CALLS.items()}
    holder = database.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from pg_class").fetchone()
    database.query(FINISH)
    database.query(FORGET)
    complete(database, completions)
    for _ in range(seconds):
        time.sleep(1)
        database.query("select * from lakequeue.sweep_leases()")  # as workers do
    after = {name: timed(database, call, values, samples) for name, call in CALLS.items()}
    database.close()
    answer: dict[str, Any] = {"completions": completions}
    print(f"{seconds} s after {completions} completions under a held snapshot")
    print(f"{'':18}{'ms':>8}{'before':>9}{'ratio':>8}{'pages':>10}{'before':>9}{'ratio':>8}  aim")
    for name in CALLS:
        ratios = [a / b for a, b in zip(after[name], before[name], strict=True)]
        print(
            f"{name:18}"
            + "".join(
                f"{after[name][index]:{width}}{before[name][index]:9}{ratios[index]:8.1f}"
                for index, width in ((0, 8), (1, 10))
            )
            + ("  kept" if ratios[1] <= AIM else f"  missed: at most {AIM} times the pages")
        )
        answer[name] = {
            "time_ratio": round(ratios[0], 2),
            "pages_ratio": round(ratios[1], 2),
            "pages": after[name][1],
            "pages_before": before[name][1],
        }
    return answer


def prepare(database: Database, samples: int) -> dict[str, Any]:
    """Agents with a backlog, some of whose tasks never end; an attempt that goes on calling."""
    for agent in AGENTS:
        settings = {"retry_base": "interval '1 second'", "lease_duration": "interval '1 day'"}
        settings |= SETTINGS.get(agent, {})
        named = "".join(f", {name} => {value}" for name, value in settings.items())
        database.query(f"select lakequeue.configure_agent(%s{named})", agent)
        enqueue(database.connect(), agent, 1000 + 12 * samples)
        database.query(
            "select count(*) from lakequeue.dequeue_tasks('straggler', %s, array[%s])",
            STRAGGLERS,
            agent,
        )
    ((attempt, token),) = database.query(
        """select a.id, lakequeue._callback_token(a.id, a.run_key)
             from lakequeue.task_attempts a order by a.id desc limit 1"""
    )
    values = {"attempt": attempt, "token": token}
    large = RESERVE.format(9 * 10**8, "'large'") % dict.fromkeys(values, "%s")
    ((said, *_),) = database.query(large, *values.values())
    assert said == "granted"
    return values


def enqueue(client: Connection, agent: str, count: int) -> None:
    """Enqueue so many, of all priorities."""
    documents = [{"document_path": "/a.pdf", "priority": n % 3} for n in range(count)]
    client.execute("select count(*) from lakequeue.enqueue_tasks(%s, %s)", [agent, Json(documents)])


def complete(database: Database, count: int) -> None:
    """Enqueue, claim and complete so many tasks of all agents, in batches; some come back first."""

    def work(number: int, start: Callable[[], None]) -> None:
        client = database.connect()
        client.execute("set synchronous_commit = off")
        start()
        for batch in range(count // CLIENTS // BATCH):
            agent = AGENTS[(number + batch) % len(AGENTS)]
            enqueue(client, agent, BATCH)
            rows = client.execute(
                "select attempt_id, callback_token, attempt_number"
                " from lakequeue.dequeue_tasks(%s, %s, array[%s])",
                [f"w{number}", BATCH, agent],
            ).fetchall()
            reports = [
                {"attempt": attempt, "token": token}
                | (
                    {"outcome": "rate_limited"}
                    if attempt_number == 1 and place % RETRIES == 0
                    else {"outcome": "success", "result": {}}
                )
                | {"input_tokens": 900, "output_tokens": 100, "usage_complete": True}
                for place, (attempt, token, attempt_number) in enumerate(rows)
            ]
            if agent == "calling":
                call_models(client, [row[:2] for row in rows])
            client.execute("select count(*) from lakequeue.record_callbacks(%s)", [Json(reports)])
            client.execute("select lakequeue.fold_rollups(patient => true)")  # as workers do
            client.execute("select * from lakequeue.sweep_leases()")

    together(CLIENTS, work)


def call_models(client: Connection, attempts: list[Any]) -> None:
    """Each attempt's model calls: reserved and settled one by one."""
    for attempt, token in attempts * CALLS_EACH:
        call = [attempt, token, uuid.uuid4()]
        ask = "select answer from lakequeue.reserve_tokens(%s, %s, 1, 1, %s)"
        while client.execute(ask, call).fetchone() != ("granted",):
            pass  # somebody else has held the lock for long
        client.execute("select lakequeue.settle_tokens(%s, %s, %s, 1, 1)", call)


def timed(database: Database, call: str, values: dict[str, Any], samples: int) -> tuple[float, int]:
    """The median of a call's milliseconds, and the pages that it touches."""
    client = database.connect()
    times = []
    for _ in range(samples):
        started = time.monotonic()
        client.execute(call, values).fetchall()
        times.append(1000 * (time.monotonic() - started))
    pages = [pages_read(client, call, values) for _ in range(3)]
    return round(statistics.median(times), 2), round(statistics.median(pages))
