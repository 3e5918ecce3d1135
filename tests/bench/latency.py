"""From enqueue_task to the start of the run, one task at a time, by a worker that was idle."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import psycopg

from lakequeue.relay.base import EndedRun, Run, RunStatus
from lakequeue.worker import Worker
from tests.bench.measure import durable_server
from tests.servers import Database

PAUSE_SECONDS = 0.05


class StampingRelay:
    """Says when each run would start, and reports its success at once."""

    kind = "local"
    outlives_worker = False
    calls_at_once = 1
    capacity: int | None = None

    def __init__(self, conninfo: str, started: Connection) -> None:
        self.agent = psycopg.connect(conninfo, autocommit=True)
        self.started = started

    def start(self, on_event: Callable[[], None]) -> None:
        """Nothing to prepare."""

    def name(self, run: Run) -> int:
        """Name it by its attempt, which runs once."""
        return run.attempt_id

    def submit(self, run: Run) -> int:
        """Note the time, then do what the agent would do at its end."""
        now = time.monotonic()
        self.agent.execute(
            "select lakequeue.record_callback(%s, %s, 'success', '{}')",
            [run.attempt_id, run.callback_token],
        )
        self.started.send(now)
        return run.attempt_id

    def alive(self) -> int:
        """No run outlasts its submission."""
        return 0

    def states(self, run_ids: Sequence[int]) -> Mapping[int, RunStatus]:
        """Nobody asks."""
        return {}

    def cancel(self, run_id: int) -> None:
        """Nobody asks."""

    def ended(self) -> list[EndedRun]:
        """They have said so themselves."""
        return []

    def close(self) -> None:
        """Leave the database."""
        self.agent.close()


def run(quick: bool) -> dict[str, Any]:
    """Measure one worker, and print a table."""
    with durable_server() as server:
        found = measure(server.clone("pristine"), 50 if quick else 1000)
    answer = {
        "samples": len(found),
        "p50_ms": round(1000 * statistics.median(found), 2),
        "p99_ms": round(1000 * statistics.quantiles(found, n=100)[98], 2),
        "slowest_ms": round(1000 * max(found), 2),
    }
    print(f"{'samples':>10}{'p50, ms':>10}{'p99, ms':>10}{'slowest':>10}")
    print("".join(f"{value:10}" for value in answer.values()))
    return answer


def measure(database: Database, samples: int) -> list[float]:
    """Seconds from the call of enqueue_task to the start of the run, of each."""
    database.query("select lakequeue.configure_agent('reader')")
    starts, started = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(
        target=lambda: Worker(
            database.conninfo("test_worker"),
            StampingRelay(database.conninfo("test_agent"), started),
        ).run(),
        daemon=True,
    )
    worker.start()
    pauses = random.Random(8)
    found = []
    try:
        app = database.connect("test_app")
        for number in range(samples + 5):
            time.sleep(pauses.uniform(PAUSE_SECONDS, 2 * PAUSE_SECONDS))
            enqueued = time.monotonic()
            app.execute("select lakequeue.enqueue_task('reader', '/a.pdf')")
            if not starts.poll(60):
                raise TimeoutError("the worker did not start the task")
            found.append(starts.recv() - enqueued)
            if number < 5:  # the first ones plan
                found.clear()
    finally:
        worker.terminate()
        worker.join(20)
        database.close()
    return found
