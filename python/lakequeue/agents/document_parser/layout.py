"""Cleaning page text: nothing the database refuses, few spaces, columns still in columns.

PDF text in layout order is mostly spaces, and a model is paid by the character. What may be cut
without moving a value away from its heading is a column of spaces that is blank in every line.
"""

from __future__ import annotations

import re
import unicodedata

GAP = 3
"""Spaces kept between two columns."""

LONGEST_GAP = 60
"""A gap inside a line is never longer, even where other lines have text in it."""

LAST_CELL = 16
"""How much of the last cell of a line counts as part of a column."""

BLANK_LINES = 2
"""Blank lines kept in a row; that many also end a block of lines that share their columns."""

_SPACES = re.compile(r"[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LINE_BREAKS = re.compile(r"\r\n?|[\v\f\u0085\u2028\u2029]")
_CELL = re.compile(r"\S+(?: \S+)*")


def clean(text: str) -> str:
    """Text without U+0000, lone surrogates and other control characters; line ends are \\n."""
    text = _SPACES.sub(" ", _LINE_BREAKS.sub("\n", text))
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        for character in text
        if character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Cn")
    )


def squeeze(text: str) -> str:
    """The same lines with fewer spaces: columns of a block stay aligned with each other."""
    lines = [line.rstrip() for line in text.split("\n")]
    blocks: list[list[str]] = [[]]
    blank = 0
    for line in lines:
        if line:
            if blank >= BLANK_LINES and blocks[-1]:
                blocks.append([])
            elif blank and blocks[-1]:
                blocks[-1].extend([""] * blank)
            blocks[-1].append(line)
            blank = 0
        else:
            blank += 1
    separator = "\n" * (BLANK_LINES + 1)
    return separator.join("\n".join(_squeeze_block(block)) for block in blocks if block)


def _squeeze_block(lines: list[str]) -> list[str]:
    """Cut columns that are blank in all lines down to GAP, and the common indent to nothing.

    What follows the last cell of a line is blank, so a long last cell (a sentence) takes only its
    beginning; it may reach over columns of other lines without moving them.
    """
    cells = [list(_CELL.finditer(line)) for line in lines]
    width = max(len(line) for line in lines)
    used = bytearray(width)
    for row in cells:
        for match in row:
            last = match is row[-1]
            end = min(match.end(), match.start() + LAST_CELL) if last else match.end()
            used[match.start() : end] = b"\x01" * (end - match.start())
    target = _targets(bytes(used))
    return [_place(row, target) for row in cells]


def _targets(used: bytes) -> list[int]:
    """For each column of the block, where it goes."""
    target: list[int] = []
    position = blanks = 0
    for value in used:
        blanks = 0 if value else blanks + 1
        target.append(position)
        if value or (position and blanks <= GAP):
            position += 1
    return target


def _place(row: list[re.Match[str]], target: list[int]) -> str:
    line = ""
    for previous, match in zip([None, *row], row, strict=False):
        least = 0 if previous is None else min(match.start() - previous.end(), GAP)
        gap = max(least, target[match.start()] - len(line))
        line += " " * min(gap, LONGEST_GAP) + match[0]
    return line
