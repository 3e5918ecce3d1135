"""`lakequeue up` with everything real: upload, progress, table, CSV, original; and its end."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"
START_SECONDS = 120
PARSE_SECONDS = 240
COMMAND = [sys.executable, "-c", "from lakequeue.cli import main; main()"]


class Up:
    """A running `lakequeue up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--port", "0", "--data-dir", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._address()

    def _address(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "running at " in line:
                return line.split()[-1]
        raise AssertionError("lakequeue up did not start")

    def json(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="lakequeue-up-", dir="/tmp") as folder:
        up = Up(Path(folder) / "data")
        try:
            yield up
        finally:
            up.stop()


def twenty_files(folder: Path) -> list[str]:
    """Nineteen documents that can be read, each once, and one that cannot."""
    readable = [p for p in sorted(DOCUMENTS.glob("*.pdf")) if p.name.startswith(("inv", "let"))]
    files = []
    for number in range(19):
        original = readable[number % len(readable)]
        # Bytes after the end are ignored by readers, and make another content of it.
        path = folder / f"{number:02}-{original.name}"
        path.write_bytes(original.read_bytes() + f"\n% copy {number}\n".encode())
        files.append(str(path))
    broken = folder / "19-broken.pdf"
    broken.write_bytes((DOCUMENTS.with_name("documents-broken") / "damaged.pdf").read_bytes())
    return [*files, str(broken)]


def test_twenty_files_with_a_broken_one(up: Up, page: Page, tmp_path: Path) -> None:
    page.goto(f"{up.address}/upload")
    page.set_input_files("#documents", twenty_files(tmp_path))
    assert "20 files" in (page.locator("#chosen .total").text_content() or "")
    page.fill("input[name=customer]", "ACME & Sons")
    page.fill("input[name=name]", "October <b>invoices</b>")
    page.select_option("select[name=priority]", "7")
    page.click("#send")
    page.wait_for_url("**/extractions/*", timeout=60_000)
    batch = page.url
    assert page.locator("h1").text_content() == "October <b>invoices</b>"
    assert page.locator("#documents tbody tr").count() == 20

    # The page follows by itself, document by document.
    seen: list[int] = []
    until = time.monotonic() + PARSE_SECONDS
    while not seen or seen[-1] < 20:
        assert time.monotonic() < until, f"not done: {seen}"
        done = int((page.locator("#done").text_content() or "0").split()[0])
        if not seen or seen[-1] != done:
            seen.append(done)
        page.wait_for_timeout(100)
    assert len(seen) > 3, f"progress came in steps: {seen}"
    assert seen == sorted(seen)
    assert page.locator("#batch-completed").text_content() == "19"
    assert page.locator("#batch-refused").text_content() == "1"
    last = page.locator("#documents tbody tr").last
    assert "document_unreadable" in (last.text_content() or "")

    # The table has the documents' fields.
    head = page.locator("#documents thead th").all_text_contents()
    assert {"Invoice number", "Invoice date", "Total amount"} <= set(head)
    row = page.locator("tr:has-text('invoice-en')").first
    assert "HM-2024-0317" in (row.text_content() or "")
    assert "1,394.77" in (row.text_content() or "")

    # The CSV says the same.
    with page.expect_download() as download:
        page.click("text=CSV")
    content = Path(download.value.path()).read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [row["status"] for row in rows].count("completed") == 19
    assert rows[19]["status"] == "refused"
    english = next(row for row in rows if "invoice-en" in row["document"])
    assert (english["invoice_number"], english["total_amount"]) == ("HM-2024-0317", "1394.77")

    # The original stands beside the values.
    row.locator("a").click()
    page.wait_for_selector("h1:has-text('invoice-en')")
    assert "HM-2024-0317" in (page.locator("#result").text_content() or "")
    page.wait_for_function(
        "() => { const i = document.querySelector('#page-1 img');"
        " return i.complete && i.naturalWidth }"
    )

    # The agents confirmed by the webhook; each task was counted once.
    assert up.json("/api/health")["reports_received"] == 19
    number = batch.rsplit("/", 1)[1]
    found = up.json(f"/api/extractions/{number}")
    assert all(row["attempts"] == 1 for row in found["documents"][:19])
    metrics = up.json("/api/metrics?range=all")
    assert metrics["statuses"]["completed"]["tasks"] == 19
    assert metrics["llm_cost"] > 0


def test_the_same_files_again_cost_nothing_and_work_without_scripts(
    up: Up, browser: Browser, tmp_path: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{up.address}/upload")
    page.set_input_files("#documents", twenty_files(tmp_path)[:3])
    page.fill("input[name=customer]", "ACME & Sons")
    page.click("#send")
    page.wait_for_url("**/extractions/*")
    assert page.locator("#done").text_content() == "3 of 3 documents done"
    assert page.locator("text=submitted before").count() == 3
    page.goto(f"{up.address}/upload")
    page.click("#send")
    assert page.url.endswith("/upload"), "the browser asks for a file"
    context.close()


def test_others_work_on_the_same_data_meanwhile(up: Up) -> None:
    ran = subprocess.run(
        [*COMMAND, "up", "--port", "0", "--data-dir", str(up.folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert f"already runs on {up.folder}: {up.address}" in ran.stderr
    before = up.json("/api/metrics?range=all")["tasks"]
    ran = subprocess.run(
        [*COMMAND, "psql", "--data-dir", str(up.folder), "-Atc",
         "select lakequeue.enqueue_task('document-parser', '/missing.pdf')"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    task = int(ran.stdout)
    until = time.monotonic() + 60
    while up.json(f"/api/tasks/{task}")["task"]["status"] != "failed":
        assert time.monotonic() < until
        time.sleep(0.2)
    assert "document_missing" in json.dumps(up.json(f"/api/tasks/{task}")["attempts"])
    assert up.json("/api/metrics?range=all")["tasks"] == before + 1


def test_it_ends_within_15_seconds_and_goes_on_next_time(up: Up, page: Page) -> None:
    page.goto(up.address)
    page.wait_for_selector("#pill[data-state=live]")
    began = time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    assert time.monotonic() - began < 15
    with pytest.raises(OSError):
        up.json("/healthz")
    again = Up(up.folder)
    try:
        assert again.json("/api/metrics?range=all")["statuses"]["completed"]["tasks"] == 19
    finally:
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(60) == 0
        again.stop()
    assert os.path.exists(up.folder / "web.secret")
