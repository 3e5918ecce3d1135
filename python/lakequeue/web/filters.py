"""The one filter of all pages: days, statuses, agents, customer; kept in the address."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from lakequeue.web.formats import STATUS_ORDER, day

DEFAULT_RANGE = "7d"
RANGES = {"today": 1, "7d": 7, "30d": 30}
PRESETS = (("today", "Today"), ("7d", "7 days"), ("30d", "30 days"), ("all", "All time"))


class BadFilter(ValueError):
    """The address asks for something that cannot be meant."""


@dataclass(frozen=True)
class Filter:
    """What to show. An agent or status that there is not is refused by the database."""

    today: datetime.date
    range: str = DEFAULT_RANGE
    from_day: datetime.date | None = None
    to_day: datetime.date | None = None
    statuses: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    customers: tuple[str, ...] = ()
    document: str = ""
    """Part of a document's path; only lists of tasks look for it."""

    @classmethod
    def parse(cls, arguments: MultiDict[str, str], today: datetime.date) -> Filter:
        """From the address; empty values count as not given."""
        statuses = _several(arguments, "status")
        unknown = [status for status in statuses if status not in STATUS_ORDER]
        if unknown:
            raise BadFilter(f"There is no status {unknown[0]!r}.")
        rest: dict[str, Any] = {
            "statuses": statuses,
            "agents": _several(arguments, "agent"),
            "customers": _several(arguments, "customer"),
            "document": arguments.get("find", "").strip()[:200],
        }
        first = _day(arguments.get("from"), "from")
        last = _day(arguments.get("to"), "to")
        if first is not None or last is not None:
            if first is not None and last is not None and first > last:
                raise BadFilter(f"The range begins on {day(first)}, after it ends on {day(last)}.")
            return cls(today, "days", first, last, **rest)
        name = arguments.get("range") or DEFAULT_RANGE
        if name == "all":
            return cls(today, name, None, None, **rest)
        if name not in RANGES:
            raise BadFilter(f"There is no range {name!r}.")
        first = today - datetime.timedelta(days=RANGES[name] - 1)
        return cls(today, name, first, None, **rest)

    def parameters(self) -> dict[str, Any]:
        """As the database's functions take it."""
        return {
            "from_day": self.from_day,
            "to_day": self.to_day,
            "statuses": list(self.statuses) or None,
            "agents": list(self.agents) or None,
            "customers": list(self.customers) or None,
        }

    def listing(self) -> dict[str, Any]:
        """As list_tasks takes it."""
        return {**self.parameters(), "document": self.document or None}

    def pairs(self) -> list[tuple[str, str]]:
        """Its part of an address, without what is the default anyway."""
        found: list[tuple[str, str]] = []
        if self.range == "days":
            found += [
                (name, value.isoformat())
                for name, value in (("from", self.from_day), ("to", self.to_day))
                if value is not None
            ]
        elif self.range != DEFAULT_RANGE:
            found.append(("range", self.range))
        found += [("status", status) for status in self.statuses]
        found += [("agent", agent) for agent in self.agents]
        found += [("customer", customer) for customer in self.customers]
        if self.document:
            found.append(("find", self.document))
        return found

    def query(self, more: Iterable[tuple[str, str]] = ()) -> str:
        """The question mark and what follows it, or nothing."""
        pairs = [*self.pairs(), *more]
        return "?" + urlencode(pairs) if pairs else ""

    def with_range(self, name: str) -> Filter:
        """The same, for another preset range."""
        return replace(self, range=name, from_day=None, to_day=None)

    def with_statuses(self, *statuses: str) -> Filter:
        """The same, for these statuses only."""
        return replace(self, statuses=statuses)

    @property
    def narrowed(self) -> bool:
        """Whether it leaves anything out, the days apart."""
        return bool(self.statuses or self.agents or self.customers)

    @property
    def label_in(self) -> str:
        """The days after a verb: finished today, finished in the last 7 days."""
        return f"in {self.label}" if self.range in ("7d", "30d", "all") else self.label

    @property
    def label(self) -> str:
        """The days in words."""
        named = {"today": "today", "all": "all time"}
        if self.range in named:
            return named[self.range]
        if self.range in RANGES:
            return f"the last {RANGES[self.range]} days"
        if self.from_day == self.to_day and self.from_day is not None:
            return day(self.from_day)
        parts = [f"from {day(self.from_day)}"] if self.from_day is not None else []
        parts += [f"up to {day(self.to_day)}"] if self.to_day is not None else []
        return " ".join(parts)


def _several(arguments: MultiDict[str, str], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in arguments.getlist(name) if value))


def _day(text: str | None, name: str) -> datetime.date | None:
    if not text:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise BadFilter(f"{name}={text!r} is no day; write it as 2026-01-31.") from None


def cursor(at: datetime.datetime, task: int) -> str:
    """Where a page of tasks ended, for the address of the next one."""
    return f"{at.astimezone(datetime.UTC).isoformat()}_{task}"


def page_of_tasks(
    rows: list[dict[str, Any]], size: int
) -> tuple[list[dict[str, Any]], str | None, datetime.datetime | None]:
    """What to show of so many rows of list_tasks and one more; where to go on; how far it looked.

    The last is None unless it has looked at enough tasks before it had found enough.
    """
    fitting = [row for row in rows if row["fits"]]
    if fitting != rows:
        return fitting, cursor(rows[-1]["listed_at"], rows[-1]["task_id"]), rows[-1]["listed_at"]
    shown = rows[:size]
    more = len(rows) > size
    return shown, cursor(shown[-1]["listed_at"], shown[-1]["task_id"]) if more else None, None


def parse_cursor(text: str | None) -> tuple[datetime.datetime | None, int | None]:
    """Back from the address."""
    if not text:
        return None, None
    at, separator, task = text.rpartition("_")
    try:
        moment = datetime.datetime.fromisoformat(at)
        if not separator or moment.tzinfo is None:
            raise ValueError
        return moment, _key(task)
    except ValueError:
        raise BadFilter("The address of this page of the list is damaged.") from None


def parse_key(text: str | None) -> int | None:
    """A number that stands for a row."""
    if not text:
        return None
    try:
        return _key(text)
    except ValueError:
        raise BadFilter("The address of this page of the list is damaged.") from None


def _key(text: str) -> int:
    key = int(text)
    if not 0 <= key < 2**63:
        raise ValueError
    return key


def in_order(statuses: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of statuses as they follow each other in a task's life."""
    return sorted(statuses, key=lambda row: STATUS_ORDER.index(row["status"]))
