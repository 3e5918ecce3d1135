"""Reads from the database, shared: many viewers of the same page cost one query a second.

What was read before the last known change is not handed out again, so that a page that asks
because something has changed sees it.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lakequeue import database, migrate

Rows = list[dict[str, Any]]

FRESH_SECONDS = 1.0
MOST_ENTRIES = 256
STATEMENT_SECONDS = 20
POOL_SIZE = 8
POOL_SECONDS = 10.0
READY_SECONDS = 2.0
VERSION_SECONDS = 5.0
"""How long a migration may go unnoticed by requests."""


def with_time_limit(conninfo: str, seconds: int = STATEMENT_SECONDS) -> str:
    """The conninfo with a limit for every statement: a slow read ends in words, not in a queue."""
    given = str(conninfo_to_dict(conninfo).get("options") or "")
    limit = f"-c statement_timeout={seconds * 1000}"
    return make_conninfo(conninfo, options=f"{given} {limit}".strip())


@dataclass(frozen=True)
class PoolUse:
    """How many connections are taken, and how many requests wait for one."""

    in_use: int
    idle: int
    most: int
    waiting: int

    @property
    def exhausted(self) -> bool:
        """Whether somebody has to wait."""
        return self.in_use >= self.most and self.waiting > 0


@dataclass
class _Entry:
    guard: threading.Lock = field(default_factory=threading.Lock)
    at: float = 0.0
    version: int = -1
    rows: Rows | None = None


class Reads:
    """Calls of functions through a small pool, some of them shared."""

    def __init__(self, conninfo: str, version: Callable[[], int]) -> None:
        """`version` counts the changes that this process has heard of."""
        self._conninfo = with_time_limit(conninfo)
        self._version = version
        self._pool: database.Pool | None = None
        self._guard = threading.Lock()
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._version_guard = threading.Lock()
        self._version_asked = -math.inf
        self._schema_version: int | None = None

    @property
    def pool(self) -> database.Pool:
        """Opened by the first who needs it, so that the process starts without a database too."""
        with self._guard:
            if self._pool is None:
                self._pool = database.pool(
                    self._conninfo,
                    max_size=POOL_SIZE,
                    timeout=POOL_SECONDS,
                    application_name="lakequeue web",
                )
            return self._pool

    def pool_use(self) -> PoolUse:
        """The pool as it is now; not opened by asking."""
        pool = self._pool  # not under the guard: who opens it may wait for the database
        stats = pool.get_stats() if pool is not None else {}
        idle = stats.get("pool_available", 0)
        return PoolUse(
            in_use=stats.get("pool_size", 0) - idle,
            idle=idle,
            most=POOL_SIZE,
            waiting=stats.get("requests_waiting", 0),
        )

    def schema_version(self) -> int:
        """Of the database, asked now; it has to answer within a probe's patience."""
        with database.checkout(self.pool, READY_SECONDS) as connection:
            return int(database.call_value(connection, "schema_version"))

    def check_version(self) -> None:
        """Refuse, by VersionMismatch, to go on with a database of another schema version.

        One request in some seconds asks; the others go on with what is known. A database that does
        not answer is left to what the request needs of it.
        """
        due = time.monotonic() - self._version_asked >= VERSION_SECONDS
        if due and self._version_guard.acquire(blocking=False):
            try:
                with contextlib.suppress(database.DatabaseUnavailable, database.NotInstalled):
                    self._schema_version = self.schema_version()
                self._version_asked = time.monotonic()
            finally:
                self._version_guard.release()
        if self._schema_version is not None:
            problem = migrate.version_problem(self._schema_version)
            if problem is not None:
                raise problem

    def call(self, function: str, **parameters: Any) -> Rows:
        """Call a function; its rows are not shared."""
        with database.checkout(self.pool) as connection:
            return database.call(connection, function, **parameters)

    def write(self, function: str, **parameters: Any) -> Rows:
        """Call a function that makes work or ends it: refused in a copy (LQ421)."""
        with database.checkout(self.pool) as connection:
            database.check_home(connection)
            return database.call(connection, function, **parameters)

    def one(self, function: str, **parameters: Any) -> dict[str, Any]:
        """The only row of a function that returns one."""
        (row,) = self.call(function, **parameters)
        return row

    def shared(
        self,
        function: str,
        /,
        *,
        kept_seconds: float = FRESH_SECONDS,
        mark: Any = None,
        **parameters: Any,
    ) -> Rows:
        """The same, at most a second old; callers must not change the rows.

        What costs the database much may be kept longer, whatever has changed but the `mark`.
        """
        named = sorted((name, _frozen(v)) for name, v in parameters.items())
        key = (function, mark, tuple(named))
        with self._guard:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > MOST_ENTRIES:
                self._entries.popitem(last=False)
        with entry.guard:
            now, version = time.monotonic(), self._version()
            changed = entry.version != version and kept_seconds <= FRESH_SECONDS
            if entry.rows is None or changed or now - entry.at >= kept_seconds:
                entry.rows = self.call(function, **parameters)
                entry.at, entry.version = now, version
            return entry.rows

    def forget(self) -> None:
        """Read everything anew: this process has changed something itself."""
        with self._guard:
            self._entries.clear()

    def close(self) -> None:
        """Close the pool."""
        with self._guard:
            if self._pool is not None:
                self._pool.close()
                self._pool = None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
