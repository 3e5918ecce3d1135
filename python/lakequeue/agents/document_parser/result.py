"""From the answers to the chunks to the one result that is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lakequeue.agents import NO_TEXT_LAYER
from lakequeue.agents.document_parser.prompt import Answer, FieldFound
from lakequeue.agents.document_parser.reader import Page

INVOICE_LIKE = ("invoice", "credit_note", "receipt")
KEY_FIELDS = ("invoice_number", "invoice_date", "total_amount")
_MOST_ITEMS = 200


def build(pages: Sequence[Page], answers: Sequence[Answer], model: str) -> dict[str, Any]:
    """The result of a document, in the documented shape."""
    notes = [f"page {page.number}: {page.problem}" for page in pages if page.problem]
    if not any(page.text for page in pages):
        notes.insert(0, NO_TEXT_LAYER)
    kind = _kind(answers)
    fields = _merge(answers, kind)
    if kind in INVOICE_LIKE:
        for name in KEY_FIELDS:
            fields.setdefault(name, {"value": None, "confidence": 0.0, "page": None})
    result: dict[str, Any] = {
        "document_type": kind,
        "language": _language(answers),
        "page_count": len(pages),
        "fields": fields,
        "pages": [
            {"number": page.number, "text": page.text, "characters": len(page.text)}
            for page in pages
        ],
        "confidence": confidence(pages, fields, kind),
        "model": model,
    }
    if notes:
        result["notes"] = notes
    return result


def confidence(pages: Sequence[Page], fields: dict[str, Any], kind: str) -> float:
    """How far the whole result can be trusted, 0 to 1.

    = (share of pages that were read) * (confidence of the fields)

    A page counts 1 when its text was read, 0.5 when it has none or only a part came out, 0 when
    it could not be read; without any text the confidence is 0. For invoices, credit notes and
    receipts the fields count 0.7 * mean of number, date and total (a missing one is 0) + 0.3 *
    mean of all that were found; for other documents the mean of all, and 0.2 if there are none.
    """
    if not any(page.text for page in pages):
        return 0.0
    read = sum(1.0 if p.text and not p.problem else 0.5 if p.text or not p.problem else 0.0
               for p in pages) / len(pages)  # fmt: skip
    found = [field["confidence"] for field in fields.values() if field["value"] is not None]
    mean = sum(found) / len(found) if found else 0.2
    if kind in INVOICE_LIKE:
        keys = [fields[name]["confidence"] if name in fields else 0.0 for name in KEY_FIELDS]
        mean = 0.7 * sum(keys) / len(keys) + 0.3 * (mean if found else 0.0)
    return round(read * mean, 2)


def _kind(answers: Sequence[Answer]) -> str:
    """The kind that the answers are surest of; the first chunk, with the title page, twice."""
    votes: dict[str, float] = defaultdict(float)
    for position, answer in enumerate(answers):
        # "other" is no opinion, so it wins only where nobody has one.
        weight = 0.01 if answer.document_type == "other" else 2.0 if position == 0 else 1.0
        votes[answer.document_type] += weight * answer.confidence
    return max(votes, key=votes.__getitem__, default="other")


def _language(answers: Sequence[Answer]) -> str:
    votes: dict[str, int] = defaultdict(int)
    for answer in answers:
        votes[answer.language] += 0 if answer.language == "und" else 1
    return max(votes, key=votes.__getitem__, default="und")


def _merge(answers: Sequence[Answer], kind: str) -> dict[str, Any]:
    """The surest value of each field; lists are joined.

    A chunk that looks like another kind of document (an annex) adds to the fields that this kind
    has, but no others.
    """
    names = {
        f.name: None for answer in answers if answer.document_type == kind for f in answer.fields
    }
    merged: dict[str, Any] = {}
    for name in names:
        found = [f for answer in answers for f in answer.fields if f.name == name]
        best = max(found, key=_rank)
        value: Any = best.value
        if isinstance(value, list):
            items = [item for f in found if isinstance(f.value, list) for item in f.value]
            value = list(dict.fromkeys(items))[:_MOST_ITEMS]
        merged[name] = {"value": value, "confidence": best.confidence, "page": best.page}
    return merged


def _rank(field: FieldFound) -> tuple[float, int]:
    """By confidence; among equals the last amount (sums stand at the end), else the first value."""
    last = "amount" in field.name
    return (round(field.confidence, 2), field.page if last else -field.page)
