"""Reading PDFs: layout kept, broken files told apart, hostile ones bounded."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakequeue.agents.document_parser import inspect as lazily_loaded
from lakequeue.agents.document_parser import reader
from lakequeue.agents.document_parser.layout import clean, squeeze
from lakequeue.agents.document_parser.reader import UnreadableDocument, inspect, pages
from tests.documents import make

DOCUMENTS = Path(__file__).parents[1] / "documents"
EXPECTED: dict[str, dict[str, Any]] = json.loads((DOCUMENTS / "expected.json").read_text())


def texts(name: str) -> list[str]:
    return [page.text for page in pages(DOCUMENTS / name)]


# --- the documents themselves


def test_the_documents_are_what_their_script_makes(tmp_path: Path) -> None:
    make.main(tmp_path / "documents")
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    kept = {
        path.relative_to(DOCUMENTS.parent): path.read_bytes()
        for folder in (DOCUMENTS, DOCUMENTS.with_name("documents-broken"))
        for path in folder.iterdir()
        if path.suffix in (".pdf", ".json")
    }
    assert made == kept


# --- inspect


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_inspection_tells_pages_size_hash_and_problem(name: str) -> None:
    found = inspect(DOCUMENTS / name)
    assert found.problem == EXPECTED[name].get("problem")
    assert found.page_count == EXPECTED[name].get("page_count")
    assert found.bytes == (DOCUMENTS / name).stat().st_size
    assert found.sha256 is not None
    assert len(found.sha256) == 64
    assert (found.explanation is None) == (found.problem is None)


def test_inspection_of_what_is_no_file(tmp_path: Path) -> None:
    assert inspect(tmp_path / "none.pdf").problem == "document_missing"
    assert inspect(tmp_path / "none" / "none.pdf").problem == "document_missing"
    assert inspect(tmp_path).problem == "document_unreadable"
    assert inspect("a\x00b.pdf").problem == "document_unreadable"
    assert lazily_loaded is inspect


def test_the_header_may_stand_a_little_later(tmp_path: Path) -> None:
    late = tmp_path / "late.pdf"
    late.write_bytes(b"\n" * 500 + (DOCUMENTS / "invoice-en.pdf").read_bytes())
    assert inspect(late).problem is None
    late.write_bytes(b"\n" * 5000 + (DOCUMENTS / "invoice-en.pdf").read_bytes())
    assert inspect(late).problem == "not_a_pdf"


def test_a_pdf_without_pages_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "none.pdf"
    with path.open("wb") as file:
        pypdf.PdfWriter().write(file)
    assert inspect(path).problem == "document_empty"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_only_a_password_to_open_is_an_obstacle(tmp_path: Path, algorithm: str) -> None:
    for password, problem in (("", None), ("secret", "document_encrypted")):
        path = tmp_path / "locked.pdf"
        writer = pypdf.PdfWriter(clone_from=DOCUMENTS / "invoice-en.pdf")
        writer.encrypt(password, "owner", algorithm=algorithm)
        with path.open("wb") as file:
            writer.write(file)
        assert inspect(path).problem == problem
        if problem is None:
            (page,) = pages(path)
            assert "HM-2024-0317" in page.text


# --- pages


def test_a_label_and_its_value_stay_on_a_line() -> None:
    (text,) = texts("invoice-en.pdf")
    assert any("Invoice Number:" in line and "HM-2024-0317" in line for line in text.split("\n"))


def test_headings_stay_above_their_values() -> None:
    (text,) = texts("invoice-nl.pdf")
    lines = text.split("\n")
    (heads,) = (line for line in lines if "Vervaldatum" in line)
    values = lines[lines.index(heads) + 1]
    assert abs(heads.index("Vervaldatum") - values.index("6 maart 2024")) <= 1
    assert abs(heads.index("Klantnummer") - values.index("K-0931")) <= 1


def test_every_page_comes_with_its_number() -> None:
    found = list(pages(DOCUMENTS / "report-en.pdf"))
    assert [page.number for page in found] == list(range(1, 13))
    assert all(page.text and page.problem is None for page in found)


def test_text_that_the_database_refuses_is_cleaned() -> None:
    (text,) = texts("nul-in-text.pdf")
    assert "Meeting notes of 4 March 2024" in text
    assert all(character == "\n" or character.isprintable() for character in text)


def test_right_to_left_text_is_kept() -> None:
    (text,) = texts("right-to-left.pdf")
    assert "تقرير" in text
    assert "דוח" in text


def test_a_scan_has_no_text_and_no_problem() -> None:
    (page,) = pages(DOCUMENTS / "scan.pdf")
    assert (page.text, page.problem) == ("", None)


def test_a_file_that_one_library_cannot_open_is_read_by_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("damaged")

    monkeypatch.setattr(pypdf, "PdfReader", refuse)
    assert inspect(DOCUMENTS / "report-en.pdf").page_count == 12
    (text,) = texts("invoice-en.pdf")
    assert "HM-2024-0317" in text


def test_a_page_that_fails_is_noted_and_the_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: reader.Document, number: int) -> str:
        if number == 2:
            raise ZeroDivisionError
        return f"page {number} has a text that is long enough"

    for name in ("_read_layout", "_read_plain", "_read_plumber"):
        monkeypatch.setattr(reader.Document, name, fail)
    found = list(pages(DOCUMENTS / "contract-en.pdf"))
    assert found[0].problem is None
    assert found[1].text == ""
    assert found[1].problem == "not read: ZeroDivisionError"


def test_a_turned_page_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "turned.pdf"
    writer = pypdf.PdfWriter(clone_from=DOCUMENTS / "invoice-en.pdf")
    writer.pages[0].rotate(90)
    with path.open("wb") as file:
        writer.write(file)
    (page,) = pages(path)
    assert "HM-2024-0317" in page.text.replace(" ", "")


def test_unreadable_documents_raise_before_the_first_page() -> None:
    for name, expected in EXPECTED.items():
        if "problem" in expected:
            with pytest.raises(UnreadableDocument) as caught:
                next(pages(DOCUMENTS / name))
            assert caught.value.problem == expected["problem"]


# --- bounds


# The alarm may ring while Python cleans up; there it can only be printed, so it rings again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_page_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def spin(self: reader.Document, number: int) -> str:
        while True:
            try:
                time.sleep(0.001)
            except Exception:  # noqa: BLE001 - as careless as the libraries are
                continue

    for name in ("_read_layout", "_read_plain", "_read_plumber"):
        monkeypatch.setattr(reader.Document, name, spin)
    limits = reader.limits
    with reader.open_document(DOCUMENTS / "invoice-en.pdf") as document:
        monkeypatch.setattr(reader, "limits", lambda: limits(seconds=0.1))
        (page,) = document.pages()
    assert page.problem == "not read: the page takes too much time or memory"


def test_a_document_that_takes_too_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "DOCUMENT_SECONDS", -1.0)
    assert all(page.problem for page in pages(DOCUMENTS / "contract-en.pdf"))


def test_memory_is_bounded_while_a_page_is_read() -> None:
    def take() -> bytearray:
        with reader.limits(memory=64 * 1024**2):
            return bytearray(1024**3)

    with pytest.raises(MemoryError):
        take()
    assert len(bytearray(256 * 1024**2)) > 0  # The limit is lifted again.


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_bomb_of_compressed_text_is_survived(tmp_path: Path) -> None:
    content = b"BT /F 9 Tf 9 9 Td " + b"(aaaaaaaaaaaaaaaaaaaaaaaa) Tj " * 400_000 + b"ET"
    path = tmp_path / "bomb.pdf"
    path.write_bytes(make.raw_pdf([], content, "/Font << >>"))
    limits = reader.limits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "limits", lambda: limits(seconds=1.0))
        (page,) = pages(path)
    assert len(page.text) <= reader.PAGE_CHARACTERS


def test_reading_works_outside_the_main_thread() -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(texts("invoice-en.pdf")))
    thread.start()
    thread.join()
    assert "HM-2024-0317" in found[0]


def test_files_of_random_damage_never_raise_anything_else(tmp_path: Path) -> None:
    whole = (DOCUMENTS / "invoice-fr.pdf").read_bytes()
    path = tmp_path / "damaged.pdf"
    for step in range(0, len(whole), 97):
        path.write_bytes(whole[:step] + b"\xff\x00(<" + whole[step + 40 :])
        if inspect(path).problem is None:
            assert len(list(pages(path))) >= 1
    for step in range(0, len(whole), 211):
        shutil.copy(DOCUMENTS / "invoice-fr.pdf", path)
        with path.open("r+b") as file:
            file.truncate(step)
        inspect(path)


# --- layout


def test_squeezing_keeps_columns_and_drops_what_is_blank_in_all_lines() -> None:
    assert squeeze(
        "          Date                         Number            Sum\n"
        "          2024-01-01                   A-1              1,00\n"
        "                                       A-2\n"
        "          a last cell may reach over the columns of other lines\n"
        "\n\n\n\n\n"
        "                    another block"
    ) == (
        "Date               Number    Sum\n"
        "2024-01-01         A-1      1,00\n"
        "                   A-2\n"
        "a last cell may reach over the columns of other lines\n"
        "\n\n"
        "another block"
    )


LINES = st.lists(
    st.lists(st.tuples(st.integers(1, 60), st.text("abc1€", min_size=1, max_size=9)), max_size=5),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(LINES)
def test_squeezing_loses_no_text_and_moves_no_column_past_another(
    rows: list[list[tuple[int, str]]],
) -> None:
    text = "\n".join("".join(" " * gap + word for gap, word in row) for row in rows)
    squeezed = squeeze(text)
    assert squeezed.split() == text.split()
    assert len(squeezed) <= len(text)
    assert "\n\n\n\n" not in squeezed
    cells = [re.split(" {2,}", line.strip()) for line in text.split("\n") if line.strip()]
    assert [re.split(" {2,}", line.strip()) for line in squeezed.split("\n") if line] == cells


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters()))
def test_cleaning_leaves_only_what_can_be_stored(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    cleaned.encode()
    assert clean(cleaned) == cleaned
    assert clean("a\ud800b\x00c\td\u00a0e\r\nf") == "abc d e\nf"
