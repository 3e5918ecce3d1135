"""What a worker needs for 1,000 job runs in flight: memory, time, calls of the workspace.

None of the runs reports or heartbeats, as if all of them waited in the job's queue: every lease is
the worker's to extend, which is the most look-ups there can be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from psycopg.types.json import Json

from tests.databricks.workspace import Workspace, running
from tests.servers import Database, Server

LEASE_SECONDS = 60
WORKER = """
import sys
from lakequeue.relay.databricks import DatabricksRelay
from lakequeue.worker import Worker
worker = Worker(sys.argv[1], DatabricksRelay())
print(worker.name, flush=True)
worker.run()
"""


def run(quick: bool) -> dict[str, Any]:
    """Measure one worker, and print a table."""
    server = Server("embedded")
    try:
        with running() as workspace:
            return _measure(server.clone("pristine"), workspace, 200 if quick else 1000)
    finally:
        server.stop()


def _measure(database: Database, workspace: Workspace, runs: int) -> dict[str, Any]:
    database.query(
        "select lakequeue.configure_agent('document-parser', job_id => %s, lease_duration => %s)",
        workspace.add_job(max_concurrent_runs=runs),
        f"{LEASE_SECONDS} s",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, database.conninfo("test_worker")],
        env={**os.environ, **workspace.environment()},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(3)
        idle = megabytes(process.pid)
        documents = [{"document_path": f"/{number}.pdf"} for number in range(runs)]
        database.query(
            "select count(*) from lakequeue.enqueue_tasks('document-parser', %s)", Json(documents)
        )
        began = time.monotonic()
        while _recorded(database) < runs:
            time.sleep(0.2)
        submitting = time.monotonic() - began
        workspace.calls.clear()
        most, seconds = megabytes(process.pid), 0
        while seconds < LEASE_SECONDS:
            time.sleep(1)
            seconds += 1
            most = max(most, megabytes(process.pid))
        looks = workspace.called("runs/get") + workspace.called("runs/list")
        kept = database.value(
            "select count(*) from lakequeue.task_attempts where status = 'running'"
        )
    finally:
        process.kill()
        process.wait()
    print(f"{runs} runs, {kept} of them alive to the database a lease later")
    print(f"memory    {idle:6.0f} MB idle, {most - idle:+.1f} MB with all in flight")
    print(f"started   {runs / submitting:6.1f} a second")
    print(f"looked up {looks:6d} calls a minute")
    return {
        "runs": runs,
        "kept": kept,
        "idle_megabytes": round(idle, 1),
        "more_megabytes": round(most - idle, 1),
        "started_per_second": round(runs / submitting, 1),
        "looks_per_minute": round(looks * 60 / LEASE_SECONDS),
    }


def _recorded(database: Database) -> int:
    count: int = database.value(
        "select count(*) from lakequeue.task_attempts where run_id is not null"
    )
    return count


def megabytes(process: int) -> float:
    """What a process holds in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
