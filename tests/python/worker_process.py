"""A worker of its own process for the tests: `worker_process.py CONNINFO AGENT_CONNINFO LOGS`.

A fourth argument says when it shall stand still, until SIGCONT: `claimed` (before its first claim
is confirmed), `confirmed` (before the run is noted), `noted` (before that starts) or `started`
(before it does anything else).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from lakequeue.forkserver import ForkServer
from lakequeue.relay.base import Run
from lakequeue.relay.local import LocalRelay
from lakequeue.worker import Worker

HERE = Path(__file__).parent
AGENTS = {"document-parser": "queue_agent:run"}


def make_relay(agent_conninfo: str, logs: Path, capacity: int = 4) -> LocalRelay:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    forkserver = ForkServer(logs, ["psycopg", "queue_agent"], {"PYTHONPATH": path})
    return LocalRelay(forkserver, {"LAKEQUEUE_DATABASE_URL": agent_conninfo}, capacity, AGENTS)


def stand_still(worker: Worker, relay: LocalRelay, when: str) -> None:
    """Stop this process as soon as it has come that far with a run."""
    name, submit, note = relay.name, relay.submit, worker._note_names

    def named(run: Run) -> int:
        if when == "claimed":
            os.kill(os.getpid(), signal.SIGSTOP)
        return name(run)

    def confirmed() -> None:
        if when == "confirmed" and worker._submissions:
            os.kill(os.getpid(), signal.SIGSTOP)
        note()

    def submitted(run: Run) -> int:
        if when == "noted":
            os.kill(os.getpid(), signal.SIGSTOP)
        run_id = submit(run)
        if when == "started":
            os.kill(os.getpid(), signal.SIGSTOP)
        return run_id

    relay.name, relay.submit = named, submitted  # type: ignore[method-assign]
    worker._note_names = confirmed  # type: ignore[method-assign]


def main(conninfo: str, agent_conninfo: str, logs: str, when: str = "") -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    relay = make_relay(agent_conninfo, Path(logs))
    worker = Worker(conninfo, relay, drain_seconds=3)
    stand_still(worker, relay, when)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    print(worker.name, flush=True)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
