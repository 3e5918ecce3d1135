"""How values, names and cells are written; what an upload keeps of a file that is too large."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

from lakequeue.web import export, formats
from lakequeue.web.uploads import ReceivedFile
from lakequeue.web.volume import clean_name, stored_name


def test_names_of_files() -> None:
    for given, shown, stored in (
        ("a.pdf", "a.pdf", "a.pdf"),
        ("../../etc/passwd", "passwd", "passwd.pdf"),
        ("C:\\Users\\ann\\Rechnung 7.PDF", "Rechnung 7.PDF", "Rechnung 7.pdf"),
        ("a\x00b\n.pdf", "ab.pdf", "ab.pdf"),
        ("\u202efdp.exe", "fdp.exe", "fdp.exe.pdf"),
        ("..", "..", "document.pdf"),
        ("", "unnamed", "unnamed.pdf"),
        (".pdf", ".pdf", "document.pdf"),
        ("<b>&'\".pdf", "<b>&'\".pdf", "_b____.pdf"),
        ("счёт-фактура.pdf", "счёт-фактура.pdf", "счёт-фактура.pdf"),
        ("a" * 600 + ".pdf", "a" * 500, "a" * 120 + ".pdf"),
    ):
        assert clean_name(given) == shown
        assert stored_name(given) == stored


def test_a_received_file_stops_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    stream = ReceivedFile(path, path.open("w+b"), 10)
    for _ in range(5):
        stream.write(b"abcd")
    assert (stream.bytes, stream.too_large) == (20, True)
    stream.discard()
    assert not path.exists()


def test_cells_that_a_spreadsheet_would_run_are_quoted() -> None:
    for text in ("=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", " =1", "\N{FULLWIDTH EQUALS SIGN}1"):
        assert export.safe(text) == "'" + text
    for value in ("a=1", "2024-03-12", "", None, -1, -1.5, 0):
        assert export.safe(value) == value


def test_how_values_are_written() -> None:
    assert [formats.usd(v) for v in (None, 0, 0.000443, 0.0123, 1.5, 1234.567)] == [
        formats.UNKNOWN, "$0.00", "$0.00044", "$0.012", "$1.50", "$1,234.57",
    ]  # fmt: skip
    assert [formats.duration(v) for v in (None, 0.25, 1.84, 59, 61, 3600, 90061)] == [
        formats.UNKNOWN, "250 ms", "1.8 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h",
    ]  # fmt: skip
    assert [formats.percent(v) for v in (None, 0, 0.734, 0.999, 1)] == [
        formats.UNKNOWN, "0 %", "73 %", "99 %", "100 %",
    ]  # fmt: skip
    assert [formats.deviation(v) for v in (None, -0.124, 0, 0.004, 0.043, 12.3)] == [
        formats.UNKNOWN,
        "\N{MINUS SIGN}12 %",
        "\N{PLUS-MINUS SIGN}0 %",
        "\N{PLUS-MINUS SIGN}0 %",
        "+4 %",
        "+1,230 %",
    ]
    assert [formats.counted(v, 1000) for v in (0, 999, 1000)] == ["0", "999", "1,000 or more"]
    assert formats.sql_literal("it's \\ so") == "'it''s \\ so'"
    assert [formats.size(v) for v in (None, 999, 2366, 123_456_789)] == [
        formats.UNKNOWN, "999 B", "2.4 kB", "123 MB",
    ]  # fmt: skip


def test_rows_as_csv_are_exact_and_run_no_formula() -> None:
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=9)))
    row = {"name": "=1", "day": noon.date(), "at": noon, "cost": Decimal("0.10"), "of": None}
    row |= {"yes": True, "took": datetime.timedelta(minutes=1), "detail": {"a": [1]}}
    line = """'=1,2026-01-01,2026-01-01T03:00:00+00:00,0.10,,True,60.0,"{""a"": [1]}"\r\n"""
    head, *parts = export.rows_csv([row] * (export.LINES_AT_ONCE + 1))
    assert head.decode() == "\ufeffname,day,at,cost,of,yes,took,detail\r\n"
    assert [part.decode() for part in parts] == [line * export.LINES_AT_ONCE, line]
    assert list(export.rows_csv([])) == ["\ufeff\r\n".encode()]
