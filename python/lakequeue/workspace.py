"""The Databricks workspace: one client, and its errors in the kinds that callers tell apart.

The SDK's habits end here. By itself it repeats a call for up to five minutes, sleeps as long as a
Retry-After says in the thread that called, and then raises a builtin TimeoutError whose cause is
the real error. Whoever calls from here decides how long a call may wait, and gets the real error:

* `Refused`: the workspace said no; nothing was done. `NotThere` and `NotAllowed` are kinds of it.
* `Throttled`: too many calls; nothing was done, and `retry_after` says when to come again.
* `Unreachable`: no answer that says anything. What was asked may have been done.

And it would wait for an OAuth token for ever, in every thread: that has an end here, too.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakequeue.errors import Problem

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

ANSWER_SECONDS = 10.0
"""How long an answer may take to begin."""


class WorkspaceError(Problem):
    """A call that did not give what it should."""


class Refused(WorkspaceError):
    """The workspace said no, and did nothing."""


class NotThere(Refused):
    """What was asked for does not exist (any more)."""


class NotAllowed(Refused):
    """The login is refused, or may not do this."""


class Throttled(WorkspaceError):
    """Too many calls; nothing was done."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, "the workspace's limits are shared by all who use it")
        self.retry_after = retry_after


class Unreachable(WorkspaceError):
    """No answer, or none that says anything; what was asked may have been done."""


class _ImpatientError(Exception):
    """The SDK wanted to sleep for longer than it may; the error it met is this one's context."""


def client(
    *,
    patience: float = 0.0,
    answer_seconds: float = ANSWER_SECONDS,
    scopes: list[str] | None = None,
) -> WorkspaceClient:
    """A client as the DATABRICKS_* variables (and the SDK's other sources) say.

    patience: seconds in all that a call may be repeated for, 0 for not at all; a single wait
    longer than that, as a Retry-After may ask, is not waited either. Callers with a loop of their
    own want 0. answer_seconds: how long each answer may take to begin. scopes: of an OAuth token;
    in a job run without a login of its own they make the SDK trade the run's token for one.

    Raises NotAllowed when no login is configured, Unreachable when the host does not answer.
    """
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.clock import RealClock
    from databricks.sdk.config import Config
    from databricks.sdk.credentials_provider import CredentialsStrategy, DefaultCredentials

    class Credentials(DefaultCredentials, CredentialsStrategy):
        def __call__(self, cfg: Config) -> Callable[[], dict[str, str]]:
            return _Bounded(super().__call__(cfg), answer_seconds)

    class Clock(RealClock):
        def sleep(self, seconds: float) -> None:
            if seconds > patience:
                raise _ImpatientError
            super().sleep(seconds)

    # On its debug level the SDK writes answers to the log, database credentials among them.
    logging.getLogger("databricks.sdk").setLevel(logging.INFO)
    with errors_in_words("logging in"):
        try:
            return WorkspaceClient(
                config=Config(
                    credentials_strategy=Credentials(),
                    clock=Clock(),
                    http_timeout_seconds=answer_seconds,
                    # The SDK reads 0 as its default of 300.
                    retry_timeout_seconds=max(1, round(patience)),
                    # Its thread that renews tokens ahead of time would be lost in a fork.
                    disable_async_token_refresh=True,
                    product="lakequeue",
                    product_version=_version(),
                    scopes=scopes,
                )
            )
        except ValueError as error:
            if "cannot configure default credentials" not in str(error):
                raise Unreachable(
                    f"the Databricks workspace cannot be used: {_first_line(error)}",
                    "check DATABRICKS_HOST, and that it can be reached from here",
                ) from error
            raise NotAllowed(
                "there is no Databricks login",
                "set DATABRICKS_HOST with DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET; "
                "an app has them by itself",
            ) from error


def in_job_run() -> bool:
    """Whether this process is a run of a Databricks job."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


class Bearer:
    """Short-lived OAuth tokens of this login, for what takes no other: apps, model endpoints.

    The SDK renews them; nothing is asked for before the first call.
    """

    def __init__(self) -> None:
        """Call nothing yet."""
        self._guard = threading.Lock()
        self._client: WorkspaceClient | None = None

    @property
    def host(self) -> str:
        """The workspace's address; raises as `token` does."""
        return str(self._logged_in().config.host)

    def token(self) -> str:
        """Give a token that is valid now; raises a WorkspaceError when there is none."""
        login = self._logged_in()
        with errors_in_words("asking for an OAuth token"):
            headers = login.config.authenticate()
        if login.config.auth_type not in _OAUTH_LOGINS:
            raise NotAllowed(
                f"a login of the kind {login.config.auth_type} gives no OAuth token",
                "set DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET of a service principal",
            )
        return headers["Authorization"].removeprefix("Bearer ")

    def _logged_in(self) -> WorkspaceClient:
        with self._guard:
            if self._client is None:
                self._client = client(scopes=["all-apis"])
            return self._client


_OAUTH_LOGINS = ("oauth-m2m", "runtime-oauth", "databricks-cli", "external-browser")


def secrets(places: Mapping[str, str]) -> dict[str, str]:
    """Read secrets of the workspace: name to SCOPE/KEY in, name to value out."""
    reader = client(patience=ANSWER_SECONDS).dbutils.secrets
    found = {}
    for name, place in places.items():
        scope, _, key = place.partition("/")
        with errors_in_words(f"reading the secret {place}"):
            found[name] = str(reader.get(scope, key))
    return found


class _Bounded:
    """Gives the headers of a login, but does not wait for them for ever."""

    def __init__(self, headers: Callable[[], dict[str, str]], seconds: float) -> None:
        self._headers = headers
        self._seconds = seconds
        self._guard = threading.Lock()
        self._asked: Future[dict[str, str]] | None = None

    def __call__(self) -> dict[str, str]:
        with self._guard:
            if self._asked is None or self._asked.done():
                self._asked = Future()
                # One thread at most hangs, and does not keep the process.
                threading.Thread(target=self._ask, args=(self._asked,), daemon=True).start()
            asked = self._asked
        try:
            return asked.result(self._seconds)
        except TimeoutError:
            raise TimeoutError(f"no OAuth token within {self._seconds:g} seconds") from None

    def _ask(self, answer: Future[dict[str, str]]) -> None:
        try:
            answer.set_result(self._headers())
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            answer.set_exception(error)


@contextmanager
def errors_in_words(doing: str) -> Iterator[None]:
    """Turn whatever a call of the SDK raises into one of this module's kinds.

    doing: what is tried, for the message, e.g. "starting a run".
    """
    import requests
    from databricks.sdk.errors.base import DatabricksError

    try:
        yield
    except WorkspaceError:
        raise
    except _ImpatientError as impatience:
        raise _kind(impatience.__context__ or impatience, doing) from impatience.__context__
    except TimeoutError as late:
        raise _kind(late.__cause__ or late, doing) from late
    except (DatabricksError, requests.RequestException, OSError, ValueError) as error:
        raise _kind(error, doing) from error


def _kind(error: BaseException, doing: str) -> WorkspaceError:
    from databricks.sdk import errors

    message = f"{doing}: {_first_line(error)}"
    if isinstance(error, errors.TooManyRequests):
        return Throttled(message, float(error.retry_after_secs or 1))
    if isinstance(error, errors.NotFound):
        return NotThere(message)
    if isinstance(error, errors.PermissionDenied | errors.Unauthenticated):
        return NotAllowed(message, "check the service principal and what it was granted")
    if isinstance(error, errors.BadRequest | errors.ResourceConflict):
        return Refused(message)
    if isinstance(error, ValueError) and _is_login(error):
        return NotAllowed(message, "check DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET")
    return Unreachable(message)


def _is_login(error: ValueError) -> bool:
    """The SDK raises a plain ValueError when the login is refused."""
    return re.search(r"invalid_client|unauthorized|access_denied", str(error), re.I) is not None


def _first_line(error: BaseException) -> str:
    """Without the SDK's settings, which it appends to errors of logging in."""
    line: str = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.split(". Config: ", maxsplit=1)[0]


def _version() -> str:
    from lakequeue import __version__

    return __version__
