"""The worker while its database is away."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakequeue import database as db
from lakequeue import embedded, migrate
from lakequeue.worker import Worker
from tests.python.test_worker import Queue, TroubledRelay, make_worker, running, until


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[embedded.Server]:
    with embedded.server(tmp_path / "data") as server:
        migrate.migrate(server.conninfo())
        yield server


def test_it_outlives_a_database_that_is_killed(
    own_server: embedded.Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(
        own_server.conninfo(),
        own_server.ensure_login("test_worker", "lakequeue_worker"),
        own_server.ensure_login("test_agent", "lakequeue_agent"),
        lease="3 s",
    )
    queue.configure(retry_cap="1 ms", max_attempts=10)
    queue.enqueue(12, seconds=0.5)
    with caplog.at_level(logging.INFO), running(make_worker(queue, tmp_path)):
        until(lambda: queue.statuses().get("completed", 0) >= 2)
        os.kill(own_server.pid, signal.SIGKILL)  # the fixture's watch starts it again
        until(lambda: with_database(lambda: queue.statuses() == {"completed": 12}), 60)
        queue.enqueue(1)
        queue.wait_for(completed=13)
    said = [record for record in caplog.records if "trying again until" in record.message]
    assert len(said) == 1, "it says once that the database is away"
    assert any("the database is back" in record.message for record in caplog.records)
    succeeded = [a for a in queue.attempts() if a["status"] == "succeeded"]
    assert len(succeeded) == 13


def with_database(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except db.DatabaseUnavailable:
        return False


def test_it_waits_for_a_database_that_is_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(f"host={tmp_path} dbname=nothing user=nobody", TroubledRelay())
    with running(worker):
        until(lambda: "cannot reach the database" in caplog.text)
    assert caplog.text.count("cannot reach the database") <= 2, "worker and listener, once each"
