"""What a held snapshot does to claims, counts, folds, sweeps and pages, while many tasks complete.

Nothing that is finished can be cleaned away while an old snapshot may still see it. So whatever
passes dead rows on its way to the live ones gets slower with every completed task. Besides the time
of a call the pages that it touches are counted: those no neighbour disturbs.
"""

from __future__ import annotations

import statistics
import time
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
AGENTS = ("free", "limited")
CALLS = {  # those that claim come last: what they claim runs on
    "throttle count": "select * from lakequeue.explain_throttle('limited')",
    "agent_status": "select * from lakequeue.agent_status('{limited}')",
    "queue_metrics": "select * from lakequeue.queue_metrics()",
    "latest_change": "select lakequeue.latest_change()",
    "fold_rollups": "select lakequeue.fold_rollups()",
    "sweep_leases": "select * from lakequeue.sweep_leases()",
    "claim": "select * from lakequeue.dequeue_tasks('w', 1, '{free}')",
    "claim of 10": "select * from lakequeue.dequeue_tasks('w', 10, '{free}')",
    "throttled claim": "select * from lakequeue.dequeue_tasks('w', 1, '{limited}')",
}
# What was claimed by the calls.
FINISH = """
select count(*) from lakequeue.record_callbacks((
  select json_agg(json_build_object('attempt', a.id, 'outcome', 'success', 'result', '{}'::json,
                                    'token', lakequeue._callback_token(a.id, a.run_key)))
    from lakequeue.task_attempts a where a.worker = 'w' and a.status = 'running'))
"""


def run(quick: bool, tasks: int | None = None) -> dict[str, Any]:
    """Measure before and after so many completions, and print a table."""
    with durable_server() as server:
        database = server.clone("pristine")
        if quick:
            return measure(database, 2_000, 15, 0)
        # What has ended within a minute counts in limits: it is read, and it is not dead.
        return measure(database, tasks or COMPLETIONS, 50, 60)


def measure(database: Database, completions: int, samples: int, seconds: int) -> dict[str, Any]:
    """The median time and the pages of each call, before and after so many completions.

    `seconds` go by between the last of them and the second look.
    """
    prepare(database, samples)
    with database.server.admin(database.name) as admin:
        admin.execute("vacuum analyze")
    before = {name: timed(database, call, samples) for name, call in CALLS.items()}
    holder = database.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from pg_class").fetchone()
    database.query(FINISH)
    complete(database, completions)
    time.sleep(seconds)
    after = {name: timed(database, call, samples) for name, call in CALLS.items()}
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


def prepare(database: Database, samples: int) -> None:
    """Two agents with a backlog, some of whose tasks never end."""
    limits = "".join(f", {name} => {value}" for name, value in LIMITS.items())
    for agent in AGENTS:
        database.query(
            f"select lakequeue.configure_agent(%s{limits if agent == 'limited' else ''})", agent
        )
        enqueue(database.connect(), agent, 1000 + 12 * samples)
        database.query(
            "select count(*) from lakequeue.dequeue_tasks('straggler', %s, array[%s])",
            STRAGGLERS,
            agent,
        )


def enqueue(client: Connection, agent: str, count: int) -> None:
    """Enqueue so many, of all priorities."""
    documents = [{"document_path": "/a.pdf", "priority": n % 3} for n in range(count)]
    client.execute("select count(*) from lakequeue.enqueue_tasks(%s, %s)", [agent, Json(documents)])


def complete(database: Database, count: int) -> None:
    """Enqueue, claim and complete so many tasks of both agents, in batches."""

    def work(number: int, start: Callable[[], None]) -> None:
        agent = AGENTS[number % len(AGENTS)]
        client = database.connect()
        start()
        for _ in range(count // CLIENTS // BATCH):
            enqueue(client, agent, BATCH)
            rows = client.execute(
                "select attempt_id, callback_token from lakequeue.dequeue_tasks(%s, %s, array[%s])",
                [f"w{number}", BATCH, agent],
            ).fetchall()
            reports = [
                {"attempt": attempt, "token": token, "outcome": "success", "result": {}}
                | {"input_tokens": 900, "output_tokens": 100, "usage_complete": True}
                for attempt, token in rows
            ]
            client.execute("select count(*) from lakequeue.record_callbacks(%s)", [Json(reports)])
            client.execute("select lakequeue.fold_rollups(patient => true)")  # as workers do

    together(CLIENTS, work)


def timed(database: Database, call: str, samples: int) -> tuple[float, int]:
    """The median of a call's milliseconds, and the pages that it touches."""
    client = database.connect()
    times = []
    for _ in range(samples):
        started = time.monotonic()
        client.execute(call).fetchall()
        times.append(1000 * (time.monotonic() - started))
    pages = [pages_read(client, call) for _ in range(3)]
    return round(statistics.median(times), 2), round(statistics.median(pages))
