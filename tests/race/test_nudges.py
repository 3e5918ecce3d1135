"""Rule 14: notifications are hints, few and quick, and none that is rolled back silences others."""

from __future__ import annotations

import pytest

from tests.race.harness import Connection, holding, together
from tests.race.scene import RESULT, call, claim, configure, enqueue, report, store
from tests.servers import Database

WITHIN = 1.0  # seconds: what a watcher is promised
SILENCE = 0.3


@pytest.fixture
def listener(database: Database) -> Connection:
    configure(database)
    connection = database.connect("test_worker")
    connection.execute("listen lakequeue_worker")
    connection.execute("listen lakequeue_changes")
    return connection


def heard(listener: Connection, seconds: float = WITHIN, at_least: int = 2) -> list[str]:
    """The channels that were nudged; a nudge has no payload."""
    nudges = list(listener.notifies(timeout=seconds, stop_after=at_least))
    assert {nudge.payload for nudge in nudges} <= {""}
    return sorted(nudge.channel for nudge in nudges)


def test_a_change_is_heard_within_a_second(database: Database, listener: Connection) -> None:
    enqueue(database, 1)
    assert heard(listener) == ["lakequeue_changes", "lakequeue_worker"]
    claimed = claim(database)
    assert heard(listener, at_least=1) == ["lakequeue_changes"]
    report(database.connect("test_agent"), claimed, "success", result=RESULT)
    assert heard(listener) == ["lakequeue_changes", "lakequeue_worker"]


def test_a_place_that_gets_free_without_a_change_of_status_is_heard(
    database: Database, listener: Connection
) -> None:
    """store_result completes the task; its run's place is free with the confirmation only."""
    enqueue(database, 1)
    claimed = claim(database)
    agent = database.connect("test_agent")
    store(agent, claimed)
    heard(listener, SILENCE, at_least=100)
    report(agent, claimed, "success")
    assert heard(listener, at_least=1) == ["lakequeue_worker"]


def test_heartbeats_are_not_news(database: Database, listener: Connection) -> None:
    enqueue(database, 1)
    claimed = claim(database)
    heard(listener, SILENCE, at_least=100)
    with holding(database, "test_worker") as worker:
        call(worker, "extend_leases", attempts=[claimed["attempt_id"]])
        call(worker, "worker_heartbeat", worker="w")
        call(worker, "sweep_leases")
    assert heard(listener, SILENCE) == []


def test_a_nudge_that_is_rolled_back_silences_nobody_after_it(
    database: Database, listener: Connection
) -> None:
    with holding(database, "test_app") as doomed:
        call(doomed, "enqueue_task", agent="parser", document_path="/doomed")
        # Meanwhile the doomed one has the guard: this change is not announced. (That is why
        # listeners look at the newest change by themselves every second.)
        enqueue(database, 1)
        doomed.rollback()
    assert heard(listener, SILENCE) == []
    enqueue(database, 1)
    assert heard(listener) == ["lakequeue_changes", "lakequeue_worker"]


def test_a_burst_of_commits_sends_few_nudges_and_at_least_one(
    database: Database, listener: Connection
) -> None:
    def burst(connection: Connection) -> None:
        for _ in range(15):
            call(connection, "enqueue_task", agent="parser", document_path="/x")

    for outcome in together(database, [burst] * 8, user="test_app"):
        outcome.result()
    nudges = heard(listener, SILENCE, at_least=1000)
    assert {"lakequeue_changes", "lakequeue_worker"} <= set(nudges)
    assert len(nudges) < 2 * 8 * 15


def test_one_statement_sends_one_nudge(database: Database, listener: Connection) -> None:
    enqueue(database, 500)
    assert heard(listener, SILENCE, at_least=100) == ["lakequeue_changes", "lakequeue_worker"]
