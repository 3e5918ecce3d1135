"""`python -m tests.bench NAME [--quick]`, from tests/bench/run."""

from __future__ import annotations

import argparse
import importlib
import json

BENCHMARKS = (
    "cycle",
    "latency",
    "horizon",
    "backlog",
    "metrics",
    "notify",
    "flush",
    "growth",
    "throttle",
    "dequeue",
    "worker",
    "dashboard",
)
SIZED = {
    "backlog": "tasks of the largest database",
    "metrics": "tasks of the larger database",
    "horizon": "completions",
}


def main() -> None:
    """Run one benchmark; the last line it prints is JSON."""
    parser = argparse.ArgumentParser(prog="tests/bench/run")
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument(
        "--tasks", type=int, help="; ".join(f"{name}: {what}" for name, what in SIZED.items())
    )
    arguments = parser.parse_args()
    size = {} if arguments.tasks is None else {"tasks": arguments.tasks}
    if size and arguments.name not in SIZED:
        parser.error(f"{arguments.name} has no size")
    # Only this one: the environment of cycle has no pytest, which metrics needs.
    bench = importlib.import_module(f"tests.bench.{arguments.name}")
    print(json.dumps(bench.run(arguments.quick, **size)), flush=True)


main()
