"""Dates as people write them in four languages, read as ISO dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakequeue.simulator.reading.text import fold

_MONTHS: dict[int, str] = {
    1: "january jan januar janner jaenner januari janvier janv",
    2: "february feb februar februari fevrier fevr fev",
    3: "march mar marz maerz maart mrt mars mrz",
    4: "april apr avril avr",
    5: "may mai mei",
    6: "june jun juni juin",
    7: "july jul juli juillet juil",
    8: "august aug augustus aout",
    9: "september sep sept septembre",
    10: "october oct oktober okt octobre",
    11: "november nov novembre",
    12: "december dec dezember dez decembre",
}
MONTH_NUMBERS = {name: number for number, names in _MONTHS.items() for name in names.split()}
_NAMES = "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True))
_YEAR = r"(?P<y>(?:19|20)\d{2}|'?\d{2}(?!\d))"

_PATTERNS = (
    re.compile(
        r"(?<![\d/.-])(?P<y>(?:19|20)\d{2}) ?(?P<sep>[-/.]) ?(?P<m>0?[1-9]|1[0-2]) ?(?P=sep) ?"
        r"(?P<d>0?[1-9]|[12]\d|3[01])(?![\d])(?![-/]\d)"
    ),
    re.compile(
        r"(?<![\d/.-])(?P<a>\d{1,2}) ?(?P<sep>[-/.]) ?(?P<b>\d{1,2}) ?(?P=sep) ?"
        r"(?P<y>(?:19|20)\d{2}|\d{2})(?![\d])(?![-/.]\d)"
    ),
    re.compile(
        rf"(?<![\d.,])(?P<d>\d{{1,2}}) ?(?:\.|st|nd|rd|th|er|e|ste|de)?(?: of| de)?[ .\-/]{{0,2}}"
        rf"(?P<name>{_NAMES})(?![a-z])[ .,\-/]{{0,3}}{_YEAR}(?!\d)"
    ),
    re.compile(
        rf"(?<![a-z])(?P<name>{_NAMES})\.?[ \-]?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: ?, ?| |-)"
        r"(?P<y>(?:19|20)\d{2})(?!\d)"
    ),
    re.compile(
        rf"(?<![\d])(?P<y>(?:19|20)\d{{2}})[ \-.](?P<name>{_NAMES})[ \-.](?P<d>\d{{1,2}})(?!\d)"
    ),
    re.compile(r"(?P<y>(?:19|20)\d{2}) ?年 ?(?P<m>\d{1,2}) ?月 ?(?P<d>\d{1,2}) ?日"),
)
MONTH_YEAR = re.compile(rf"(?<![a-z])(?P<name>{_NAMES})\.? (?P<y>(?:19|20)\d{{2}})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)((?:19|20)\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?!\d)")


@dataclass(frozen=True)
class DateFound:
    """A date in a line. `other` is the reading with day and month exchanged, if there is one."""

    value: datetime.date
    other: datetime.date | None
    start: int
    end: int


def find_dates(text: str, day_first: bool = True, compact: bool = False) -> list[DateFound]:
    """All dates of a line, left to right; 03/04/2024 is read by `day_first`."""
    folded = fold(text)
    found: list[DateFound] = []
    for pattern in (*_PATTERNS, *((_COMPACT,) if compact else ())):
        for match in pattern.finditer(folded):
            if any(match.start() < known.end and known.start < match.end() for known in found):
                continue
            date, other = _from_match(match, day_first)
            if date is not None:
                found.append(DateFound(date, other, match.start(), match.end()))
    return sorted(found, key=lambda date: date.start)


def prefers_day_first(folded: str, language: str) -> bool:
    """Whether 03/04/2024 is the third of April here: by the other dates, language, country."""
    votes = 0
    for match in _PATTERNS[1].finditer(folded):
        first, second = int(match["a"]), int(match["b"])
        if first > 12 >= second:
            votes += 1
        elif second > 12 >= first:
            votes -= 1
    if votes:
        return votes > 0
    if language != "en":
        return True
    american = len(re.findall(_AMERICAN, folded))
    european = len(re.findall(_EUROPEAN, folded))
    return european >= american if european or american else "$" not in folded


_AMERICAN = (
    r"\b(?:usd|united states|u\.s\.a|usa|us dollars?|sales tax|zip|ein|routing)\b|"
    r"\b(?:al|ak|az|ar|ca|co|ct|de|fl|ga|hi|id|il|in|ia|ks|ky|la|me|md|ma|mi|mn|ms|mo|mt|ne|nv|nh|"
    r"nj|nm|ny|nc|nd|oh|ok|or|pa|ri|sc|sd|tn|tx|ut|vt|va|wa|wv|wi|wy),? {1,2}\d{5}\b|"
    r"\(\d{3}\)[ -]?\d{3}-\d{4}|\$ ?\d"
)
_EUROPEAN = (
    r"£|€|\b(?:gbp|eur|vat|united kingdom|england|scotland|ireland|australia|new zealand|abn|"
    r"london|ltd|sort code|iban|gst|india|plc)\b|\b[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}\b"
)


def choose_order(found: Iterable[tuple[DateFound, DateFound]], days: int | None) -> bool | None:
    """Whether to exchange day and month, judged by (invoice date, due date); None: no judgement.

    A due date is not before its invoice, and where the terms name the days, they decide.
    """
    for invoice, due in found:
        if invoice.other is None or due.value == invoice.value:
            continue
        usual = (due.value - invoice.value).days
        exchanged = ((due.other or due.value) - invoice.other).days
        if days is not None and usual != exchanged and days in (usual, exchanged):
            return days == exchanged
        if usual < 0 <= exchanged <= 120:
            return True
    return None


def _from_match(
    match: re.Match[str], day_first: bool
) -> tuple[datetime.date | None, datetime.date | None]:
    """The date, and the other reading where day and month could be meant either way."""
    groups = match.groupdict()
    if "a" in groups:
        return _by_order(groups, day_first)
    if not groups:
        year, month, day = match.groups()
        return _date(int(year), int(month), int(day)), None
    name = groups.get("name")
    month_number = MONTH_NUMBERS[name] if name else int(groups["m"])
    return _date(_year(groups["y"]), month_number, int(groups["d"])), None


def _by_order(
    groups: dict[str, str], day_first: bool
) -> tuple[datetime.date | None, datetime.date | None]:
    first, second, year = int(groups["a"]), int(groups["b"]), _year(groups["y"])
    as_day_first, as_month_first = _date(year, second, first), _date(year, first, second)
    if groups["sep"] == "." or first == second:
        return as_day_first, None
    if as_day_first is None or as_month_first is None:
        return as_day_first or as_month_first, None
    return (as_day_first, as_month_first) if day_first else (as_month_first, as_day_first)


def _year(digits: str) -> int:
    year = int(digits.strip("'"))
    return year if year >= 100 else year + (2000 if year < 70 else 1900)


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
