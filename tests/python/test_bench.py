"""Benchmarks run, small, and end with a line of JSON that has what they measured.

Not that of the worker, which has to wait for a lease; cycle without its peers.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

import pytest

from tests.bench import cycle, dashboard, dequeue, horizon, latency, throttle
from tests.bench.queues import OURS
from tests.servers import Database, Server

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

SMALL: dict[str, tuple[Any, dict[str, Any]]] = {
    "dashboard": (dashboard, {"QUICK": (5, 1)}),
    "dequeue": (dequeue, {"QUICK": (1, 0.2), "AGENTS": 2}),
    "throttle": (
        throttle,
        {"WORKLOADS": [throttle.Workload("short", throttle.short, 0.2, 0.1, 5)]},
    ),
}
SAYS: dict[str, dict[str, Any]] = {
    "dashboard": {"clients": 5, "streams_lost": 0, "one_more_client": "503, Retry-After 10"},
    "dequeue": {"rounds": 1},
    "throttle": {"rejected": 0},
}


class Borrowed(Server):
    """The server of this session in the place of one of the benchmark's own."""

    def __init__(self, server: Server) -> None:
        self.__dict__ = server.__dict__

    def stop(self) -> None:
        """It goes on."""


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_and_ends_with_json(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, constants = SMALL[name]
    for constant, value in constants.items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(module, "Server", lambda _: Borrowed(server))
    monkeypatch.setattr(sys, "argv", ["tests/bench/run", name, "--quick"])
    runpy.run_module("tests.bench.__main__")
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {key: told[key] for key in SAYS[name]} == SAYS[name]
    assert all(value is not None for value in told.values())


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
