"""One LISTEN connection that comes back by itself.

Notifications only make things faster: whoever listens also polls, so a lost connection, or a
pooler that swallows LISTEN, costs seconds and never a task.
"""

from __future__ import annotations

import contextlib
import logging
import random
import selectors
import time

import psycopg
from psycopg import sql

from lakequeue import database

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


def wait_readable(files: list[int], seconds: float) -> None:
    """Wait until one of these file descriptors can be read, for some seconds at most.

    Not select(): in a process with a thousand connections it refuses high descriptors.
    """
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        selector.select(seconds)


class Backoff:
    """Waits that double up to a bound, with jitter, so that many processes spread out."""

    def __init__(
        self, first: float = FIRST_RETRY_SECONDS, longest: float = LONGEST_RETRY_SECONDS
    ) -> None:
        """Begin with `first` seconds."""
        self._first = first
        self._longest = longest
        self._delay = first
        self.due = 0.0
        self.failures = 0

    def fail(self) -> None:
        """Note a failure: not before `due` again (time.monotonic)."""
        self.failures += 1
        self.due = time.monotonic() + self._delay * random.uniform(0.75, 1.25)  # noqa: S311
        self._delay = min(self._longest, self._delay * 2)

    def succeed(self) -> None:
        """Note a success: the next failure waits `first` seconds again."""
        self._delay = self._first
        self.due = 0.0
        self.failures = 0


class Listener:
    """Listens to one channel. Not thread-safe: one loop owns it."""

    def __init__(self, conninfo: str, channel: str, application_name: str = "lakequeue") -> None:
        """Prepare only; `keep` connects."""
        self._conninfo = conninfo
        self._channel = channel
        self._application_name = application_name
        self._connection: database.Connection | None = None
        self._backoff = Backoff()

    @property
    def due(self) -> float | None:
        """When `keep` wants to be called again; None while connected."""
        return None if self._connection is not None else self._backoff.due

    def keep(self) -> bool:
        """Connect if that is due. True: newly connected, so what came before must be looked up."""
        if self._connection is not None or time.monotonic() < self._backoff.due:
            return False
        try:
            # Autocommit: a listener idle in a transaction would fill the server's notify queue.
            connection = database.connect(self._conninfo, application_name=self._application_name)
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
        except (database.DatabaseUnavailable, psycopg.Error) as error:
            self._backoff.fail()
            if self._backoff.failures == 1:
                log.warning("not listening to %s, polling only: %s", self._channel, error)
            return False
        if self._backoff.failures:
            log.info("listening to %s again", self._channel)
        self._backoff.succeed()
        self._connection = connection
        return True

    def fileno(self) -> int | None:
        """Give what to wait on for input; None while not connected."""
        return None if self._connection is None else self._connection.fileno()

    def poll(self) -> bool:
        """Take what has arrived, without waiting. True: there was a notification."""
        if self._connection is None:
            return False
        try:
            return bool(list(self._connection.notifies(timeout=0)))
        except psycopg.Error as error:
            log.warning("lost the connection that listens to %s: %s", self._channel, error)
            self.close()
            self._backoff.fail()
            return False

    def wait(self, seconds: float) -> bool:
        """Wait for a notification, for some seconds at most. True: there was one."""
        if self._connection is None:
            time.sleep(seconds)
            return False
        wait_readable([self._connection.fileno()], seconds)
        return self.poll()

    def close(self) -> None:
        """Close the connection; `keep` makes a new one."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
