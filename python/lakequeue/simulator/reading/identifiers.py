"""Numbers with a shape of their own: IBAN, BIC, VAT registration."""

# ruff: noqa: E501 - the words stand in rows

from __future__ import annotations

import re

from lakequeue.simulator.reading.text import Cell, Document, Found, Line

_IBAN = re.compile(r"(?<![A-Z0-9])([A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8})(?![A-Z0-9])")
_IBAN_LENGTHS = {
    "AT": 20, "BE": 16, "CH": 21, "CZ": 24, "DE": 22, "DK": 18, "ES": 24, "FI": 18, "FR": 27, "GB": 22,
    "GR": 27, "HU": 28, "IE": 22, "IT": 27, "LI": 21, "LU": 20, "NL": 18, "NO": 15, "PL": 28, "PT": 25,
    "SE": 24,
}  # fmt: skip
_BIC = re.compile(
    r"(?:bic|swift)(?:[ \-/]*(?:code|bic|swift))?[ :.\-/]*([A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?)(?![A-Z0-9])",
    re.IGNORECASE,
)
_VAT = re.compile(
    r"(?<![A-Z0-9])("
    r"ATU ?\d{8}|BE ?[01]?\d{3}[ .]?\d{3}[ .]?\d{3}|CHE[- ]?\d{3}\.?\d{3}\.?\d{3}|DE ?\d{3} ?\d{3} ?\d{3}|"
    r"DK ?\d{8}|ES ?[A-Z0-9]\d{7}[A-Z0-9]|FI ?\d{8}|FR ?[A-Z0-9]{2} ?\d{3} ?\d{3} ?\d{3}|"
    r"GB ?\d{3} ?\d{4} ?\d{2}(?: ?\d{3})?|IE ?\d[A-Z0-9]\d{5}[A-Z]{1,2}|IT ?\d{11}|LU ?\d{8}|"
    r"NL ?\d{3}\.?\d{3}\.?\d{3}\.?B\.?\d{2}|PL ?\d{10}|PT ?\d{9}|SE ?\d{12})(?![A-Z0-9])"
)
_VAT_LABEL = re.compile(
    r"vat|tax id|ust|mwst|umsatzsteuer|btw|tva|intracom|uid|tin\b|gst (?:no|reg)", re.IGNORECASE
)
_LABELLED_VAT = re.compile(
    r"(?:vat|tax|gst|mwst|ust|btw|tva)[ .\-]{0,3}(?:reg(?:istration|\.)?|id(?:ent)?)?[ .\-]{0,3}"
    r"(?:identification )?(?:number|no\.?|nr\.?|nummer|id|#)[ .:]+"
    r"([A-Z]{0,3}[\d][\d .\-]{6,16}\d[A-Z]{0,3}\d{0,2})",
    re.IGNORECASE,
)


def find_iban(document: Document) -> Found | None:
    """The first IBAN whose check digits are right; a labelled one that fails counts little."""
    doubtful: Found | None = None
    for line in document.lines:
        for match in _IBAN.finditer(line.text.upper()):
            iban = re.sub(r"\s", "", match[1])
            length = _IBAN_LENGTHS.get(iban[:2])
            iban = iban[:length] if length else iban
            labelled = "iban" in line.folded
            if iban_is_valid(iban) and (length is None or len(iban) == length):
                return Found(iban, 0.99 if labelled else 0.95, line.page)
            if labelled and length == len(iban) and doubtful is None:
                doubtful = Found(iban, 0.55, line.page)
    return doubtful


def iban_is_valid(iban: str) -> bool:
    """ISO 13616: moved by four, letters as numbers, the rest by 97 is 1."""
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", iban):
        return False
    return int("".join(str(int(c, 36)) for c in iban[4:] + iban[:4])) % 97 == 1


def find_bic(document: Document) -> Found | None:
    """A bank's code; its label is needed, since eight capitals may be any word."""
    for line in document.lines:
        match = _BIC.search(line.text)
        if match and match[1].isupper():
            return Found(match[1], 0.96, line.page)
    return None


def find_vat_ids(document: Document, customer: Cell | None) -> tuple[Found | None, Found | None]:
    """The issuer's and the customer's VAT numbers; the customer's stands below its name."""
    found: list[tuple[Line, int, Found]] = []
    for line in document.lines:
        taken = [
            match.span(1)
            for match in _IBAN.finditer(line.text)
            if iban_is_valid(re.sub(r"\s", "", match[1]))
        ]
        for match in [*_VAT.finditer(line.text), *_LABELLED_VAT.finditer(line.text)]:
            if any(start <= match.start(1) < end for start, end in taken):
                continue
            labelled = _VAT_LABEL.search(line.text) is not None
            if labelled or match.re is _LABELLED_VAT or " " not in match[1]:
                value = re.sub(r"[ .]", "", match[1]).strip("-")
                if all(value not in str(known.value) for _, _, known in found):
                    confidence = 0.97 if labelled else 0.75
                    found.append((line, match.start(1), Found(value, confidence, line.page)))
    customers = [item for item in found if _is_customers(item[0], item[1], customer)]
    issuers = [item for item in found if item not in customers]
    if not issuers and len(customers) > 1:
        issuers = [customers.pop()]
    if (
        not issuers
        and customers
        and not re.search(
            r"your|ihre|uw |votre|client|kunde|klant|customer", customers[0][0].folded
        )
    ):
        issuers, customers = customers, []
    return (issuers[0][2] if issuers else None, customers[0][2] if customers else None)


def _is_customers(line: Line, position: int, customer: Cell | None) -> bool:
    if re.search(
        r"(?:your|ihre|uw|votre|customer|client|kunden?|klant)[ \-']", line.folded[:position]
    ):
        return True
    if customer is None or line.page != customer.line.page:
        return False
    distance = line.number - customer.line.number
    return 0 <= distance <= 5 and abs(line.cell_at(position).start - customer.start) <= 3
