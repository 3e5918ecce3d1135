"""Benchmarks run, small, and end with a line of JSON that has what they measured.

Not that of the worker, which has to wait for a lease; cycle without its peers.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from lakequeue.web import views
from tests.bench import (
    backlog,
    cycle,
    dashboard,
    dequeue,
    flush,
    growth,
    history,
    horizon,
    latency,
    metrics,
    notify,
    throttle,
)
from tests.bench.queues import OURS
from tests.race.scene import assert_sound
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
    unthrottled = OURS[0]
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
    answer = horizon.measure(pristine, completions=400, samples=1, seconds=0)
    assert pristine.value("select count(*) from lakequeue.results") >= 380
    assert all(answer[name]["pages_ratio"] > 0 for name in horizon.CALLS)


@pytest.fixture
def history_of_60(pristine: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(history, "SEED", 20)
    history.build(pristine, finished=60, waiting=40)
    return pristine


def test_a_made_history_is_what_the_functions_leave(history_of_60: Database) -> None:
    assert_sound(history_of_60)
    assert history_of_60.query(
        "select finished_at is not null, count(*), count(distinct finished_at::date) > 1"
        " from lakequeue.tasks group by 1 order by 1"
    ) == [(False, 40, False), (True, 60, True)]
    assert history_of_60.value("select count(*) from lakequeue.task_deltas") == 0
    priced = "select sum(priced) from lakequeue.compute_rollups"
    assert (
        30
        < history_of_60.value(priced)
        < history_of_60.value("select sum(billable) from lakequeue.task_rollups")
    )
    assert history_of_60.value("select lakequeue.enqueue_task('letters', '/a.pdf')") > 60


def test_dequeues_are_measured_at_each_size(history_of_60: Database) -> None:
    answer = backlog.measure({40: history_of_60, 60: history_of_60}, rounds=1, samples=1)
    assert {answer[f"{call}, 60 tasks"]["p50_ratio"] > 0 for call in backlog.CALLS} == {True}
    assert answer["claim of 10, 60 tasks"]["pages"] > answer["claim, 60 tasks"]["pages"] > 17
    assert_sound(history_of_60)


def test_no_read_of_the_pages_is_forgotten(
    history_of_60: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        metrics, "FILTERS", {name: metrics.FILTERS[name] for name in ("7 days", "all time")}
    )
    called = {call.function for call in metrics.noted(history_of_60)}
    source = "".join(path.read_text() for path in Path(views.__file__).parent.glob("*.py"))
    named = set(
        re.findall(r'(?:shared|call|one|call_value)\(\s*(?:connection,\s*)?"(\w+)"', source)
    )
    readers = {
        name
        for (name,) in history_of_60.query(
            "select proname from pg_proc where pronamespace = 'lakequeue'::regnamespace"
            " and has_function_privilege('lakequeue_reader', oid, 'execute')"
        )
    }
    assert named & readers <= called
    assert {"list_tasks", "task_detail", "cost_report", "health"} <= named


def test_reads_of_pages_are_measured(
    history_of_60: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "FILTERS", {"all time": metrics.FILTERS["all time"]})
    answer = metrics.measure([history_of_60, history_of_60], rounds=1)
    assert answer["functions"]["queue_metrics"]["pages"][1] > 0
    assert answer["median_off"] < 0.025
    assert answer["rollups_wrong"] == 0


def test_20_writers_leave_every_sum_right(server: Server) -> None:
    answer = metrics.interleaved(server, writers=20, rounds=1, steps=15)
    assert answer["steps"] > 100
    assert answer["deadlocks"] == 0


def test_notifications_are_measured(server: Server, pristine: Database, monkeypatch: Any) -> None:
    monkeypatch.setattr(notify, "CLIENTS", 2)
    monkeypatch.setattr(notify, "CASES", {"without NOTIFY": None, "2 listeners": 2})
    answer = notify.rates(server, rounds=1, seconds=0.2)
    assert answer["2 listeners"]["per_second"] > 0
    silent = server.clone("pristine")
    notify.one_round(silent, listeners=None, seconds=0.1)
    assert silent.query(notify.TRIGGERS) == []
    silent.drop()
    assert notify.delays(pristine, times=1)["informed_most_ms"] < float("inf")


@pytest.mark.parametrize("client", [flush.cycling, flush.calling])
def test_both_ways_to_wait_for_the_disk_are_measured(server: Server, client: Any) -> None:
    rates = flush.measure(server, client, clients=2, rounds=1, seconds=0.2)
    assert {case: rate > 0 for case, (rate,) in rates.items()} == dict.fromkeys(flush.CASES, True)


def test_what_a_task_writes_is_counted(pristine: Database) -> None:
    costs = growth.measure(pristine, batch=5, tasks=10)
    assert min(costs[step]["records"] for step in growth.STEPS) > 0
    assert costs["all"]["bytes"] > costs["all"]["records"] > costs["all"]["entries"] > 10
    left = growth.left(pristine)
    assert left["tasks"]["rows"] == left["results"]["rows"] == 1
    assert left["tasks"]["entries"] == 3
