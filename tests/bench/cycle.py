"""The whole life of a task, enqueue, dequeue, complete, beside other queues on the same server.

Every client enqueues a batch, claims one and completes what it claimed, a commit for each step, on
top of a small backlog. Ours does all it ever does: attempts with tokens, results, usage, rollups,
notifications; with every limit, it waits for the disk with each claim, or confirms claims after it.
Rounds of all queues take turns; what counts is the ratio within a round.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.bench.measure import durable_server, share, together, wal_records
from tests.bench.queues import OURS, PEERS, Connection, Queue
from tests.servers import Database, Server

SHAPES = [(clients, batch) for clients in (1, 8) for batch in (1, 10, 100)]
STEPS = ("enqueue", "dequeue", "complete")


def run(quick: bool) -> dict[str, Any]:
    """Measure every queue in every shape, and print a table for each shape."""
    if not PEERS:
        print("no peers: tests/bench/run cycle installs them")
    queues = [*OURS, *PEERS]
    rounds, seconds = (3, 0.7) if quick else (5, 2.0)
    answer: dict[str, Any] = {"rounds": rounds}
    with durable_server() as server:
        for clients, batch in SHAPES:
            measured = measure(server, queues, clients, batch, rounds, seconds)
            answer[f"{clients} clients, batch {batch}"] = table(measured, clients, batch)
    return answer


def measure(
    server: Server, queues: list[Queue], clients: int, batch: int, rounds: int, seconds: float
) -> dict[str, list[dict[str, float]]]:
    """What each queue gave in each round: tasks a second, WAL records and milliseconds a task."""
    measured: dict[str, list[dict[str, float]]] = {queue.name: [] for queue in queues}
    for number in range(rounds):
        for queue in queues if number % 2 else reversed(queues):
            database = server.clone("pristine")
            try:
                queue.install(database)
                measured[queue.name].append(one_round(database, queue, clients, batch, seconds))
            finally:
                database.drop()
    return measured


def one_round(
    database: Database, queue: Queue, clients: int, batch: int, seconds: float
) -> dict[str, float]:
    """Let `clients` processes go through the cycle for so many seconds."""
    conninfo = database.conninfo()
    with queue.connect(conninfo) as connection:
        for _ in range(10):
            queue.enqueue(connection, 2 * max(batch * clients // 10, 20))
    before = wal_records(database.server, database.name)

    def work(number: int, start: Any) -> tuple[int, int, int, float, list[float]]:
        with queue.connect(conninfo) as client:
            warm, warm_commits, *_ = cycles(client, queue, batch, seconds / 4)
            start()
            done, commits, took, spent = cycles(client, queue, batch, seconds)
        return done, warm + done, warm_commits + commits, done / took, spent

    answers = together(clients, work)
    records = wal_records(database.server, database.name) - before
    done = sum(answer[0] for answer in answers)
    everything = sum(answer[1] for answer in answers)
    commits = sum(answer[2] for answer in answers)
    figures = {
        "per_second": sum(answer[3] for answer in answers),
        "wal_records": (records - commits) / everything,
    }
    for index, step in enumerate(STEPS):
        figures[f"{step}_ms"] = 1000 * sum(answer[4][index] for answer in answers) / done
    return figures


def cycles(
    client: Connection, queue: Queue, batch: int, seconds: float
) -> tuple[int, int, float, list[float]]:
    """Go through the cycle; tasks done, commits, seconds, and seconds of each step."""
    done = commits = 0
    spent = [0.0] * len(STEPS)
    started = time.monotonic()
    while (now := time.monotonic()) - started < seconds:
        queue.enqueue(client, batch)
        enqueued = time.monotonic()
        claims = queue.dequeue(client, batch)
        dequeued = time.monotonic()
        commits += 2
        if claims:
            queue.complete(client, claims)
            commits += 1
        done += len(claims)
        for index, took in enumerate(
            (enqueued - now, dequeued - enqueued, time.monotonic() - dequeued)
        ):
            spent[index] += took
    return done, commits, time.monotonic() - started, spent


def table(
    measured: dict[str, list[dict[str, float]]], clients: int, batch: int
) -> dict[str, dict[str, float]]:
    """Print one shape; the medians of every queue, and our rates as shares of theirs."""
    ours = OURS[0].name
    rates = {name: [each["per_second"] for each in found] for name, found in measured.items()}
    print(f"\n{clients} clients, batches of {batch}")
    print(
        f"{'':22}{'tasks/s':>9}{'ours/its':>10}{'WAL records':>13}"
        + "".join(f"{step + ', ms':>14}" for step in STEPS),
        flush=True,
    )
    answer = {}
    for name, found in measured.items():
        medians = {key: statistics.median(each[key] for each in found) for key in found[0]}
        medians["ours_to_its"] = share(rates, ours, name)
        print(
            f"{name:22}{medians['per_second']:9.0f}{medians['ours_to_its']:10.2f}"
            f"{medians['wal_records']:13.1f}"
            + "".join(f"{medians[step + '_ms']:14.3f}" for step in STEPS),
            flush=True,
        )
        answer[name] = {key: round(value, 3) for key, value in medians.items()}
    return answer
