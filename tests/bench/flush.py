"""What it is worth to wait for the disk after the throttle lock, and not under it.

Clients share one endpoint with every limit. They go through the cycle, one task at a time, or
reserve and settle model calls, each for an attempt of its own; either every commit waits for the
disk while the lock is held, or, as workers and agents do, what was claimed or granted is confirmed
afterwards. Both take turns in every round, and what counts is the ratio within a round. All of it
on this machine's disk, and on one whose flushes take some milliseconds more, as where storage is
reached by network.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.bench.cycle import cycles
from tests.bench.measure import durable_server, share, together
from tests.bench.queues import LIMITS, Lakequeue
from tests.servers import Database, Server

CLIENTS = (1, 8)
SLOW_MS = 5
DISKS: dict[str, dict[str, str]] = {
    "this disk": {},
    f"{SLOW_MS} ms more": {"commit_delay": str(1000 * SLOW_MS), "commit_siblings": "0"},
}
"""Who flushes sleeps before it, and does it then for all that have come meanwhile."""
CASES = {"under the lock": True, "after it": False}
"""Whether each commit waits."""
RESERVE = "select answer from lakequeue.reserve_tokens(%s, %s, 10, 10, %s, durable => %s)"
SETTLE = "select lakequeue.settle_tokens(%s, %s, %s, 10, 10)"

Client = Callable[[Database, int, bool, float], Callable[[int, Callable[[], None]], float]]


def run(quick: bool) -> dict[str, Any]:
    """Measure claims and calls, and print a table."""
    rounds, seconds = (1, 0.3) if quick else (5, 2.0)
    answer: dict[str, Any] = {"rounds": rounds}
    print(f"{'':52}{'a second':>10}{'ratio':>8}")
    for disk, settings in DISKS.items():
        with durable_server(settings) as server:
            for what, client in (("cycles", cycling), ("calls", calling)):
                for clients in CLIENTS:
                    rates = measure(server, client, clients, rounds, seconds)
                    for case in CASES:
                        rate = statistics.median(rates[case])
                        ratio = share(rates, case, next(iter(CASES)))
                        name = f"{disk}, {what} of {clients}, {case}"
                        print(f"{name:52}{rate:10.0f}{ratio:8.2f}", flush=True)
                        answer[name] = {"per_second": round(rate, 1), "ratio": round(ratio, 3)}
    return answer


def measure(
    server: Server, client: Client, clients: int, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """What all clients together did a second, in each round."""
    rates: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(rounds):
        for case in CASES if number % 2 else reversed(CASES):
            database = server.clone("pristine")
            try:
                work = client(database, clients, CASES[case], seconds)
                rates[case].append(sum(together(clients, work)))
            finally:
                database.drop()
    return rates


def cycling(
    database: Database, clients: int, durable: bool, seconds: float
) -> Callable[[int, Callable[[], None]], float]:
    """Enqueue, dequeue, complete."""
    queue = Lakequeue("", LIMITS, durable=durable)
    queue.install(database)
    with queue.connect(database.conninfo()) as connection:
        queue.enqueue(connection, 4 * clients)

    def work(_number: int, start: Callable[[], None]) -> float:
        with queue.connect(database.conninfo()) as connection:
            cycles(connection, queue, 1, seconds / 4)
            start()
            done, _, took, _ = cycles(connection, queue, 1, seconds)
        return done / took

    return work


def calling(
    database: Database, clients: int, durable: bool, seconds: float
) -> Callable[[int, Callable[[], None]], float]:
    """Reserve and settle calls, each client those of a run of its own."""
    limits = "".join(f", {name} => {value}" for name, value in LIMITS.items())
    database.query(f"select lakequeue.configure_agent('reader', reserves_calls => true{limits})")
    for _ in range(clients):
        database.query("select lakequeue.enqueue_task('reader', '/a.pdf')")
    runs = database.query(
        "select attempt_id, callback_token from lakequeue.dequeue_tasks('w', %s)", clients
    )

    def work(number: int, start: Callable[[], None]) -> float:
        with Lakequeue("").connect(database.conninfo()) as connection:
            start()
            done, started = 0, time.monotonic()
            while (now := time.monotonic()) - started < seconds:
                call = [*runs[number], uuid.uuid4()]
                while connection.execute(RESERVE, [*call, durable]).fetchone() != ("granted",):
                    pass  # somebody else has held the lock for long
                if not durable:
                    connection.execute(RESERVE, [*call, True])
                connection.execute(SETTLE, call)
                done += 1
        return done / (now - started)

    return work
