"""Amounts as people write them: 1.234,56 and 1,234.56 and 1 234,56 and 1'234.56, signs, codes."""

# ruff: noqa: RUF001 - signs as documents have them

from __future__ import annotations

import re
from dataclasses import dataclass

CODES = (
    "EUR|USD|GBP|CHF|CAD|AUD|NZD|JPY|CNY|HKD|SGD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|INR|BRL|MXN|ZAR|"
    "TRY|AED|SAR|ILS|KRW|THB|MYR|IDR|PHP"
)
_SYMBOLS = {
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "zł": "PLN",
    "₺": "TRY",
    "₪": "ILS",
    "₩": "KRW",
    "us$": "USD",
    "ca$": "CAD",
    "c$": "CAD",
    "cdn$": "CAD",
    "a$": "AUD",
    "au$": "AUD",
    "nz$": "NZD",
    "hk$": "HKD",
    "s$": "SGD",
    "r$": "BRL",
    "fr.": "CHF",
    "sfr.": "CHF",
    "sfr": "CHF",
    "euro": "EUR",
    "euros": "EUR",
}
_CURRENCY = (
    rf"(?:(?:{CODES})(?![a-z])|US\$|CA\$|CDN\$|C\$|AU\$|A\$|NZ\$|HK\$|S\$|R\$|[€$£¥₹₺₪₩]|zł|"
    r"SFr\.?|Fr\.|euros?(?![a-z]))"
)
# Grouped with one kind of separator, or plain; then decimals, or the ",-" of round prices.
_DIGITS = (
    r"(?:\d{1,3}(?:(?P<group>[.,'’ ])\d{3})(?:(?P=group)\d{3})*|\d+)"
    r"(?:[.,]\s?(?:\d{1,4}(?!\d)|[-–—]{1,2}))?"
)
_AMOUNT = re.compile(
    rf"(?<![\w.,/])(?P<open>\()?(?P<sign>[-−–+]\s?)?(?P<before>{_CURRENCY}\s?)?"
    rf"(?P<sign2>[-−–]\s?)?(?P<digits>{_DIGITS})(?P<after_sign>\s?[-−](?![\w\d]))?"
    rf"(?P<after>\s?{_CURRENCY})?(?P<close>\))?(?P<credit>\s?CR\b)?",
    re.IGNORECASE,
)
_UNIT_AFTER = re.compile(
    r"\s?(?:%|‰|prozent|percent|procent|pourcent|pct|kg|g\b|km|m2|m²|m³|l\b|h\b|hrs?\b|hours?\b|"
    r"std\b|stk\b|stunden|uur|uren|heures?|jours?|tage[n]?\b|days?\b|dagen|pcs?\b|stuks?\b|x\b|"
    r"units?\b|kwh|gb\b|mb\b)",
    re.IGNORECASE,
)
_DATE_LIKE = re.compile(
    r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2}|"
    r"\d{1,2}\.? ?(?:st|nd|rd|th|er)? ?[A-Za-zäéûÉ]{3,10}\.? ?,? ?(?:19|20)\d\d|"
    r"[A-Za-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)? ?, ?(?:19|20)\d\d|\d{1,2}:\d\d"
)


@dataclass(frozen=True)
class Amount:
    """A number in a line. `exact`: it has two decimals or a currency, so it is money."""

    value: float
    start: int
    end: int
    currency: str | None
    dollar: bool
    exact: bool


def find_amounts(text: str) -> list[Amount]:
    """All numbers of a line that may be money: no dates, percentages, quantities with a unit."""
    text = text.replace("\u00a0", " ").replace("\u202f", " ").replace("\u2009", " ")
    dates = [match.span() for match in _DATE_LIKE.finditer(text)]
    found: list[Amount] = []
    position = 0
    while match := _AMOUNT.search(text, position):
        position = max(match.end(), position + 1)
        if any(start < match.end("digits") and match.start("digits") < end for start, end in dates):
            continue
        if re.search(r"\w[-/#]$", text[: match.start()]):
            continue  # The end of a code such as A-12.
        following = text[match.end() :]
        if following[:1].isalnum() or re.match(r"[./,:-]\d|['’]\d", following):
            # Part of a code such as 12-345/A: what is joined to it is no amount either.
            joined = re.match(r"[\w./,:'’-]+", following)
            position = match.end() + (joined.end() if joined else 0)
            continue
        currency = match["before"] or match["after"]
        if not currency and _UNIT_AFTER.match(following):
            continue
        digits = match["digits"]
        value = parse_number(digits)
        if value is None:
            continue
        negative = bool(
            (match["sign"] and match["sign"].strip() in "-−–")
            or match["sign2"]
            or match["after_sign"]
            or match["credit"]
            or (match["open"] and match["close"])
        )
        decimals = re.search(r"[.,]\s?(\d\d|[-–—]{1,2})$", digits) is not None
        symbol = (currency or "").strip().lower()
        found.append(
            Amount(
                -value if negative and value else value,
                match.start(),
                match.end(),
                _currency_code(symbol),
                symbol == "$",
                bool(currency) or decimals,
            )
        )
    return found


def parse_number(digits: str) -> float | None:
    """The number that a string of digits and separators means."""
    digits = re.sub(r"[.,]\s?[-–—]{1,2}$", "", digits)
    digits = re.sub(r"[\s'’]", "", digits)
    marks = [character for character in digits if character in ".,"]
    if not marks:
        return _to_float(digits)
    last = marks[-1]
    head, _, tail = digits.rpartition(last)
    if len(set(marks)) > 1:
        decimal = True  # The last kind of separator marks the decimals.
    elif len(marks) > 1:
        decimal = False  # 1.234.567
    else:
        # 1.234 is a thousand in bookkeeping; 0.500 is a half.
        decimal = len(tail) != 3 or head in ("", "0")
    if decimal:
        return _to_float(re.sub(r"[.,]", "", head) + "." + tail)
    return _to_float(re.sub(r"[.,]", "", digits))


def _to_float(digits: str) -> float | None:
    try:
        value = float(digits)
    except ValueError:
        return None
    return round(value, 4) if value < 1e12 else None


def _currency_code(symbol: str) -> str | None:
    if not symbol or symbol == "$":
        return None
    return _SYMBOLS.get(symbol, symbol.upper() if len(symbol) == 3 else None)


_CODE_WORD = re.compile(rf"(?<![A-Za-z0-9])(?:{CODES})(?![A-Za-z0-9])")
_NAMES = (
    (re.compile(r"\bus dollars?\b|\bu\.s\. dollars?\b"), "USD"),
    (re.compile(r"\bcanadian dollars?\b"), "CAD"),
    (re.compile(r"\baustralian dollars?\b"), "AUD"),
    (re.compile(r"\bpounds? sterling\b|\bbritish pounds?\b"), "GBP"),
    (re.compile(r"\beuros?\b"), "EUR"),
    (re.compile(r"\bschweizer franken\b|\bswiss francs?\b|\bfrancs suisses\b"), "CHF"),
)


def named_currencies(text: str, folded: str) -> list[str]:
    """Currency codes and names that stand in a text, with repeats."""
    names = [code for pattern, code in _NAMES for _ in pattern.finditer(folded)]
    return [match[0] for match in _CODE_WORD.finditer(text)] + names
