"""What other queues suffered from: that each has its test, and those that fit nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakequeue.listener import Listener
from lakequeue.worker import worker_name
from tests.servers import Database

ROOT = Path(__file__).resolve().parents[2]
TABLES = (ROOT / "tests" / "README.md").read_text().partition("## Known failures")[2]
ROWS = re.findall(r"^\| (?!what happened)(.+?) \| (.+) \|$", TABLES, re.MULTILINE)
LINES = 47  # of the list that was collected


def test_every_known_failure_has_tests_and_each_exists() -> None:
    assert len(ROWS) == LINES
    missing = []
    for _failure, caught in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.(?:py|sql))::([^`]+)`", caught)
        assert named, caught
        for file, test in named:
            text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
            if (f"def {test}(" if file.endswith(".py") else test) not in text:
                missing.append(f"{file}::{test}")
    assert missing == []


def test_no_lock_outlives_its_transaction() -> None:
    """A session's advisory lock leaks where the planner, or an error, has its way."""
    for path in (*(ROOT / "procedures").glob("*.sql"), *(ROOT / "triggers").glob("*.sql")):
        calls = re.findall(r"\bpg_(?:try_)?advisory_\w+", path.read_text())
        assert all("_xact_" in name for name in calls), path.name


def test_no_two_workers_share_a_name() -> None:
    """Also of one host and process id: who comes back after a restart is somebody else."""
    assert len({worker_name() for _ in range(100)}) == 100


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_a_listener_is_in_no_transaction(database: Database) -> None:
    """Else the server's queue of notifications fills, and dead rows stay."""
    listener = Listener(database.conninfo("test_worker"), "lakequeue_worker", "the listener")
    assert listener.keep()
    try:
        database.query("select pg_notify('lakequeue_worker', '')")
        assert database.query(
            """select state, xact_start, backend_xmin from pg_stat_activity
                where application_name = 'the listener'""",
            user="postgres",
        ) == [("idle", None, None)]
    finally:
        listener.close()
