"""What every request and answer goes through: who asks, from where, and what browsers may do."""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from flask import Response, current_app, request, session

from lakequeue.web.options import Options

TOKEN = "csrf_token"  # noqa: S105 - the name of the field
TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""For files that came from strangers: nothing in them may run or reach this site."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Forged(Exception):
    """A write that does not come from a page of ours; the words say what to do."""


def csrf_token() -> str:
    """The token that forms of this browser carry."""
    if TOKEN not in session:
        session[TOKEN] = secrets.token_urlsafe(32)
    return str(session[TOKEN])


def check_origin() -> None:
    """Refuse a write that another site has made the browser send, before its body is read."""
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        # The browser's own word; behind a proxy the host that we see may be another one.
        if site not in ("same-origin", "none"):
            raise Forged("This form was sent from another site.")
        return
    origin = request.headers.get("Origin")
    if origin not in (None, "null") and _host(origin or "") != request.host:
        raise Forged("This form was sent from another site.")


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).netloc
    except ValueError:  # no address at all
        return None


def check_token() -> None:
    """Refuse a write without the token of this browser's pages."""
    given = request.headers.get(TOKEN_HEADER) or request.form.get(TOKEN) or ""
    expected = str(session.get(TOKEN, ""))
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise Forged("The form is out of date. Load the page again and send it once more.")


def secure(response: Response) -> Response:
    """Headers of every answer."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "private, no-cache"
    return response


def person() -> str:
    """Who acts: named by the proxy in front, where one is trusted, else by the installation."""
    options: Options = current_app.extensions["lakequeue"].options
    if options.identity_header is None:
        return options.person
    return request.headers.get(options.identity_header, "").strip()[:200] or "unnamed"
