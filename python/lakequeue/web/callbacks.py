"""The webhook: `POST /api/callbacks`, by which agents confirm what became of their attempts.

The body is a JSON object with the parameters of lakequeue.record_callback as keys, or an array of
such objects. The attempt's token is the permission; the database decides everything else, and a
report that comes again is answered like the first and changes nothing.
"""

from __future__ import annotations

import json
import math
import threading
from typing import Any

from flask import Blueprint, Response, current_app, jsonify, request
from psycopg.types.json import Json
from werkzeug.exceptions import RequestEntityTooLarge

blueprint = Blueprint("callbacks", __name__, url_prefix="/api")

MOST_BYTES = 64 * 1024 * 1024
MOST_REPORTS = 1000

PARAMETERS = (
    "attempt",
    "token",
    "outcome",
    "result",
    "confidence",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "llm_cost",
    "usage_complete",
    "error_class",
    "error",
    "run_id",
    "trace_id",
    "retry_after",
)
_JSON = ("result", "error")
_INTEGERS = ("attempt", "input_tokens", "output_tokens", "cached_tokens", "run_id")
_NUMBERS = ("confidence", "llm_cost")
_TEXTS = ("token", "outcome", "error_class", "trace_id")
_LARGEST = 2**63 - 1
_MOST_DIGITS = 4300
"""That Python reads of a number."""


class Tally:
    """Counts what has come in since the process started."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.reports = 0

    def add(self, reports: int) -> None:
        """Count some more."""
        with self._guard:
            self.reports += reports


class BadReport(ValueError):
    """The body cannot be meant; the words say what to change."""


def answer(status: int, code: str, message: str, hint: str | None = None) -> Response:
    """An error as programs get it."""
    body = {"error": {"code": code, "message": message, **({"hint": hint} if hint else {})}}
    response = jsonify(body)
    response.status_code = status
    return response


@blueprint.post("/callbacks")
def receive() -> Response:
    """One report, or many."""
    if request.mimetype != "application/json":
        return answer(
            415,
            "not_json",
            "The body must be JSON.",
            "Send it with the header Content-Type: application/json.",
        )
    request.max_content_length = MOST_BYTES
    try:
        body = _parse(request.get_data(cache=False))
        if isinstance(body, list):
            return _many(body)
        parameters = _parameters(body)
    except RequestEntityTooLarge:
        return answer(
            413,
            "too_large",
            f"The body is larger than {MOST_BYTES // 1024 // 1024} MB.",
            "Store large artefacts in the volume and their path in the result.",
        )
    except BadReport as problem:
        return answer(
            422,
            "wrong_shape",
            str(problem),
            'Example: {"attempt": 1, "token": "…", "outcome": "success", "result": {}}.',
        )
    web = current_app.extensions["lakequeue"]
    (said,) = web.reads.write("record_callback", **parameters)[0].values()
    web.tally.add(1)
    return jsonify(attempt=parameters["attempt"], answer=said)


def _parse(data: bytes) -> Any:
    """The body. A number that is none, or too large, becomes one that `_write` refuses."""
    try:
        return json.loads(data, parse_int=_whole)
    except RecursionError:
        raise BadReport("The JSON is nested too deep.") from None
    except ValueError as error:
        where = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadReport(f"The body is not JSON{where}.") from None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf


def _write(value: Any) -> str:
    """As JSON again."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise BadReport("Numbers must be finite, and not larger than 10^308.") from None


def _parameters(body: Any) -> dict[str, Any]:
    """The function's parameters, each of the right kind; what is not given stays out."""
    if not isinstance(body, dict):
        raise BadReport("The body must be a JSON object, or an array of objects.")
    unknown = [key for key in body if key not in PARAMETERS]
    if unknown:
        raise BadReport(f"There is no key {unknown[0][:100]!r}; keys are: {', '.join(PARAMETERS)}.")
    for key in ("attempt", "token", "outcome"):
        if body.get(key) is None:
            raise BadReport(f"The key {key!r} is missing.")
    return {
        key: Json(_write(value), str) if key in _JSON else _checked(key, value)
        for key, value in body.items()
        if value is not None
    }


def _checked(key: str, value: Any) -> Any:
    right: bool
    kind = "a text"
    if key in _INTEGERS:
        right, kind = _is_number(value, int) and abs(value) <= _LARGEST, "a whole number"
    elif key in _NUMBERS:
        right, kind = _is_number(value, int | float) and abs(value) <= 1e308, "a number"
    elif key == "usage_complete":
        right, kind = isinstance(value, bool), "true or false"
    elif key == "retry_after":
        right = _is_number(value, int | float) and 0 <= value <= 86400
        kind = "a number of seconds, at most a day"
    else:
        right = isinstance(value, str)
    if not right:
        raise BadReport(f"The key {key!r} must be {kind}.")
    return f"{value} seconds" if key == "retry_after" else value


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _many(reports: list[Any]) -> Response:
    """Each is answered by itself."""
    if len(reports) > MOST_REPORTS:
        raise BadReport(f"At most {MOST_REPORTS:,} reports at once; send them in parts.")
    if not all(isinstance(report, dict) for report in reports):
        raise BadReport("Every element of the array must be an object.")
    answers: list[dict[str, Any] | None] = []
    written: list[str] = []
    for report in reports:
        try:
            if report.get("retry_after") is not None:
                report["retry_after"] = _checked("retry_after", report["retry_after"])
            written.append(_write(report))
            answers.append(None)
        except BadReport as problem:
            answers.append(_refused(report, str(problem)))
    web = current_app.extensions["lakequeue"]
    rows = web.reads.write("record_callbacks", callbacks=Json(f"[{','.join(written)}]", str))
    web.tally.add(len(reports))
    said = iter(rows)
    return jsonify([_answered(next(said)) if known is None else known for known in answers])


def _refused(report: dict[str, Any], message: str) -> dict[str, Any]:
    attempt: Any = report.get("attempt")
    named = _is_number(attempt, int) and abs(attempt) <= _LARGEST
    return {"attempt": attempt if named else None, "answer": "refused", "message": message}


def _answered(row: dict[str, Any]) -> dict[str, Any]:
    found = {"attempt": row["attempt_id"], "answer": row["answer"]}
    return {**found, "message": row["message"]} if row["message"] else found
