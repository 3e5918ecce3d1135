"""JSON for programs: the pages' numbers, the stream of changes, health."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify, request
from flask.typing import ResponseReturnValue

from lakequeue import __version__, database, migrate
from lakequeue.web import callbacks, export, pages, views
from lakequeue.web.filters import Filter, cursor, page_of_tasks, parse_cursor, parse_key
from lakequeue.web.live import TooManyStreams

blueprint = Blueprint("api", __name__, url_prefix="/api")

LARGEST_PAGE = 500


def _filter() -> Filter:
    return Filter.parse(request.args, views.clock()["today"])


def _page_size(default: int, largest: int = LARGEST_PAGE) -> int:
    asked = request.args.get("limit", default, type=int)
    return max(1, min(asked, largest))


@blueprint.get("/metrics")
def metrics() -> Response:
    """The overview's numbers; same filter as the page. Times in seconds, money in USD.

    Tokens and costs that nobody has told are null, not 0; of `ran` finished tasks `priced` have a
    cost in full.
    """
    chosen = _filter()
    found = views.metrics(chosen)
    return jsonify(
        views.jsonable(
            {
                "from": chosen.from_day,
                "to": chosen.to_day,
                "time_zone": views.clock()["time_zone"],
                **found,
                "statuses": {
                    name: {key: value for key, value in row.items() if key != "status"}
                    for name, row in found["statuses"].items()
                },
            }
        )
    )


@blueprint.get("/agents")
def agents() -> Response:
    """How each agent stands, with its limits as explain_throttle tells them."""
    names = tuple(filter(None, request.args.getlist("agent")))
    limits = views.throttles(names)
    return jsonify(
        agents=[
            views.jsonable({**row, "limits": limits.get(row["agent"], [])})
            for row in views.agents(names)
        ]
    )


@blueprint.get("/tasks")
def tasks() -> Response:
    """A page of tasks; `next` is the `after` of the following one.

    Where a document is looked for a page may end before it is full: `looked_back_to` says when it
    had looked at enough tasks; `next` goes on from there.
    """
    chosen = _filter()
    size = _page_size(50)
    after_at, after_id = parse_cursor(request.args.get("after"))
    rows = views.reads().shared(
        "list_tasks",
        **chosen.listing(),
        page_size=size + 1,
        after_at=after_at,
        after_id=after_id,
    )
    shown, following, looked_to = page_of_tasks(rows, size)
    return jsonify(
        tasks=[
            views.jsonable({name: row[name] for name in row if name != "fits"}) for row in shown
        ],
        next=following,
        looked_back_to=views.jsonable(looked_to),
    )


@blueprint.get("/history")
def history() -> Response:
    """The course of the overview's charts. Times in seconds."""
    return jsonify(views.jsonable(views.history(_filter())))


@blueprint.get("/attention")
def attention() -> Response:
    """What somebody should look at now (alarms of health: operators only), and the workers."""
    return jsonify(
        views.jsonable(
            {
                "attention": views.reads().shared("needs_attention"),
                "alarms": views.alarms(),
                "workers": views.reads().shared("list_workers"),
            }
        )
    )


@blueprint.get("/activity")
def activity() -> Response:
    """A page of the event log; `next` is the `after` of the following one."""
    size = _page_size(50)
    after_at, after_id = parse_cursor(request.args.get("after"))
    rows = views.reads().shared(
        "list_events",
        **pages.event_filter(_filter()),
        page_size=size + 1,
        after_at=after_at,
        after_id=after_id,
    )
    shown = rows[:size]
    return jsonify(
        events=views.jsonable(shown),
        next=cursor(shown[-1]["at"], shown[-1]["event_id"]) if len(rows) > size else None,
    )


@blueprint.get("/tasks/<key:key>")
def task(key: int) -> Response:
    """All about one task, its result with texts included."""
    return jsonify(views.task(key))


@blueprint.get("/extractions")
def extractions() -> Response:
    """A page of extractions; `next` is the `before` of the following one."""
    size = _page_size(20, 99)
    rows = views.reads().shared(
        "list_extractions",
        page_size=size + 1,
        before_id=parse_key(request.args.get("before")),
    )
    shown = rows[:size]
    return jsonify(
        extractions=views.jsonable(shown),
        next=shown[-1]["extraction_id"] if len(rows) > size else None,
    )


@blueprint.get("/extractions/<key:key>")
def extraction(key: int) -> Response:
    """An extraction and a page of its documents; `next` is the `after` of the following one."""
    size = _page_size(200)
    rows = views.documents(key, size + 1, parse_key(request.args.get("after")))
    shown = rows[:size]
    return jsonify(
        extraction=views.jsonable(views.extraction(key)),
        documents=list(export.documents_json(shown)),
        next=shown[-1]["document_id"] if len(rows) > size else None,
    )


@blueprint.get("/events")
def events() -> ResponseReturnValue:
    """The stream of changes (text/event-stream)."""
    hub = views.web().hub
    last_id = request.headers.get("Last-Event-ID") or request.args.get("last")
    try:
        stream, missed = hub.open(last_id)
    except TooManyStreams:
        refusal = callbacks.answer(
            503, "too_many_streams", "All places are taken; poll every 10 seconds instead."
        )
        refusal.headers["Retry-After"] = "10"
        return refusal
    response = Response(hub.frames(stream, missed), content_type="text/event-stream; charset=utf-8")
    response.headers["Cache-Control"] = "no-cache, no-transform"
    response.headers["X-Accel-Buffering"] = "no"
    # The generator is not closed by itself if its first event was never asked for.
    response.call_on_close(stream.close)
    return response


@blueprint.get("/health")
def health() -> ResponseReturnValue:
    """Whether the database can be worked with, and how the stream of changes is doing."""
    hub = views.web().hub
    found: dict[str, Any] = {
        "version": __version__,
        "streams": hub.streams,
        "reports_received": views.web().tally.reports,
        "listening": hub.listening,
        "database_seen_seconds_ago": hub.seen_seconds_ago,
    }
    try:
        (row,) = views.reads().shared("schema_version")
    except (database.DatabaseUnavailable, database.NotInstalled):
        return jsonify(status="database unavailable", **found), 503
    problem = migrate.version_problem(row["schema_version"])
    found["schema_version"] = row["schema_version"]
    if problem is not None:
        return jsonify(status="another schema version", problem=str(problem), **found), 503
    return jsonify(status="ok", **found)
