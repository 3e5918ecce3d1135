"""What runs documents, put together: database, traces, model, relay, worker.

`lakequeue parse`, `worker` and `up` build the same stack. Everything slow begins at once and goes
on side by side: the fork server's imports (seconds), the database, the simulator. A worker whose
runs are Databricks jobs needs none of that but the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from psycopg.types.json import Json

from lakequeue import database, embedded, migrate, simulator, traces
from lakequeue.agents import DOCUMENT_PARSER
from lakequeue.config import Settings
from lakequeue.errors import Problem, WrongUse
from lakequeue.forkserver import ForkedProcess, ForkServer, ForkServerError
from lakequeue.relay import local
from lakequeue.relay.local import LocalRelay
from lakequeue.worker import DRAIN_SECONDS, IDLE_LIMIT_SECONDS, Worker

log = logging.getLogger(__name__)

SIMULATOR = "simulator"
SIMULATOR_PRICE = {"input_usd": 0.50, "cached_usd": 0.10, "output_usd": 1.50}
"""Made up, in USD per million tokens, so that the simulator's work shows a cost."""
LEASE = "30 seconds"
"""Short, since a local agent extends it from a thread and its death is seen at once anyway."""
STORE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """The database and the folder to work with."""

    folder: Path
    conninfo: str
    """For configuring, enqueueing and reading."""
    worker_conninfo: str
    agent_conninfo: str
    server: embedded.Server | None
    """The embedded server; None: somebody's own database."""


def open_place(settings: Settings, data_dir: Path | None, resources: contextlib.ExitStack) -> Place:
    """Start or join the embedded server, or take the database that the settings name."""
    folder = data_dir or settings.data_dir
    if settings.database_url is None:
        server = resources.enter_context(embedded.server(folder))
        conninfo = server.conninfo()
        return Place(server.data_dir, conninfo, conninfo, conninfo, server)
    folder = (folder or embedded.default_data_dir()).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    url = settings.database_url
    return Place(folder, url, url, url, None)


def ready_schema(place: Place) -> Place:
    """Bring the embedded database up to date, or check that the given one is.

    On the embedded server worker and agents get logins with no more rights than their roles,
    as in production.
    """
    if place.server is None:
        with database.connect(place.conninfo) as connection:
            migrate.check_version(connection)
        return place
    migrate.migrate(place.conninfo)
    return Place(
        place.folder,
        place.conninfo,
        place.server.ensure_login("lakequeue_local_worker", "lakequeue_worker"),
        place.server.ensure_login("lakequeue_local_agent", "lakequeue_agent"),
        place.server,
    )


@dataclass(frozen=True, slots=True)
class Model:
    """The chat endpoint that agents call, and its limit."""

    name: str
    url: str
    token: str | None
    tokens_per_minute: int | None
    simulator: simulator.Simulator | None


def open_model(
    settings: Settings,
    place: Place,
    name: str | None,
    tokens_per_minute: int | None,
    resources: contextlib.ExitStack,
) -> Model:
    """Start the simulator, unless the settings name a chat endpoint."""
    if settings.chat_url is not None:
        if name is None:
            raise WrongUse(
                "LAKEQUEUE_CHAT_URL names an endpoint, but no model is chosen",
                "add --model NAME",
            )
        return Model(name, settings.chat_url, settings.chat_token, tokens_per_minute, None)
    if name not in (None, SIMULATOR):
        raise WrongUse(
            f"model {name!r} needs an endpoint",
            "set LAKEQUEUE_CHAT_URL to an OpenAI-compatible one; without it the simulator answers",
        )
    if place.server is None and tokens_per_minute is None:
        tokens_per_minute = _limit_in(place)
    limit = _agree_on_limit(place.folder, tokens_per_minute, resources)
    running = resources.enter_context(simulator.running(tokens_per_minute=limit))
    return Model(SIMULATOR, running.base_url, None, limit, running)


def _limit_in(place: Place) -> int | None:
    """The limit that somebody's own database has for the agent: its simulator keeps to it."""
    with database.connect(place.conninfo) as connection:
        if not _is_known(connection):
            return None
        limits = database.call(connection, "explain_throttle", agent=DOCUMENT_PARSER)
    return next(
        (row["ceiling"] for row in limits if (row["scope"], row["kind"]) == ("endpoint", "tokens")),
        None,
    )


def _agree_on_limit(folder: Path, wanted: int | None, resources: contextlib.ExitStack) -> int:
    """One limit for all that work in this folder at the same time: the first one's.

    Each has a simulator of its own, but they share the database's budget: one that joins with
    another limit would change it for the others, whose simulators then answer 429.
    """
    file = resources.enter_context((folder / "simulator.limit").open("a+"))
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(str(wanted or simulator.DEFAULT_TOKENS_PER_MINUTE))
        file.flush()
    fcntl.flock(file, fcntl.LOCK_SH)  # until this process leaves; another may write before
    file.seek(0)
    agreed = int(file.read())
    if wanted not in (None, agreed):
        log.warning(
            "another lakequeue works in %s with %d tokens per minute; this one does too",
            folder,
            agreed,
        )
    return agreed


def configure(place: Place, model: Model) -> None:
    """Make the agent known; one that somebody's own database knows already stays as it is."""
    with database.connect(place.conninfo) as connection:
        if place.server is None and _is_known(connection):
            return
        database.call(
            connection,
            "configure_endpoint",
            endpoint=model.name,
            max_tpm=model.tokens_per_minute or 0,
        )
        database.call(
            connection,
            "configure_agent",
            agent=DOCUMENT_PARSER,
            model_endpoint=model.name,
            lease_duration=LEASE,
            reconcile_grace="0",
            reserves_calls=True,
            parameters=Json({"model": model.name}),
        )
        if model.simulator is not None:
            database.call(connection, "set_model_price", model=SIMULATOR, **SIMULATOR_PRICE)


def _is_known(connection: database.Connection) -> bool:
    """Whether anybody has configured the agent."""
    return any(row["agent"] == DOCUMENT_PARSER for row in database.call(connection, "agent_status"))


def start_forkserver(place: Place, resources: contextlib.ExitStack) -> ForkServer:
    """Start the imports that agents need; they go on in the background."""
    server = local.forkserver(place.folder / "runs", traces.SWITCHES)
    resources.callback(server.close)
    server.start()
    return server


class StoreInTheMaking:
    """MLflow's store: known already, or being made in a forked process."""

    def __init__(self, place: Place, forkserver: ForkServer) -> None:
        """Begin."""
        self._folder = place.folder / "mlflow"
        self._process: ForkedProcess | None = None
        self._store = traces.known_store(self._folder)
        if self._store is None:
            self._process = forkserver.start_process(
                "lakequeue.traces:prepare",
                {"folder": str(self._folder)},
                traces.SWITCHES,
                f"prepare-{os.getpid()}",
            )

    def get(self) -> traces.Store:
        """Wait until it is there."""
        if self._store is None and self._process is not None:
            if not self._process.wait(STORE_SECONDS):
                raise Problem(
                    f"the trace store in {self._folder} is not ready after {STORE_SECONDS:g} s",
                    f"see {self._process.log_path}",
                )
            self._store = traces.known_store(self._folder)
        if self._store is None:
            reason = "" if self._process is None else self._process.tail.splitlines()[-1:]
            raise Problem(
                f"the trace store in {self._folder} could not be made: {''.join(reason)}",
                "" if self._process is None else f"see {self._process.log_path}",
            )
        return self._store


class ForkedSettler:
    """Settles usage from traces in a forked process, one at a time."""

    def __init__(
        self, forkserver: ForkServer, conninfo: str, store: traces.Store, **arguments: object
    ) -> None:
        """Take where to read and where to record, and more arguments of traces.settle."""
        self._forkserver = forkserver
        self._arguments = {
            "conninfo": conninfo,
            "experiment_id": store.experiment_id,
            **arguments,
        }
        self._environment = store.environment()
        self._process: ForkedProcess | None = None
        self._name = f"settle-{secrets.token_hex(4)}"

    def kick(self, ended_within: timedelta) -> None:
        """Begin a round over the attempts that ended so recently, unless one is under way."""
        if self._process is not None:
            if self._process.alive:
                return
            if self._process.exit_code != 0:
                log.warning("settling usage from traces failed: %s", self._process.tail)
        try:
            self._process = self._forkserver.start_process(
                "lakequeue.traces:settle",
                {**self._arguments, "ended_within": ended_within.total_seconds()},
                self._environment,
                self._name,
            )
        except ForkServerError as error:
            log.warning("cannot settle usage from traces: %s", error)

    def wait(self, seconds: float) -> None:
        """Wait for a round that is under way."""
        if self._process is not None:
            self._process.wait(seconds)


def make_worker(
    place: Place,
    model: Model,
    store: traces.Store,
    forkserver: ForkServer,
    *,
    jobs: int | None = None,
    agents: list[str] | None = None,
    idle_limit: float = IDLE_LIMIT_SECONDS,
    drain_seconds: float = DRAIN_SECONDS,
    callback_url: str | None = None,
) -> Worker:
    """Make a worker with a local relay; its runs find everything in their environment.

    `callback_url` is the webhook, if a web part runs; without one, runs confirm by SQL alone.
    """
    environment = {
        **store.environment(),
        "LAKEQUEUE_DATABASE_URL": place.agent_conninfo,
        "LAKEQUEUE_CHAT_URL": model.url,
        "LAKEQUEUE_CHAT_TOKEN": model.token or "",
        "LAKEQUEUE_CALLBACK_URL": callback_url or "",
    }
    relay = LocalRelay(forkserver, environment, jobs)
    settler = ForkedSettler(forkserver, place.worker_conninfo, store)
    return Worker(
        place.worker_conninfo,
        relay,
        # Only what can run here: an agent that is a Databricks job is another worker's.
        agents=agents or [DOCUMENT_PARSER],
        settler=settler,
        idle_limit=idle_limit,
        drain_seconds=drain_seconds,
    )


def make_databricks_worker(
    settings: Settings,
    place: Place,
    resources: contextlib.ExitStack,
    *,
    agents: list[str] | None = None,
    idle_limit: float = IDLE_LIMIT_SECONDS,
) -> Worker:
    """Make a worker whose runs are job runs, of these agents (None: of all).

    With an experiment it settles their usage from the traces there, in a process that has MLflow.
    Raises a WorkspaceError when the workspace cannot be used.
    """
    from lakequeue.relay.databricks import DatabricksRelay

    ready_schema(place)
    relay = DatabricksRelay(settings.callback_url)
    settler = None
    if settings.experiment_id is not None:
        store = traces.workspace_store(settings.experiment_id)
        forkserver = ForkServer(
            place.folder / "runs", traces.WORKSPACE_PRELOAD, store.environment()
        )
        resources.callback(forkserver.close)
        forkserver.start()
        settler = ForkedSettler(
            forkserver,
            place.worker_conninfo,
            store,
            lakebase_endpoint=settings.lakebase_endpoint,
            pause=traces.WORKSPACE_PAUSE,
        )
    return Worker(
        place.worker_conninfo, relay, agents=agents, settler=settler, idle_limit=idle_limit
    )


def open_remote_place(
    settings: Settings, data_dir: Path | None, resources: contextlib.ExitStack
) -> Place:
    """Take the database that job runs can reach too; raises WrongUse where none is named."""
    if settings.database_url is None:
        raise WrongUse(
            "job runs cannot reach the embedded PostgreSQL",
            "set LAKEQUEUE_DATABASE_URL to the database that they use",
        )
    return open_place(settings, data_dir, resources)
