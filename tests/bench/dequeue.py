"""What exactness costs: the rate of dequeues with every limit set, beside none."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

from psycopg.types.json import Json

from tests.servers import Database, Server

AGENTS = 10
BATCH = 10
WORKERS = 4
LIMITS = {
    "max_concurrent_tasks": 100_000,
    "max_tpm": 10**12,
    "max_input_tpm": 10**12,
    "max_output_tpm": 10**12,
    "max_rpm": 10**9,
}


def run(quick: bool) -> dict[str, Any]:
    """Measure both ways in turn, several times, and print a table."""
    rounds = 5 if quick else 9
    seconds = 2.0 if quick else 6.0
    server = Server("embedded")
    rates: dict[str, list[float]] = {"unthrottled": [], "throttled": [], "throttled, reserving": []}
    try:
        for number in range(rounds):
            for kind, measured in rates.items():
                measured.append(measure(server, kind, seconds))
            print(
                f"round {number + 1}: "
                + ", ".join(f"{kind} {measured[-1]:.0f}/s" for kind, measured in rates.items()),
                flush=True,
            )
    finally:
        server.stop()
    medians = {kind: statistics.median(measured) for kind, measured in rates.items()}
    ratios = [
        throttled / free
        for throttled, free in zip(rates["throttled"], rates["unthrottled"], strict=True)
    ]
    print(f"{'':22}{'tasks per second (median)':>26}{'of unthrottled':>16}")
    for kind, median in medians.items():
        print(f"{kind:22}{median:26.0f}{median / medians['unthrottled']:16.2f}")
    return {
        "throttled_share": round(statistics.median(ratios), 3),
        "unthrottled_per_second": round(medians["unthrottled"], 1),
        "throttled_per_second": round(medians["throttled"], 1),
        "reserving_per_second": round(medians["throttled, reserving"], 1),
        "rounds": rounds,
    }


def measure(server: Server, kind: str, seconds: float) -> float:
    """Tasks per second through dequeue and callback, by several workers at once."""
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
        return _race(database, seconds)
    finally:
        database.drop()


def _race(database: Database, seconds: float) -> float:
    done = [0] * WORKERS
    spent = [0.0] * WORKERS
    barrier = threading.Barrier(WORKERS)

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

    threads = [threading.Thread(target=work, args=[n]) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds, sum(done) / sum(spent)
