"""README's configuration table is the one that the code gives."""

from __future__ import annotations

import re
from pathlib import Path

from lakequeue.config import describe

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_configuration_table_is_that_of_the_code() -> None:
    lines = README.read_text().splitlines()
    start = lines.index("## Configuration")
    table = [line for line in lines[start : lines.index("", start + 2)] if line.startswith("| `")]
    assert table == [f"| `{v.name}` | {v.default} | {v.meaning} |" for v in describe()]


def test_no_placeholder_is_left() -> None:
    assert re.findall(r"[A-Z]+_(?:OUTPUT|TEXT|TABLE)\b", README.read_text()) == []
