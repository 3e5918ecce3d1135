"""Benchmarks run, small, and end with a line of JSON that has what they measured.

Not that of the worker, which has to wait for a lease.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

import pytest

from tests.bench import dashboard, dequeue, throttle
from tests.servers import Server

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
