"""The processes that the chaos suite starts and kills: the product's own, forked warm.

Each is a child of lakequeue.forkserver, so that a restart costs no imports and none outlives the
suite. What is told them comes as arguments.
"""

from __future__ import annotations

import datetime
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from lakequeue import worker as worker_module
from lakequeue.forkserver import ForkServer
from lakequeue.relay.base import Relay
from lakequeue.relay.databricks import DatabricksRelay
from lakequeue.relay.local import LocalRelay
from lakequeue.worker import Worker

PRELOAD = (
    "tests.chaos.processes",
    "lakequeue.commands.web",
    "lakequeue.web.app",
    "lakequeue.web.server",
    "lakequeue.stack",
    "databricks.sdk.service.jobs",
)
LOCAL_AGENT = "local"


def databricks_worker(arguments: dict[str, Any]) -> int:
    """A worker of job runs."""
    _skew(arguments["skew_hours"])
    speed = arguments["speed"]
    relay = DatabricksRelay(
        arguments["callback_url"],
        clock=lambda: time.monotonic() * speed,
        sleep=lambda seconds: time.sleep(seconds / speed),
    )
    return _work(arguments, relay)


def local_worker(arguments: dict[str, Any]) -> int:
    """A worker of local runs, each in a process of its own."""
    _skew(arguments["skew_hours"])
    logs = Path(arguments["logs"]) / str(os.getpid())
    return _work(
        arguments,
        LocalRelay(
            ForkServer(logs, ["psycopg", "tests.chaos.agents"]),
            {
                "LAKEQUEUE_DATABASE_URL": arguments["agent_conninfo"],
                "LAKEQUEUE_CALLBACK_URL": arguments["callback_url"],
            },
            capacity=4,
            agents={LOCAL_AGENT: "tests.chaos.agents:run"},
        ),
    )


def web(arguments: dict[str, Any]) -> int:
    """`lakequeue web`."""
    from lakequeue.commands.web import command

    os.environ["LAKEQUEUE_DATABASE_URL"] = arguments["conninfo"]
    command.main(
        ["--port", str(arguments["port"]), "--data-dir", arguments["folder"]],
        standalone_mode=False,
    )
    return 0


def _work(arguments: dict[str, Any], relay: Relay) -> int:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    logging.info("the clock of this process says %s", datetime.datetime.now(datetime.UTC))
    # The steps keep pace with the database's clock, as far as the processors allow.
    worker_module.TEND_SECONDS = 0.3
    worker_module.BEAT_SECONDS = 10 / arguments["speed"]
    worker_module.BEAT_LIMIT_SECONDS = 30 / arguments["speed"]
    worker_module.LOOK_SECONDS = 0.15
    worker = Worker(arguments["conninfo"], relay, batch_size=20, idle_limit=1.0, drain_seconds=2.0)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()
    return 0


def _skew(hours: float) -> None:
    """Let this process's wall clock be so many hours off, and its time zone another."""
    if not hours:
        return
    real, by = time.time, datetime.timedelta(hours=hours)
    time.time = lambda: real() + by.total_seconds()
    true = datetime.datetime

    class Either(type):
        def __instancecheck__(cls, what: object) -> bool:
            return isinstance(what, true)

    class Skewed(datetime.datetime, metaclass=Either):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return true.now(tz) + by

        @classmethod
        def utcnow(cls) -> Any:
            return true.now(datetime.UTC).replace(tzinfo=None) + by

    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if value is true and not module.__name__.startswith(("datetime", "_")):
                setattr(module, name, Skewed)
    datetime.datetime = Skewed  # type: ignore[misc]
    os.environ["TZ"] = os.environ["PGTZ"] = "Pacific/Kiritimati"
    time.tzset()
