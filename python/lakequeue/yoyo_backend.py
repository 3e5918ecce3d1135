"""yoyo on a connection of ours, made crash-safe.

Differences from yoyo's own backend for psycopg:

* It uses the connection that holds our advisory lock, so that no second session can go on when
  the first has died, and needs no lock table, whose row a killed process would leave behind.
* A migration and the mark that it was applied are one transaction (yoyo marks afterwards, so that
  a crash in between runs the migration twice).
* Migrations run with the search path that functions pin, yoyo's tables live in a schema apart.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.migrations import Migration, default_migration_table

from lakequeue.database import Connection
from lakequeue.migrate import BOOKKEEPING, SEARCH_PATH


class Backend(PostgresqlPsycopgBackend):  # type: ignore[misc] # yoyo has no types
    """yoyo's backend for one connection in autocommit mode, under a lock that the caller holds."""

    def __init__(self, connection: Connection) -> None:
        # Not the parent's: it would open a connection of its own from a URL.
        self.DatabaseError = psycopg.DatabaseError
        self._connection = connection
        self.migration_table = default_migration_table
        self.has_transactional_ddl = True
        self.init_connection(connection)

    def init_connection(self, connection: Connection) -> None:
        """Also called after a rollback."""
        connection.execute(f"set search_path to {BOOKKEEPING}")

    def cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.cursor(row_factory=tuple_row)

    @contextlib.contextmanager
    def lock(self, timeout: float = 10) -> Iterator[None]:  # noqa: ARG002
        """Nothing to do: the caller holds the advisory lock."""
        yield

    def apply_one(self, migration: Migration, force: bool = False, mark: bool = True) -> None:
        del force, mark
        self._process(migration, "apply")

    def rollback_one(self, migration: Migration, force: bool = False) -> None:
        del force
        self._process(migration, "rollback")

    def _process(self, migration: Migration, direction: str) -> None:
        migration.load()
        if migration.use_transactions:
            with self.transaction():
                self._run(migration, direction, "set local")
                # Migrations act as the owner role; the bookkeeping is the login's.
                self.execute("set local role none")
                self.execute(f"set local search_path to {BOOKKEEPING}")
                self._note(migration, direction)
        else:
            self._run(migration, direction, "set")
            self.execute("reset role")
            self.init_connection(self._connection)
            with self.transaction():
                self._note(migration, direction)

    def _run(self, migration: Migration, direction: str, how: str) -> None:
        self.execute(f"{how} search_path to {SEARCH_PATH}")
        # yoyo prints the rows of a SELECT; standard output belongs to the command's own result.
        with contextlib.redirect_stdout(sys.stderr):
            migration.process_steps(self, direction)

    def _note(self, migration: Migration, direction: str) -> None:
        self.log_migration(migration, direction)
        if direction == "apply":
            self.mark_one(migration, log=False)
        else:
            self.unmark_one(migration, log=False)

    @contextlib.contextmanager
    def disable_transactions(self) -> Iterator[None]:
        """For `-- transactional: false`: the connection is in autocommit mode anyway."""
        yield

    def list_tables(self, **kwargs: Any) -> list[str]:
        del kwargs
        rows = self.execute(
            "select tablename from pg_catalog.pg_tables where schemaname = :schema",
            {"schema": BOOKKEEPING},
        )
        return [name for (name,) in rows]

    def get_log_data(
        self, migration: Migration | None = None, operation: str = "apply"
    ) -> dict[str, Any]:
        """A row of yoyo's log, with the database login (a container's user may have no name)."""
        return {
            "id": str(uuid.uuid4()),
            "migration_id": migration.id if migration else None,
            "migration_hash": migration.hash if migration else None,
            "username": self._connection.info.user[:255],
            "hostname": socket.gethostname()[:255],
            "created_at_utc": datetime.now(UTC).replace(tzinfo=None),
            "operation": operation,
        }
