"""Plain text tables that fit a terminal, for the commands."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

GAP = "  "
LEAST_WIDTH = 100
MOST_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Column:
    """A column: as wide as its contents need, `width` at most."""

    title: str
    width: int
    right: bool = False
    elastic: bool = False
    """It gives way when the table would be too wide."""
    keep: Literal["start", "end"] = "start"
    """Which part of a text that is too long is shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line; `span` (first column, last column, text) puts a text in the place of several."""

    cells: Sequence[str]
    span: tuple[int, int, str] | None = None


def render(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Give the table with a heading and a rule, without trailing blanks."""
    widths = _widths(columns, rows)
    heading = [column.title for column in columns]
    lines = [
        _line(columns, widths, Row(heading)),
        GAP.join("─" * width for width in widths),
        *(_line(columns, widths, row) for row in rows),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    widths = []
    for index, column in enumerate(columns):
        texts = [column.title] + [
            row.cells[index]
            for row in rows
            if row.span is None or not row.span[0] <= index <= row.span[1]
        ]
        widths.append(min(column.width, max(width_of(text) for text in texts)))
    total = sum(widths) + len(GAP) * (len(columns) - 1)
    # A message needs room: the columns it spans grow as far as the whole table may.
    for row in rows:
        if row.span is not None:
            first, last, text = row.span
            have = sum(widths[first : last + 1]) + len(GAP) * (last - first)
            more = min(width_of(text) - have, room() - total)
            if more > 0:
                widths[last] += more
                total += more
    for index, column in enumerate(columns):
        if column.elastic and total > room():
            less = min(total - room(), max(0, widths[index] - 12))
            widths[index] -= less
            total -= less
    return widths


def room() -> int:
    """Give the width to fill: the terminal's, within bounds that still read well."""
    return min(MOST_WIDTH, max(LEAST_WIDTH, shutil.get_terminal_size((MOST_WIDTH, 24)).columns))


def _line(columns: Sequence[Column], widths: Sequence[int], row: Row) -> str:
    parts: list[str] = []
    index = 0
    while index < len(columns):
        column, width, text = columns[index], widths[index], row.cells[index]
        right, keep = column.right, column.keep
        if row.span is not None and index == row.span[0]:
            first, last, text = row.span
            width = sum(widths[first : last + 1]) + len(GAP) * (last - first)
            index = last
            right, keep = False, "start"
        text = _fit(text, width, keep)
        blanks = " " * (width - width_of(text))
        parts.append(blanks + text if right else text + blanks)
        index += 1
    return GAP.join(parts)


def _fit(text: str, width: int, keep: Literal["start", "end"]) -> str:
    """Make one printable line of it, shortened by an ellipsis."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if width_of(text) <= width:
        return text
    while width_of(text) > width - 1:
        text = text[1:] if keep == "end" else text[:-1]
    return "…" + text if keep == "end" else text + "…"


def width_of(text: str) -> int:
    """Count the places that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
