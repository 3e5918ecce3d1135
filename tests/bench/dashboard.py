"""How fast and at what cost changes reach many open pages of one web process.

Clients hold streams as browsers do; from outside, 50 status changes a second are committed. A
change has reached a client when the first event that was published after its commit arrives.
"""

from __future__ import annotations

import http.client
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.bench.worker import megabytes
from tests.python.web_server import AGENT, Queue
from tests.python.web_server import server as web_server
from tests.servers import Server

CHANGES_PER_SECOND = 50
QUICK = (100, 5)
"""Clients and seconds."""
CLIENTS = """
import json, selectors, socket, sys, time
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chosen = selectors.DefaultSelector()
rests, arrived = {}, []
for _ in range(count):
    client = socket.create_connection((host, port))
    client.sendall(f"GET /api/events HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    chosen.register(client, selectors.EVENT_READ)
    rests[client] = b""
    arrived.append([])
places = {client: place for place, client in enumerate(rests)}
chosen.register(sys.stdin, selectors.EVENT_READ)
lost, done = 0, False
while not done:
    for key, _ in chosen.select():
        if key.fileobj is sys.stdin:
            done = True
            break
        data = key.fileobj.recv(65536)
        now = time.time()
        if not data:
            chosen.unregister(key.fileobj)
            lost += 1
            continue
        *items, rests[key.fileobj] = (rests[key.fileobj] + data).split(b"\\n\\n")
        for item in items:
            if b"event: change" in item:
                told = json.loads(item[item.index(b"data: ") + 6 :].split(b"\\n")[0])
                arrived[places[key.fileobj]].append((told["at"], now))
print(json.dumps({"lost": lost, "arrived": arrived}), flush=True)
"""


def run(quick: bool) -> dict[str, Any]:
    """Measure, and print a table."""
    clients, seconds = QUICK if quick else (1000, 30)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * clients)), hard))
    server = Server("embedded")
    try:
        with tempfile.TemporaryDirectory(prefix="lakequeue-bench-", dir="/tmp") as folder:
            return _measure(Queue(server.clone("pristine")), Path(folder), clients, seconds)
    finally:
        server.stop()


def _measure(queue: Queue, folder: Path, clients: int, seconds: int) -> dict[str, Any]:
    with web_server(queue.database, folder, LAKEQUEUE_MAX_STREAMS=str(clients)) as (
        address,
        process,
    ):
        where = urlsplit(address)
        serving = _child(process.pid)
        _get(where.netloc, "/")  # what the first page needs is loaded
        idle = megabytes(serving)
        reader = subprocess.Popen(
            [sys.executable, "-c", CLIENTS, str(where.hostname), str(where.port), str(clients)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            until = time.monotonic() + 120
            while _health(where.netloc)["streams"] < clients:
                assert time.monotonic() < until, "not all streams were opened"
                time.sleep(0.2)
            time.sleep(2)
            refused = _get(where.netloc, "/api/events")
            committed, pages, most = _change(queue, where.netloc, serving, seconds)
            time.sleep(2)
            said, _ = reader.communicate(b"end\n", timeout=120)
        finally:
            reader.kill()
            reader.wait()
    told = json.loads(said)
    delays, missed = _delays(committed, told["arrived"])
    answer = {
        "clients": clients,
        "changes_per_second": round(len(committed) / seconds, 1),
        "p50_ms": round(1000 * delays[len(delays) // 2]),
        "p95_ms": round(1000 * delays[int(0.95 * len(delays))]),
        "max_ms": round(1000 * delays[-1]),
        "missed": missed,
        "streams_lost": told["lost"],
        "one_more_client": refused,
        "page_p95_ms": round(1000 * sorted(pages)[int(0.95 * len(pages))]),
        "idle_megabytes": round(idle, 1),
        "more_megabytes": round(most - idle, 1),
    }
    for name, value in answer.items():
        print(f"{name:20} {value}")
    return answer


def _change(
    queue: Queue, netloc: str, serving: int, seconds: int
) -> tuple[list[float], list[float], float]:
    """Commits changes at an even pace, while somebody loads the overview once a second."""
    committed: list[float] = []
    pages: list[float] = []
    most = megabytes(serving)
    stop = threading.Event()

    def look() -> None:
        while not pages or not stop.wait(1):
            began = time.monotonic()
            _get(netloc, "/")
            pages.append(time.monotonic() - began)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        with psycopg.connect(queue.database.conninfo(), autocommit=True) as connection:
            began = time.monotonic()
            for number in range(CHANGES_PER_SECOND * seconds):
                time.sleep(max(0.0, began + number / CHANGES_PER_SECOND - time.monotonic()))
                connection.execute("select lakequeue.enqueue_task(%s, '/a.pdf')", [AGENT])
                committed.append(time.time())
                if number % CHANGES_PER_SECOND == 0:
                    most = max(most, megabytes(serving))
    finally:
        stop.set()
        looker.join()
    return committed, pages, most


def _delays(
    committed: list[float], arrived: list[list[tuple[str, float]]]
) -> tuple[list[float], int]:
    """From each commit to each client, sorted; and how often nothing came."""
    delays, missed = [], 0
    for events in arrived:
        published = [datetime.fromisoformat(at).timestamp() for at, _ in events]
        for at in committed:
            # The time of publishing is told in whole milliseconds, rounded down.
            place = bisect_left(published, at - 0.001)
            if place == len(events):
                missed += 1
            else:
                delays.append(max(0.0, events[place][1] - at))
    return sorted(delays), missed


def _get(netloc: str, path: str) -> str:
    """The status of an answer, with when to come back if it says so."""
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        again = answer.getheader("Retry-After")
        answer.read() if answer.status != 200 or path == "/" else None
        return f"{answer.status}" + (f", Retry-After {again}" if again else "")
    finally:
        connection.close()


def _health(netloc: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        connection.request("GET", "/api/health")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found
    finally:
        connection.close()


def _child(process: int) -> int:
    """The process that serves, below the one that watches over it."""
    until = time.monotonic() + 20
    file = Path(f"/proc/{process}/task/{process}/children")
    while not (children := file.read_text().split()):
        assert time.monotonic() < until
        time.sleep(0.1)
    return int(children[0])
