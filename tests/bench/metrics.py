"""What the pages read, under every kind of filter, at two sizes of the same history.

Nothing is listed here: every address of the web application is opened, and what it calls is noted;
then each call is timed in both databases, in turn, the first time apart: it plans, and reads from
disk what no call before it has read. Besides the time the pages that it touches are counted.
Medians are compared with exact ones, rollups with a brute-force count; 20 writers take random steps
at once.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
from flask import Flask

from lakequeue import database as db
from lakequeue.web.actions import ACTIONS
from tests.bench.history import AGENTS, CUSTOMERS, RARE, built
from tests.bench.measure import durable_server, pages_read
from tests.model.product import Product
from tests.model.test_connections import STEPS_EACH, finish, play
from tests.python.web_server import application, token_of
from tests.race.scene import violations
from tests.servers import SUPERUSER, Database, Server

SIZES = (100_000, 1_000_000)
QUICK = (2_000, 20_000)
WAITING = 5_000
WRITERS = 20
MOST_MS = 100
MOST_RATIO = 2
TOLD_MS = 10
"""What is faster than this may have any ratio."""
LONGEST_SECONDS = 60
ROUNDS = (20, 2)
"""Of each call after its first, in full and quick: p95 of twenty is the 19th."""
PATIENCE_SECONDS = 6
"""A call that has taken so long in all, in both databases, has no further round."""
DAY = datetime.timedelta(days=1)

FILTERS = {
    "7 days": "",
    "today": "range=today",
    "30 days": "range=30d",
    "all time": "range=all",
    "past days": "from={past}&to={later}",
    "status": "range=all&status=failed",
    "agent": f"range=all&agent={AGENTS[0]}",
    "agents": f"range=all&agent={AGENTS[1]}&agent={AGENTS[2]}",
    "customer": f"range=all&customer={CUSTOMERS[0]}",
    "rare customer": f"range=all&customer={RARE}",
    "no such customer": "range=all&customer=nobody",
    "document": "range=all&find=0007.pdf",
    "no such document": "range=all&find=nothing",
    "no such document, 7 days": "find=nothing",
    "all of them": f"range=30d&status=completed&agent={AGENTS[0]}&customer={CUSTOMERS[0]}&find=7.p",
    "deep page": "range=all&after={past}T12:00:00%2B00:00_5",
}
UNREAD = {"static", "api.events"}
"""What is no read of the database; the stream looks at latest_change alone."""

EXACT = """
select percentile_disc(array[0.5, 0.95]) within group (order by t.finished_at - t.created_at)
  from lakequeue.tasks t join lakequeue.agents g on g.id = t.agent_id
 where t.status = 'completed'
   and (%(agents)s::text[] is null or g.name = any(%(agents)s))
   and (%(customers)s::text[] is null or t.customer = any(%(customers)s))
   and (%(from_day)s::date is null
        or t.finished_at >= %(from_day)s::timestamp at time zone %(zone)s)
   and (%(to_day)s::date is null
        or t.finished_at < (%(to_day)s::date + 1)::timestamp at time zone %(zone)s)
"""


@dataclass(frozen=True)
class Call:
    """A function, with the parameters that a page gave it under a filter."""

    function: str
    given: tuple[tuple[str, Any], ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """As they were given."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in self.given
        }

    @property
    def statement(self) -> str:
        """As psycopg takes it, without types that would not fit."""
        names = ", ".join(
            f"{name} => %({name})s" + ("::real" if isinstance(value, float) else "")
            for name, value in self.given
        )
        return f"select * from lakequeue.{self.function}({names})"


def run(quick: bool, tasks: int | None = None) -> dict[str, Any]:
    """Measure both sizes, and print a table."""
    small, large = QUICK if quick else (SIZES[0], tasks or SIZES[1])
    with durable_server() as server:
        databases = [built(server, size, min(WAITING, size)) for size in (small, large)]
        answer = {"tasks": [small, large], **measure(databases, ROUNDS[quick])}
        return answer | interleaved(server, WRITERS, 1 if quick else 10, STEPS_EACH)


def measure(databases: Sequence[Database], rounds: int) -> dict[str, Any]:
    """The times and pages of each call that a page makes, and how right the medians are."""
    small, large = databases
    calls = noted(small)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    clients = [db.connect(each.conninfo("test_web")) for each in databases]
    try:
        for client in clients:
            client.execute(f"set statement_timeout = '{LONGEST_SECONDS} s'")
        for call, chosen in calls.items():
            figures = timed(clients, call, rounds)
            found[call.function].append({"filter": chosen, **figures})
    finally:
        for client in clients:
            client.close()
    with small.server.admin(small.name) as admin:
        wrong = violations(admin)
    return {
        "functions": table(found),
        "reads": {
            f"{function}, {row['filter']}, {number}": {
                **{key: round(row[key], 1) for key in ("first_ms", "p50_ms", "p95_ms")},
                "ratio": round(row["ratio"], 2),
                "pages": row["pages"],
            }
            for function, rows in sorted(found.items())
            for number, row in enumerate(rows)
        },
        "slow": {
            f"{function}, {row['filter']}": {
                "p50_ms": round(row["p50_ms"]),
                "p95_ms": round(row["p95_ms"]),
                "ratio": round(row["ratio"], 1),
            }
            for function, rows in sorted(found.items())
            for row in sorted(rows, key=lambda row: row["p95_ms"])
            if row["p95_ms"] > MOST_MS or (row["ratio"] > MOST_RATIO and row["p50_ms"] > TOLD_MS)
        },
        "median_off": round(median_off(large, calls), 4),
        "rollups_wrong": len(wrong),
    }


def noted(database: Database) -> dict[Call, str]:
    """What all addresses call, with the first filter under which they do."""
    calls: dict[Call, str] = {}
    chosen = ""
    call = db.call

    def note(connection: Any, function: str, **parameters: Any) -> Any:
        given = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in sorted(parameters.items())
        }
        calls.setdefault(Call(function, tuple(given.items())), chosen)
        return call(connection, function, **parameters)

    with (
        tempfile.TemporaryDirectory(prefix="lakequeue-bench-", dir="/tmp") as folder,
        application(database, Path(folder)) as app,
        patch.object(db, "call", note),
    ):
        past = datetime.datetime.now(datetime.UTC) - 90 * DAY
        days = {"past": past.date().isoformat(), "later": (past + 6 * DAY).date().isoformat()}
        for chosen, query in FILTERS.items():  # noqa: B007, since `note` reads it
            visit(app, database, query.format(**days))
    calls.setdefault(Call("latest_change", ()), "")
    return calls


def visit(app: Flask, database: Database, query: str) -> None:
    """Open every address under a filter, and what follows the pages that say so."""
    client = app.test_client()
    for address in addresses(app, database):
        # What is streamed has asked the database by the time its answer begins.
        answer = client.get(f"{address}?{query}")
        following = answer.json.get("next") if answer.is_json and answer.json else None
        if following is not None:
            for place in ("after", "before"):
                client.get(f"{address}?{query}&{place}={following}".replace("+", "%2B"))
        answer.close()
    for action in ACTIONS:
        client.post(
            f"/tasks/actions?{query}",
            data={"csrf_token": token_of(client), "action": action, "all": "yes", "priority": "5"},
        ).close()


def addresses(app: Flask, database: Database) -> list[str]:
    """Every address that can be opened, with a task or an extraction where it names one."""
    task, extraction = database.query(
        "select t.id, t.extraction_id from lakequeue.tasks t"
        " where t.status = 'completed' and t.extraction_id is not null order by t.id limit 1"
    )[0]
    routes = app.url_map.bind("localhost")
    found = []
    for rule in app.url_map.iter_rules():
        if "GET" in (rule.methods or ()) and rule.endpoint not in UNREAD:
            key = extraction if "/extractions/" in rule.rule else task
            values = {name: {"key": key, "page": 1}[name] for name in rule.arguments}
            found.append(routes.build(rule.endpoint, values))
    return found


def timed(clients: list[Any], call: Call, rounds: int) -> dict[str, Any]:
    """The milliseconds in both databases, in turn, of the first call and of those after it."""
    times: list[list[float]] = [[], []]
    for number in range(1 + rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            started = time.monotonic()
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                db.call(clients[place], call.function, **call.parameters)
            times[place].append(1000 * (time.monotonic() - started))
        if number and sum(map(sum, times)) > 1000 * PATIENCE_SECONDS:
            break
    (_, *small), (first, *large) = times
    quick = times[1][-1] < 1000 * LONGEST_SECONDS / 2
    return {
        "small_ms": statistics.median(small),
        "first_ms": first,
        "p50_ms": statistics.median(large),
        "p95_ms": sorted(large)[math.ceil(0.95 * len(large)) - 1],
        "rounds": len(large),
        "ratio": statistics.median(b / a for a, b in zip(small, large, strict=True)),
        "pages": [
            pages_read(client, call.statement, call.parameters) if quick else None
            for client in clients
        ],
    }


def table(found: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Print each function under the filter that costs it most; the same for the JSON line."""
    heads = zip(("small", "first", "p50, ms", "p95, ms", "ratio"), (10, 9, 9, 9, 7), strict=True)
    print(
        f"\n{'':26}{'filters':>8}  {'the slowest':26}"
        + "".join(f"{head:>{width}}" for head, width in heads)
        + "  pages"
    )
    answer = {}
    for function, rows in sorted(found.items()):
        worst = max(rows, key=lambda row: row["p50_ms"])
        print(
            f"{function:26}{len(rows):8}  {worst['filter']:26}{worst['small_ms']:10.1f}"
            f"{worst['first_ms']:9.1f}{worst['p50_ms']:9.1f}{worst['p95_ms']:9.1f}{worst['ratio']:7.2f}"
            f"  {worst['pages'][0]} to {worst['pages'][1]}",
            flush=True,
        )
        answer[function] = {
            key: round(value, 2) if isinstance(value, float) else value
            for key, value in worst.items()
        }
    return answer


def median_off(database: Database, calls: dict[Call, str]) -> float:
    """How far response times from histograms are from the exact ones, at most, as a share."""
    most = 0.0
    with (
        db.connect(database.conninfo("test_reader")) as reader,
        database.server.admin(database.name) as admin,
    ):
        (time_zone,) = db.call(reader, "reporting_time")
        admin.execute("set statement_timeout = 0")
        for call in calls:
            if call.function != "response_history":
                continue
            asked = call.parameters
            rows = db.call(reader, "response_history", **asked)
            (metrics,) = db.call(reader, "queue_metrics", **asked, statuses=["completed"])
            exact = admin.execute(EXACT, {**asked, "zone": time_zone["time_zone"]}).fetchone()
            assert exact is not None
            assert (exact[0] is None) == (rows == [])
            for told, true in zip(
                ((rows[-1]["p50"], rows[-1]["p95"], metrics["median_response"]) if rows else ()),
                itertools.chain(exact[0] or (), exact[0][:1] if exact[0] else ()),
                strict=True,
            ):
                most = max(most, abs(told / true - 1))
    return most


def interleaved(server: Server, writers: int, rounds: int, steps: int) -> dict[str, Any]:
    """Random steps of so many writers at once, and what they have left."""
    database = server.clone("prepared")
    taken, known = play(database, writers, rounds, steps)
    with psycopg.connect(database.conninfo(SUPERUSER), autocommit=True) as connection:
        finish(database, Product(connection, known))  # which recounts all sums
    deadlocks = database.value(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    print(f"\n{writers} writers took {taken} steps: {deadlocks} deadlocks, every sum right")
    database.drop()
    return {"writers": writers, "steps": taken, "deadlocks": deadlocks}
