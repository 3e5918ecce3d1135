"""Page text as lines of cells: a cell is text without two spaces in a row."""

# ruff: noqa: RUF001 - signs as documents have them

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

_LONGEST_LINE = 500
"""Longer lines are no lines of a page; searching them would take long."""

_CELL = re.compile(r"[^\s|]+(?: [^\s|]+)*")


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if character in "’‘`´":
        return "'"
    if character in "–—−‐‑":
        return "-"
    if character == "º":
        return "°"
    if character.isspace():
        return " "
    base = unicodedata.normalize("NFD", character)[0].lower()
    return base if len(base) == 1 else character


def fold(text: str) -> str:
    """Lower case without accents, one character for one: positions stay valid."""
    return "".join(map(_fold_character, text))


@dataclass(frozen=True, eq=False)
class Cell:
    """A piece of a line; `start` and `end` are columns in the line."""

    line: Line
    index: int
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.line.text[self.start : self.end]

    @property
    def folded(self) -> str:
        return self.line.folded[self.start : self.end]

    def overlaps(self, other: Cell, slack: int = 2) -> bool:
        """Whether the two stand in the same column."""
        return self.start < other.end + slack and other.start < self.end + slack


@dataclass(eq=False)
class Line:
    """A line that is not blank. `number` counts all lines of the document."""

    text: str
    page: int
    number: int
    blanks_before: int = 0
    cells: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = [
            Cell(self, index, match.start(), match.end())
            for index, match in enumerate(_CELL.finditer(self.text))
        ]

    @cached_property
    def folded(self) -> str:
        return fold(self.text)

    def cell_at(self, position: int) -> Cell:
        """The cell that covers a column, or the nearest before it."""
        found = self.cells[0]
        for cell in self.cells:
            if cell.start <= position:
                found = cell
        return found


@dataclass(frozen=True)
class Document:
    """The pages of one request."""

    lines: list[Line]
    page_count: int

    @classmethod
    def from_pages(cls, pages: list[tuple[int, str]]) -> Document:
        """Split page texts into lines; blank lines are only counted."""
        lines: list[Line] = []
        for page, text in pages:
            blanks = 0
            for raw in text.replace("\u00a0", " ").replace("\u202f", " ").split("\n"):
                if not _CELL.search(raw[:_LONGEST_LINE]):
                    blanks += 1
                    continue
                lines.append(
                    Line(raw[:_LONGEST_LINE].replace("\t", "    "), page, len(lines), blanks)
                )
                blanks = 0
        return cls(lines, len({page for page, _ in pages}))

    @cached_property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @cached_property
    def folded(self) -> str:
        return "\n".join(line.folded for line in self.lines)

    @cached_property
    def first_page(self) -> int:
        return self.lines[0].page if self.lines else 1

    def below(self, line: Line, count: int) -> Iterator[Line]:
        """The next lines of the same page, nearest first."""
        for other in self.lines[line.number + 1 : line.number + 1 + count]:
            if other.page != line.page:
                return
            yield other

    def above(self, line: Line, count: int) -> Iterator[Line]:
        """The lines before on the same page, nearest first."""
        for other in reversed(self.lines[max(0, line.number - count) : line.number]):
            if other.page != line.page:
                return
            yield other


@dataclass(frozen=True)
class Found:
    """A value that a rule has read, how sure it is, and where."""

    value: str | float | list[str]
    confidence: float
    page: int
