"""Net, tax and total of an invoice: what each amount is called, and which three fit together."""

# ruff: noqa: E501 - the words stand in rows

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakequeue.simulator.reading.labels import is_table_heading
from lakequeue.simulator.reading.numbers import Amount, find_amounts, named_currencies
from lakequeue.simulator.reading.text import Document, Found, Line

NET, TAX, TOTAL, DUE = "net", "tax", "total", "due"

_CENT = 0.021
_BEST = 12

_TAX = (
    r"(?<![a-z])(?:vat|tax(?:es)?|sales tax|gst|hst|pst|qst|mwst|mw\.?st|ust|u\.st|mehrwertsteuer|umsatzsteuer|"
    r"steuer(?:betrag|n)?|mwst\.?betrag|btw(?:[ -]?bedrag)?|tva|tps|tvq|taxes?|omzetbelasting)(?![a-z])"
)
_NET = (
    r"(?<![a-z])(?:net|netto[a-z]*|subtotal|sub-total|sub total|subtotaal|sub-totaal|"
    r"zwischensumme|sous-total|sous total|excl|excl\.|exclusief|exclusive|excluding|exkl|exkl\.|ex\.?|"
    r"ht|h\.t\.?|hors taxes?|hors tva|before tax|untaxed|taxable|ohne mwst|ohne ust|warenwert|"
    r"grondslag|maatstaf|base imposable|total net|net total|pre-tax|gesamtnetto)(?![a-z])"
)
_GROSS = (
    r"(?<![a-z])(?:incl|incl\.|inclusief|inclusive|including|inkl|inkl\.|inklusive|einschl\.?|brutto|bruttobetrag|"
    r"bruttosumme|gesamtbrutto|gross|ttc|t\.t\.c\.?|toutes taxes(?: comprises)?|tax included|mit mwst|with tax|"
    r"with vat|after tax|"
    r"(?:vat|tax|tva|mwst|btw|ust)[. ]+(?:included|incluse|comprise|enthalten|inbegrepen))(?![a-z])"
)
_TOTAL = (
    r"(?<![a-z])(?:(?:grand |invoice |order )?total(?:s|e)?|totaal|totaalbedrag|eindtotaal|eindbedrag|"
    r"factuurbedrag|factuurtotaal|gesamt|gesamtbetrag|gesamtsumme|gesamtpreis|rechnungs(?:gesamt)?betrag|"
    r"rechnungssumme|rechnungsendbetrag|rechnungstotal|endbetrag|endsumme|endpreis|summe|gutschriftsbetrag|"
    r"montant|amount|bedrag|betrag|betrag von|somme|sum|price|totalbetrag|gutschriftbetrag|"
    r"tegoed|creditbedrag|auszahlungsbetrag|auszahlung|uit te betalen)(?![a-z])"
)
_DUE = (
    r"(?<![a-z])(?:(?:amount |balance |total |payment |net )?due|(?:amount |total |balance )?payable|"
    r"to pay|please pay|you owe|zu zahlen(?:der betrag|de summe)?|zu zahlender|zahlbetrag|zahlbar|offen|"
    r"zu uberweisen(?:der betrag)?|offener betrag|zu begleichen|(?:nog )?te betalen|te voldoen|"
    r"openstaand(?: bedrag)?|verschuldigd(?: bedrag)?|a payer|a regler|net a payer|solde|"
    r"(?:montant|total|somme)(?: total)?(?: ttc)? due?s?(?= *(?:[:(€]|eur|$))|"
    r"reste a payer|balance|forderungsbetrag)(?![a-z])"
)
_WEAK_TOTAL = re.compile(r"^(?:montant|amount|bedrag|betrag|sum|somme|price|summe)$")
_STRONG_TOTAL = re.compile(
    r"grand total|invoice total|total (?:amount|invoice|general|facture)|total amount|gesamtbetrag|"
    r"gesamtsumme|rechnungsbetrag|rechnungssumme|endbetrag|endsumme|totaalbedrag|eindtotaal|eindbedrag|"
    r"factuurbedrag|factuurtotaal|montant total|total for this|total to pay|rechnungsendbetrag"
)
_NOT_MONEY = re.compile(
    r"(?<![a-z])(?:discount|rabatt|skonto|korting|remise|escompte|savings?|shipping|freight|delivery|"
    r"postage|versand(?:kosten)?|verzend(?:kosten)?|frais de (?:port|livraison)|porto|deposit|"
    r"payments?(?! (?:due|amount|total))|received|angezahlt|anzahlung|aanbetaling|acompte|"
    r"previous|opening|carried|ubertrag|overdracht|report|a reporter|hours?|quantity|"
    r"weight|items?|pages?|stunden|menge|gewicht|uren|aantal|gewicht|heures|quantite|poids|points?|"
    r"credit limit|year to date|rounding|rundung|afronding|arrondi|mahngebuhr|late fee|"
    r"interest|per (?:unit|hour|month)|je (?:stuck|einheit|stunde)|pro (?:stuck|stunde)|par (?:heure|unite)|"
    r"minimum|maximum|capital|stammkapital|change|wechselgeld|wisselgeld|rendu|ruckgeld|"
    r"cash|tendered|gegeben|contant|especes|tip|trinkgeld)(?![a-z])"
)
_PAID = re.compile(
    r"(?<![a-z])(?:paid|bezahlt|betaald|voldaan|paye(?:e|s)?|deja regle|regle|encaisse)(?![a-z])"
)
# What a total includes or comes after does not make it something else.
_INCLUDED = re.compile(
    r"(?:incl\w*|inkl\w*|einschl\w*|plus|after|nach|na|apres|y compris|avec|with)\W+(?:\w+ ){0,2}?"
    r"(?:shipping|delivery|postage|freight|versand\w*|verzend\w*|frais de (?:port|livraison)|"
    r"discount|rabatt|skonto|korting|remise)(?![a-z])(?: costs?)?"
)
_TAX_ID = re.compile(
    r"(?:vat|tax|mwst|ust|btw|tva|steuer|gst)[ .\-]{0,3}(?:id|ident|identification|reg|no|nr|n°|number|nummer|"
    r"num|registration|code|intra)|n° (?:de )?tva|tax invoice|siret|siren|kvk|hrb"
)
_BASE_BEFORE = re.compile(r"(?<![a-z])(?:on|of|over|von|auf|aus|van|sur|de|base)[ :(]*$")
_CURRENCY_CODE = re.compile(r"(?<![a-z])(?:eur|usd|gbp|chf|cad|aud|euro)(?![a-z])")
_LABEL_LENGTH = 60
_RATE = re.compile(r"(\d{1,2}(?:[.,]\d{1,2})?) ?(?:%|prozent|percent|procent|pour ?cent)")


@dataclass(frozen=True)
class Candidate:
    """An amount with what its label says it is."""

    kind: str
    amount: Amount
    score: float
    line: Line
    rate: float | None = None

    @property
    def value(self) -> float:
        return self.amount.value


def classify(label: str) -> list[tuple[str, float]]:  # noqa: PLR0911 - a rule, a return
    """What a label calls its amount, and how clearly; nothing where it is no amount of ours."""
    label = _INCLUDED.sub(" ", label)
    if _NOT_MONEY.search(label) or _TAX_ID.search(label):
        return []
    total, due = re.search(_TOTAL, label), re.search(_DUE, label)
    gross, net, tax = re.search(_GROSS, label), re.search(_NET, label), re.search(_TAX, label)
    if _PAID.search(label):
        return [(TOTAL, 0.3)] if total else []
    if due and not (tax and not total):
        return [(DUE, 0.86)]
    if gross and tax and not total and not net:
        # "incl. 21% BTW 21,00" tells the tax inside; "incl. BTW 121,00" tells the total.
        inside = _RATE.search(label) is not None
        return [(TAX, 0.62), (TOTAL, 0.4)] if inside else [(TOTAL, 0.75), (TAX, 0.4)]
    if gross and (total or net or re.fullmatch(r"\W*(?:brutto\w*|gross|ttc)\W*", label)):
        return [(TOTAL, 0.9)]
    if net:
        weak = re.search(r"sub-? ?tota|zwischensumme|sous-? ?total", label) and not tax
        return [(NET, 0.72 if weak else 0.86)]
    if tax:
        return [(TAX, 0.86 if total or _RATE.search(label) else 0.8)]
    if total:
        if _STRONG_TOTAL.search(label):
            return [(TOTAL, 0.9)]
        return [(TOTAL, 0.5 if _WEAK_TOTAL.match(total[0]) else 0.84)]
    return []


def find_candidates(document: Document) -> list[Candidate]:
    """All amounts that a label on their line, or a heading above them, calls net, tax or total."""
    found: list[Candidate] = []
    for line in document.lines:
        amounts = find_amounts(line.text)
        if amounts and not is_table_heading(line):
            found.extend(_candidates_of(document, line, amounts))
    return found


def _candidates_of(document: Document, line: Line, amounts: list[Amount]) -> Iterator[Candidate]:
    """Amounts of a line share the words before them: the last one is what the words mean."""
    groups: list[tuple[str, list[tuple[Amount, bool]]]] = [("", [])]
    previous_end = 0
    for amount in amounts:
        between = line.folded[previous_end : amount.start]
        previous_end = amount.end
        if re.search(r"[a-z]{2}", _CURRENCY_CODE.sub("", between)) and not _BASE_BEFORE.fullmatch(
            between.strip()
        ):
            groups.append((between.strip(" :.-*|"), []))
        is_base = bool(_BASE_BEFORE.search(between)) and bool(re.search(_TAX, groups[-1][0]))
        groups[-1][1].append((amount, is_base))
    labelled = False
    for label, members in groups:
        for candidate in _group(line, label, members):
            labelled = True
            yield candidate
    if not labelled:
        yield from _from_headings(document, line, amounts)


def _group(line: Line, label: str, members: list[tuple[Amount, bool]]) -> Iterator[Candidate]:
    kinds = classify(label) if label and members else []
    for kind, score in kinds:
        for index, (amount, is_base) in enumerate(members):
            later = len(members) - 1 - index
            score_here = score - 0.12 * later
            yield _candidate(kind, score_here, amount, line, label=label, is_base=is_base)
    if kinds and kinds[0][0] == TOTAL and len(members) == 3:
        # The last row of a table with a column each for net, tax and gross.
        net, tax, total = (amount for amount, _ in members)
        if abs(net.value + tax.value - total.value) < _CENT and abs(tax.value) < abs(net.value):
            yield Candidate(NET, net, 0.7, line)
            yield Candidate(TAX, tax, 0.7, line)


def _candidate(
    kind: str, score: float, amount: Amount, line: Line, *, label: str, is_base: bool
) -> Candidate:
    rate = _RATE.search(label)
    cell = line.cell_at(amount.start)
    if is_base:
        kind, score = NET, 0.35
    if not amount.exact:
        alone = cell.text.strip(" :") == line.text[amount.start : amount.end].strip()
        ends = cell.text.rstrip().endswith(str(int(abs(amount.value))))
        score -= 0.2 if alone or ends else 0.45
    if len(label) > _LABEL_LENGTH:
        score -= 0.35  # A sentence, not a label.
    return Candidate(kind, amount, score, line, float(rate[1].replace(",", ".")) if rate else None)


def _from_headings(document: Document, line: Line, amounts: list[Amount]) -> Iterator[Candidate]:
    """Amounts below their headings: a line of two or more, or a figure under its name."""
    if re.search(r"[a-z]{4}", line.folded):
        return
    for amount in amounts:
        cell = line.cell_at(amount.start)
        for distance, above in enumerate(document.above(line, 3)):
            if is_table_heading(above):
                break
            heads = [head for head in above.cells if head.overlaps(cell, 1)]
            if not heads and distance == 0 and len(above.cells) == len(line.cells):
                heads = [above.cells[cell.index]]
            named = bool(heads) and not re.search(r"\d{2}", _RATE.sub("", heads[0].folded))
            kinds = classify(heads[0].folded) if named else []
            for kind, score in kinds if amount.exact else []:
                rate = _RATE.search(heads[0].folded)
                percent = float(rate[1].replace(",", ".")) if rate else None
                yield Candidate(kind, amount, score - 0.1 - 0.06 * distance, line, percent)
            if kinds:
                break


@dataclass(frozen=True)
class Sums:
    """What was chosen."""

    total: Found | None
    tax: Found | None
    net: Found | None
    due: Found | None
    rate: Found | None
    line: Line | None
    currency: str | None


def choose(candidates: list[Candidate]) -> Sums:
    """Choose the total, tax and net that are named best and add up."""
    totals = _top([c for c in candidates if c.kind in (TOTAL, DUE)], by_place=True)
    nets = _top([c for c in candidates if c.kind == NET], by_place=True)
    taxes = _top([c for c in candidates if c.kind == TAX], by_place=True)
    tax_options: list[tuple[Candidate, ...]] = [
        (),
        *((tax,) for tax in taxes),
        *_tax_sums(candidates),
    ]
    best: tuple[float, Candidate | None, Candidate | None, tuple[Candidate, ...], bool] = (
        -1.0,
        None,
        None,
        (),
        False,
    )
    for total, net, tax in itertools.product([None, *totals], [None, *nets], tax_options):
        score, consistent = _fit(total, net, tax, totals)
        if score > best[0] + 1e-9:
            best = (score, total, net, tax, consistent)
    _, total, net, tax, consistent = best
    return _sums(total, net, tax, consistent, candidates)


def _fit(
    total: Candidate | None,
    net: Candidate | None,
    tax: tuple[Candidate, ...],
    totals: list[Candidate],
) -> tuple[float, bool]:
    score = (1.3 * total.score if total else 0.0) + (0.5 * net.score if net else 0.0)
    if tax:
        score += 0.5 * sum(part.score for part in tax) / len(tax)
    tax_value = sum(part.value for part in tax)
    consistent = False
    if total and net and tax:
        if abs(net.value + tax_value - total.value) < _CENT:
            consistent = True
            score += 0.6 if tax_value and net.line is not total.line else 0.25
            if _rate_fits(net, tax):
                score += 0.1
        else:
            score -= 0.15
    if total and net and abs(net.value) > abs(total.value) + _CENT:
        score -= 0.5
    if total and tax and abs(tax_value) > abs(total.value) * 0.5 + _CENT:
        score -= 0.6
    if net and tax and abs(tax_value) > abs(net.value) * 0.6 + _CENT:
        score -= 0.5
    if total:
        score += 0.08 * min(2, sum(abs(t.value - total.value) < _CENT for t in totals) - 1)
        if total.value == 0 and any(t.value for t in totals):
            score -= 0.5
    return score, consistent


def _rate_fits(net: Candidate, tax: tuple[Candidate, ...]) -> bool:
    if len(tax) != 1 or tax[0].rate is None:
        return False
    return abs(net.value * tax[0].rate / 100 - tax[0].value) < 0.02 + abs(net.value) * 0.0006


def _tax_sums(candidates: list[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """Several taxes that are added: lines with different rates, on one page, near each other."""
    by_rate: dict[tuple[int, float | None, float], Candidate] = {}
    for candidate in candidates:
        if candidate.kind == TAX and candidate.value and candidate.score > 0.5:
            by_rate[(candidate.line.page, candidate.rate, candidate.value)] = candidate
    for _, group in itertools.groupby(by_rate.values(), key=lambda c: c.line.page):
        parts = list(group)[:5]
        for size in range(2, len(parts) + 1):
            yield from itertools.combinations(parts, size)


def _top(candidates: list[Candidate], by_place: bool) -> list[Candidate]:
    """The best, one per value; later lines win among equals, for sums stand at the end."""
    place = {id(c): index / max(1, len(candidates)) for index, c in enumerate(candidates)}
    ranked = sorted(
        candidates, key=lambda c: c.score + (0.05 * place[id(c)] if by_place else 0), reverse=True
    )
    kept: list[Candidate] = []
    for candidate in ranked:
        if all(abs(candidate.value - other.value) >= 0.005 for other in kept):
            kept.append(candidate)
    return kept[:_BEST]


def _sums(
    total: Candidate | None,
    net: Candidate | None,
    tax: tuple[Candidate, ...],
    consistent: bool,
    candidates: list[Candidate],
) -> Sums:
    bonus = 0.09 if consistent else 0.0
    repeats = sum(
        1
        for c in candidates
        if total and c.kind in (TOTAL, DUE) and abs(c.value - total.value) < _CENT
    )
    due = max((c for c in candidates if c.kind == DUE), key=lambda c: c.score, default=None)
    rates = {part.rate for part in tax if part.rate is not None}
    currency = next(
        (c.amount.currency for c in (total, net, *tax) if c and c.amount.currency), None
    )
    return Sums(
        _found(total, bonus + (0.04 if repeats > 1 else 0.0)),
        _tax_found(tax, bonus),
        _found(net, bonus),
        _found(due, 0.0),
        Found(rates.pop(), 0.85 + bonus, tax[0].line.page) if len(rates) == 1 else None,
        total.line if total else None,
        currency,
    )


def _found(candidate: Candidate | None, bonus: float) -> Found | None:
    if candidate is None:
        return None
    score = max(0.1, candidate.score)
    return Found(candidate.value, round(min(0.99, score + bonus), 2), candidate.line.page)


def _tax_found(tax: tuple[Candidate, ...], bonus: float) -> Found | None:
    if not tax:
        return None
    score = sum(part.score for part in tax) / len(tax) - (0.05 if len(tax) > 1 else 0)
    value = round(sum(part.value for part in tax), 2)
    return Found(value, round(min(0.99, max(0.1, score) + bonus), 2), tax[-1].line.page)


def choose_currency(document: Document, sums: Sums, language: str) -> Found | None:
    """The currency beside the total, else the one named or shown most, else the country's."""
    page = sums.line.page if sums.line else document.first_page
    if sums.currency:
        return Found(sums.currency, 0.97, page)
    votes: dict[str, float] = {}
    for code in named_currencies(document.text, document.folded):
        votes[code] = votes.get(code, 0) + 1
    if sums.line is not None:
        for code in named_currencies(sums.line.text, sums.line.folded):
            votes[code] = votes.get(code, 0) + 5
    dollar = False
    for line in document.lines:
        for amount in find_amounts(line.text):
            dollar |= amount.dollar
            if amount.currency:
                votes[amount.currency] = votes.get(amount.currency, 0) + 1
    dollars = {code: votes.get(code, 0) for code in ("USD", "CAD", "AUD", "NZD", "HKD", "SGD")}
    if dollar:
        named = max(dollars, key=dollars.__getitem__)
        return Found(named if dollars[named] else _dollar_country(document), 0.9, page)
    if votes:
        best = max(votes, key=votes.__getitem__)
        return Found(best, 0.93 if votes[best] == sum(votes.values()) else 0.75, page)
    if sums.total and language in ("de", "nl", "fr"):
        swiss = re.search(
            r"(?<![a-z])(?:che-|ch\d\d |schweiz|suisse|mwst-nr\. che)", document.folded
        )
        return Found("CHF" if swiss else "EUR", 0.4, page)
    return None


def _dollar_country(document: Document) -> str:
    if re.search(
        r"\bcanada\b|\b(?:ontario|quebec|alberta)\b|\b[a-z]\d[a-z] \d[a-z]\d\b", document.folded
    ):
        return "CAD"
    if re.search(r"\baustralia\b|\babn\b", document.folded):
        return "AUD"
    return "USD"
