"""`python -m tests.bench NAME [--quick]`, from tests/bench/run."""

from __future__ import annotations

import argparse
import json

from tests.bench import cycle, dashboard, dequeue, horizon, latency, throttle, worker

BENCHMARKS = {
    "cycle": cycle.run,
    "latency": latency.run,
    "horizon": horizon.run,
    "throttle": throttle.run,
    "dequeue": dequeue.run,
    "worker": worker.run,
    "dashboard": dashboard.run,
}


def main() -> None:
    """Run one benchmark; the last line it prints is JSON."""
    parser = argparse.ArgumentParser(prog="tests/bench/run")
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    arguments = parser.parse_args()
    print(json.dumps(BENCHMARKS[arguments.name](arguments.quick)), flush=True)


main()
