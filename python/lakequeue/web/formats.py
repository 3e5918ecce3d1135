"""How values are written on pages: one way for each kind, and a dash for what is not known."""

from __future__ import annotations

import datetime
import json
import math
import re
from decimal import Decimal
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

UNKNOWN = "\N{EN DASH}"
MINUTE, HOUR, DAY = 60, 3600, 86400

STATUS_ORDER = ("enqueued", "processing", "completed", "failed", "cancelled")

ABBREVIATIONS = frozenset({"bic", "iban", "vat"})

EVENT_KINDS = (
    "agent_paused",
    "agent_resumed",
    "cancel_requested",
    "retried",
    "reprocessed",
    "priority_set",
    "agent_configured",
    "endpoint_configured",
    "price_set",
    "person_set",
    "time_zone_set",
    "costs_asked",
    "costs_cancelled",
    "purged",
    "quiesced",
    "moved",
    "rate_limited",
    "lease_expired",
    "adopted",
    "late_result",
    "late_success",
    "sweep_error",
)
"""What the event log may hold, people's acts first."""

KINDS = {
    "enqueued": "Enqueued",
    "claimed": "Claimed by a worker",
    "attempt_running": "Attempt runs",
    "attempt_succeeded": "Attempt succeeded",
    "attempt_failed": "Attempt failed",
    "attempt_expired": "Lease expired",
    "attempt_rate_limited": "Given back: rate limit",
    "attempt_cancelled": "Attempt cancelled",
    "attempt_superseded": "Attempt superseded",
    "rate_limited": "The model endpoint answered 429",
    "cancel_requested": "Cancel",
    "retried": "Retry",
    "reprocessed": "Reprocessed",
    "priority_set": "Priority changed",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Cancelled",
}


def number(value: float | Decimal | None) -> str:
    """With thousands separators."""
    return UNKNOWN if value is None else f"{value:,}"


def usd(value: float | Decimal | None) -> str:
    """Dollars; small amounts with as many digits as say something."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    if amount == 0:
        return "$0.00"
    if amount >= 0.995:
        return f"${amount:,.2f}"
    digits = min(8, max(2, 1 - math.floor(math.log10(amount))))
    return f"${amount:.{digits}f}"


def money(value: float | Decimal | None, currency: str | None) -> str:
    """An amount in its own currency; what billing took back is negative."""
    if value is None or currency is None:
        return UNKNOWN
    amount = usd(-value if value < 0 else value)
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    return f"{sign}{amount}" if currency == "USD" else f"{sign}{amount[1:]} {currency}"


def duration(value: datetime.timedelta | float | None) -> str:
    """A length of time by its two largest units."""
    if value is None:
        return UNKNOWN
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)
    seconds = max(0.0, seconds)
    if seconds < 0.995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < MINUTE:
        return f"{seconds} s"
    for unit, name, small, small_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if seconds >= unit:
            rest = seconds % unit // small
            return f"{seconds // unit} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{seconds} s"


def percent(value: float | None) -> str:
    """A share of one; never rounded up to 100 %."""
    if value is None:
        return UNKNOWN
    shown = round(value * 100)
    return f"{99 if shown == 100 and value < 1 else shown} %"


def deviation(value: float | None) -> str:
    """How far something is from what was expected, as a signed part of it."""
    if value is None:
        return UNKNOWN
    shown = round(value * 100)
    sign = "+" if shown > 0 else "\N{MINUS SIGN}" if shown < 0 else "\N{PLUS-MINUS SIGN}"
    return f"{sign}{abs(shown):,} %"


def counted(value: int, most: int) -> str:
    """A count that stops at `most`."""
    return f"{value:,} or more" if value >= most else f"{value:,}"


def sql_literal(text: str) -> str:
    """Text as SQL has it, for a call that somebody copies."""
    return "'" + text.replace("'", "''") + "'"


def size(value: int | None) -> str:
    """Bytes in the unit that reads best."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return (
                f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
            )
        amount /= 1000
    return UNKNOWN


def moment(value: datetime.datetime | str | None, zone: ZoneInfo) -> Markup:
    """A time in the reporting zone, exact for programs and on hover."""
    if value is None:
        return escape(UNKNOWN)
    at = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    local = at.astimezone(zone)
    now = datetime.datetime.now(zone)
    if local.date() == now.date():
        shown = f"{local:%H:%M:%S}"
    elif local.year == now.year:
        shown = f"{local.day} {local:%b %H:%M}"
    else:
        shown = f"{local.day} {local:%b %Y}"
    title = f"{local:%Y-%m-%d %H:%M:%S} {zone.key}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.astimezone(datetime.UTC).isoformat(), title, shown
    )


def day(value: datetime.date) -> str:
    """A date as people write it."""
    return f"{value.day} {value:%b %Y}"


def file_name(path: str) -> str:
    """The last part of a path, whichever system it comes from."""
    name = PurePosixPath(path).name
    return PureWindowsPath(name).name or path


def words(name: str) -> str:
    """A field's name for a heading: invoice_number reads Invoice number, vat_id reads VAT id."""
    text = [
        word.upper() if word in ABBREVIATIONS else word
        for word in str(name).replace("_", " ").split()
    ]
    return " ".join([text[0][:1].upper() + text[0][1:], *text[1:]]) if text else ""


def event_kind(kind: str) -> str:
    """What happened, in words."""
    return KINDS.get(kind) or words(kind)


def event_facts(detail: Any) -> list[tuple[str, Any]]:
    """What an event says besides, without what is not set."""
    if not isinstance(detail, dict):
        return []
    return [(name, value) for name, value in detail.items() if value not in (None, {}, [])]


def field_value(value: Any) -> str:
    """A field's value as text; lists on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list):
        return "; ".join(field_value(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def cell_value(value: Any, name: str) -> str:
    """A field's value for people: amounts with separators and two decimals."""
    if isinstance(value, int | float) and not isinstance(value, bool) and "amount" in name:
        return f"{value:,.2f}"
    return field_value(value)


def pretty_json(value: Any) -> str:
    """JSON that can be read."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def plural(count: int, word: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def breakable(text: str) -> Markup:
    """Text with places where a long name may be broken."""
    break_here = Markup("<wbr>")
    parts = re.split(r"(?<=[-_./])", text)
    return apart(break_here.join(parts))


def apart(text: str) -> Markup:
    """Text of others within a sentence: what it holds cannot turn the words around it about."""
    return escape(text) if text.isascii() else Markup("<bdi>{}</bdi>").format(text)
