"""Fields of documents that are no invoices: title, date, parties, headings."""

# ruff: noqa: E501, RUF001 - the words stand in rows, signs as documents have them

from __future__ import annotations

import re
from collections import Counter

from lakequeue.simulator.reading import people
from lakequeue.simulator.reading.dates import (
    MONTH_NUMBERS,
    MONTH_YEAR,
    find_dates,
    prefers_day_first,
)
from lakequeue.simulator.reading.text import Document, Found, Line

MOST_HEADINGS = 20
_LONGEST = 90
_HEAD_LINES = 40

_NUMBERED = re.compile(
    r"^\s*(?:(?:§ ?\d+|article \d+|artikel \d+|section \d+|kapitel \d+|hoofdstuk \d+|chapitre \d+|chapter \d+|"
    r"annex\w* \w|anlage \w|bijlage \w|appendix \w)\b|(?:\d{1,2}\.)+\d{0,2}\.? +(?=[a-z])|\d{1,2} {1,3}(?=[a-z])|"
    r"[ivx]{1,4}\. +(?=[a-z]))"
)
_AGREED = re.compile(
    r"(?<![a-z])(?:by and between|between|zwischen|tussen|entre)\b[:\s]+(.{3,240}?)\s*(?:[,(;\n]| - )"
    r".{0,400}?(?<![a-z])(?:and|und|en|et)\b[:\s]+(.{3,160}?)\s*(?:[,(;\n]| - |\.\s)",
    re.DOTALL | re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"^\W*(?:subject|re|betreff|betr\.?|betreft|onderwerp|objet|concerne)\s*: *(.{3,120})", re.I
)
_EFFECTIVE = re.compile(
    r"effective (?:date|as of|from)|entered into|made (?:on|as of|this)|in kraft|vom|mit wirkung|"
    r"gesloten op|ingangsdatum|met ingang van|prend effet|en date du|a compter du|dated"
)
_RUNNING = re.compile(r"\d+|[ivxlc]+(?![a-z])")


class PlainReader:
    """Reads what any document has."""

    def __init__(self, document: Document, language: str, kind: str) -> None:
        self.document = document
        self.kind = kind
        self.day_first = prefers_day_first(document.folded, language)
        self.running = self._running_lines()

    def read(self) -> dict[str, Found]:
        """All fields that were found."""
        found = {
            "title": self.title() if self.kind != "letter" else None,
            "date": self.date(),
            "subject": self.subject(),
            "parties": self.parties() if self.kind in ("contract", "other") else None,
            "headings": self.headings() if self.kind != "letter" else None,
        }
        if self.kind == "letter":
            found["sender"] = people.find_issuer(self.document, [], {}, None)
            found["recipient"] = people.find_addressee(self.document, found["sender"])
        return {name: value for name, value in found.items() if value is not None}

    def title(self) -> Found | None:
        """The first lines of the first page that read like a heading."""
        first = [line for line in self.document.lines if line.page == self.document.first_page][:25]
        for position, line in enumerate(first):
            if not self._may_be_title(line):
                continue
            parts = [_squeezed(line)]
            for following in first[position + 1 : position + 3]:
                if following.blanks_before or not self._may_be_title(following):
                    break
                parts.append(_squeezed(following))
            # A chunk from the middle of a document starts with some heading, not with the title.
            confidence = 0.3 if line.page != 1 else 0.75 if position == 0 else 0.6
            return Found(" ".join(parts)[:200], confidence, line.page)
        return None

    def _may_be_title(self, line: Line) -> bool:
        text = _squeezed(line)
        letters = sum(character.isalpha() for character in text)
        return (
            letters >= 3
            and letters > len(text) / 2
            and len(text) <= _LONGEST
            and not text.endswith((".", ",", ";", ":"))
            and not re.search(r"@|www\.|https?:|\bpage \d|\bseite \d", line.folded)
            and len(line.cells) <= 2
        )

    def date(self) -> Found | None:
        """The first date, that of coming into force for a contract; else a month with a year."""
        first: Found | None = None
        for line in self.document.lines:
            for date in find_dates(line.text, self.day_first):
                if self.kind == "contract" and _EFFECTIVE.search(line.folded):
                    return Found(date.value.isoformat(), 0.8, line.page)
                if first is None:
                    early = line.page == 1 and line.number < _HEAD_LINES
                    first = Found(date.value.isoformat(), 0.65 if early else 0.35, line.page)
            if first and self.kind != "contract":
                return first
        if first:
            return first
        for line in self.document.lines[:60]:
            match = MONTH_YEAR.search(line.folded)
            if match:
                month = f"{match['y']}-{MONTH_NUMBERS[match['name']]:02d}"
                return Found(month, 0.5, line.page)
        return None

    def subject(self) -> Found | None:
        """A line that says what a letter is about."""
        for line in self.document.lines[:60]:
            match = _SUBJECT.match(line.text.strip())
            if match:
                return Found(_clean(match[1]), 0.85, line.page)
        return None

    def parties(self) -> Found | None:
        """Who agrees with whom."""
        head = "\n".join(
            " ".join(cell.text for cell in line.cells) for line in self.document.lines[:120]
        )
        match = _AGREED.search(head)
        if match:
            names = [_clean(re.sub(r"\s+", " ", name)) for name in match.groups()]
            names = [re.sub(r"^(?:\(?\d\)?|[a-z]\)|1\.|2\.)\s*", "", name) for name in names]
            if all(len(name) > 2 for name in names):
                page = self.document.first_page
                return Found(
                    names, 0.8 if any(people.COMPANY.search(n) for n in names) else 0.6, page
                )
        if self.kind != "contract":
            return None
        companies = [
            people.clean_name(cell.text)
            for line in self.document.lines[:60]
            for cell in line.cells
            if people.COMPANY.search(cell.text) and len(cell.text) < _LONGEST
        ]
        names = list(dict.fromkeys(companies))[:4]
        return Found(names, 0.5, self.document.first_page) if len(names) > 1 else None

    def headings(self) -> Found | None:
        """Numbered, capital or standing-alone short lines, in order, without running heads."""
        found: list[str] = []
        lines = self.document.lines
        for line in lines:
            if len(line.cells) > 2 or self._is_running(line):
                continue
            text = _squeezed(line)
            if self._is_heading(line, text) and text not in found:
                found.append(text)
        if not found:
            return None
        return Found(found[:MOST_HEADINGS], 0.6, self.document.first_page)

    def _is_heading(self, line: Line, text: str) -> bool:
        letters = [character for character in text if character.isalpha()]
        if len(letters) < 4 or len(text) > _LONGEST or text.endswith((",", ";", ":")):
            return False
        if re.search(r"\.{4,}|(?:\. ){3,}", text):
            return False  # An entry of a table of contents.
        if _NUMBERED.match(line.folded):
            return len(text.split()) <= 12 and not text.endswith(".")
        cased = [character for character in letters if character.lower() != character.upper()]
        capitals = sum(character.isupper() for character in cased)
        if cased and capitals == len(cased):
            return line.blanks_before > 0 and len(text.split()) > 1
        after = self.document.lines[line.number + 1 : line.number + 2]
        alone = line.blanks_before > 0 and bool(after) and after[0].blanks_before > 0
        return alone and text[0].isupper() and len(text.split()) <= 8 and text[-1].isalnum()

    def _running_lines(self) -> set[str]:
        """Lines that repeat on several pages, apart from their numbers: heads and feet."""
        pages: dict[str, set[int]] = {}
        for line in self.document.lines:
            pages.setdefault(_RUNNING.sub("", line.folded).strip(), set()).add(line.page)
        least = 2 if self.document.page_count <= 4 else 3
        counts = Counter({text: len(on) for text, on in pages.items()})
        return {text for text, count in counts.items() if count >= least}

    def _is_running(self, line: Line) -> bool:
        key = _RUNNING.sub("", line.folded).strip()
        return key in self.running and self.document.page_count > 1


def _squeezed(line: Line) -> str:
    return " ".join(cell.text for cell in line.cells).strip()


def _clean(text: str) -> str:
    return text.strip(" \t\n,;:-–\"'“”„")
