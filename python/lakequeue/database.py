"""Connections, and calls of the SQL functions, which hold every decision.

Errors come out in three kinds: `LakequeueError` is the database's own answer (SQLSTATE LQ*),
`DatabaseUnavailable` is worth another try later, and other psycopg errors are bugs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol, Self

import psycopg
from psycopg import conninfo as psycopg_conninfo
from psycopg import sql
from psycopg.adapt import Buffer, Dumper
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Json, Jsonb, JsonDumper
from psycopg.types.string import StrDumperUnknown
from psycopg_pool import ConnectionPool, PoolTimeout

from lakequeue.errors import Problem

Connection = psycopg.Connection[DictRow]

CONNECT_TIMEOUT = 10
OLDEST_POSTGRES = 15
TRIES = 5
"""How often a call is made that has to give way to others."""


class LakequeueError(Problem):
    """A refusal by the database's functions; `sqlstate` (LQ400, LQ404, ...) says which kind."""

    def __init__(self, sqlstate: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.sqlstate = sqlstate


class NotHome(LakequeueError):
    """This database is a copy, or became one of its own while somebody worked on it (LQ421)."""


class DatabaseUnavailable(Problem):
    """No connection could be made, or it was lost; what was in flight may or may not be done."""


class NotInstalled(Problem):
    """The database lacks what this version of Lakequeue calls."""


# --- connecting -------------------------------------------------------------------------------


class Login(Protocol):
    """Where the password of a connection comes from, when it is not written anywhere."""

    @property
    def endpoint(self) -> str:
        """Give the Lakebase endpoint that it is for."""

    def password(self) -> str:
        """Give one that is valid now; raises DatabaseUnavailable when there is none."""

    def refuse(self, password: str) -> None:
        """Note that the server did not take it."""


_logins: list[Login] = []


def log_in_with(login: Login | None) -> None:
    """Give every connection without a password of its own one from here, from now on.

    For the whole process, forked ones included; None ends it.
    """
    _logins[:] = [] if login is None else [login]


class _Connection(psycopg.Connection[DictRow]):
    """A connection that logs in as `log_in_with` says; the pool makes its own through it, too."""

    made_at: float
    """time.monotonic() at its beginning."""
    at_home = False
    """Whether check_home has let it pass."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does, whatever isolation level the database or the login defaults to.

        The functions refuse any but READ COMMITTED (LQ428). It is set by a statement, since
        poolers do not pass on startup options.
        """
        made = cls._log_in(conninfo, options)
        made.made_at = time.monotonic()
        try:
            made.execute("set default_transaction_isolation to 'read committed'")
            if not made.autocommit:
                made.commit()
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def _log_in(cls, conninfo: str, options: dict[str, Any]) -> Self:
        login = login_for(conninfo)
        if login is None:
            return super().connect(conninfo, **options)
        if "sslmode" not in parse_conninfo(conninfo) and not os.environ.get("PGSSLMODE"):
            options["sslmode"] = "require"
        password = login.password()
        try:
            return super().connect(conninfo, password=password, **options)
        except psycopg.OperationalError as error:
            if "authentication failed" not in str(error):
                raise
            login.refuse(password)
            return super().connect(conninfo, password=login.password(), **options)


Pool = ConnectionPool[_Connection]


class _Check:
    """Checks connections when they are handed out; where one is dead, all idle ones are replaced.

    They die together, when a compute suspends or restarts. The pool by itself would try them one
    after the other, each after twice the wait before: half a minute for six.
    """

    def __init__(self) -> None:
        self.pool: Pool | None = None
        self._guard = threading.Lock()
        self._drained_at = 0.0

    def __call__(self, connection: _Connection) -> None:
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            with self._guard:
                if self.pool is not None and connection.made_at > self._drained_at:
                    self._drained_at = time.monotonic()
                    self.pool.drain()
            raise


def login_for(conninfo: str) -> Login | None:
    """Who gives the password for this address; None where it, or PGPASSWORD, has one."""
    if not _logins or parse_conninfo(conninfo).get("password") or os.environ.get("PGPASSWORD"):
        return None
    return _logins[0]


def connect(
    conninfo: str = "", autocommit: bool = True, application_name: str = "lakequeue"
) -> Connection:
    """A connection with rows as dicts. An empty conninfo means the PG* variables."""
    with unavailable_in_words(conninfo):
        return _Connection.connect(
            conninfo, autocommit=autocommit, **_connection_options(conninfo, application_name)
        )


def pool(
    conninfo: str = "",
    *,
    min_size: int = 1,
    max_size: int = 8,
    timeout: float = 30.0,
    application_name: str = "lakequeue",
) -> Pool:
    """An open pool of autocommit connections; each is checked when it is handed out.

    The check costs one round trip, and saves the first call after a database that was suspended
    or moved from failing.
    """
    check = _Check()
    made: Pool = ConnectionPool(
        conninfo,
        kwargs={"autocommit": True, **_connection_options(conninfo, application_name)},
        connection_class=_Connection,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout,
        check=check,
        name=application_name,
        open=False,
    )
    check.pool = made
    # The first connection is made here, so that a wrong address is told in the server's words;
    # the pool itself would only say that it had waited in vain.
    connect(conninfo, application_name=application_name).close()
    made.open()
    return made


@contextmanager
def checkout(from_pool: Pool, seconds: float | None = None) -> Iterator[Connection]:
    """A connection of the pool; an unreachable database is a `DatabaseUnavailable`."""
    try:
        with from_pool.connection(seconds) as conn:
            yield conn
    except PoolTimeout as error:
        raise DatabaseUnavailable(
            f"no database connection within {seconds or from_pool.timeout:g} seconds", str(error)
        ) from error


def _connection_options(conninfo: str, application_name: str) -> dict[str, Any]:
    """Defaults that the conninfo may override."""
    given = parse_conninfo(conninfo)
    defaults = {
        "application_name": application_name,
        "connect_timeout": CONNECT_TIMEOUT,
        # A peer that vanished without a word is noticed within a minute, not after hours.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    options: dict[str, Any] = {k: v for k, v in defaults.items() if k not in given}
    options["row_factory"] = dict_row
    return options


def parse_conninfo(conninfo: str) -> dict[str, Any]:
    """The parts of a libpq string or URL; a malformed one is told in words."""
    try:
        return psycopg_conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise Problem(
            f"not a database address: {_first_line(error)}",
            "use postgresql://user@host:port/dbname or 'host=… dbname=… user=…'",
        ) from error


def target(conninfo: str) -> str:
    """Where the conninfo points, without secrets, for messages."""
    parts = parse_conninfo(conninfo)
    shown = [f"{k}={parts[k]}" for k in ("host", "port", "dbname", "user") if parts.get(k)]
    return " ".join(shown) or "the address in the PG* variables"


# --- calling ----------------------------------------------------------------------------------


def call(conn: psycopg.Connection[Any], function: str, /, **parameters: Any) -> list[DictRow]:
    """Rows of `select * from lakequeue.function(name => value, ...)`.

    Values travel without a type, so that the function's declared types decide (a Python float
    fits a real, an int a bigint, Json a json or jsonb). Text loses U+0000, which Postgres
    cannot store and real documents contain. A call that had to give way to another (a deadlock,
    a lock not available) is made again, since nothing of it was done.
    """
    with errors_in_words(), conn.cursor(row_factory=dict_row) as cursor:
        for cls, dumper in _DUMPERS:
            cursor.adapters.register_dumper(cls, dumper)
        for tries_left in reversed(range(TRIES if conn.autocommit else 1)):
            try:
                cursor.execute(_statement(function, tuple(parameters)), parameters)
                break
            except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
                if not tries_left:
                    raise
        return cursor.fetchall()


def check_home(conn: psycopg.Connection[Any]) -> None:
    """Refuse to work on a copy of an installation: once a connection, before it does anything.

    Raises NotHome, with what to do.
    """
    if not getattr(conn, "at_home", False):
        call(conn, "check_home", lakebase_endpoint=_logins[0].endpoint if _logins else None)
        if isinstance(conn, _Connection):
            conn.at_home = True


def call_value(conn: psycopg.Connection[Any], function: str, /, **parameters: Any) -> Any:
    """The single value of a function that returns one; None if it returns no row."""
    rows = call(conn, function, **parameters)
    return next(iter(rows[0].values())) if rows else None


@lru_cache(maxsize=256)
def _statement(function: str, names: tuple[str, ...]) -> sql.Composed:
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in names
    )
    return sql.SQL("select * from {}({})").format(sql.Identifier("lakequeue", function), arguments)


class _CleanText(StrDumperUnknown):
    """Text as Postgres can store it: no U+0000, and no lone surrogate (not valid UTF-8)."""

    def dump(self, obj: str) -> Buffer | None:
        return clean_text(obj).encode(self._encoding)


class _UntypedNumber(Dumper):
    """A number as a literal of unknown type: a typed float would not fit a real or a numeric."""

    def dump(self, obj: float) -> Buffer | None:
        return repr(obj).encode()


class _UntypedJson(JsonDumper):
    """JSON as a literal of unknown type, which fits json and jsonb parameters."""

    oid = 0


_DUMPERS: tuple[tuple[type, type[Dumper]], ...] = (
    (str, _CleanText),
    (int, _UntypedNumber),
    (float, _UntypedNumber),
    (Json, _UntypedJson),
    (Jsonb, _UntypedJson),
)


def clean_text(text: str) -> str:
    """Without U+0000, and with U+FFFD for lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# --- errors -----------------------------------------------------------------------------------


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Turn what the server raised into the kinds that callers tell apart."""
    try:
        yield
    except psycopg.Error as error:
        found = _explained(error)
        if found is None:
            raise
        raise found from error


# Not the caller's fault and gone after a while: shutdowns, restarts, too many connections, and
# locks that could not be had after several tries.
_PASSING = ("08", "57P", "53300", "40P01", "55P03")
_MISSING = ("3F000", "42883", "42P01")


def _explained(error: psycopg.Error) -> Problem | None:
    state = error.sqlstate or ""
    message = error.diag.message_primary or _first_line(error)
    if state.startswith("LQ"):
        kind = NotHome if state == "LQ421" else LakequeueError
        return kind(state, message, error.diag.message_hint)
    if state.startswith(_PASSING):
        return DatabaseUnavailable(f"the database is not available: {message}")
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(f"the database connection was lost: {_first_line(error)}")
    if state in _MISSING and "lakequeue" in message:
        return NotInstalled(
            f"the database does not fit this version of Lakequeue: {message}",
            "run `lakequeue migrate`",
        )
    return None


_ADVICE = (
    ("does not exist", "create it, or correct the address"),
    ("password authentication", "check user and password"),
    ("no password supplied", "give the password by PGPASSWORD or ~/.pgpass"),
    ("no pg_hba.conf entry", "the server does not allow this user from this machine"),
    ("too many clients", "wait, or raise max_connections"),
    ("starting up", "it is starting: try again in a moment"),
    ("shutting down", "it is stopping: try again in a moment"),
    ("translate host name", "check the host name"),
    ("resolve host", "check the host name"),
    ("timeout", "check that host and port are right and reachable"),
    ("refused", "check that the server runs and listens there"),
    ("No such file", "check that the server runs and has its socket there"),
)


@contextmanager
def unavailable_in_words(conninfo: str) -> Iterator[None]:
    """Errors of connecting, with the address (never the password) and what to check."""
    try:
        yield
    except psycopg.OperationalError as error:
        text = str(error).strip()
        advice = next((hint for word, hint in _ADVICE if word.lower() in text.lower()), None)
        raise DatabaseUnavailable(
            f"cannot reach the database ({target(conninfo)}): {_connection_reason(text)}",
            advice or "check LAKEQUEUE_DATABASE_URL and the PG* variables",
        ) from error


def _connection_reason(text: str) -> str:
    """libpq repeats the address before the reason, once an address: the last reason will do."""
    line = text.splitlines()[-1] if text else "no reason given"
    if "hint" in line.lower() or line.lstrip().lower().startswith("is the server"):
        line = text.splitlines()[0]
    for mark in ("FATAL:", "failed:"):
        if mark in line:
            line = line.rsplit(mark, 1)[1]
    return line.strip()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def check_server(conn: psycopg.Connection[Any]) -> None:
    """Refuse a PostgreSQL that lacks what the functions need."""
    version = conn.info.server_version
    if version < OLDEST_POSTGRES * 10000:
        raise Problem(
            f"the server is PostgreSQL {version // 10000}",
            f"Lakequeue needs PostgreSQL {OLDEST_POSTGRES} or newer",
        )
