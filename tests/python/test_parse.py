"""`lakequeue parse` as a person runs it: real server, agents, traces and model simulator.

Each test is one or a few runs of the program. Those that need no empty data folder share one,
which is also how it is used: what was parsed stays parsed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakequeue import database as db
from lakequeue import embedded
from lakequeue.commands._place import program
from tests.servers import Database

DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"
BROKEN = DOCUMENTS.with_name("documents-broken")
PROGRAM = [sys.executable, "-c", "from lakequeue.cli import main; main()"]
KEYS = {
    "document",
    "task_id",
    "status",
    "result",
    "confidence",
    "input_tokens",
    "output_tokens",
    "llm_cost",
    "attempts",
    "error",
}
SECONDS = 180


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def run(*arguments: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, **environment)
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == code, f"exit code {process.returncode}\n{err}\n{out}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def parse(*arguments: object, code: int = 0, **environment: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        run("parse", "--json", *arguments, code=code, **environment).stdout
    )
    return rows


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {Path(row["document"]).name: row for row in rows}


def query(data_dir: Path, statement: str) -> list[dict[str, Any]]:
    with embedded.server(data_dir) as server, db.connect(server.conninfo()) as connection:
        return connection.execute(statement).fetchall()


def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def copies(folder: Path, count: int) -> Path:
    """Invoices of different content, so that each is a document of its own."""
    folder.mkdir()
    invoice = (DOCUMENTS / "invoice-en.pdf").read_bytes()
    for number in range(count):
        # What follows the end of a PDF is ignored by readers, but not by a hash.
        (folder / f"invoice-{number:02}.pdf").write_bytes(invoice + b"\n%% %d\n" % number)
    return folder


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def parsed(data_dir: Path) -> list[dict[str, Any]]:
    """All documents, parsed once."""
    return parse(DOCUMENTS, BROKEN, "--data-dir", data_dir, code=1)


# --- results ------------------------------------------------------------------------------------


def test_every_document_has_a_row_with_all_keys(parsed: list[dict[str, Any]]) -> None:
    assert len(parsed) == len([*DOCUMENTS.glob("*.pdf"), *BROKEN.glob("*.pdf")])
    assert all(set(row) == KEYS for row in parsed)
    assert all(isinstance(row["attempts"], int) for row in parsed)
    assert all(Path(row["document"]).exists() for row in parsed)


def test_an_invoice_is_read(parsed: list[dict[str, Any]]) -> None:
    row = by_name(parsed)["invoice-nl.pdf"]
    assert (row["status"], row["attempts"], row["error"]) == ("completed", 1, None)
    assert row["result"]["document_type"] == "invoice"
    assert row["result"]["fields"]["invoice_number"]["value"]
    assert 0 < row["confidence"] <= 1
    assert row["input_tokens"] > 0 < row["output_tokens"]
    price = (0.5 * row["input_tokens"] + 1.5 * row["output_tokens"]) / 1_000_000
    assert row["llm_cost"] == pytest.approx(price)


def test_bad_files_are_refused_with_their_reason(parsed: list[dict[str, Any]]) -> None:
    rows = by_name(parsed)
    for path in BROKEN.glob("*.pdf"):
        row = rows[path.name]
        assert row["status"] == "failed", path
        assert row["error"], path
    refused = rows["empty.pdf"]
    assert refused["error"].startswith("document_empty: ")
    assert (refused["task_id"], refused["attempts"], refused["result"]) == (None, 0, None)
    assert (refused["input_tokens"], refused["llm_cost"]) == (0, 0.0)


def test_a_scan_is_completed_without_text(parsed: list[dict[str, Any]]) -> None:
    row = by_name(parsed)["scan.pdf"]
    assert (row["status"], row["confidence"]) == ("completed", 0)


def test_usage_comes_from_the_traces(parsed: list[dict[str, Any]], data_dir: Path) -> None:
    attempts = query(
        data_dir, "select usage_source, usage_complete, trace_id from lakequeue.task_attempts"
    )
    assert len(attempts) == sum(row["status"] == "completed" for row in parsed)
    assert all(row["usage_source"] == "trace" and row["usage_complete"] for row in attempts)
    assert len({row["trace_id"] for row in attempts}) == len(attempts)


# --- the same file again ------------------------------------------------------------------------


def test_what_was_parsed_is_not_parsed_again(
    parsed: list[dict[str, Any]], data_dir: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "another name.pdf"
    shutil.copy(DOCUMENTS / "invoice-nl.pdf", copy)
    (row,) = parse(copy, "--data-dir", data_dir)
    before = by_name(parsed)["invoice-nl.pdf"]
    assert row == {**before, "document": str(copy)}


def test_again_parses_again(parsed: list[dict[str, Any]], data_dir: Path) -> None:
    document = DOCUMENTS / "invoice-nl.pdf"
    rows = parse(document, document, "--again", "--data-dir", data_dir)
    before = by_name(parsed)["invoice-nl.pdf"]
    assert len({before["task_id"], *(row["task_id"] for row in rows)}) == 3
    assert all(row["result"] == before["result"] for row in rows)


# --- output -------------------------------------------------------------------------------------


def test_the_table_fits_and_tells_what_matters(
    parsed: list[dict[str, Any]], data_dir: Path
) -> None:
    shown = run("parse", DOCUMENTS, BROKEN, "--data-dir", data_dir, code=1)
    lines = shown.stdout.partition("\n\n")[0].splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) == 2 + len(parsed)
    (line,) = [line for line in lines if "invoice-nl.pdf" in line]
    row = by_name(parsed)["invoice-nl.pdf"]
    fields = row["result"]["fields"]
    assert str(fields["invoice_number"]["value"]) in line
    assert str(fields["invoice_date"]["value"]) in line
    assert f"{fields['total_amount']['value']:,.2f}" in line
    assert f"{row['input_tokens'] + row['output_tokens']:,}" in line
    (line,) = [line for line in lines if "empty.pdf" in line]
    assert "document_empty" in line
    completed = sum(row["status"] == "completed" for row in parsed)
    assert f"{completed} completed, {len(parsed) - completed} failed" in shown.stdout
    # Nothing was spent this time: all is known, or refused.
    assert "from earlier parses" in shown.stdout
    assert not re.search(r"tokens ·|USD \(|429", shown.stdout)
    assert f"lakequeue status --data-dir {data_dir}" in shown.stdout


def test_the_summary_counts_what_this_call_spent(data_dir: Path, tmp_path: Path) -> None:
    known, new = tmp_path / "known.pdf", tmp_path / "new.pdf"
    for path in (known, new):
        path.write_bytes((DOCUMENTS / "invoice-en.pdf").read_bytes() + f"\n%% {path}".encode())
    (row,) = parse(known, LAKEQUEUE_DATA_DIR=str(data_dir))
    tokens = row["input_tokens"] + row["output_tokens"]
    shown = run("parse", known, new, new, LAKEQUEUE_DATA_DIR=str(data_dir)).stdout
    assert f"3 completed · 1 from earlier parses · {tokens:,} tokens · " in shown
    assert "USD (the simulator's made-up price)" in shown
    assert "429 from the simulator: 0" in shown
    assert "--data-dir" not in shown
    shown = run("parse", known, new, LAKEQUEUE_DATA_DIR=str(data_dir)).stdout
    assert re.search(r"\n2 completed · all from earlier parses · [\d.]+ s\n", shown)


@pytest.mark.parametrize(
    ("called", "path", "printed"),
    [
        (".venv/bin/lakequeue", "/bin", ".venv/bin/lakequeue"),
        ("{folder}/lakequeue", "{folder}", "lakequeue"),
        ("my folder/lakequeue", "/bin", "'my folder/lakequeue'"),
        ("/lib/lakequeue/__main__.py", "/bin", "bin/python -m lakequeue"),
        ("-c", "/bin", "lakequeue"),
    ],
)
def test_the_program_is_printed_as_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, path: str, printed: str
) -> None:
    (tmp_path / "lakequeue").touch(mode=0o755)
    monkeypatch.setenv("PATH", path.format(folder=tmp_path))
    monkeypatch.setattr(sys, "argv", [called.format(folder=tmp_path), "parse"])
    monkeypatch.setattr(sys, "orig_argv", ["bin/python", "parse"])
    assert program() == printed


def test_status_shows_what_was_done(parsed: list[dict[str, Any]], data_dir: Path) -> None:
    table = run("status", "--data-dir", data_dir).stdout
    assert "document-parser" in table
    assert re.search(r"^cancelled( +0)( +\N{EN DASH}){4}", table, re.MULTILINE), "unknown, not 0"
    assert re.search(r"^completed .* \d+ of \d+ ", table, re.MULTILINE), "priced of those that ran"
    shown = json.loads(run("status", "--data-dir", data_dir, "--json").stdout)
    done = {row["status"]: row["tasks"] for row in shown["tasks"]}
    assert done["completed"] >= sum(row["status"] == "completed" for row in parsed)
    assert shown["agents"][0]["agent"] == "document-parser"
    assert [(row["kind"], row["ceiling"]) for row in shown["limits"]] == [("tokens", 200_000)]
    assert re.search(r"tokens/min +[\d,]+ of 200,000", table)


# --- wrong use ----------------------------------------------------------------------------------


def test_a_missing_path_is_wrong_use_and_starts_nothing(tmp_path: Path) -> None:
    shown = run("parse", tmp_path / "no.pdf", DOCUMENTS, "--data-dir", tmp_path / "data", code=2)
    assert "no file or folder" in shown.stderr
    assert "no.pdf" in shown.stderr
    assert shown.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_folder_without_pdfs_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no PDF")
    shown = run("parse", tmp_path, "--data-dir", tmp_path / "data", code=2)
    assert "has no PDF files" in shown.stderr
    assert not (tmp_path / "data").exists()


def test_no_path_is_wrong_use() -> None:
    assert "Missing argument" in run("parse", code=2).stderr


def test_a_model_needs_an_endpoint(tmp_path: Path, data_dir: Path) -> None:
    document = DOCUMENTS / "invoice-nl.pdf"
    shown = run("parse", document, "--model", "large", "--data-dir", data_dir, code=2)
    assert "LAKEQUEUE_CHAT_URL" in shown.stderr


# --- somebody's own database --------------------------------------------------------------------


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_a_given_database_is_never_migrated(empty_database: Database, tmp_path: Path) -> None:
    shown = run(
        "parse",
        DOCUMENTS / "invoice-nl.pdf",
        code=1,
        LAKEQUEUE_DATABASE_URL=empty_database.conninfo(),
        LAKEQUEUE_DATA_DIR=str(tmp_path),
    )
    assert "lakequeue migrate" in shown.stderr
    assert empty_database.query("select from pg_namespace where nspname = 'lakequeue'") == []


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_a_given_database_is_used(pristine: Database, data_dir: Path) -> None:
    environment: dict[str, Any] = {
        "LAKEQUEUE_DATABASE_URL": pristine.conninfo(),
        "LAKEQUEUE_DATA_DIR": str(data_dir),
    }
    (row,) = parse(DOCUMENTS / "invoice-nl.pdf", "--customer", "ACME", **environment)
    assert row["status"] == "completed"
    assert pristine.query("select customer, status::text from lakequeue.tasks") == [
        ("ACME", "completed")
    ]
    pristine.query("select lakequeue.configure_endpoint('simulator', max_tpm => 12345)")
    parse(DOCUMENTS / "invoice-nl.pdf", **environment)
    limit = "select ceiling from lakequeue.explain_throttle('document-parser')"
    assert pristine.value(limit) == 12345, "what its owner configured stays"


# --- several at once, and killed ----------------------------------------------------------------


def test_two_on_an_empty_data_folder(tmp_path: Path) -> None:
    folders = [copies(tmp_path / name, 3) for name in ("a", "b")]
    twice = folders[1] / "invoice-00.pdf"
    both = [
        start("parse", "--json", *paths, "--data-dir", tmp_path / "data")
        for paths in ([folders[0]], [folders[1], twice])
    ]
    rows = []
    for process in both:
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
        rows += json.loads(out)
    assert [row["status"] for row in rows] == ["completed"] * 7
    assert len({row["task_id"] for row in rows}) == 3, "the same content is one task"
    assert [row["attempts"] for row in rows] == [1] * 7


def test_killed_or_interrupted_the_next_one_goes_on(data_dir: Path, tmp_path: Path) -> None:
    folder = copies(tmp_path / "many", 24)
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes() + b"%% to be interrupted\n")
    counting = "select count(*) as n from lakequeue.tasks where status = 'completed'"

    def completed() -> int:
        count: int = query(data_dir, counting)[0]["n"]
        return count

    before = completed()
    one_by_one = ["--data-dir", data_dir, "--jobs=1"]  # or it is done before it can be interrupted
    killed = start("parse", folder, *one_by_one)
    until(lambda: completed() >= before + 2)
    killed.kill()
    killed.communicate()

    interrupted = start("parse", folder, *one_by_one)
    assert interrupted.stderr is not None
    # It says at once how many the other one has done; a query would take longer than the rest.
    said = next((line for line in interrupted.stderr if "of 24 done" in line), "nothing")
    interrupted.send_signal(signal.SIGINT)
    assert said.startswith(tuple("123456789"))
    # 2 seconds on a quiet machine; up to 12 where runs and the last calls must be given up.
    out, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, err
    assert out == ""
    assert "run the same command again" in err
    assert "Traceback" not in err

    rows = parse(folder, "--data-dir", data_dir)
    assert [row["status"] for row in rows] == ["completed"] * 24
    assert all(1 <= row["attempts"] <= 3 for row in rows)
    doubles = query(
        data_dir,
        """select task_id from lakequeue.task_attempts where status = 'succeeded'
            group by task_id having count(*) > 1""",
    )
    assert doubles == []
