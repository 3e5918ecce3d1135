"""Results, tasks and events as CSV and as JSON, written as they are read."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from lakequeue.web import formats, views

HEAD = (
    "position",
    "document",
    "submitted_before",
    "task",
    "status",
    "document_type",
    "language",
    "pages",
    "confidence",
)
TAIL = (
    "notes",
    "error",
    "input_tokens",
    "output_tokens",
    "llm_cost_usd",
    "attempts",
    "finished_at",
)
# A spreadsheet takes a cell that begins so for a formula, the full-width forms included.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")
# Excel takes a file for UTF-8 only with this mark at its start.
_MARK = "\ufeff".encode()
# What a cell holds as it is: exact, and no formula.
_NUMBERS = frozenset((int, Decimal, type(None)))


def safe(value: Any) -> Any:
    """A cell that no spreadsheet runs: a text that looks like a formula gets a quote before it."""
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return "'" + value
    return value


OF_THE_FIRST = ("input_tokens", "output_tokens", "llm_cost", "attempts")


def _once(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What was submitted before cost nothing more: its row leaves out what is the first one's."""
    return ({**row, **dict.fromkeys(OF_THE_FIRST)} if row["repeated"] else row for row in rows)


def as_csv(extraction: int) -> Iterator[bytes]:
    """A line a document, a column a field, with its confidence in another one beside it."""
    names = views.columns(views.all_documents(extraction))
    header = [*HEAD]
    for name in names:
        header += [name, f"{name} confidence"]
    rows = _once(views.all_documents(extraction))
    yield from _table([*header, *TAIL], (_cells(row, names) for row in rows))


def _cells(row: dict[str, Any], names: list[str]) -> list[Any]:
    cells: list[Any] = [
        row["position"],
        row["document"],
        "yes" if row["repeated"] else None,
        row["task_id"],
        "refused" if row["refused"] else row["status"],
        row["document_type"],
        row["language"],
        row["pages"],
        row["confidence"],
    ]
    for name in names:
        field = row["fields"].get(name)
        cells += [None, None] if field is None else [_cell(field["value"]), field["confidence"]]
    return [
        *cells,
        "; ".join(["no text"] * row["no_text"] + row["notes"]),
        row["error"],
        row["input_tokens"],
        row["output_tokens"],
        row["llm_cost"],
        row["attempts"],
        row["finished_at"],
    ]


def _cell(value: Any) -> Any:
    """Numbers stay numbers, so that sums work."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return formats.field_value(value)


def begun(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The same, with the database asked already: what it refuses is told while that is possible."""
    return itertools.chain(list(itertools.islice(parts, 2)), parts)


LINES_AT_ONCE = 1000


class _Cells(dict[Any, Any]):
    """What a text, a day or a time is in a cell: found out once, however many rows have it."""

    def __missing__(self, value: Any) -> Any:
        cell = self[value] = safe(_plain(value))
        return cell


def rows_csv(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    """Rows as they are, a column each; exact amounts. Many at once, since they are all there."""
    yield _MARK + _lines([list(rows[0]) if rows else []])
    cells = _Cells()
    for first in range(0, len(rows), LINES_AT_ONCE):
        yield _lines(
            [
                value
                if type(value) in _NUMBERS
                else cells[value]
                if isinstance(value, str | datetime.date)
                else safe(_plain(value))
                for value in row.values()
            ]
            for row in rows[first : first + LINES_AT_ONCE]
        )


def _table(head: list[str], rows: Iterable[Iterable[Any]]) -> Iterator[bytes]:
    yield _MARK + _line(head)
    for cells in rows:
        yield _line([_plain(cell) for cell in cells])


def _line(cells: list[Any]) -> bytes:
    return _lines([[safe(cell) for cell in cells]])


def _lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


MOST_ROWS = 100_000
BATCH = 1000
SECONDS = 60.0
"""Of the database, for one list of tasks."""
TASK_COLUMNS = {
    "task": "task_id",
    "agent": "agent",
    "customer": "customer",
    "document": "document_path",
    "status": "status",
    "priority": "priority",
    "created_at": "created_at",
    "finished_at": "finished_at",
    "retry_at": "retry_at",
    "attempts": "attempts",
    "confidence": "confidence",
    "error": "error",
}
EVENT_COLUMNS = {
    "event": "event_id",
    "at": "at",
    "kind": "kind",
    "task": "task_id",
    "attempt": "attempt_number",
    "agent": "agent",
    "actor": "actor",
    "login": "login",
    "reason": "reason",
    "detail": "detail",
}


def tasks_csv(wanted: dict[str, Any]) -> Iterator[bytes]:
    """The tasks under a filter, a line each, MOST_ROWS at most.

    If looking for a document takes too long, a last line says how far it came.
    """
    listing = views.Listing(wanted, BATCH, SECONDS)
    rows = itertools.islice(listing, MOST_ROWS)
    yield from _table(list(TASK_COLUMNS), _chosen(rows, TASK_COLUMNS))
    if listing.looked_to is not None:
        moment = views.jsonable(listing.looked_to)
        yield _line([f"Looked back to {moment} only: for older ones choose days up to then."])


def events_csv(wanted: dict[str, Any]) -> Iterator[bytes]:
    """The event log under a filter, a line each, MOST_ROWS at most."""
    yield from _table(list(EVENT_COLUMNS), _chosen(_all_events(wanted), EVENT_COLUMNS))


def _chosen(rows: Iterable[dict[str, Any]], columns: dict[str, str]) -> Iterator[list[Any]]:
    return ([row[name] for name in columns.values()] for row in rows)


def _all_events(wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    after: dict[str, Any] = {}
    for _ in range(MOST_ROWS // BATCH):
        rows = views.reads().call("list_events", **wanted, **after, page_size=BATCH)
        yield from rows
        if len(rows) < BATCH:
            return
        after = {"after_at": rows[-1]["at"], "after_id": rows[-1]["event_id"]}


def _plain(value: Any) -> Any:
    """A cell as text or a number; amounts stay exact."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, Decimal) else views.jsonable(value)


def as_json(extraction: int) -> Iterator[bytes]:
    """The extraction with its documents; results without the pages' texts."""
    head = json.dumps(views.jsonable(views.extraction(extraction)), ensure_ascii=False)
    yield f'{{"extraction": {head},\n"documents": ['.encode()
    separator = "\n"
    for shown in documents_json(views.all_documents(extraction)):
        document = json.dumps(shown, ensure_ascii=False)
        yield (separator + document).encode("utf-8", "replace")
        separator = ",\n"
    yield b"\n]}\n"


def documents_json(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Documents as programs get them."""
    left_out = ("document_id", "fields", "document_type", "language", "model", "pages", "notes")
    for row in _once(rows):
        yield views.jsonable({name: value for name, value in row.items() if name not in left_out})


def download_name(name: str, ending: str) -> str:
    """A file name for the download."""
    from lakequeue.web.volume import stored_name

    return stored_name(name).removesuffix(".pdf") + ending
