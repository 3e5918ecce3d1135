"""The pages for people. Each works without JavaScript; with it, its live parts refresh."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from flask import (
    Blueprint,
    Response,
    jsonify,
    redirect,
    render_template,
    request,
    send_file,
    stream_with_context,
    url_for,
)
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound

from lakequeue.web import actions, charts, export, formats, guard, uploads, views
from lakequeue.web.filters import Filter, cursor, page_of_tasks, parse_cursor, parse_key
from lakequeue.web.volume import NoDocument

blueprint = Blueprint("pages", __name__)

PAGE_SIZE = 50
DOCUMENTS_A_PAGE = 200
EXTRACTIONS_A_PAGE = 20
RECENT = 8
PICTURE_WIDTHS = (200, 1000)
PICTURES_SHOWN = 30


def _filter() -> Filter:
    return Filter.parse(request.args, views.clock()["today"])


@blueprint.get("/")
def overview() -> str:
    """Everything at a glance."""
    chosen = _filter()
    return render_template(
        "overview.html",
        chosen=chosen,
        metrics=views.metrics(chosen),
        attention=views.reads().shared("needs_attention", agents=list(chosen.agents) or None),
        alarms=views.alarms(),
        now=views.clock()["now"],
        **_charts(chosen),
        agents=views.standing(),
        extractions=views.reads().shared("list_extractions", page_size=RECENT),
        tasks=views.reads().shared("list_tasks", **chosen.parameters(), page_size=RECENT),
    )


FINISHED = ("completed", "failed", "cancelled")
NO_RESPONSE = {"tasks": 0, "p50": None, "p95": None}


def _charts(chosen: Filter) -> dict[str, Any]:
    """The course of things: finished tasks, response times, the length of the queue."""
    found = views.history(chosen)
    zone = views.clock()["zone"]

    def labelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "label": charts.step_label(row["at"], row["until"], zone)} for row in rows]

    steps, responses = labelled(found["steps"]), labelled(found["responses"])
    hourly = _by_hour(steps)
    course = responses
    if _by_hour(responses) == hourly:  # on the same time axis, with gaps
        known = {row["at"]: row for row in responses}
        course = [known.get(row["at"], {**NO_RESPONSE, **row}) for row in steps]
    marks = charts.time_marks(steps, zone)
    shown = [name for name in FINISHED if not chosen.statuses or name in chosen.statuses]
    finished = charts.bars(
        steps,
        shown,
        [f"{row['label']}: {_amounts(row, shown)}" for row in steps],
        marks,
        "Tasks finished, by outcome",
    )
    queue = charts.lines(
        steps,
        ("enqueued", "processing"),
        [f"{row['label']}: {_amounts(row, ('enqueued', 'processing'))}" for row in steps],
        marks,
        "Tasks that waited and ran",
        write=lambda value: formats.number(round(value)),
    )
    response = charts.lines(
        course,
        ("p95", "p50"),
        [
            f"{row['label']}: median {formats.duration(row['p50'])},"
            f" p95 {formats.duration(row['p95'])}, {formats.plural(row['tasks'], 'task')}"
            for row in course
        ],
        charts.time_marks(course, zone),
        "Response time, median and 95th percentile",
        write=formats.duration,
    )
    return {
        "steps": steps,
        "responses": responses,
        "response": found["response"],
        "split": found["split"],
        "shown": shown,
        "hourly": hourly,
        "responses_hourly": _by_hour(course),
        "finished_chart": finished,
        "queue_chart": queue if any(row["enqueued"] is not None for row in steps) else None,
        "response_chart": response if responses else None,
    }


def _by_hour(rows: list[dict[str, Any]]) -> bool:
    return bool(rows) and charts.is_hourly(rows[0]["at"], rows[0]["until"])


def _amounts(row: dict[str, Any], names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"{formats.number(row[name])} {name}" for name in names)


@blueprint.get("/activity")
def activity() -> str:
    """The event log: who did what, when and why."""
    chosen = _filter()
    wanted = event_filter(chosen)
    after_at, after_id = parse_cursor(request.args.get("after"))
    rows = views.reads().shared(
        "list_events", **wanted, page_size=PAGE_SIZE + 1, after_at=after_at, after_id=after_id
    )
    shown = rows[:PAGE_SIZE]
    pairs = event_pairs()
    return render_template(
        "activity.html",
        chosen=chosen,
        agents=views.agents(),
        events=shown,
        kinds=wanted["kinds"] or [],
        actors=wanted["actors"] or [],
        task=wanted["task"],
        query=chosen.query(pairs),
        narrowed=bool(pairs or chosen.pairs()),
        following=(
            chosen.query([*pairs, ("after", cursor(shown[-1]["at"], shown[-1]["event_id"]))])
            if len(rows) > PAGE_SIZE
            else None
        ),
        first_page=after_at is None,
    )


def event_filter(chosen: Filter) -> dict[str, Any]:
    """The filter of the event log, as the database takes it."""
    return {
        "from_day": chosen.from_day,
        "to_day": chosen.to_day,
        "agents": list(chosen.agents) or None,
        "kinds": [kind for kind in request.args.getlist("kind") if kind] or None,
        "actors": [actor for actor in request.args.getlist("actor") if actor.strip()] or None,
        "task": parse_key(request.args.get("task")),
    }


def event_pairs() -> list[tuple[str, str]]:
    """The part of the address that only the event log has."""
    return [
        (name, value)
        for name in ("kind", "actor", "task")
        for value in request.args.getlist(name)
        if value.strip()
    ]


@blueprint.get("/activity.csv")
def activity_csv() -> Response:
    """The event log as a spreadsheet reads it."""
    return _download(
        export.events_csv(event_filter(_filter())), "text/csv; charset=utf-8", "activity.csv"
    )


@blueprint.get("/agents")
def agents() -> str:
    """How each agent stands: a gauge for each of its limits, and why its next task waits."""
    chosen = tuple(dict.fromkeys(filter(None, request.args.getlist("agent"))))
    return render_template(
        "agents.html",
        agents=views.standing(chosen),
        picked=chosen,
        now=views.clock()["now"],
        workers=views.reads().shared("list_workers"),
        may_operate=views.may_operate(),
    )


@blueprint.get("/tasks")
def tasks() -> ResponseReturnValue:
    """The list of tasks, a page at a time."""
    chosen = _filter()
    if chosen.document.isdecimal():
        key = parse_key(chosen.document)
        return redirect(url_for("pages.task", key=key))
    after_at, after_id = parse_cursor(request.args.get("after"))
    rows = views.reads().shared(
        "list_tasks",
        **chosen.listing(),
        page_size=PAGE_SIZE + 1,
        after_at=after_at,
        after_id=after_id,
    )
    shown, after, looked_to = page_of_tasks(rows, PAGE_SIZE)
    return render_template(
        "tasks.html",
        chosen=chosen,
        metrics=views.metrics(chosen),
        agents=views.agents(),
        tasks=shown,
        following=chosen.query([("after", after)]) if after else None,
        looked_to=looked_to,
        first_page=after_at is None,
        actions=actions.ACTIONS,
        rest=actions.ACTIONS.get(request.args.get("rest", "")),
        may_operate=views.may_operate(),
        most_exported=export.MOST_ROWS,
    )


@blueprint.get("/tasks.csv")
def tasks_csv() -> Response:
    """The list under its filter as a spreadsheet reads it."""
    return _download(export.tasks_csv(_filter().listing()), "text/csv; charset=utf-8", "tasks.csv")


@blueprint.get("/tasks/<key:key>")
def task(key: int) -> str:
    """One task: result beside the document, attempts, events."""
    views.clock()
    detail = views.task(key)
    result = detail["result"]
    page_texts = views.page_texts(result)
    try:
        views.web().volume.check(detail["task"]["document_path"])
        no_document = None
    except NoDocument as reason:
        no_document = str(reason)
    pages = detail["task"]["page_count"] or len(page_texts) or 1
    fields = views.unsure_first(views.fields_of(result))
    return render_template(
        "task.html",
        task=detail["task"],
        attempts=views.attempts(detail),
        actions=actions.ACTIONS,
        fitting=detail["actions"],
        may_operate=views.may_operate(),
        timeline=detail["timeline"],
        usage=detail["usage"] or views.NO_USAGE,
        confidence=detail["confidence"],
        result=result,
        known=views.described(result),
        fields=fields[: views.MOST_FIELDS],
        more_fields=max(0, len(fields) - views.MOST_FIELDS),
        page_texts=page_texts,
        no_text=bool(page_texts) and not any(page["text"] for page in page_texts),
        pages=pages,
        pictures=min(pages, PICTURES_SHOWN),
        no_document=no_document,
    )


# --- documents ----------------------------------------------------------------------------------


@blueprint.get("/tasks/<key:key>/document")
def original(key: int) -> Response:
    """The original PDF of a task. Nothing in it can run here or reach this site."""
    detail = views.task(key)
    path = views.web().volume.find(detail["task"]["document_path"])
    response = send_file(
        path, mimetype="application/pdf", conditional=True, etag=True, max_age=None
    )
    kind = "attachment" if request.args.get("download") else "inline"
    name = quote(formats.file_name(detail["task"]["document_path"]), safe="")
    response.headers["Content-Disposition"] = f"{kind}; filename*=UTF-8''{name}"
    response.headers["Content-Security-Policy"] = guard.DOCUMENT_POLICY
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@blueprint.get("/tasks/<key:key>/pages/<int:page>.png")
def picture(key: int, page: int) -> Response:
    """A page of the original as a picture, drawn in a process of its own."""
    width = request.args.get("width", PICTURE_WIDTHS[-1], type=int)
    if width not in PICTURE_WIDTHS or not 1 <= page <= 100_000:
        raise NotFound
    detail = views.task(key)
    path = views.web().volume.find(detail["task"]["document_path"])
    facts = path.stat()
    mark = hashlib.sha256(
        f"{path}\n{facts.st_mtime_ns}\n{facts.st_size}\n{page}\n{width}".encode()
    ).hexdigest()[:32]
    if request.if_none_match.contains(mark):
        response = Response(status=304)
    else:
        drawn = views.web().pictures.render(path, page, width)
        if drawn is None:
            raise NoDocument("This page of the document cannot be drawn.")
        response = Response(drawn, mimetype="image/png")
    response.set_etag(mark)
    response.headers["Cache-Control"] = "private, max-age=3600"
    return response


# --- uploads and extractions --------------------------------------------------------------------


@blueprint.get("/upload")
def upload() -> str:
    """The form."""
    views.clock()
    return _upload_form()


def _upload_form(problem: str | None = None) -> str:
    options = views.web().options
    return render_template(
        "upload.html",
        agents=views.upload_agents(),
        refused=None if views.may_operate() else views.NOT_PERMITTED.format(guard.person()),
        problem=problem,
        form=request.form,
        default_priority=uploads.DEFAULT_PRIORITY,
        most_bytes=options.max_file_bytes,
        most_total_bytes=options.max_upload_bytes,
    )


@blueprint.post("/upload")
def receive() -> ResponseReturnValue:
    """Receive files, check them, enqueue their tasks, and show the batch."""
    views.clock()
    views.require_operator()  # before the form is read, which writes its files to the volume
    guard.check_token()
    wants_json = request.accept_mimetypes.best == "application/json"
    try:
        submission = uploads.read_form(request, views.upload_agents())
    except uploads.BadUpload as problem:
        if wants_json:
            return jsonify(error={"code": "bad_upload", "message": str(problem)}), 400
        return _upload_form(str(problem)), 400
    web = views.web()
    described = uploads.describe(submission, web.volume, web.uploads)
    key = uploads.submit(views.reads(), submission, described, guard.person())
    address = url_for("pages.extraction", key=key)
    if wants_json:
        return jsonify(extraction=key, location=address), 201
    return redirect(address, 303)


@blueprint.get("/extractions")
def extractions() -> str:
    """All batches, newest first."""
    views.clock()
    before = parse_key(request.args.get("before"))
    rows = views.reads().shared(
        "list_extractions", page_size=EXTRACTIONS_A_PAGE + 1, before_id=before
    )
    shown = rows[:EXTRACTIONS_A_PAGE]
    return render_template(
        "extractions.html",
        extractions=shown,
        following=shown[-1]["extraction_id"] if len(rows) > EXTRACTIONS_A_PAGE else None,
        first_page=before is None,
    )


@blueprint.get("/extractions/<key:key>")
def extraction(key: int) -> str:
    """A batch: its progress, and a row for each document."""
    views.clock()
    after = parse_key(request.args.get("after"))
    head = views.extraction(key)
    rows = views.documents(key, DOCUMENTS_A_PAGE + 1, after)
    shown = rows[:DOCUMENTS_A_PAGE]
    columns, more_columns = views.shown_columns(shown)
    return render_template(
        "extraction.html",
        extraction=head,
        documents=shown,
        columns=columns,
        more_columns=more_columns,
        numeric=views.numeric_columns(shown, columns),
        following=shown[-1]["document_id"] if len(rows) > DOCUMENTS_A_PAGE else None,
        first_page=after is None,
    )


@blueprint.get("/extractions/<key:key>.csv")
def extraction_csv(key: int) -> Response:
    """The results as a spreadsheet reads them."""
    head = views.extraction(key)
    return _download(
        export.as_csv(key), "text/csv; charset=utf-8", export.download_name(head["name"], ".csv")
    )


@blueprint.get("/extractions/<key:key>.json")
def extraction_json(key: int) -> Response:
    """The results as a program reads them."""
    head = views.extraction(key)
    return _download(
        export.as_json(key), "application/json", export.download_name(head["name"], ".json")
    )


def _download(parts: Iterator[bytes], content_type: str, name: str) -> Response:
    response = Response(stream_with_context(export.begun(parts)), content_type=content_type)
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return response
