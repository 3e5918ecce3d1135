"""Benchmarks of tests/bench, in little: they run, and count right."""

from __future__ import annotations

import pytest

from tests.bench import cycle, horizon, latency
from tests.bench.queues import OURS
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


def test_the_cycle_goes_through_every_step(pristine: Database) -> None:
    (unthrottled, _) = OURS
    unthrottled.install(pristine)
    figures = cycle.one_round(pristine, unthrottled, clients=2, batch=2, seconds=0.2)
    assert figures["per_second"] > 0
    assert min(figures[f"{step}_ms"] for step in cycle.STEPS) > 0
    completed = pristine.value("select count(*) from lakequeue.tasks where status = 'completed'")
    assert completed > 0
    assert completed % 2 == 0


def test_the_worker_starts_what_is_enqueued(pristine: Database) -> None:
    found = latency.measure(pristine, samples=2)
    assert len(found) == 2
    assert min(found) > 0


def test_completions_under_a_snapshot_are_measured(pristine: Database) -> None:
    answer = horizon.measure(pristine, completions=400, samples=1)
    assert pristine.value("select count(*) from lakequeue.results") >= 400
    assert all(answer[name]["pages_ratio"] > 0 for name in horizon.CALLS)
