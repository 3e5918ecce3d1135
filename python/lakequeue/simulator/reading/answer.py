"""From page texts to the answer: kind, language, fields."""

from __future__ import annotations

from typing import Any

from lakequeue.simulator.reading.invoices import InvoiceReader
from lakequeue.simulator.reading.kinds import INVOICE_LIKE, TRADE, find_kind
from lakequeue.simulator.reading.language import detect_language
from lakequeue.simulator.reading.others import PlainReader
from lakequeue.simulator.reading.text import Document, Found

_LEAST = 0.15
_ITEM_LENGTH = 120


def read_document(pages: list[tuple[int, str]]) -> dict[str, Any]:
    """Read pages, given as (number, text), into the shape that the schema asks for."""
    document = Document.from_pages(pages)
    language, _ = detect_language(document.folded)
    kind, certainty = find_kind(document)
    found: dict[str, Found] = {}
    if kind in (*TRADE, "other"):
        found = InvoiceReader(document, language).read()
    if kind == "other" and {"invoice_number", "total_amount"} <= set(found):
        kind, certainty = "invoice", 0.5  # It names itself nowhere, but it has what makes one.
    if kind in TRADE:
        if kind not in INVOICE_LIKE:
            found = _renamed(found)
    else:
        found = PlainReader(document, language, kind).read()
    return {
        "document_type": kind,
        "language": language,
        "confidence": certainty,
        "fields": [
            {
                "name": name,
                "value": _shortened(value.value),
                "confidence": value.confidence,
                "page": value.page,
            }
            for name, value in found.items()
            if value.confidence >= _LEAST
        ],
    }


def _renamed(found: dict[str, Found]) -> dict[str, Found]:
    """Offers and orders have a number and a date too, but not an invoice's."""
    names = {"invoice_number": "document_number", "invoice_date": "date"}
    return {names.get(name, name): value for name, value in found.items()}


def _shortened(value: str | float | list[str]) -> str | float | list[str]:
    if isinstance(value, str):
        return value[:_ITEM_LENGTH]
    if isinstance(value, list):
        return [item[:_ITEM_LENGTH] for item in value]
    return value
