"""Cutting a document into pieces that fit the model's window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakequeue.agents.document_parser.reader import Page

CHARACTERS_PER_TOKEN = 4
_WIDE = 0x2E80  # From here on (CJK and the like) a character is about a token.


@dataclass(frozen=True)
class Chunk:
    """Pages, or parts of a long page, that go into one model call."""

    parts: tuple[tuple[int, str], ...]

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for number, _ in self.parts))

    @property
    def characters(self) -> int:
        return sum(len(text) for _, text in self.parts)

    def halves(self) -> tuple[Chunk, Chunk] | None:
        """Two smaller chunks, for an endpoint with a smaller window; None if it is one line."""
        if len(self.parts) > 1:
            middle = len(self.parts) // 2
            return Chunk(self.parts[:middle]), Chunk(self.parts[middle:])
        number, text = self.parts[0]
        cut = _line_break(text, len(text) // 2)
        if not 0 < cut < len(text):
            return None
        return Chunk(((number, text[:cut]),)), Chunk(((number, text[cut:]),))


def estimate_tokens(text: str) -> int:
    """Tokens of a text, rather too many: four characters to one, wide characters one each."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_PER_TOKEN)
    wide = sum(character >= chr(_WIDE) for character in text)
    return wide + -(-(len(text) - wide) // CHARACTERS_PER_TOKEN)


def cut(pages: Iterable[Page], tokens: int) -> Iterator[Chunk]:
    """Fill chunks with whole pages in order; a page that is longer than a chunk is divided.

    Chunks do not overlap: a field is on one page, and pages are divided at a line's end.
    """
    parts: list[tuple[int, str]] = []
    room = tokens
    for page in pages:
        if not page.text.strip():
            continue
        for text in _divide(page.text, tokens):
            size = estimate_tokens(text)
            if parts and size > room:
                yield Chunk(tuple(parts))
                parts, room = [], tokens
            parts.append((page.number, text))
            room -= size
    if parts:
        yield Chunk(tuple(parts))


def _divide(text: str, tokens: int) -> Iterator[str]:
    while estimate_tokens(text) > tokens:
        # Wide characters weigh more, so the share of the text that fits is found by its weight.
        position = max(1, len(text) * tokens // estimate_tokens(text))
        while position > 1 and estimate_tokens(text[:position]) > tokens:
            position = position * 9 // 10
        position = _line_break(text, position)
        yield text[:position]
        text = text[position:]
    if text:
        yield text


def _line_break(text: str, position: int) -> int:
    """The last line's end in the second half before a position, else the position itself."""
    found = text.rfind("\n", position // 2, position)
    return found + 1 if found > 0 else position
