"""What comes late: a commit after younger ones, a run after its lease, the end of a strange writer.

Ids are drawn before their transaction commits, so a young id may be there long before an old one:
nobody who reads "everything after the last id" sees the old one then.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock
from tests.race.harness import Connection, holding, in_background, wait_until_blocked
from tests.race.scene import (
    RESULT,
    Row,
    answer,
    assert_sound,
    call,
    claim,
    configure,
    enqueue,
    report,
    store,
)
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

USED = {"input_tokens": 100, "output_tokens": 20, "llm_cost": Decimal("0.25")}


def mark(database: Database) -> str:
    """What watchers ask for every second."""
    return str(database.value("select lakequeue.latest_change()"))


def fold(database: Database) -> int:
    """Fold all there is to see."""
    folded, more = 0, True
    while more:
        more = database.value("select lakequeue.fold_rollups(3)")
        folded += more
    return folded


@pytest.mark.parametrize("folded", [True, False])
def test_a_commit_that_comes_late_is_folded_and_noticed(database: Database, folded: bool) -> None:
    """Its delta is older than any other that was seen, folded or not."""
    configure(database)
    enqueue(database, 2)
    late, other = claim(database), claim(database)
    with holding(database, "test_agent") as early:
        assert report(early, late, "success", result=RESULT, **USED) == "accepted"
        drawn = database.value("select pg_sequence_last_value('lakequeue.task_deltas_id_seq')")
        report(database.connect("test_agent"), other, "success", result=RESULT, **USED)
        enqueue(database, 3)
        if folded:
            assert fold(database) > 0
        seen = mark(database)
        assert mark(database) == seen
        assert_sound(database)
        early.commit()
    assert mark(database) != seen
    assert database.value("select min(id) from lakequeue.task_deltas") <= drawn
    assert_sound(database)
    fold(database)
    assert database.value("select count(*) from lakequeue.task_deltas") == 0
    assert_sound(database)


def test_an_event_that_commits_after_a_newer_one_is_noticed(database: Database) -> None:
    """A 429, a limit, a pause: what changes no task is shown to people, too."""
    configure(database)
    configure(database, "other")
    with holding(database, "test_operator") as early:
        call(early, "set_person", identity="late", role="viewer")
        answer(database.connect("test_operator"), "pause_agent", agent="other")
        seen = mark(database)
        early.commit()
    assert mark(database) != seen


ZOMBIE = {
    "success": "superseded",
    "store": "superseded",
    "failure": "superseded",
    "rate_limited": "superseded",
    "usage": "recorded",
    "reserve": "lost",
    "extend": "lost",
    "record_run": "recorded",
    "fail": "superseded",
}


def test_a_run_that_lost_its_lease_changes_nothing_of_its_task(
    database: Database, clock: Clock
) -> None:
    """Another run has succeeded meanwhile, or is just saying so; only what was spent is added."""
    clock.set("2026-01-01 12:00+00")
    configure(database, max_tpm=1_000_000)
    # As the owner, who may do what an agent and what a worker may.
    agent, other = database.connect(), database.connect(autocommit=False)
    for what, crosses in itertools.product(ZOMBIE, (False, True)):
        enqueue(database, 1)
        zombie = claim(database)
        clock.advance(minutes=20)
        database.query("select lakequeue.sweep_leases()")
        report(other, claim(database), "success", result=RESULT, usage_complete=True, **USED)
        if crosses:
            with in_background(lambda: speak(agent, zombie, what)) as outcome:  # noqa: B023 - at once
                if what != "reserve":  # it waits for nobody
                    wait_until_blocked(database, agent)
                other.commit()
            said = outcome.result()
        else:
            other.commit()
            said = speak(agent, zombie, what)
        assert said == ZOMBIE[what], (what, crosses)
        spent = int(what in ("success", "failure", "usage", "extend"))
        assert database.query(
            """select t.status::text, t.failures, t.attempt_count, c.input_tokens, c.llm_cost
                 from lakequeue.tasks t join lakequeue.task_costs c on c.task_id = t.id
                where t.id = %s""",
            zombie["task_id"],
        ) == [("completed", 1, 2, 100 + 70 * spent, Decimal("0.25"))], (what, crosses)
    assert database.query(
        """select distinct array_agg(a.status::text order by a.number)
             from lakequeue.task_attempts a group by a.task_id"""
    ) == [(["expired", "succeeded"],)]
    assert database.value("select count(*) from lakequeue.model_calls") == 0
    assert_sound(database)


def speak(connection: Connection, row: Row, what: str) -> str:
    """Let an attempt, or its worker, say this; returns what it is told."""
    attempt, token = row["attempt_id"], row["callback_token"]
    used: dict[str, Any] = {"input_tokens": 70, "output_tokens": 7}
    if what == "store":
        return store(connection, row)
    if what == "usage":
        return str(answer(connection, "record_usage", attempt=attempt, **used))
    if what == "fail":
        return str(answer(connection, "fail_attempt", attempt=attempt, error_class="gone"))
    if what == "reserve":
        arguments = {"attempt": attempt, "token": token, "input_tokens": 70}
        (said,) = call(connection, "reserve_tokens", **arguments, max_output_tokens=7)
    elif what == "extend":
        beat = {"attempts": [attempt], "tokens": [token]}
        used = {name: [value] for name, value in used.items()}
        (said,) = call(connection, "extend_leases", **beat, **used)
    elif what == "record_run":
        (said,) = call(connection, "record_runs", attempts=[attempt], run_ids=[7])
    elif what == "success":
        return report(connection, row, what, result=RESULT, **used)
    elif what == "failure":
        return report(connection, row, what, **used)
    else:
        return report(connection, row, what)
    return str(said["answer"])


def test_an_idle_writer_in_another_database_stalls_nothing(
    database: Database, clock: Clock
) -> None:
    """Its transaction id is older than all that is written here, for hours perhaps."""
    clock.set("2026-01-01 12:00+00")
    with database.server.admin() as elsewhere, elsewhere.transaction():
        elsewhere.execute("select pg_current_xact_id()")
        configure(database, max_attempts=1)
        worker = database.connect("test_worker")
        for outcome in ("success", "failure"):
            seen = mark(database)
            enqueue(database, 2)
            assert mark(database) != seen, "watchers hear of what is committed after it"
            more = {"result": RESULT} if outcome == "success" else {}
            for _ in range(2):
                report(database.connect("test_agent"), claim(database), outcome, **more, **USED)
            assert fold(database) > 0
            assert database.value("select count(*) from lakequeue.task_deltas") == 0
        metrics = call(database.connect("test_reader"), "queue_metrics")
        assert {row["status"]: row["tasks"] for row in metrics if row["tasks"]} == {
            "completed": 2,
            "failed": 2,
        }
        enqueue(database, 1)
        claim(database)
        clock.advance(days=2)
        (swept,) = call(worker, "sweep_leases")
        assert swept["expired"] == 1
        (purged,) = call(
            database.connect("test_operator"), "purge_tasks", older_than="1 day", completed=True
        )
        assert purged["tasks"] == 4
        assert_sound(database)
        with psycopg.connect(database.conninfo(), autocommit=True) as connection:
            assert connection.execute("select count(*) from lakequeue.tasks").fetchone() == (1,)
