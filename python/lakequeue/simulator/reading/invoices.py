"""Fields of invoices, credit notes, receipts and their kin."""

# ruff: noqa: E501, RUF001 - the words stand in rows, signs as documents have them

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from lakequeue.simulator.reading import amounts, identifiers, people
from lakequeue.simulator.reading.dates import (
    DateFound,
    choose_order,
    find_dates,
    prefers_day_first,
)
from lakequeue.simulator.reading.labels import Label, find_labels, is_table_heading
from lakequeue.simulator.reading.spots import SAME_CELL, Spot, spots
from lakequeue.simulator.reading.text import Document, Found

_WORD = r"[A-Za-z0-9][A-Za-z0-9_/\-.]*"
_NUMBER_WORDS = re.compile(
    r"(?:vom|du|dated|of|d\.?d\.?|date|datum|seite|page|pagina|le|am|den|from|van|due|customer|kunden\w*|"
    r"klant\w*|client|invoice|rechnung\w*|factuur\w*|facture|order|total|totaal|amount)\b",
    re.IGNORECASE,
)
_DAYS = (
    r"(?:net|netto|within|innerhalb(?: von)?|binnen|sous|a|in|dans les)? ?(\d{1,3}) ?"
    r"(?:days?|tage?n?|dagen|jours)"
)


@dataclass(frozen=True)
class _Dated:
    label: Label
    spot: Spot
    date: DateFound
    score: float

    @property
    def page(self) -> int:
        return self.spot.line.page


class InvoiceReader:
    """Reads one document; each method answers one question."""

    def __init__(self, document: Document, language: str) -> None:
        self.document = document
        self.language = language
        self.labels = find_labels(document)
        self.by_line: dict[int, list[Label]] = defaultdict(list)
        for label in self.labels:
            self.by_line[label.line.number].append(label)
        self.day_first = prefers_day_first(document.folded, language)

    def read(self) -> dict[str, Found]:
        """All fields that were found."""
        customer = people.find_customer(self.document, self.labels, self.by_line)
        pair = None if customer else people.side_by_side(self.document, self.language)
        issuer = people.find_issuer(self.document, self.labels, self.by_line, customer)
        if pair and (issuer is None or str(issuer.value) in (pair[0].value, pair[1].value)):
            issuer, customer = pair
        if customer is None:
            customer = people.find_addressee(self.document, issuer)
        sums = amounts.choose(amounts.find_candidates(self.document))
        terms = self.terms()
        invoice_date, due_date = self.dates(terms)
        vat_id, customer_vat_id = identifiers.find_vat_ids(
            self.document, people.cell_of(self.document, str(customer.value)) if customer else None
        )
        due = sums.due
        if due and sums.total and due.value == sums.total.value:
            due = None
        found = {
            "invoice_number": self.number(),
            "invoice_date": invoice_date,
            "due_date": due_date,
            "total_amount": sums.total,
            "tax_amount": sums.tax,
            "net_amount": sums.net,
            "tax_rate": sums.rate,
            "amount_due": due,
            "currency": amounts.choose_currency(self.document, sums, self.language),
            "issuer": issuer,
            "customer": customer,
            "vat_id": vat_id,
            "customer_vat_id": customer_vat_id,
            "iban": identifiers.find_iban(self.document),
            "bic": identifiers.find_bic(self.document),
            "order_number": self.code("order_number"),
            "customer_number": self.code("customer_number"),
            "payment_reference": self.code("payment_reference"),
            "payment_terms": terms,
        }
        return {name: value for name, value in found.items() if value is not None}

    # --- numbers

    def number(self) -> Found | None:
        """The document's number: named as such, or the word itself followed by one."""
        candidates: dict[str, list[float]] = defaultdict(list)
        pages: dict[str, int] = {}
        for label in self.labels:
            for value, score, page in self._numbers_at(label):
                candidates[value].append(score)
                pages.setdefault(value, page)
        if not candidates:
            return None
        value = max(
            candidates, key=lambda v: max(candidates[v]) + 0.01 * min(4, len(candidates[v]))
        )
        score = max(candidates[value]) + 0.02 * (min(3, len(candidates[value])) - 1)
        return Found(value, round(min(0.99, score), 2), pages[value])

    def _numbers_at(self, label: Label) -> Iterator[tuple[str, float, int]]:
        if label.kind not in ("number", "number_or_word", "number_alone"):
            return
        strength = label.strength
        if label.kind == "number_alone":
            if not label.at_start or not self._near_title(label):
                return
        elif label.kind == "number_or_word" and not label.at_start:
            strength -= 0.25
        elif not label.at_start:
            strength -= 0.06
        for spot in spots(self.document, label, self.by_line[label.line.number]):
            if label.kind == "number_or_word" and spot.nearness < SAME_CELL:
                if spot.line is not label.line and not re.match(
                    r"\s*(?:#|n°|no\.|nr\.)", spot.text, re.I
                ):
                    continue
                strength -= 0.1
            value = code_in(spot.text, label.kind != "number_or_word")
            if value and not self._claimed(spot, label):
                yield value, strength * spot.nearness, spot.line.page
                return

    def _near_title(self, label: Label) -> bool:
        """Whether a bare "No." stands close to the word invoice and in no table."""
        around = [label.line, *self.document.above(label.line, 3)]
        titles = any(
            other.kind == "number_or_word" for line in around for other in self.by_line[line.number]
        )
        return titles and not any(is_table_heading(line) for line in around)

    def _claimed(self, spot: Spot, label: Label) -> bool:
        """Whether a value below belongs to a label of its own line."""
        if spot.line is label.line:
            return False
        return any(
            other.end <= spot.start + 1 and other.kind != "number_alone"
            for other in self.by_line[spot.line.number]
            if other.cell.start == spot.line.cell_at(spot.start).start
        ) or any(
            other.start >= spot.start
            and other.end <= spot.end
            and other.kind not in ("number_alone",)
            for other in self.by_line[spot.line.number]
        )

    def code(self, kind: str) -> Found | None:
        """An order or customer number."""
        best: Found | None = None
        for label in self.labels:
            if label.kind != kind:
                continue
            strength = label.strength if label.at_start else label.strength - 0.1
            for spot in spots(self.document, label, self.by_line[label.line.number]):
                value = code_in(spot.text, True)
                if value and not self._claimed(spot, label):
                    found = Found(value, round(strength * spot.nearness, 2), spot.line.page)
                    if best is None or found.confidence > best.confidence:
                        best = found
                    break
        return best

    # --- dates

    def dates(self, terms: Found | None) -> tuple[Found | None, Found | None]:
        """Invoice date and due date, both read with the same order of day and month."""
        invoice = self._dated("date", "date_alone")
        due = self._dated("due_date", "terms")
        if not invoice or invoice[0].label.kind == "date_alone":
            invoice = sorted([*invoice, *self._unlabelled()], key=lambda dated: -dated.score)
        if invoice and due and due[0].date is invoice[0].date:
            due = due[1:]
        days = _days_in(str(terms.value)) if terms else None
        exchange = choose_order([(invoice[0].date, due[0].date)] if invoice and due else [], days)
        return (
            _found_date(invoice[0], bool(exchange)) if invoice else None,
            _found_date(due[0], bool(exchange)) if due else None,
        )

    def _dated(self, *kinds: str) -> list[_Dated]:
        """Dates at labels of these kinds, best first."""
        found: list[_Dated] = []
        for label in self.labels:
            if label.kind not in kinds:
                continue
            strength = label.strength - (0.0 if label.at_start else 0.08)
            for spot in spots(self.document, label, self.by_line[label.line.number]):
                dates = self._dates_in(spot, label)
                if dates:
                    score = strength * spot.nearness
                    if dates[0].start > 12:
                        score -= 0.15  # Words between the label and the date.
                    found.append(_Dated(label, spot, dates[0], score))
                    break
        return sorted(found, key=lambda dated: -dated.score)

    def _dates_in(self, spot: Spot, label: Label) -> list[DateFound]:
        if spot.line is not label.line and any(
            other.kind.endswith("date") and other.end <= spot.end and other.start >= spot.start - 1
            for other in self.by_line[spot.line.number]
        ):
            return []  # The line below has a label of its own.
        return find_dates(spot.text, self.day_first, compact=label.kind == "date")

    def _unlabelled(self) -> list[_Dated]:
        """The first date of the first page that no label claims, such as "Berlin, 12. März 2024"."""
        for line in self.document.lines[:60]:
            if line.page != self.document.first_page:
                break
            for cell in line.cells:
                labels = [
                    label for label in self.by_line[line.number] if label.cell.start == cell.start
                ]
                if any(label.kind in ("not_date", "due_date", "terms") for label in labels):
                    continue
                dates = find_dates(cell.text, self.day_first)
                before = [
                    label
                    for label in self.by_line[line.number]
                    if label.end <= cell.start and label.kind in ("not_date", "due_date")
                ]
                above = next(self.document.above(line, 1), None)
                headed = above is not None and any(
                    label.kind in ("not_date", "due_date") and label.cell.overlaps(cell)
                    for label in self.by_line[above.number]
                )
                if len(dates) != 1 or before or headed:
                    continue
                spot = Spot(line, cell.start, cell.end, 1.0)
                placed = re.search(
                    r"(?:, (?:den |le )?|^(?:den |le ))$", cell.text[: dates[0].start]
                )
                anchor = Label("date_alone", 0.5, line, cell.start, cell.start)
                score = (
                    0.72
                    if placed or cell.text.strip() == cell.text[dates[0].start : dates[0].end]
                    else 0.45
                )
                return [_Dated(anchor, spot, dates[0], score)]
        return []

    def terms(self) -> Found | None:
        """What is said about when to pay, in the document's own words."""
        for label in self.labels:
            if label.kind != "terms":
                continue
            for spot in spots(self.document, label, self.by_line[label.line.number]):
                text = spot.text.strip(" :")
                if (
                    text
                    and len(text) <= 80
                    and not find_dates(text)
                    and re.search(r"[A-Za-z]{2}", text)
                ):
                    return Found(text, round(0.9 * spot.nearness, 2), spot.line.page)
                break
        for line in self.document.lines:
            match = re.search(
                r"(?:net(?:to)?|zahlbar|payable|payment|betaling|betalen|paiement|reglement)[^.\d]{0,40}"
                + _DAYS
                + r"|"
                + r"\d{1,3} (?:tage|days|dagen|jours) net(?:to)?",
                line.folded,
            )
            if match:
                cell = line.cell_at(match.start())
                return Found(cell.text.strip()[:120], 0.6, line.page)
        return None


def code_in(text: str, generous: bool) -> str | None:
    """The code that a text begins with: it has a digit and is neither date nor money."""
    text = re.sub(
        r"^\s*(?:(?:#|n°|no\.?|nr\.?|num\.?|number|nummer|numero|:|=)\s*)+(?![A-Za-z])",
        "",
        text,
        flags=re.I,
    )
    text = re.sub(r"^\s*(?:#|n°|no\.|nr\.|:)\s*", "", text, flags=re.I).strip()
    stop = _NUMBER_WORDS.search(text)
    if stop and stop.start() == 0 and not re.match(r"\w+[-_/.]?\d", text):
        return None
    dates = find_dates(text)
    if dates:
        text = text[: dates[0].start].rstrip(" ,(/-")
    text = re.split(r"[,;()]|\s[-–/|]\s", text, maxsplit=1)[0]
    tokens = re.findall(_WORD + r"|\S+", text)
    if not tokens or re.search(r"[€$£%@]", text):
        return None
    value: list[str] = []
    for token in tokens[:4]:
        if not re.fullmatch(_WORD, token):
            break
        has_digit = any(character.isdigit() for character in token)
        if not has_digit and (value or not re.fullmatch(r"[A-Z]{1,6}[.\-/]?", token)):
            break
        if (
            value
            and has_digit
            and any(c.isdigit() for c in value[-1])
            and not _continues(value, token)
        ):
            break
        value.append(token)
    code = " ".join(value).rstrip(".-/_")
    if not any(character.isdigit() for character in code) or len(code) > 40:
        return None
    if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})*[.,]\d{2}", code):
        return None
    minimum = 1 if generous else 2
    return code if len(code) >= minimum else None


def _continues(value: list[str], token: str) -> bool:
    """Groups of digits such as 2024 0012 belong together; a word with digits does not follow."""
    return token.isdigit() and value[-1].isdigit() and len(token) >= 3


def _found_date(dated: _Dated, exchange: bool) -> Found:
    date: datetime.date = dated.date.value
    score = dated.score
    if exchange and dated.date.other is not None:
        date = dated.date.other
    elif dated.date.other is not None:
        score -= 0.04  # Day and month could be meant the other way round.
    return Found(date.isoformat(), round(min(0.99, max(0.1, score)), 2), dated.page)


def _days_in(text: str) -> int | None:
    match = re.search(_DAYS, text.lower())
    return int(match[1]) if match else None
