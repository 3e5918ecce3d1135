"""README's configuration table is the one that the code gives."""

from __future__ import annotations

import re
from pathlib import Path

from lakequeue.config import describe
from tests.python.test_relay_local import make_run

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_configuration_table_is_that_of_the_code() -> None:
    lines = README.read_text().splitlines()
    start = lines.index("## Configuration")
    table = [line for line in lines[start : lines.index("", start + 2)] if line.startswith("| `")]
    assert table == [f"| `{v.name}` | {v.default} | {v.meaning} |" for v in describe()]


def test_no_placeholder_is_left() -> None:
    assert re.findall(r"[A-Z]+_(?:OUTPUT|TEXT|TABLE)\b", README.read_text()) == []


def test_the_jobs_parameters_are_those_that_a_run_gets() -> None:
    block = re.search(r"<!-- job parameters -->\s*```\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    assert block[1].split() == [*make_run().parameters(), "callback_url"]
