"""The chaos suite in its shortest form; `tests/chaos/run` plays the longer ones.

It starts a server of its own, since that one is stopped and its backends are killed.
"""

from __future__ import annotations

import json

import pytest

from tests.chaos.suite import QUICK, run
from tests.servers import Database


def test_nothing_is_lost_or_paid_twice_whatever_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # others count what these run
    outcome = run(QUICK, seed=7)
    assert outcome.passed, f"{json.dumps(outcome.as_json())}\n{outcome.explain()}"
    assert outcome.tasks >= QUICK.tasks


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_no_worker_or_agent_can_tell_the_database_a_time(pristine: Database) -> None:
    """Rule 12: what they may call takes no point in time, so no clock but the database's counts."""
    takes = """
        select p.proname, p.proargtypes::oid[] && array[
                 'timestamptz', 'timestamp', 'date', 'time', 'timetz']::regtype[]::oid[] as a_time
          from pg_proc p
         where p.pronamespace = 'lakequeue'::regnamespace
           and exists (
             select from unnest(array['lakequeue_worker', 'lakequeue_agent', 'lakequeue_app']) r
              where has_function_privilege(r, p.oid, 'execute'))"""
    functions = pristine.query(takes)
    assert len(functions) > 20
    assert [name for name, a_time in functions if a_time] == []
