"""What notifications cost, and how soon a listener knows.

Clients enqueue, claim and complete one task at a time, three changes of status each, in databases
without NOTIFY (its triggers off), with nobody listening, and with listeners; they take turns in
every round, and what counts is the ratio within a round. A listener does as the product's do: it
looks when a notification comes, and once more half a second later. It looks at the clock alone, so
that what is measured is the notification.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from lakequeue.listener import Listener
from lakequeue.web.live import SECOND_LOOK_SECONDS
from tests.bench.cycle import cycles
from tests.bench.measure import durable_server, share, together
from tests.bench.queues import Lakequeue
from tests.servers import Database, Server

CHANNELS = ("lakequeue_worker", "lakequeue_changes")
TRIGGERS = """
select tgname from pg_trigger
 where tgrelid = 'lakequeue.tasks'::regclass and tgname like 'notify%' and tgenabled <> 'D'
"""
CASES: dict[str, int | None] = {
    "without NOTIFY": None,
    "nobody listens": 0,
    "2 listeners": 2,
    "40 listeners": 40,
}
"""How many listen, half on each channel."""
CLIENTS = 8
CHANGES_A_TASK = 3
COMMITS_APART = (0.0, 0.001, 0.02, 0.3)
"""Seconds between the changes whose way to a listener is taken: alone, and in bursts."""


def run(quick: bool) -> dict[str, Any]:
    """Measure, and print tables."""
    with durable_server() as server:
        answer = rates(server, *((3, 1.0) if quick else (9, 4.0)))
        return answer | delays(server.clone("pristine"), 2 if quick else 20)


def rates(server: Server, rounds: int, seconds: float) -> dict[str, Any]:
    """Changes of status a second, and the ratio to those without NOTIFY."""
    found: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(rounds):
        for case in CASES if number % 2 else reversed(CASES):
            database = server.clone("pristine")
            try:
                found[case].append(one_round(database, CASES[case], seconds))
            finally:
                database.drop()
    answer = {}
    print(f"{'':18}{'changes/s':>11}{'share':>8}   {CLIENTS} clients")
    for case, rate in found.items():
        of_silent = share(found, case, next(iter(CASES)))
        print(f"{case:18}{statistics.median(rate):11.0f}{of_silent:8.2f}", flush=True)
        answer[case] = {
            "per_second": round(statistics.median(rate), 1),
            "share": round(of_silent, 3),
        }
    return answer


def one_round(database: Database, listeners: int | None, seconds: float) -> float:
    """Changes of status a second, of all clients together."""
    queue = Lakequeue("")
    queue.install(database)
    if listeners is None:
        for (trigger,) in database.query(TRIGGERS):
            database.query(f"alter table lakequeue.tasks disable trigger {trigger}")
    with queue.connect(database.conninfo()) as client:
        queue.enqueue(client, 4 * CLIENTS)

    def work(number: int, start: Any) -> float:
        with queue.connect(database.conninfo()) as client:
            cycles(client, queue, 1, seconds / 4)
            start()
            done, _, took, _ = cycles(client, queue, 1, seconds)
        return done / took

    with listening(database, listeners or 0):
        rate: float = CHANGES_A_TASK * sum(together(CLIENTS, work))
        return rate


@contextlib.contextmanager
def listening(database: Database, count: int) -> Iterator[None]:
    """So many listeners in a process of their own, until the block ends."""
    context = multiprocessing.get_context("fork")
    listens, over = context.Event(), context.Event()

    def listen() -> None:
        found = [Listener(database.conninfo(), CHANNELS[n % 2]) for n in range(count)]
        assert all(listener.keep() for listener in found)
        listens.set()
        while not over.is_set():
            for listener in found:
                listener.poll()
            over.wait(0.02)
        for listener in found:
            listener.close()

    process = context.Process(target=listen, daemon=True)
    process.start()
    try:
        assert listens.wait(60)
        yield
    finally:
        over.set()
        process.join(60)


def delays(database: Database, times: int) -> dict[str, Any]:
    """How long after a commit a listener looked for the first time."""
    queue = Lakequeue("")
    queue.install(database)
    looks: list[float] = []
    listener = Listener(database.conninfo(), CHANNELS[1])
    assert listener.keep()
    over = threading.Event()

    def look() -> None:
        again = None
        while not over.is_set():
            left = 0.1 if again is None else max(0.0, min(0.1, again - time.monotonic()))
            if listener.wait(left):
                looks.append(time.monotonic())
                again = looks[-1] + SECOND_LOOK_SECONDS
            elif again is not None and time.monotonic() >= again:
                looks.append(time.monotonic())
                again = None

    thread = threading.Thread(target=look)
    thread.start()
    committed: list[float] = []
    try:
        with queue.connect(database.conninfo()) as one, queue.connect(database.conninfo()) as two:
            for pause in COMMITS_APART * times:
                time.sleep(pause)
                # The second has met the first's guard and notifies nobody, but commits after it.
                with two.transaction():
                    with one.transaction():
                        queue.enqueue(one, 1)
                        queue.enqueue(two, 1)
                    committed.append(time.monotonic())
                    time.sleep(pause / 2)
                committed.append(time.monotonic())
        time.sleep(2 * SECOND_LOOK_SECONDS)
    finally:
        over.set()
        thread.join()
        listener.close()
    found = sorted(
        looks[place] - at if (place := bisect_left(looks, at)) < len(looks) else float("inf")
        for at in committed
    )
    answer = {
        "informed_p50_ms": round(1000 * statistics.median(found), 1),
        "informed_most_ms": round(1000 * found[-1], 1),
    }
    print("".join(f"\n{name:18} {value:10}" for name, value in answer.items()))
    return answer
