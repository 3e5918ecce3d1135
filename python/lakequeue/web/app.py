"""The Flask application: `create_app(options)`."""

from __future__ import annotations

import datetime
import logging
import secrets
from dataclasses import dataclass
from typing import Any

import psycopg
from flask import Flask, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import HTTPException, SecurityError
from werkzeug.routing import IntegerConverter, Map

from lakequeue import __version__, database, migrate
from lakequeue.agents import NO_TEXT_LAYER
from lakequeue.billing import Billing, NoWarehouse
from lakequeue.errors import Problem
from lakequeue.web import actions, api, callbacks, costs, formats, guard, health, pages, views
from lakequeue.web.databricks_volume import open_volume
from lakequeue.web.filters import PRESETS, BadFilter
from lakequeue.web.guard import Forged
from lakequeue.web.inspector import Inspector
from lakequeue.web.live import Hub
from lakequeue.web.options import Options
from lakequeue.web.reads import Reads
from lakequeue.web.uploads import FORM_MEMORY_BYTES, FORM_PARTS, UploadRequest
from lakequeue.web.volume import NoDocument, Volume
from lakequeue.workspace import WorkspaceError

log = logging.getLogger(__name__)

RETRY_SECONDS = "5"
STATUS_OF = {
    "LQ400": 400,
    "LQ401": 401,
    "LQ403": 403,
    "LQ404": 404,
    "LQ409": 409,
    "LQ413": 413,
    "LQ421": 409,
    "LQ422": 422,
}
TITLES = {
    400: "This address cannot be meant",
    403: "Not permitted",
    404: "There is nothing here",
    405: "Not possible here",
    409: "That does not fit any more",
    413: "Too large",
    500: "Something went wrong",
    503: "Not available at the moment",
}
VERSIONED = ("pages", "actions", "api", "costs")
"""What goes by functions as this code knows them. A report of an agent is the database's alone."""
ANY_VERSION = ("api.events", "api.health")


@dataclass(frozen=True)
class Web:
    """What the views work with."""

    options: Options
    volume: Volume
    hub: Hub
    reads: Reads
    billing: Billing
    uploads: Inspector
    pictures: Inspector
    tally: callbacks.Tally

    def close(self) -> None:
        """Release everything."""
        self.hub.stop()
        self.billing.close()
        self.uploads.close()
        self.pictures.close()
        self.reads.close()


class _Key(IntegerConverter):
    """A row's number in an address; what no row can have is no address of ours."""

    def __init__(self, url_map: Map) -> None:
        super().__init__(url_map, max=2**63 - 1)


class Application(Flask):
    """Flask with uploads that go to the volume."""

    request_class = UploadRequest

    def __init__(self, import_name: str) -> None:
        super().__init__(import_name)
        self.url_map.converters["key"] = _Key


def create_app(options: Options) -> Flask:
    """Make the application. It connects to the database when the first page is asked for."""
    migrate.code_version()  # of the code that runs from now on
    app = Application(__name__)
    app.secret_key = options.secret_key
    app.config.update(
        SESSION_COOKIE_NAME="lakequeue",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        MAX_CONTENT_LENGTH=options.max_upload_bytes,
        MAX_FORM_MEMORY_SIZE=FORM_MEMORY_BYTES,
        MAX_FORM_PARTS=FORM_PARTS,
        TRUSTED_HOSTS=list(options.trusted_hosts) if options.trusted_hosts else None,
    )
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    hub = Hub(options.conninfo, options.max_streams)
    reads = Reads(options.conninfo, lambda: hub.version)
    app.extensions["lakequeue"] = Web(
        options=options,
        volume=open_volume(options),
        hub=hub,
        reads=reads,
        billing=Billing(reads.write, options.warehouse),
        uploads=Inspector(),
        pictures=Inspector(),
        tally=callbacks.Tally(),
    )
    _teach_templates(app)
    app.before_request(_check_request)
    app.after_request(guard.secure)
    app.teardown_request(_discard_files)
    app.register_blueprint(pages.blueprint)
    app.register_blueprint(actions.blueprint)
    app.register_blueprint(api.blueprint)
    app.register_blueprint(costs.blueprint)
    app.register_blueprint(callbacks.blueprint)
    app.register_blueprint(health.blueprint)
    app.add_url_rule("/favicon.ico", view_func=_favicon)
    _handle_errors(app)
    return app


def _favicon() -> ResponseReturnValue:
    return redirect(url_for("static", filename="icon.svg"), 301)


def _check_request() -> None:
    if request.endpoint == "callbacks.receive":
        return  # programs, not browsers: the attempt's token is the permission
    guard.check_origin()
    if request.blueprint in VERSIONED and request.endpoint not in ANY_VERSION:
        views.reads().check_version()


def _discard_files(error: BaseException | None) -> None:
    del error
    if isinstance(request, UploadRequest):
        request.discard_files()


# --- templates ----------------------------------------------------------------------------------


def _teach_templates(app: Flask) -> None:
    app.jinja_env.filters.update(
        number=formats.number,
        usd=formats.usd,
        money=formats.money,
        duration=formats.duration,
        percent=formats.percent,
        deviation=formats.deviation,
        counted=formats.counted,
        sql_literal=formats.sql_literal,
        size=formats.size,
        day=formats.day,
        file_name=formats.file_name,
        words=formats.words,
        event_kind=formats.event_kind,
        event_facts=formats.event_facts,
        field_value=formats.field_value,
        cell_value=formats.cell_value,
        pretty_json=formats.pretty_json,
        breakable=formats.breakable,
        apart=formats.apart,
        plural=formats.plural,
        moment=lambda value: formats.moment(value, views.known_zone()),
    )
    app.jinja_env.globals.update(
        csrf_token=guard.csrf_token,
        version=__version__,
        statuses=formats.STATUS_ORDER,
        presets=PRESETS,
        event_kinds=formats.EVENT_KINDS,
        unknown=formats.UNKNOWN,
        low_confidence=views.LOW_CONFIDENCE,
        most_counted=views.MOST_COUNTED,
        no_text_note=NO_TEXT_LAYER,
    )

    @app.context_processor
    def page_facts() -> dict[str, Any]:
        return {
            "rendered_at": datetime.datetime.now(datetime.UTC).astimezone(views.known_zone()),
            "zone_name": views.known_zone().key,
        }


# --- errors -------------------------------------------------------------------------------------


def _refused(error: database.LakequeueError) -> ResponseReturnValue:
    return _show(STATUS_OF.get(error.sqlstate, 500), error.message, error.hint, error.sqlstate)


def _unavailable(error: Problem) -> ResponseReturnValue:
    log.warning("%s %s: %s", request.method, request.path, error)
    return _show(
        503,
        "The database does not answer at the moment.",
        "Nothing is lost: try again in a moment.",
        "unavailable",
    )


def _other_version(error: migrate.VersionMismatch) -> ResponseReturnValue:
    log.warning("%s %s: %s", request.method, request.path, error)
    return _show(503, error.message, error.hint, "schema_version")


def _database_error(error: psycopg.Error) -> ResponseReturnValue:
    state = error.sqlstate or ""
    if state == "57014":
        return _show(503, "This took the database too long.", "Ask for fewer days.", "too_slow")
    if state.startswith("22"):
        return _show(422, "A value has the wrong form.", "Check the numbers.", "wrong_shape")
    return _unexpected(error)


def _unexpected(error: Exception) -> ResponseReturnValue:
    number = secrets.token_hex(4)
    log.error("%s %s failed (%s)", request.method, request.path, number, exc_info=error)
    return _show(500, f"This is a fault of ours, noted in the log as {number}.", None, "fault")


def _broken_body(error: ParseException) -> ResponseReturnValue:
    del error
    return _show(400, "The body of the request is broken.", "Send it again.", "bad_request")


def _no_text(error: UnicodeError) -> ResponseReturnValue:
    del error
    return _show(400, "The address holds bytes that are no text.", "Write it as UTF-8.", "no_text")


def _too_deep(error: RecursionError) -> ResponseReturnValue:
    del error
    return _show(422, "The JSON is nested too deep.", None, "wrong_shape")


def _bad_filter(error: BadFilter) -> ResponseReturnValue:
    return _show(400, str(error), "Clear the filter to begin anew.", "bad_filter")


def _forged(error: Forged) -> ResponseReturnValue:
    return _show(403, str(error), None, "forged")


def _no_workspace(error: WorkspaceError) -> ResponseReturnValue:
    log.warning("%s %s: %s", request.method, request.path, error)
    return _show(
        503,
        "The place where documents are kept does not answer as it should.",
        "Nothing was enqueued: try again in a moment.",
        "unavailable",
    )


def _no_warehouse(error: NoWarehouse) -> ResponseReturnValue:
    return _show(409, error.message, error.hint, "no_warehouse")


def _no_document(error: NoDocument) -> ResponseReturnValue:
    return _show(404, str(error), None, "no_document")


def _wrong_host(error: SecurityError) -> ResponseReturnValue:
    """No page: nothing is known of an address with a foreign name."""
    del error
    words = "This name is not one of this server's. LAKEQUEUE_HOSTS lists the names it has.\n"
    return Response(words, 400, mimetype="text/plain")


def _http_error(error: HTTPException) -> ResponseReturnValue:
    code = error.code or 500
    if code < 400:
        return error
    message = error.description or error.name
    if code == 413:
        most = formats.size(views.web().options.max_upload_bytes)
        message = f"What was sent is too large: {most} is the limit for all files together."
    elif code == 404:
        message = "There is no page at this address."
    response = _show(code, message, None, error.name.lower().replace(" ", "_"))
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response


def _handle_errors(app: Flask) -> None:
    for kind, handler in (
        (database.LakequeueError, _refused),
        (database.DatabaseUnavailable, _unavailable),
        (database.NotInstalled, _unavailable),
        (migrate.VersionMismatch, _other_version),
        (psycopg.Error, _database_error),
        (ParseException, _broken_body),
        (UnicodeError, _no_text),
        (RecursionError, _too_deep),
        (BadFilter, _bad_filter),
        (Forged, _forged),
        (NoDocument, _no_document),
        (NoWarehouse, _no_warehouse),
        (WorkspaceError, _no_workspace),
        (SecurityError, _wrong_host),
        (HTTPException, _http_error),
        (Exception, _unexpected),
    ):
        app.register_error_handler(kind, handler)


def _show(status: int, message: str, hint: str | None, code: str) -> Response:
    """JSON for programs, a page for people."""
    if request.path.startswith("/api/") or request.accept_mimetypes.best == "application/json":
        response = callbacks.answer(status, code, message, hint)
    else:
        page = render_template(
            "error.html",
            status=status,
            title=TITLES.get(status, "This did not work"),
            message=message,
            hint=hint,
        )
        response = Response(page, status, mimetype="text/html")
    if status == 503:
        response.headers["Retry-After"] = RETRY_SECONDS
    return response
