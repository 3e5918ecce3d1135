"""Who sent a document and who received it."""

# ruff: noqa: E501, RUF001 - the words stand in rows, signs as documents have them

from __future__ import annotations

import re

from lakequeue.simulator.reading.dates import find_dates
from lakequeue.simulator.reading.labels import Label, is_table_heading
from lakequeue.simulator.reading.numbers import find_amounts
from lakequeue.simulator.reading.spots import SAME_CELL, spots
from lakequeue.simulator.reading.text import Cell, Document, Found

COMPANY = re.compile(
    r"(?:^|[\s,])(?:(?i:GmbH(?: & Co\.? ?KG(?:aA)?)?|Ltd\.?|Limited|LLC|L\.L\.C\.|LLP|Inc\.?|Incorporated|"
    r"Corp\.?|Corporation|PLC|Pty|SARL|S\.A\.R\.L\.?|EURL|BVBA|SPRL|Stiftung|Stichting|University|"
    r"Universität|Association|Company)|"
    r"AG|KG|OHG|GbR|UG|e\.? ?K\.?|e\.? ?V\.?|mbH|B\.? ?V\.?|N\.? ?V\.?|V\.?O\.?F\.?|SRL|SAS|SASU|"
    r"S\.A\.S\.?|S\.A\.?|SA|SNC|SCI|S\.?p\.?A\.?|S\.?r\.?l\.?|S\.?L\.?|Oy|AB|ApS|A/S|(?:& )?Co\.|"
    r"& Söhne|& Sons|& Zonen|& Fils|Holding|Group|Verein|Bank)(?=$|[\s,.;:)\-–|·])"
)
_KIND_WORDS = re.compile(
    r"^\W*(?:tax |vat |commercial |pro[- ]?forma |sales |original |duplicate )*"
    r"(?:invoice|receipt|credit ?(?:note|memo)|statement|bill|quote|quotation|"
    r"rechnung(?:skopie)?|gutschrift|stornorechnung|quittung|mahnung|angebot|lieferschein|"
    r"(?:credit)?factuur|creditnota|kwitantie|bon|offerte|kassabon|"
    r"facture|avoir|recu|devis|note de credit|original|copy|kopie|copie|duplicata)\W*"
    r"(?:\W*(?:no|nr|n°|#)?[\W\d].*)?$"
)
_NO_NAME = re.compile(
    r"@|www\.|https?:|^\W*(?:(?:tele)?(?:fax|phone|fon|foon)|tel|mobile?|e-?mail|web|internet|iban|"
    r"bic|swift|vat|ust|btw|tva|kvk|siret|siren|page|seite|pagina|date|datum|numero|nummer|number)(?![a-z])|"
    r"^\W*(?:no\.|nr\.|n°|mr\.?$|mrs\.?$|herrn?$|frau$|"
    r"net \d|\d+ (?:days|tage|dagen|jours)|(?:\w+)?(?:adresse?|address|anschrift)$|"
    r"attn|z\. ?hd|t\.a\.v|p\.?o\.? box|postfach|postbus|hrb|registered|company (?:no|reg)|ein\b|abn\b)"
)
_STREET = re.compile(
    r"^\W*\d+[a-z]?,? (?:\w+[ .]){1,4}|"
    # German and Dutch streets are one word with their kind, and have a number.
    r"(?:strasse|straße|str\.|weg|platz|allee|gasse|ufer|damm|ring|markt|hof|graben|laan|straat|plein|"
    r"kade|gracht|dijk|singel|street|steeg|pad) ?\d+ ?[a-z]?(?:[-/]\d+)?\W*$|"
    r"(?<![a-z])(?:street|st\.?|road|rd\.?|avenue|ave\.?|lane|drive|dr\.|blvd|way|square|court|rue|"
    r"boulevard|chemin|impasse|quai|cours|allee|zac)\W*$|"
    r"^\W*(?:\d+,? )?(?:bis |ter )?(?:rue|avenue|boulevard|chemin|impasse|quai|place|allee|route)\b|"
    r"^\W*(?:[a-z]{1,2}-)?\d{4,5}(?: ?[a-z]{2})? [a-z]|^\W*\d{4} ?[a-z]{2}$|\b[a-z]{2} \d{5}(?:-\d{4})?\b|"
    r"\b[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}\b|"
    r"^\W*(?:deutschland|germany|nederland|netherlands|france|belgi(?:e|um|que)|schweiz|suisse|"
    r"switzerland|osterreich|austria|united (?:kingdom|states)|usa|uk|england|luxembourg|espana|italia)\W*$"
)
_POSTAL = re.compile(r"\W*(?:[a-z]{1,2}-)?\d{4,5}(?: ?[a-z]{2})? [a-z]")
_SENTENCE = re.compile(r"[^\W\d]{4,}\.$|(?:\S+ ){5,}\S+\.$|(?:[^\W\d]{2,} ){3,}[^\W\d]{3,}\.$")
_LONGEST_NAME = 90
_SALUTATION = re.compile(r"(?:herrn?|frau|mr|mrs|ms|monsieur|madame|m|mme|de heer|mevrouw)\.?")
_SLACK = 2
_MOST_WORDS = 8
_MOST_DIGITS = 4
_SENDER_LINE = re.compile(r"\s+[-–—·•|*]\s+|\s*[·•|]\s*|,\s+(?=\D*\d)")


def clean_name(text: str) -> str:
    """A name without labels, bullets and what follows it on its line."""
    text = _SENDER_LINE.split(text.strip())[0]
    return re.sub(
        r"^(?:attn|attention|z\. ?hd\.?|t\.a\.v\.?|m/s)[.: ]+", "", text, flags=re.I
    ).strip(" ,;:.-–—|·•*#\"'" if not COMPANY.search(text) else " ,;:-–—|·•*#\"'")


def looks_like_name(cell: Cell) -> bool:
    """Whether a cell may name a person or company: letters, no address, date, amount or label."""
    text, folded = cell.text, cell.folded
    if is_table_heading(cell.line) or _POSTAL.match(folded) or find_dates(text):
        return False
    if _is_sender_line(cell):
        text = _SENDER_LINE.split(text)[0]
        folded = folded[: len(text)]
    letters = sum(character.isalpha() for character in text)
    if letters < 3 or len(text) > _LONGEST_NAME:
        return False
    if _KIND_WORDS.match(folded) or _NO_NAME.search(folded):
        return False
    return COMPANY.search(text) is not None or _reads_like_name(text, folded)


def _reads_like_name(text: str, folded: str) -> bool:
    """The same without the help of a company's legal form: short, and no sentence."""
    if text.startswith("(") or text.endswith((":", "?", "!")) or re.search(r"\w: ", text):
        return False
    if _SENTENCE.search(text) or _STREET.search(folded):
        return False
    digits = sum(character.isdigit() for character in text)
    money = any(amount.exact for amount in find_amounts(text))
    return digits <= _MOST_DIGITS and not money and len(text.split()) <= _MOST_WORDS


def find_customer(
    document: Document, labels: list[Label], others: dict[int, list[Label]]
) -> Found | None:
    """The name at a customer label, else the address window of a letter."""
    best: Found | None = None
    for label in labels:
        if label.kind != "customer" or not label.at_start:
            continue
        found = _name_at(document, label, others)
        if found and (best is None or found.confidence > best.confidence):
            best = found
    return best


def find_issuer(
    document: Document,
    labels: list[Label],
    others: dict[int, list[Label]],
    customer: Found | None,
) -> Found | None:
    """The name at a sender label, else the company that the page's head or foot names."""
    for label in labels:
        if label.kind == "issuer" and label.at_start:
            found = _name_at(document, label, others)
            if found and not _same(found, customer):
                return found
    taken = {label.cell.text for label in labels if label.at_start}
    first = [line for line in document.lines if line.page == document.first_page]
    table = next((at for at, line in enumerate(first) if is_table_heading(line)), len(first))
    head, rest = first[: min(14, table)], first[table:]
    candidates: list[tuple[float, Found]] = []
    repeated = document.folded
    for order, cell in enumerate(cell for line in head for cell in line.cells):
        if cell.text in taken or not looks_like_name(cell) or _below_customer(cell, labels):
            continue
        name = clean_name(cell.text)
        if not name or _same(Found(name, 0, 1), customer):
            continue
        score = 0.62 - 0.015 * order
        score += 0.22 if COMPANY.search(cell.text) else 0.0
        score += 0.08 if repeated.count(cell.folded.strip()) > 1 else 0.0
        score += 0.1 if _SENDER_LINE.search(cell.text) and re.search(r"\d{4}", cell.text) else 0.0
        score += 0.06 if _domain_matches(name, document) else 0.0
        candidates.append(
            (score, Found(name, round(min(0.93, max(0.2, score)), 2), cell.line.page))
        )
    for line in rest[-12:]:
        for cell in line.cells:
            if COMPANY.search(cell.text) and looks_like_name(cell):
                name = clean_name(cell.text)
                if not _same(Found(name, 0, 1), customer):
                    score = 0.6 + (0.08 if _domain_matches(name, document) else 0.0)
                    candidates.append((score, Found(name, round(score, 2), line.page)))
    return max(candidates, key=lambda pair: pair[0], default=(0.0, None))[1]


def side_by_side(document: Document, language: str) -> tuple[Found, Found] | None:
    """Issuer and customer where two address blocks stand side by side without labels.

    The customer's is where envelopes have their window: on the left, in France on the right.
    """
    for line in [line for line in document.lines if line.page == document.first_page][:12]:
        if is_table_heading(line):
            return None
        cells = [
            cell
            for cell in line.cells
            if looks_like_name(cell)
            and any(_STREET.search(other.folded) for other in _block_below(document, cell))
        ]
        if len(cells) != 2 or len(line.cells) != 2:
            continue
        names = [Found(clean_name(cell.text), 0.55, line.page) for cell in cells]
        return (names[0], names[1]) if language == "fr" else (names[1], names[0])
    return None


def find_addressee(document: Document, issuer: Found | None) -> Found | None:
    """The first name of an address block that is not the sender's: a letter's window."""
    first = [line for line in document.lines if line.page == document.first_page][:30]
    for line in first:
        for cell in line.cells:
            if not looks_like_name(cell) or _same(Found(clean_name(cell.text), 0, 1), issuer):
                continue
            if _is_sender_line(cell) or _starts_inside_block(document, cell):
                continue
            block = _block_below(document, cell)
            if _addressed(document, cell):
                return Found(clean_name(cell.text), 0.6, line.page)
            if any(_STREET.search(other.folded) for other in block) and not any(
                _same(Found(clean_name(other.text), 0, 1), issuer) for other in block
            ):
                return Found(clean_name(cell.text), 0.62, line.page)
    return None


def _is_sender_line(cell: Cell) -> bool:
    return bool(_SENDER_LINE.search(cell.text)) and bool(re.search(r"\d{4}", cell.text))


def _name_at(document: Document, label: Label, others: dict[int, list[Label]]) -> Found | None:
    for spot in spots(document, label, others[label.line.number]):
        # The cell to the right belongs to another column when it stands far away.
        right = spot.line is label.line and spot.nearness < SAME_CELL
        if right and label.line.text[label.end : spot.start].strip(" ") not in ("", ":"):
            continue
        if right and (spot.start - label.end > 30 or _heads_column(document, label)):
            continue
        cell = Cell(spot.line, 0, spot.start, spot.end)
        if looks_like_name(cell):
            name = clean_name(spot.text)
            if len(name) > 1:
                return Found(name, round(label.strength * spot.nearness, 2), spot.line.page)
    return None


def _heads_column(document: Document, label: Label) -> bool:
    """Whether names stand below a label, so that its right neighbour is another heading."""
    below = next(document.below(label.line, 1), None)
    return below is not None and any(
        cell.overlaps(label.cell) and looks_like_name(cell) for cell in below.cells
    )


def _below_customer(cell: Cell, labels: list[Label]) -> bool:
    """Whether a cell is part of the block below a customer's or delivery's label."""
    for label in labels:
        if label.kind not in ("customer", "not_customer") or not label.at_start:
            continue
        if label.line.page != cell.line.page:
            continue
        distance = cell.line.number - label.line.number
        if 0 <= distance <= 5 and label.cell.overlaps(cell):
            return True
    return False


def _block_below(document: Document, cell: Cell) -> list[Cell]:
    """The cells right below in the same column, without a blank line between."""
    block: list[Cell] = []
    for line in document.below(cell.line, 5):
        if line.blanks_before > 1:
            break
        under = [
            other
            for other in line.cells
            if abs(other.start - cell.start) <= 2 or abs(other.end - cell.end) <= 2
        ]
        block.extend(under[:1])
    return block


def _starts_inside_block(document: Document, cell: Cell) -> bool:
    if cell.line.blanks_before:
        return False
    above = next(document.above(cell.line, 1), None)
    return above is not None and any(
        abs(other.start - cell.start) <= 2 and looks_like_name(other) and not _is_sender_line(other)
        for other in above.cells
    )


def _addressed(document: Document, cell: Cell) -> bool:
    """Whether the line above is how an address begins: Herrn, Frau, Monsieur."""
    above = next(document.above(cell.line, 1), None)
    return above is not None and any(
        abs(other.start - cell.start) <= _SLACK and _SALUTATION.fullmatch(other.folded)
        for other in above.cells
    )


def _domain_matches(name: str, document: Document) -> bool:
    word = re.sub(r"[^a-z0-9]", "", re.sub(COMPANY, " ", name).lower())
    domains = re.findall(r"(?:www\.|@|https?://)([a-z0-9\-.]+)", document.folded)
    squeezed = [re.sub(r"[^a-z0-9]", "", domain.rsplit(".", 1)[0]) for domain in domains]
    return len(word) > 2 and any(
        word[:12] in domain or domain in word for domain in squeezed if domain
    )


def _same(one: Found, other: Found | None) -> bool:
    if other is None:
        return False
    first, second = (re.sub(r"\W", "", str(found.value)).lower() for found in (one, other))
    return bool(first) and bool(second) and (first in second or second in first)


def cell_of(document: Document, text: str) -> Cell | None:
    """The first cell that holds a text."""
    for line in document.lines:
        for cell in line.cells:
            if text in cell.text:
                return cell
    return None
