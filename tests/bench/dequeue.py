"""What exactness costs: the rate of dequeues with every limit set, beside none.

Ten agents with an endpoint each, batches of ten. The rate of the cycle (dequeue, then callbacks) is
that of four workers; the rate of dequeues alone is that of one, since several wait for each other's
locks where limits apply, and that is no cost of counting.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

from psycopg.types.json import Json

from tests.bench.measure import share
from tests.bench.queues import LIMITS
from tests.servers import Database, Server

AGENTS = 10
BATCH = 10
WORKERS = 4
QUICK = (5, 2.0)
"""Rounds, and seconds of each."""
KINDS = ("unthrottled", "throttled", "throttled, reserving")


def run(quick: bool) -> dict[str, Any]:
    """Measure both ways in turn, several times, and print a table."""
    rounds, seconds = QUICK if quick else (9, 5.0)
    server = Server("embedded")
    cycles: dict[str, list[float]] = {kind: [] for kind in KINDS}
    alone: dict[str, list[float]] = {kind: [] for kind in KINDS}
    try:
        for number in range(rounds):
            for kind in KINDS if number % 2 else reversed(KINDS):
                cycle, dequeue = measure(server, kind, seconds)
                cycles[kind].append(cycle)
                alone[kind].append(dequeue)
            print(
                f"round {number + 1}: "
                + ", ".join(f"{kind} {cycles[kind][-1]:.0f}/s" for kind in KINDS),
                flush=True,
            )
    finally:
        server.stop()
    shares = {kind: share(cycles, kind, KINDS[0]) for kind in KINDS}
    print(f"{'':22}{'cycle, tasks/s':>16}{'share':>7}{'dequeue alone, tasks/s':>24}{'share':>7}")
    for kind in KINDS:
        print(
            f"{kind:22}{statistics.median(cycles[kind]):16.0f}{shares[kind]:7.2f}"
            f"{statistics.median(alone[kind]):24.0f}{share(alone, kind, KINDS[0]):7.2f}"
        )
    return {
        "throttled_share": round(shares["throttled"], 3),
        "reserving_share": round(shares["throttled, reserving"], 3),
        "dequeue_alone_share": round(share(alone, "throttled", KINDS[0]), 3),
        "dequeue_alone_reserving_share": round(share(alone, "throttled, reserving", KINDS[0]), 3),
        "unthrottled_per_second": round(statistics.median(cycles["unthrottled"]), 1),
        "throttled_per_second": round(statistics.median(cycles["throttled"]), 1),
        "rounds": rounds,
    }


def measure(server: Server, kind: str, seconds: float) -> tuple[float, float]:
    """Tasks per second through dequeue and callback, and through dequeue alone."""
    cycle, _ = _rates(server, kind, seconds, WORKERS)
    _, alone = _rates(server, kind, seconds, 1)
    return cycle, alone


def _rates(server: Server, kind: str, seconds: float, workers: int) -> tuple[float, float]:
    """Tasks per second, and per second that was spent in dequeue_tasks."""
    database = server.clone()
    try:
        for number in range(AGENTS):
            limits: dict[str, Any] = {} if kind == "unthrottled" else LIMITS
            database.query(
                "select lakequeue.configure_agent(%s, reserves_calls => %s"
                + "".join(f", {name} => {value}" for name, value in limits.items())
                + ")",
                f"agent {number}",
                kind == "throttled, reserving",
            )
            documents = [{"document_path": f"/{n}.pdf"} for n in range(int(400 * seconds))]
            database.query(
                "select count(*) from lakequeue.enqueue_tasks(%s, %s)",
                f"agent {number}",
                Json(documents[:1000]),
            )
        with database.server.admin(database.name) as admin:
            admin.execute("analyze")
        return _race(database, seconds, workers)
    finally:
        database.drop()


def _race(database: Database, seconds: float, workers: int) -> tuple[float, float]:
    done = [0] * workers
    spent = [0.0] * workers
    barrier = threading.Barrier(workers)

    def work(number: int) -> None:
        connection = database.connect()
        barrier.wait()
        started = time.monotonic()
        while (now := time.monotonic()) - started < seconds:
            rows = connection.execute(
                "select outcome, attempt_id, callback_token from lakequeue.dequeue_tasks(%s, %s)",
                [f"w{number}", BATCH],
            ).fetchall()
            spent[number] += time.monotonic() - now
            reports = [
                {"attempt": attempt, "token": token, "outcome": "success", "result": {}}
                | {"input_tokens": 100, "output_tokens": 10, "usage_complete": True}
                for outcome, attempt, token in rows
                if outcome == "claimed"
            ]
            done[number] += len(reports)
            if reports:
                connection.execute(
                    "select count(*) from lakequeue.record_callbacks(%s)", [Json(reports)]
                )
        connection.close()

    threads = [threading.Thread(target=work, args=[n]) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds, sum(done) / sum(spent)
