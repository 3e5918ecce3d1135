"""A worker of its own process for the tests: `worker_process.py CONNINFO AGENT_CONNINFO LOGS`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from lakequeue.forkserver import ForkServer
from lakequeue.relay.local import LocalRelay
from lakequeue.worker import Worker

HERE = Path(__file__).parent
AGENTS = {"document-parser": "queue_agent:run"}


def make_relay(agent_conninfo: str, logs: Path, capacity: int = 4) -> LocalRelay:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    forkserver = ForkServer(logs, ["psycopg", "queue_agent"], {"PYTHONPATH": path})
    return LocalRelay(forkserver, {"LAKEQUEUE_DATABASE_URL": agent_conninfo}, capacity, AGENTS)


def main(conninfo: str, agent_conninfo: str, logs: str) -> None:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    worker = Worker(conninfo, make_relay(agent_conninfo, Path(logs)), drain_seconds=3)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    print(worker.name, flush=True)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
