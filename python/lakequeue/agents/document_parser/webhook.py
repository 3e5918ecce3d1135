"""Confirming through the web part's webhook.

It is tried once. Whatever comes back but a plain answer (no connection, a proxy's page, a
refusal) leaves the report to the database, whose word counts: a report that arrives twice is
answered like the first one.

Who calls an app from a job run has to show the app's proxy a bearer token of the workspace. It
travels in the header Authorization, the attempt's own token in the body: the proxy looks at the
one, the database at the other. The bearer goes to the configured address alone, over TLS (or to
this machine), never to where a redirect points, and into no log.
"""

from __future__ import annotations

import http.client
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from psycopg.types.json import Json

from lakequeue.errors import Problem

TIMEOUT_SECONDS = 10.0
LONGEST_ANSWER = 65_536
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

log = logging.getLogger(__name__)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another place."""

    def redirect_request(self, *arguments: Any) -> None:
        del arguments


class Webhook:
    """`POST /api/callbacks` of one web part."""

    def __init__(self, url: str, bearer: Callable[[], str] | None = None) -> None:
        """Take its address, and what gives the token for the proxy before it, if any."""
        self._url = url
        self._bearer = bearer
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if urlsplit(url).hostname in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def confirm(self, parameters: dict[str, Any]) -> str | None:
        """Send a report as record_callback takes it; None: it has to go another way."""
        if urlsplit(self._url).scheme not in ("http", "https"):
            log.warning("LAKEQUEUE_CALLBACK_URL is no http address: %s", self._url)
            return None
        body = {name: _plain(value) for name, value in parameters.items() if value is not None}
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self._url,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            method="POST",
        )
        self._authorize(request)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                said = json.loads(response.read(LONGEST_ANSWER))
            answer = said["answer"]
        except urllib.error.HTTPError as error:
            with error:
                log.warning("the webhook answered %s: confirming by SQL", error.code)
            return None
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            log.warning("the webhook cannot be used, confirming by SQL: %s", error)
            return None
        return str(answer)

    def _authorize(self, request: urllib.request.Request) -> None:
        parts = urlsplit(self._url)
        if self._bearer is None:
            return
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            log.warning("no bearer token goes to %s: it is not https", self._url)
            return
        try:
            # Kept from redirects by urllib, too, which here follows none.
            request.add_unredirected_header("Authorization", f"Bearer {self._bearer()}")
        except Problem as problem:
            log.warning("calling the webhook without a bearer token: %s", problem)


def _plain(value: Any) -> Any:
    if isinstance(value, Json):
        return value.obj
    return float(value) if isinstance(value, Decimal) else value
