"""`python -m tests.bench NAME [--quick]`, from tests/bench/run."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tests.bench import (
    backlog,
    cycle,
    dashboard,
    dequeue,
    growth,
    horizon,
    latency,
    metrics,
    notify,
    throttle,
    worker,
)

BENCHMARKS: dict[str, Any] = {
    "cycle": cycle.run,
    "latency": latency.run,
    "horizon": horizon.run,
    "backlog": backlog.run,
    "metrics": metrics.run,
    "notify": notify.run,
    "growth": growth.run,
    "throttle": throttle.run,
    "dequeue": dequeue.run,
    "worker": worker.run,
    "dashboard": dashboard.run,
}
SIZED = ("backlog", "metrics")


def main() -> None:
    """Run one benchmark; the last line it prints is JSON."""
    parser = argparse.ArgumentParser(prog="tests/bench/run")
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--tasks", type=int, help=f"of the largest database: {', '.join(SIZED)}")
    arguments = parser.parse_args()
    size = {} if arguments.tasks is None else {"tasks": arguments.tasks}
    if size and arguments.name not in SIZED:
        parser.error(f"{arguments.name} has no size")
    print(json.dumps(BENCHMARKS[arguments.name](arguments.quick, **size)), flush=True)


main()
