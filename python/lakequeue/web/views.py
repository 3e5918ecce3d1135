"""What pages and their JSON twins both show: the same numbers, from the same calls."""

from __future__ import annotations

import datetime
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask import current_app, g
from werkzeug.exceptions import Forbidden

from lakequeue import database, limits
from lakequeue.agents import DOCUMENT_PARSER, NO_TEXT_LAYER
from lakequeue.web import filters, guard
from lakequeue.web.filters import Filter
from lakequeue.web.reads import Reads

LOW_CONFIDENCE = 0.8
EXPORT_BATCH = 500
TRIED_AGAIN = ("failed", "expired", "rate_limited")
SUMS = (
    "tasks",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "llm_cost",
    "ran",
    "priced",
)
"""What of queue_metrics is told of all statuses together."""
NOT_PERMITTED = "{} may look at everything here, but not upload or change anything."
MOST_COUNTED = 1000
"""agent_status counts what happened in the last hour up to this."""
ALARMS_KEPT_SECONDS = 15.0
MOST_COLUMNS = 40
"""Of the fields of a batch's documents, on a page."""
MOST_FIELDS = 200
"""Of one result, on its page."""
NO_USAGE = {
    "input_tokens": None,
    "output_tokens": None,
    "llm_cost": None,
    "usage_complete": True,
}
NO_PACE = {"completed_last_hour": 0, "failed_last_hour": 0, "drains_in": None}
FIRST_FIELDS = (
    "invoice_number",
    "invoice_date",
    "due_date",
    "total_amount",
    "net_amount",
    "tax_amount",
    "currency",
    "issuer",
    "customer",
    "title",
    "date",
    "parties",
)


def web() -> Any:
    """What the application works with; see app.Web."""
    return current_app.extensions["lakequeue"]


def reads() -> Reads:
    """The database."""
    found: Reads = web().reads
    return found


def clock() -> dict[str, Any]:
    """The database's time and the reporting zone, once a request."""
    if "clock" not in g:
        (row,) = reads().shared("reporting_time")
        try:
            zone = ZoneInfo(row["time_zone"])
        except (ZoneInfoNotFoundError, ValueError):
            zone = ZoneInfo("UTC")
        g.clock = {**row, "zone": zone}
    found: dict[str, Any] = g.clock
    return found


def known_zone() -> ZoneInfo:
    """The reporting zone if this request has asked for it; an error page may not have."""
    zone: ZoneInfo = g.clock["zone"] if "clock" in g else ZoneInfo("UTC")
    return zone


def metrics(chosen: Filter) -> dict[str, Any]:
    """Tasks by status, their usage in all, response time and confidence."""
    rows = filters.in_order(reads().shared("queue_metrics", **chosen.parameters()))
    (confidence,) = reads().shared("confidence_summary", **chosen.parameters(), low=LOW_CONFIDENCE)
    return {
        "statuses": {row["status"]: row for row in rows},
        **{name: _sum(row[name] for row in rows) for name in SUMS},
        "median_response": next(
            (row["median_response"] for row in rows if row["median_response"] is not None), None
        ),
        "confidence": confidence,
    }


def _sum(values: Iterable[Any]) -> Any:
    """As SQL adds: what is unknown adds nothing; unknown if all of it is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def history(chosen: Filter) -> dict[str, Any]:
    """What the charts show, and the percentiles over all of it."""
    agents_and_customers = {
        name: value
        for name, value in chosen.parameters().items()
        if name in ("from_day", "to_day", "agents", "customers")
    }
    responses = reads().shared("response_history", **agents_and_customers)
    (split,) = reads().shared("response_summary", **chosen.parameters())
    return {
        "steps": reads().shared("queue_history", **chosen.parameters()),
        "responses": [row for row in responses if row["at"] is not None],
        "response": next((row for row in responses if row["at"] is None), None),
        "split": split,
    }


def may_operate() -> bool:
    """Whether the person who asks may act; the functions that act ask again themselves."""
    (row,) = reads().shared("may_operate", actor=guard.person())
    return bool(row["may_operate"])


def alarms() -> list[dict[str, Any]]:
    """What health warns of beside needs_attention: for operators, who can do something about it."""
    if not may_operate():
        return []
    rows = reads().shared("health", kept_seconds=ALARMS_KEPT_SECONDS, with_attention=False)
    return [row for row in rows if row["status"] in ("alarm", "warning")]


def require_operator() -> None:
    """Refuse a person who may not act before anything that they send is read or kept."""
    (row,) = reads().call("may_operate", actor=guard.person())
    if not row["may_operate"]:
        raise Forbidden(NOT_PERMITTED.format(guard.person()))


def agents(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """How each agent stands, or these."""
    return reads().shared("agent_status", agents=list(names) or None)


def throttles(names: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """The limits of each agent as the database explains them; one without limits is not in it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in reads().shared("explain_throttles", agents=list(names) or None):
        found.setdefault(row["agent"], []).append(row)
    return found


def standing(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """How each agent stands, with its limits in words and the tightest one of them."""
    explained = throttles(names)
    pace = {row["agent"]: row for row in reads().shared("agent_pace", agents=list(names) or None)}
    found = []
    for row in agents(names):
        limit_rows = [_limit(limit) for limit in explained.get(row["agent"], ())]
        tightest = next((limit for limit in limit_rows if limit["tightest"]), None)
        found.append(
            {**row, **pace.get(row["agent"], NO_PACE), "limits": limit_rows, "tightest": tightest}
        )
    return found


def _limit(row: dict[str, Any]) -> dict[str, Any]:
    users = sorted(row["used_by"].items(), key=lambda item: (-item[1], item[0]))
    return {
        **row,
        **{name: limits.whole(row[name]) for name in ("used", "booked", "demand")},
        "room": math.floor(row["room"]),
        "fits_in": row["fits_in"],
        "title": limits.TITLES[row["kind"]],
        "unit": limits.UNITS[row["kind"]],
        "parameter": limits.PARAMETERS[row["kind"]],
        "users": [(name, math.ceil(amount)) for name, amount in users],
    }


def upload_agents() -> list[str]:
    """Names of agents, the document parser first."""
    names = [row["agent"] for row in agents()]
    return sorted(names, key=lambda name: (name != DOCUMENT_PARSER, name))


def extraction(key: int) -> dict[str, Any]:
    """What an extraction is, and how far."""
    (head,) = reads().shared("extraction_detail", extraction=key)
    (progress,) = reads().shared("extraction_progress", extraction=key)
    return {**head, **progress, "open": progress["enqueued"] + progress["processing"]}


def documents(key: int, page_size: int, after: int | None) -> list[dict[str, Any]]:
    """A page of its documents."""
    rows = reads().shared(
        "list_extraction_documents", extraction=key, page_size=page_size, after_document=after
    )
    return [document(row) for row in rows]


def all_documents(key: int) -> Iterator[dict[str, Any]]:
    """All of them, read in batches, so that memory stays bounded."""
    after: int | None = None
    while True:
        batch = reads().call(
            "list_extraction_documents",
            extraction=key,
            page_size=EXPORT_BATCH,
            after_document=after,
        )
        yield from map(document, batch)
        if len(batch) < EXPORT_BATCH:
            return
        after = batch[-1]["document_id"]


def document(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what its result says in places of their own."""
    said = described(row["result"])
    return {
        **row,
        "fields": fields_of(row["result"]),
        **said,
        "pages": row["page_count"],
        "no_text": row["status"] == "completed"
        and (row["characters"] == 0 or NO_TEXT_LAYER in said["notes"]),
    }


def fields_of(result: Any) -> dict[str, dict[str, Any]]:
    """The fields of a result, each as value, confidence and page, whatever an agent wrote."""
    found = result.get("fields") if isinstance(result, dict) else None
    if not isinstance(found, dict):
        return {}
    return {str(name): _field(value) for name, value in found.items()}


def _field(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or "value" not in value:
        return {"value": value, "confidence": None, "page": None, "low": False}
    confidence = value.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        confidence = None
    if confidence is not None and not 0 <= confidence <= 1:
        confidence = None
    page = value.get("page")
    return {
        "value": value["value"],
        "confidence": confidence,
        "page": page if _is_count(page) else None,
        "low": confidence is not None and confidence < LOW_CONFIDENCE,
    }


def columns(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The fields that any of the documents has: the usual ones first, then by their names."""
    names = {name for row in rows for name in row["fields"]}
    first = [name for name in FIRST_FIELDS if name in names]
    return first + sorted(names.difference(first))


def shown_columns(rows: list[dict[str, Any]]) -> tuple[list[str], int]:
    """As many of them as a page has room for, and how many there are more.

    The usual ones, and those that most of the documents have.
    """
    names = columns(rows)
    if len(names) <= MOST_COLUMNS:
        return names, 0
    count = Counter(name for row in rows for name in row["fields"])
    best = sorted(names, key=lambda name: (name not in FIRST_FIELDS, -count[name]))
    kept = set(best[:MOST_COLUMNS])
    return [name for name in names if name in kept], len(names) - MOST_COLUMNS


def unsure_first(fields: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The fields with a low confidence, the lowest first; then the others in their usual order."""
    low = [name for name, field in fields.items() if field["low"]]
    low.sort(key=lambda name: float(fields[name]["confidence"]))
    usual = columns([{"fields": fields}])
    return [(name, fields[name]) for name in low + [name for name in usual if name not in low]]


def numeric_columns(rows: list[dict[str, Any]], names: Iterable[str]) -> set[str]:
    """Those of the fields that have numbers, in every document that has them at all."""
    numeric: dict[str, bool] = {}
    for row in rows:
        for name in names:
            field = row["fields"].get(name)
            if field is not None and field["value"] is not None:
                is_number = isinstance(field["value"], int | float)
                numeric[name] = numeric.get(name, True) and is_number
    return {name for name, always in numeric.items() if always}


class Listing:
    """The tasks under a filter, newest first, page by page; for so many seconds of the database."""

    def __init__(
        self, wanted: dict[str, Any], page_size: int, seconds: float, after: str | None = None
    ) -> None:
        self._wanted = wanted
        self._page_size = page_size
        self._seconds = seconds
        self._after_at, self._after_id = filters.parse_cursor(after)
        self.looked_to: datetime.datetime | None = None
        """How far it has looked when time was over; None: to the end, or as far as was asked."""
        self.next: str | None = None
        """The cursor from which to look on then."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        after: dict[str, Any] = {"after_at": self._after_at, "after_id": self._after_id}
        spent = 0.0
        while True:
            started = time.monotonic()
            rows = reads().call("list_tasks", **self._wanted, **after, page_size=self._page_size)
            spent += time.monotonic() - started
            yield from (row for row in rows if row["fits"])
            if len(rows) < self._page_size and (not rows or rows[-1]["fits"]):
                return
            after = {"after_at": rows[-1]["listed_at"], "after_id": rows[-1]["task_id"]}
            if spent > self._seconds:
                self.looked_to = rows[-1]["listed_at"]
                self.next = filters.cursor(rows[-1]["listed_at"], rows[-1]["task_id"])
                return


def task(key: int) -> dict[str, Any]:
    """All about one task."""
    with database.checkout(reads().pool) as connection:
        detail: dict[str, Any] = database.call_value(connection, "task_detail", task=key)
    return detail


def attempts(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """The attempts of a task, newest first, each with the 429s it met and when the next try is.

    What ran as a job in the workspace is linked: its run, and its trace where the experiment is
    known; what ran on this machine has a store of its own.
    """
    options = web().options
    met: dict[int, list[dict[str, Any]]] = {}
    for event in detail["timeline"]:
        if event["kind"] == "rate_limited":
            met.setdefault(event["attempt_number"], []).append(event)
    found = []
    next_try = detail["task"]["retry_at"]
    for attempt in reversed(detail["attempts"]):
        reports = met.get(attempt["number"], [])
        ended = attempt["ended_at"]
        job = f"{options.workspace_url}/jobs/{attempt['job_id']}/runs/{attempt['run_id']}"
        in_workspace = bool(options.workspace_url and attempt["job_id"] and attempt["run_id"])
        trace = f"{options.workspace_url}/ml/experiments/{options.experiment_id}/traces?"
        told = (reports[-1]["detail"] or {}) if reports else {}
        found.append(
            {
                **attempt,
                "took": ended and _at(ended) - _at(attempt["started_at"]),
                "run_address": job if in_workspace else None,
                "trace_address": trace + urlencode({"selectedEvaluationId": attempt["trace_id"]})
                if in_workspace and options.experiment_id and attempt["trace_id"]
                else None,
                "rate_limits": len(reports),
                "cooldown_until": told.get("cooldown_until"),
                "next_try": next_try if attempt["status"] in TRIED_AGAIN else None,
            }
        )
        next_try = attempt["started_at"]
    return found


def _at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def jsonable(value: Any) -> Any:
    """Rows as JSON shows them: exact times in UTC, seconds, numbers."""
    if isinstance(value, dict):
        return {name: jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    convert = _CONVERSIONS.get(type(value))
    return value if convert is None else convert(value)


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    Decimal: lambda number: int(number) if number == number.to_integral_value() else float(number),
    datetime.datetime: lambda at: at.astimezone(datetime.UTC).isoformat(),
    datetime.date: lambda day: day.isoformat(),
    datetime.timedelta: lambda length: length.total_seconds(),
}


def page_texts(result: Any) -> list[dict[str, Any]]:
    """The texts of a result's pages, whatever an agent wrote."""
    pages = _list(result.get("pages")) if isinstance(result, dict) else []
    return [
        {
            "number": page["number"] if _is_count(page.get("number")) else place,
            "text": page["text"] if isinstance(page.get("text"), str) else "",
        }
        for place, page in enumerate(pages, start=1)
        if isinstance(page, dict)
    ]


def described(result: Any) -> dict[str, Any]:
    """What a result says about the document as a whole."""
    known = result if isinstance(result, dict) else {}
    return {
        "document_type": _text(known.get("document_type")),
        "language": _text(known.get("language")),
        "model": _text(known.get("model")),
        "notes": [str(note) for note in _list(known.get("notes"))],
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
