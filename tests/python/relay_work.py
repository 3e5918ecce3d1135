"""What the relay tests run in place of an agent: small, real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def run(parameters: dict[str, str]) -> int:
    """Do what the payload says; leave a note of pid and environment first."""
    payload = json.loads(parameters["payload"])
    if "note" in payload:
        note = Path(payload["note"])
        part = note.with_suffix(".part")
        part.write_text(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "parameters": parameters,
                    "environment": {
                        name: value
                        for name, value in os.environ.items()
                        if name == "LAKEQUEUE_TEST_A"
                    },
                }
            )
        )
        part.rename(note)
    if payload.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "print" in payload:
        print(payload["print"], file=sys.stderr)
    if "raise" in payload:
        raise RuntimeError(payload["raise"])
    if payload.get("flood"):
        while True:
            print("x" * 1000)
    if payload.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(payload.get("seconds", 0))
    return int(payload.get("code", 0))
