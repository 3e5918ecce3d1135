"""`lakequeue up`: everything on this machine, in one command."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from lakequeue.commands._place import data_dir_option
from lakequeue.commands.web import host_option, port_option
from lakequeue.commands.worker import refuse_local_options
from lakequeue.config import Settings
from lakequeue.errors import Problem

if TYPE_CHECKING:
    from lakequeue.stack import Model, Place
    from lakequeue.worker import Worker

WEB_STOP_SECONDS = 13.0
DRAIN_SECONDS = 3.0
"""Documents under way have this long to be finished; everything has to be gone after 15."""


@click.command("up")
@data_dir_option
@host_option
@port_option
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(min=1),
    help="What the simulator and the queue allow (default 200000).",
)
@click.option("--model", help="Model to ask, where LAKEQUEUE_CHAT_URL names an endpoint.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), help="Documents under way at once (default 2 per CPU)."
)
def command(
    *,
    data_dir: Path | None,
    host: str,
    port: int | None,
    tokens_per_minute: int | None,
    model: str | None,
    jobs: int | None,
) -> None:
    """Start database, web pages, worker and model simulator, and print the address.

    Uses a PostgreSQL of its own, or LAKEQUEUE_DATABASE_URL. Ctrl-C or SIGTERM stops everything
    within 15 seconds; documents under way go back to the queue, and the next `up` goes on.
    Other commands (parse, status, psql) work on the same data while it runs.

    With LAKEQUEUE_RELAY=databricks agents are runs of their jobs, which go on when this stops;
    it then needs LAKEQUEUE_DATABASE_URL, and starts pages and worker only.
    """
    from lakequeue import stack
    from lakequeue.web import server

    settings = Settings.from_environment()
    remote = settings.relay == "databricks"
    if remote:
        refuse_local_options(jobs, tokens_per_minute, model)
    stop = _Stop()
    with contextlib.ExitStack() as resources:
        folder = _folder(settings, data_dir)
        mark = resources.enter_context(_only_one(folder))
        listener = resources.enter_context(
            server.bind(host, settings.port if port is None else port)
        )
        url = server.address(listener, host)
        if remote:
            place = stack.open_remote_place(settings, data_dir, resources)
            worker = stack.make_databricks_worker(settings, place, resources)
            web = resources.enter_context(_web(place, host, listener, stop))
            runs = "runs   as jobs of Databricks"
        else:
            place = stack.open_place(settings, data_dir, resources)
            forkserver = stack.start_forkserver(place, resources)
            place = stack.ready_schema(place)
            store = stack.StoreInTheMaking(place, forkserver)
            chat = stack.open_model(settings, place, model, tokens_per_minute, resources)
            stack.configure(place, chat)
            web = resources.enter_context(_web(place, host, listener, stop))
            worker = stack.make_worker(
                place,
                chat,
                store.get(),
                forkserver,
                jobs=jobs,
                drain_seconds=DRAIN_SECONDS,
                callback_url=f"{url}/api/callbacks",
            )
            runs = _model(chat)
        with _working(worker, stop) as trouble:
            _write_mark(mark, url)
            _announce(url, place, runs)
            stop.wait()
            click.echo("stopping …", err=True)
            # Both at once: each may take most of the 15 seconds.
            worker.stop()
            web.terminate()
    if trouble:
        raise trouble[0]
    if stop.reason is not None:
        raise Problem(stop.reason, "see what it wrote above; start it again with `lakequeue up`")


class _Stop:
    """Whether to stop, and why; set by signals and by what ends before its time."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.now())

    def now(self, reason: str | None = None) -> None:
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    @property
    def wanted(self) -> bool:
        return self._event.is_set()

    def wait(self) -> None:
        self._event.wait()


# --- one at a time ------------------------------------------------------------------------------


def _folder(settings: Settings, data_dir: Path | None) -> Path:
    from lakequeue import embedded

    folder = data_dir or settings.data_dir or embedded.default_data_dir()
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Problem(
            f"cannot make the folder {folder}: {error.strerror}", "choose one with --data-dir"
        ) from error
    return folder


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[IO[str]]:
    """Refuse a second `up` on the same data, and say where the first one is."""
    with (folder / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            where = file.read().strip()
            raise Problem(
                f"lakequeue up already runs on {folder}" + (f": {where}" if where else ""),
                "use that one, or give another folder with --data-dir",
            ) from None
        file.truncate(0)
        yield file
        file.truncate(0)


def _write_mark(file: IO[str], url: str) -> None:
    file.write(f"{url} (process {os.getpid()})\n")
    file.flush()


# --- the parts ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _web(
    place: Place, host: str, listener: socket.socket, stop: _Stop
) -> Iterator[subprocess.Popen[bytes]]:
    """The web part in a process of its own, on the socket that is open already."""
    ours, theirs = socket.socketpair()
    conninfo = place.conninfo
    if place.server is not None:
        conninfo = place.server.ensure_login("lakequeue_local_web", "lakequeue_web")
    command_line = [
        sys.executable,
        "-c",
        "from lakequeue.cli import main; main()",
        "web",
        f"--data-dir={place.folder}",
        f"--host={host}",
        f"--fd={listener.fileno()}",
        f"--alive-fd={theirs.fileno()}",
        *(["--any-document"] if place.server is not None else []),
    ]
    process = subprocess.Popen(
        command_line,
        env={**os.environ, "LAKEQUEUE_DATABASE_URL": conninfo},
        pass_fds=(listener.fileno(), theirs.fileno()),
        stdin=subprocess.DEVNULL,
        # Ctrl-C is for us: we stop it in order.
        start_new_session=True,
    )
    theirs.close()

    def watch() -> None:
        code = process.wait()
        if not stop.wanted:
            stop.now(f"the web part has ended with exit code {code}")

    threading.Thread(target=watch, name="watch-web", daemon=True).start()
    try:
        yield process
    finally:
        ours.close()
        process.terminate()
        try:
            process.wait(WEB_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def _working(worker: Worker, stop: _Stop) -> Iterator[list[BaseException]]:
    """Run the worker in a thread; what ends it is in the list afterwards."""
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            trouble.append(error)
        stop.now()

    thread = threading.Thread(target=work, name="lakequeue-worker")
    thread.start()
    try:
        yield trouble
    finally:
        worker.stop()
        thread.join()


def _model(model: Model) -> str:
    limit = f", {model.tokens_per_minute:,} tokens a minute" if model.tokens_per_minute else ""
    return f"model  {model.name}{limit}"


def _announce(url: str, place: Place, runs: str) -> None:
    click.echo(f"Lakequeue is running at {url}")
    click.echo(f"  data   {place.folder}")
    click.echo(f"  {runs}")
    click.echo("Ctrl-C stops it.")
    sys.stdout.flush()
