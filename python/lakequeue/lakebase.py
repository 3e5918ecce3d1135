"""Logging in to Lakebase: a short-lived OAuth credential in place of a password.

The server looks at it when a connection begins; an open connection outlives it. So nothing has to
run in the background: whoever connects asks here, and gets the credential that is there, or a new
one when that ends soon.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakequeue import workspace
from lakequeue.database import DatabaseUnavailable
from lakequeue.workspace import WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

log = logging.getLogger(__name__)

RENEW_SECONDS = 300.0
"""A credential is renewed when it has only so long to live."""
AGAIN_SECONDS = 10.0
"""After a renewal that failed, the old one serves so long before the next try."""


class Login:
    """Credentials for one database endpoint, shared by all threads (see database.log_in_with)."""

    def __init__(self, endpoint: str, *, clock: Callable[[], float] = time.time) -> None:
        """Call nothing yet.

        endpoint: projects/PROJECT/branches/BRANCH/endpoints/ENDPOINT. clock: seconds since 1970.
        """
        self.endpoint = endpoint
        self._clock = clock
        self._guard = threading.Lock()
        self._token: str | None = None
        self._ends = 0.0
        self._renew_at = 0.0
        self._client: WorkspaceClient | None = None
        self._process = 0

    def password(self) -> str:
        """Give a credential that is valid now; raises DatabaseUnavailable when there is none."""
        with self._guard:
            now = self._clock()
            if self._token is not None and now < self._renew_at:
                return self._token
            try:
                return self._renew()
            except WorkspaceError as error:
                if self._token is not None and now < self._ends:
                    log.warning("the database credential cannot be renewed yet: %s", error)
                    self._renew_at = now + AGAIN_SECONDS
                    return self._token
                raise DatabaseUnavailable(
                    f"no database credential for {self.endpoint}: {error.message}",
                    "check LAKEBASE_ENDPOINT, and that the service principal may use it",
                ) from error

    def refuse(self, password: str) -> None:
        """Note that the server did not take this credential, though it should: drop it."""
        with self._guard:
            if self._token == password:
                self._token = None

    def _renew(self) -> str:
        if self._client is None or self._process != os.getpid():
            # After a fork a client of its own: two processes must not share its connections.
            self._client = workspace.client()
            self._process = os.getpid()
        with workspace.errors_in_words("asking for a database credential"):
            made = self._client.postgres.generate_database_credential(self.endpoint)
        if not made.token or made.expire_time is None:
            raise workspace.Unreachable("the answer holds no credential")
        self._token = made.token
        self._ends = made.expire_time.ToNanoseconds() / 1e9
        life = self._ends - self._clock()
        self._renew_at = self._ends - min(RENEW_SECONDS, life / 2)
        return self._token
