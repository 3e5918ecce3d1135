"""The stream of changes: nothing is missed, whatever is lost, and streams end in time."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from flask.testing import FlaskClient

from lakequeue.web import live
from lakequeue.web.live import Hub, Stream, TooManyStreams
from tests.python.web_server import Queue, application, as_json
from tests.python.web_server import server as web_server
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def hub(queue: Queue) -> Iterator[Hub]:
    hub = Hub(queue.database.conninfo("test_web"), max_streams=3)
    yield hub
    hub.stop()
    if hub._thread is not None:
        hub._thread.join(10)
        assert not hub._thread.is_alive()


def parse(item: bytes) -> tuple[str, dict[str, Any], str | None]:
    lines = dict(line.split(": ", 1) for line in item.decode().strip().split("\n"))
    return lines["event"], json.loads(lines["data"]), lines.get("id")


def next_event(stream: Stream, name: str, seconds: float = 10) -> float:
    """How long it took until an event of this name came."""
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        for item in stream.take(min(left, 0.2)):
            if parse(item)[0] == name:
                return time.monotonic() - began
    raise AssertionError(f"no {name} within {seconds} s")


def settle(stream: Stream) -> None:
    """Until the hub listens and has seen the database."""
    next_event(stream, "probe")
    while stream.take(0.3):
        pass


def connections(queue: Queue) -> list[str]:
    with queue.database.server.admin() as connection:
        rows = connection.execute(
            """select application_name from pg_stat_activity
                where datname = %s and usename = 'test_web' order by 1""",
            [queue.database.name],
        ).fetchall()
    return [row[0] for row in rows]


def until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_a_change_arrives_at_once(queue: Queue, hub: Hub) -> None:
    stream, first = hub.open(None)
    assert [parse(item)[0] for item in first] == ["hello"]
    settle(stream)
    took = []
    for _ in range(5):
        version = hub.version
        queue.enqueue()
        took.append(next_event(stream, "change"))
        assert hub.version > version
        time.sleep(0.3)
    assert sorted(took)[2] < 1.5, f"{took}: without a notification it takes two seconds"


def test_a_change_without_a_notification_arrives_within_two_seconds(queue: Queue, hub: Hub) -> None:
    """The channel's guard is held by another transaction, as rule 14 allows."""
    stream, _ = hub.open(None)
    settle(stream)
    guard = queue.database.connect(autocommit=False)
    guard.execute("select pg_advisory_xact_lock(lakequeue._lock_class(), -2)")
    queue.enqueue()
    assert next_event(stream, "change") < 2
    guard.rollback()


def test_usage_that_a_trace_settles_arrives_too(queue: Queue, hub: Hub) -> None:
    """It changes no status, so nobody is notified."""
    queue.enqueue()
    attempt = queue.claim()["attempt_id"]
    stream, _ = hub.open(None)
    settle(stream)
    queue.call("record_usage", attempt=attempt, input_tokens=5, output_tokens=1)
    assert next_event(stream, "change") < 2


def test_no_burst_ends_stale(queue: Queue, hub: Hub) -> None:
    """After the last change of a burst there is an event, however many were merged before it."""
    stream, _ = hub.open(None)
    settle(stream)
    for _ in range(40):
        queue.enqueue()
    done = time.monotonic()
    last = 0.0
    events = 0
    while time.monotonic() < done + 2.5:
        for item in stream.take(0.1):
            if parse(item)[0] == "change":
                last = time.monotonic()
                events += 1
    assert last >= done - 0.05
    assert events <= 40


def test_what_was_missed_is_replayed(queue: Queue, hub: Hub) -> None:
    keeper, _ = hub.open(None)
    settle(keeper)
    stream, first = hub.open(None)
    here = parse(first[0])[2]
    stream.close()
    queue.enqueue()
    next_event(keeper, "change")
    resumed, missed = hub.open(here)
    assert [parse(item)[0] for item in missed] == ["hello", "change", "probe"]
    last = parse(missed[1])[2]
    resumed.close()
    nothing, missed = hub.open(last)
    assert [parse(item)[0] for item in missed] == ["hello", "probe"]
    nothing.close()
    for unknown in (
        "other-0",
        "nonsense",
        f"{last}0",
        "-",
        f"{here.rpartition('-')[0]}-x" if here else "",
    ):
        stream, missed = hub.open(unknown)
        assert parse(missed[0])[0] == "resync", unknown
        stream.close()


def test_a_new_page_is_told_at_once_that_the_database_was_seen(queue: Queue, hub: Hub) -> None:
    """The next probe may be 5 seconds away; only what nobody has seen waits for it."""
    first, told = hub.open(None)
    assert [parse(item)[0] for item in told] == ["hello"]
    settle(first)
    _, told = hub.open(None)
    assert [parse(item)[0] for item in told] == ["hello", "probe"]


def test_after_a_pause_without_watchers_nobody_resumes_from_before(queue: Queue, hub: Hub) -> None:
    stream, first = hub.open(None)
    settle(stream)
    stream.close()
    until(lambda: connections(queue) == [])
    queue.enqueue()
    again, missed = hub.open(parse(first[0])[2])
    assert parse(missed[0])[0] == "resync"
    settle(again)


def test_one_listening_connection_while_somebody_watches_and_none_else(
    queue: Queue, hub: Hub
) -> None:
    streams = [hub.open(None)[0] for _ in range(3)]
    for stream in streams:
        next_event(stream, "probe")
    assert connections(queue) == ["lakequeue web (listening)", "lakequeue web (watching)"]
    for stream in streams:
        stream.close()
    until(lambda: connections(queue) == [])


def test_there_is_a_limit(hub: Hub) -> None:
    streams = [hub.open(None)[0] for _ in range(3)]
    with pytest.raises(TooManyStreams):
        hub.open(None)
    streams[0].close()
    streams[0].close()
    hub.open(None)


def test_who_does_not_read_is_told_to_start_over(queue: Queue, hub: Hub) -> None:
    stream, _ = hub.open(None)
    for number in range(live.QUEUE_LENGTH * 3):
        stream.put(live.event("change", {"number": number}))
    items = [parse(item)[0] for item in stream.take(0)]
    assert items[0] == "resync"
    assert len(items) <= live.QUEUE_LENGTH + 1


def test_a_lost_database_is_told_and_its_return_too(queue: Queue, hub: Hub) -> None:
    stream, _ = hub.open(None)
    settle(stream)
    with queue.database.server.admin() as connection:
        connection.execute("alter role test_web connection limit 0")
        try:
            _cut(connection, queue)
            next_event(stream, "trouble")
        finally:
            connection.execute("alter role test_web connection limit -1")
    assert next_event(stream, "probe", 20)
    queue.enqueue()
    next_event(stream, "change", 20)


def _cut(connection: psycopg.Connection[Any], queue: Queue) -> None:
    connection.execute(
        """select pg_terminate_backend(pid) from pg_stat_activity
            where datname = %s and usename = 'test_web'""",
        [queue.database.name],
    )


def test_a_stream_ends_by_itself_and_gives_its_place_back(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live.STREAM_SECONDS + live.STREAM_JITTER_SECONDS < 110, "a proxy cuts it at 120 s"
    monkeypatch.setattr(live, "STREAM_SECONDS", 0.5)
    monkeypatch.setattr(live, "STREAM_JITTER_SECONDS", 0.0)
    stream, missed = hub.open(None)
    frames = list(hub.frames(stream, missed))
    assert frames[0].startswith(b"retry: ")
    assert parse(frames[-1])[0] == "bye"
    assert hub.streams == 0


def test_stopping_ends_every_stream(hub: Hub) -> None:
    ended = []

    def watch() -> None:
        stream, missed = hub.open(None)
        for _ in hub.frames(stream, missed):
            pass
        ended.append(time.monotonic())

    threads = [threading.Thread(target=watch) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: hub.streams == 3)
    began = time.monotonic()
    hub.stop()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 3
    assert max(ended) - began < 10


# --- shared reads ---------------------------------------------------------------------------------


def test_what_was_read_before_a_change_is_not_shown_after_it(queue: Queue, tmp_path: Path) -> None:
    with application(queue.database, tmp_path) as app:
        web = app.extensions["lakequeue"]
        client: FlaskClient = app.test_client()
        stream, _ = web.hub.open(None)
        settle(stream)
        for expected in range(1, 6):
            as_json(client.get("/api/metrics"))
            queue.enqueue()
            next_event(stream, "change")
            numbers = as_json(client.get("/api/metrics"))
            assert numbers["statuses"]["enqueued"]["tasks"] == expected
            # The second look of this change is not the next one's.
            while stream.take(0.7):
                pass


def test_many_readers_of_one_page_cost_one_query(queue: Queue, tmp_path: Path) -> None:
    with application(queue.database, tmp_path) as app:
        reads = app.extensions["lakequeue"].reads
        calls: list[str] = []
        original = reads.call

        def counted(function: str, **parameters: Any) -> Any:
            calls.append(function)
            return original(function, **parameters)

        reads.call = counted
        reads.shared("queue_metrics")
        threads = [
            threading.Thread(target=reads.shared, args=("queue_metrics",)) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(calls) <= 2


# --- over the network -----------------------------------------------------------------------------


def test_streams_over_http_and_an_end_within_15_seconds(queue: Queue, tmp_path: Path) -> None:
    with web_server(queue.database, tmp_path, LAKEQUEUE_MAX_STREAMS="2") as (address, process):
        where = urlsplit(address)

        def connect() -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=15)
            connection.request("GET", "/api/events")
            return connection.getresponse()

        streams = [connect() for _ in range(2)]
        for stream in streams:
            assert stream.status == 200
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            assert stream.headers["Cache-Control"] == "no-cache, no-transform"
            assert stream.headers["X-Accel-Buffering"] == "no"
        refused = connect()
        assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
        wait_for(streams[0], b"event: probe")
        queue.enqueue()
        wait_for(streams[0], b"event: change")
        # Every place for streams is taken: pages are served all the same.
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=15)
        connection.request("GET", "/api/health")
        assert json.loads(connection.getresponse().read())["streams"] == 2
        began = time.monotonic()
        process.terminate()
        wait_for(streams[1], b"event: bye")
        assert process.wait(60) == 0
        assert time.monotonic() - began < 15


def wait_for(stream: http.client.HTTPResponse, mark: bytes) -> None:
    while line := stream.readline():
        if line.startswith(mark):
            return
    raise AssertionError(f"the stream ended without {mark!r}")
