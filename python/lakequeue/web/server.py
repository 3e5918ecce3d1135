"""Serving the application: gunicorn with threads, one process, streams that end in time.

A thread is taken by each open stream, so there are more threads than streams. The database pool
is small and apart: no stream holds a connection.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication

from lakequeue.errors import Problem
from lakequeue.web.connections import PatientWorker
from lakequeue.web.options import Options

if TYPE_CHECKING:
    from flask import Flask

REQUEST_THREADS = 32
"""Threads beside those of the streams."""
WAITING_CONNECTIONS = 1000
"""Connections beside those with a thread: kept alive, or with a request that is still arriving."""
KEEP_ALIVE_SECONDS = 5
GRACEFUL_SECONDS = 10
"""Requests under way have this long to end; streams end at once."""
BACKLOG = 512


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. A port that is taken, or not ours to take, is said in words."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise Problem(
            f"cannot listen on {host!r}: {error.strerror}",
            "use an address of this machine, e.g. 127.0.0.1, or 0.0.0.0 for all of them",
        ) from error
    family, kind, protocol, _, where = address[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _taken(host, port, error) from error
    return listener


def _taken(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return Problem(
            f"port {port} on {host} is taken by another program",
            "choose another one with --port, or 0 for any free one",
        )
    if error.errno == errno.EACCES:
        return Problem(f"port {port} is not allowed for this user", "choose one above 1023")
    if error.errno == errno.EADDRNOTAVAIL:
        return Problem(
            f"{host} is not an address of this machine",
            "use 127.0.0.1, or 0.0.0.0 for all of them",
        )
    return Problem(f"cannot listen on {host} port {port}: {error.strerror}")


def address(listener: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    port = listener.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"http://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    return host in ("localhost", "::1") or host.startswith("127.")


class _Worker(PatientWorker):
    """The process that serves; it ends its streams when it is told to stop."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self.app.callable is not None:
            self.app.callable.extensions["lakequeue"].hub.stop()
        super().handle_exit(sig, frame)


class _Application(BaseApplication):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn with our settings and nobody else's."""

    def __init__(
        self, make: Callable[[], Flask], listener: socket.socket, options: Options, log_level: str
    ) -> None:
        self._make = make
        self._listener = listener
        self._options = options
        self._log_level = log_level
        super().__init__()

    def load_config(self) -> None:
        threads = self._options.max_streams + REQUEST_THREADS
        settings = {
            "bind": [f"fd://{self._listener.fileno()}"],
            "workers": 1,
            "worker_class": _Worker,
            "threads": threads,
            "worker_connections": threads + WAITING_CONNECTIONS,
            "keepalive": KEEP_ALIVE_SECONDS,
            "timeout": 60,
            "graceful_timeout": GRACEFUL_SECONDS,
            "loglevel": self._log_level,
            "sendfile": False,  # it would pass by what ClientSocket counts
            "forwarded_allow_ips": "",  # nobody is believed about the scheme: no page asks for it
            "errorlog": "-",
            "accesslog": None,
            "proc_name": "lakequeue web",
            "control_socket_disable": True,
            "post_worker_init": _started,
            "worker_exit": _ended,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:  # an older gunicorn has no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._make()


def _started(worker: Any) -> None:
    """In the serving process: give Ctrl-C the gentle end too."""
    signal.signal(signal.SIGINT, worker.handle_exit)


def _ended(server: Any, worker: Any) -> None:
    del server
    if worker.app.callable is not None:
        worker.app.callable.extensions["lakequeue"].close()


def serve(
    options: Options,
    listener: socket.socket,
    *,
    log_level: str = "warning",
    alive: int | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then end within 15 seconds.

    `alive`: a pipe of whoever started this process; when it closes, this process ends as well.
    """
    from lakequeue.web.app import create_app

    if alive is not None:
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    _allow_files(2 * (options.max_streams + REQUEST_THREADS) + WAITING_CONNECTIONS)
    # gunicorn takes the descriptor over and closes it.
    os.set_inheritable(listener.fileno(), True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.getLogger("gunicorn.error").propagate = False
    with contextlib.suppress(KeyboardInterrupt):
        _Application(lambda: create_app(options), listener, options, log_level).run()


def _allow_files(wanted: int) -> None:
    """Each stream is an open file; many systems allow 1,024 unless one asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _end_with(pipe: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(pipe, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
