"""The chaos suite in its shortest form; `tests/chaos/run` plays the longer ones.

It starts a server of its own, since that one is stopped and its backends are killed.
"""

from __future__ import annotations

import json
import random

import pytest

from lakequeue import database as db
from tests.chaos.suite import QUICK, run
from tests.servers import Database


def test_nothing_is_lost_or_paid_twice_whatever_breaks() -> None:
    seed = random.randrange(1_000_000)
    outcome = run(QUICK, seed)
    assert outcome.passed, f"{json.dumps(outcome.as_json())}\n{outcome.explain()}"
    assert outcome.tasks >= QUICK.tasks


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_no_worker_or_agent_can_tell_the_database_a_time(pristine: Database) -> None:
    """Rule 12: what they may call takes no point in time, so no clock but the database's counts."""
    with db.connect(pristine.conninfo()) as connection:
        rows = connection.execute(
            """select p.proname, r.rolname
                 from pg_proc p
                 join pg_roles r on has_function_privilege(r.oid, p.oid, 'execute')
                where p.pronamespace = 'lakequeue'::regnamespace
                  and r.rolname in ('lakequeue_worker', 'lakequeue_agent', 'lakequeue_app')"""
        ).fetchall()
        telling = connection.execute(
            """select p.proname, r.rolname
                 from pg_proc p
                 join pg_roles r on has_function_privilege(r.oid, p.oid, 'execute')
                where p.pronamespace = 'lakequeue'::regnamespace
                  and r.rolname in ('lakequeue_worker', 'lakequeue_agent', 'lakequeue_app')
                  and p.proargtypes::oid[] && array['timestamptz', 'timestamp', 'date', 'time', 'timetz']::regtype[]::oid[]"""
        ).fetchall()
    assert len(rows) > 10
    assert telling == []
