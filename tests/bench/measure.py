"""What benchmarks of the database share: a server as in production, clients, ratios."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from tests.servers import Server

# Durable, with autovacuum, and without a checkpoint in the middle of a round.
DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}


@contextlib.contextmanager
def durable_server(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """The embedded server with the settings of one that must not lose anything, and more."""
    server = Server("embedded", DURABLE | dict(settings or {}))
    try:
        yield server
    finally:
        server.stop()


def share(rates: Mapping[str, Sequence[float]], of: str, to: str) -> float:
    """The median of the rounds' own ratios: what disturbs a round disturbs both of its sides."""
    return statistics.median(a / b for a, b in zip(rates[of], rates[to], strict=True))


def wal_records(server: Server, database: str) -> int:
    """WAL records written so far, once everybody has left `database` (and said what they wrote)."""
    with server.admin() as admin:
        while admin.execute(
            "select count(*) from pg_stat_activity where datname = %s", [database]
        ).fetchone() != (0,):
            time.sleep(0.01)
        row = admin.execute("select wal_records from pg_stat_wal").fetchone()
        assert row is not None
        return int(row[0])


def pages_read(
    client: psycopg.Connection[Any], statement: str, values: Mapping[str, Any] | None = None
) -> int:
    """The pages that a statement touches; it changes nothing."""
    with client.transaction(force_rollback=True), client.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(f"explain (analyze, buffers, format json) {statement}", values)
        ((plan,),) = cursor.fetchall()
    return sum(plan[0]["Plan"][f"Shared {kind} Blocks"] for kind in ("Hit", "Read"))


def together(clients: int, work: Callable[[int, Callable[[], None]], Any]) -> list[Any]:
    """What `work(number, start)` returns in so many processes; `start()` lets all go on at once.

    Processes, since threads of one would wait for each other's Python instead of the database.
    """
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(clients)
    answers: Any = context.SimpleQueue()

    def start() -> None:
        barrier.wait(60)

    def run(number: int) -> None:
        try:
            answers.put(work(number, start))
        except BaseException as error:
            answers.put(error)
            barrier.abort()
            raise

    processes = [context.Process(target=run, args=[number]) for number in range(clients)]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    for answer in found:
        if isinstance(answer, BaseException):
            raise answer
    return found
