"""A small agent for the worker tests: the same calls as the real one, no document, no model.

What it does is the task's payload: {"seconds": 0.2}, {"die": true}, {"fail": "reason"},
{"silent": true} (ends without a word), {"note": folder} (leaves a file called after its process
there, unless its attempt is lost), {"until": path} (goes on until that exists).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from psycopg.types.json import Json

from lakequeue import database

STEP = 0.2


def run(parameters: dict[str, str]) -> int:
    payload = json.loads(parameters["payload"])
    attempt, token = int(parameters["attempt_id"]), parameters["callback_token"]
    with database.connect(os.environ["LAKEQUEUE_DATABASE_URL"]) as connection:
        end = time.monotonic() + payload.get("seconds", 0)
        while True:
            (lease,) = database.call(
                connection, "extend_leases", attempts=[attempt], tokens=[token]
            )
            if lease["answer"] == "lost":
                return 3
            if "note" in payload:
                Path(payload["note"], str(os.getpid())).touch()
            waits = "until" in payload and not Path(payload["until"]).exists()
            left = end - time.monotonic()
            if left <= 0 and not waits:
                break
            time.sleep(min(STEP, left) if left > 0 else STEP)
        if payload.get("die"):
            print("about to die", file=sys.stderr, flush=True)
            os.abort()
        if payload.get("silent"):
            return 0
        if "fail" in payload:
            database.call(
                connection,
                "record_callback",
                attempt=attempt,
                token=token,
                outcome="failure",
                error_class="test",
                error=Json(payload["fail"]),
                input_tokens=5,
                output_tokens=0,
                usage_complete=True,
            )
            return 1
        # Result and usage in one call: a kill finds both there, or neither.
        database.call(
            connection,
            "record_callback",
            attempt=attempt,
            token=token,
            outcome="success",
            result=Json({"pid": os.getpid()}),
            confidence=0.5,
            input_tokens=100,
            output_tokens=10,
            cached_tokens=0,
            llm_cost=0.001,
            usage_complete=True,
        )
    return 0
