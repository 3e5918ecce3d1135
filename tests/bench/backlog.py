"""What a long history and a long backlog do to a dequeue: nothing, it is meant to be.

Each size is a database of its own, half of it finished and half of it waiting (see history.py), on
one server; they take turns within every round, and what counts is the ratio to the smallest within
a round. Before each dequeue as many tasks are enqueued, and after it they are completed, so that
the sizes stay. Pages are counted apart: those no neighbour disturbs.
"""

from __future__ import annotations

import time
from typing import Any

from tests.bench.history import AGENTS, LIMITED, built
from tests.bench.measure import durable_server, pages_read, share
from tests.bench.queues import Connection, Lakequeue
from tests.servers import Database

SIZES = (1_000, 100_000, 1_000_000)
QUICK = (1_000, 20_000)
CALLS = {
    "claim": (AGENTS[0], 1),
    "claim of 10": (AGENTS[0], 10),
    "throttled claim": (LIMITED, 1),
    "claim, any agent": (None, 1),
}


def run(quick: bool, tasks: int | None = None) -> dict[str, Any]:
    """Measure every size, and print a table."""
    sizes = (SIZES[0], tasks) if tasks else QUICK if quick else SIZES
    with durable_server() as server:
        databases = {size: built(server, size // 2, size // 2) for size in sizes}
        return measure(databases, *((3, 20) if quick else (9, 100)))


def measure(databases: dict[int, Database], rounds: int, samples: int) -> dict[str, Any]:
    """The times and pages of each call at each size."""
    clients = {size: database.connect() for size, database in databases.items()}
    times: dict[tuple[str, int], list[list[float]]] = {}
    for number in range(rounds):
        for size in clients if number % 2 else reversed(clients):
            for call in CALLS:
                found = timed(clients[size], call, samples)
                times.setdefault((call, size), []).append(found)
            clients[size].execute("select lakequeue.fold_rollups(patient => true)")  # as workers do
    for database in databases.values():  # pages are counted without dead rows
        with database.server.admin(database.name) as admin:
            admin.execute("vacuum")
    answer: dict[str, Any] = {"rounds": rounds}
    first = next(iter(clients))
    heads = zip(("p50, ms", "ratio", "p99, ms", "ratio", "pages"), (10, 7, 10, 7, 7), strict=True)
    print(f"\n{'':18}{'tasks':>12}" + "".join(f"{head:>{width}}" for head, width in heads))
    for call in CALLS:
        for size, client in clients.items():
            found = sorted(time for times_of_round in times[call, size] for time in times_of_round)
            row = {"p50_ms": quantile(found, 0.5), "p99_ms": quantile(found, 0.99)}
            ratios = {
                part: share(
                    {
                        name: [quantile(sorted(each), part) for each in times[call, which]]
                        for name, which in (("this", size), ("first", first))
                    },
                    "this",
                    "first",
                )
                for part in (0.5, 0.99)
            }
            row |= {"p50_ratio": ratios[0.5], "p99_ratio": ratios[0.99]}
            row["pages"] = min(pages_read(client, dequeue(call)) for _ in range(3))
            print(
                f"{call:18}{size:12,}{row['p50_ms']:10.2f}{row['p50_ratio']:7.2f}"
                f"{row['p99_ms']:10.2f}{row['p99_ratio']:7.2f}{row['pages']:7.0f}"
            )
            answer[f"{call}, {size} tasks"] = {key: round(value, 3) for key, value in row.items()}
    for database in databases.values():
        database.close()
    return answer


def dequeue(call: str) -> str:
    """The statement of a call."""
    agent, batch = CALLS[call]
    chosen = "" if agent is None else f", '{{{agent}}}'"
    return (
        "select outcome, attempt_id, callback_token"
        f" from lakequeue.dequeue_tasks('w', {batch}{chosen})"
    )


def timed(client: Connection, call: str, samples: int) -> list[float]:
    """The milliseconds of so many dequeues."""
    agent, batch = CALLS[call]
    queue = Lakequeue("", agent=agent or AGENTS[0])
    statement = dequeue(call)
    times = []
    for _ in range(samples):
        queue.enqueue(client, batch)
        started = time.monotonic()
        rows = client.execute(statement).fetchall()
        times.append(1000 * (time.monotonic() - started))
        claims = [row[1:] for row in rows if row[0] == "claimed"]
        assert len(claims) == batch
        queue.complete(client, claims)
    return times


def quantile(found: list[float], part: float) -> float:
    """Of sorted values."""
    return found[min(len(found) - 1, int(part * len(found)))]
