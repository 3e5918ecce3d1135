"""Where the value of a label can stand: behind it, in the cells to its right, or below it."""

# ruff: noqa: RUF001 - signs as documents have them

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakequeue.simulator.reading.labels import Label
from lakequeue.simulator.reading.text import Document, Line

SAME_CELL = 1.0
RIGHT = 0.98
BELOW = 0.92
BELOW_BY_INDEX = 0.8

_LINES_BELOW = 3
_SEPARATORS = re.compile(r"[\s:.#°=*\-–]+")


@dataclass(frozen=True)
class Spot:
    """A stretch of a line; `nearness` falls with the distance from the label."""

    line: Line
    start: int
    end: int
    nearness: float

    @property
    def text(self) -> str:
        return self.line.text[self.start : self.end]


def spots(document: Document, label: Label, labels_of_line: list[Label]) -> Iterator[Spot]:
    """Places to look at, best first. The next label of the line ends what belongs to this one."""
    line, cell = label.line, label.cell
    limit = len(line.text)
    end_of_labels = label.end
    for following in labels_of_line:
        if following.start < label.end:
            continue
        # "Rechnungsdatum/Lieferdatum" is one label with two names.
        if line.text[end_of_labels : following.start].strip() not in ("/", "&", "+"):
            limit = following.start
            break
        end_of_labels = following.end
    end = min(cell.end, limit)
    start = _skip(line.text, end_of_labels, end)
    if start < end:
        yield Spot(line, start, end, SAME_CELL)
    for other in line.cells[cell.index + 1 :]:
        if other.start >= limit:
            break
        begin = _skip(line.text, other.start, other.end, r"[\s:=]+")
        if begin < other.end:
            yield Spot(line, begin, min(other.end, limit), RIGHT)
    yield from _below(document, label)


def _below(document: Document, label: Label) -> Iterator[Spot]:
    line, cell = label.line, label.cell
    for distance, other in enumerate(document.below(line, _LINES_BELOW)):
        nearness = BELOW - 0.06 * distance
        under = [candidate for candidate in other.cells if candidate.overlaps(cell)]
        # Of several cells that touch the heading's column, the one that starts nearest.
        under.sort(key=lambda candidate: abs(candidate.start - cell.start))
        for candidate in under:
            yield Spot(other, candidate.start, candidate.end, nearness)
        if not under and distance == 0 and len(other.cells) == len(line.cells):
            candidate = other.cells[cell.index]
            yield Spot(other, candidate.start, candidate.end, BELOW_BY_INDEX)


def _skip(text: str, start: int, end: int, pattern: str | None = None) -> int:
    match = (
        re.compile(pattern).match(text, start, end)
        if pattern
        else _SEPARATORS.match(text, start, end)
    )
    return match.end() if match else start
