"""`python -m tests.chaos [--long]`, from tests/chaos/run."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys

from tests.chaos.suite import LONG, QUICK, SHORT, run
from tests.servers import SERVER_NAMES


def main() -> int:
    """Run the suite; the last line it prints is JSON."""
    parser = argparse.ArgumentParser(prog="tests/chaos/run")
    parser.add_argument("--long", action="store_true", help="10,000 tasks, under 15 minutes")
    parser.add_argument("--quick", action="store_true", help="the form that the tests run")
    parser.add_argument("--keep", action="store_true", help="keep logs and ledgers")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--server", choices=SERVER_NAMES, default="embedded")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or its processes would go on
    print(f"seed {arguments.seed}", flush=True)
    scale = LONG if arguments.long else QUICK if arguments.quick else SHORT
    outcome = run(
        scale,
        arguments.seed,
        arguments.server,
        lambda text: print(text, flush=True),
        keep=arguments.keep,
    )
    for title, counts in (
        ("what struck", outcome.faults),
        ("what agents were answered", outcome.answers),
        ("what was checked", outcome.checks),
    ):
        print(f"\n{title}")
        for name, count in sorted(counts.items()):
            print(f"{count:8d}  {name}")
    print(f"\n{outcome.explain()}" if not outcome.passed else "")
    print(json.dumps(outcome.as_json()), flush=True)
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main())
