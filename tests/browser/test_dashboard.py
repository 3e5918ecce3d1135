"""The dashboard in a real browser: the pill after navigation, a pause, bulk actions, keys, axe."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from psycopg.types.json import Json

from tests.browser.test_live import pill
from tests.python.test_web_pages import busy_queue
from tests.python.web_server import AGENT, DOCUMENTS, Queue
from tests.python.web_server import server as web_server
from tests.servers import Database

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def address(queue: Queue, tmp_path: Path) -> Iterator[str]:
    with web_server(queue.database, tmp_path, LAKEQUEUE_IDENTITY_HEADER="X-Forwarded-Email") as (
        address,
        _,
    ):
        yield address


@pytest.fixture
def operator(page: Page) -> Page:
    """A page of an operator, as a proxy in front would name her."""
    page.set_extra_http_headers({"X-Forwarded-Email": "ann"})
    return page


def test_the_pill_is_live_soon_after_every_navigation(
    queue: Queue, address: str, operator: Page
) -> None:
    """The next probe may be 5 seconds away; the page need not wait for it."""
    took = []
    for path in ("/", "/tasks", "/agents", "/activity", "/", "/extractions", "/tasks"):
        operator.goto(address + path)
        began = time.monotonic()
        pill(operator, "live", 10)
        took.append(time.monotonic() - began)
    print("\nfrom load to Live, in ms:", " ".join(f"{1000 * seconds:.0f}" for seconds in took))
    assert statistics.median(took[1:]) < 1.0


def test_paused_means_still_also_on_the_next_page(
    queue: Queue, address: str, operator: Page
) -> None:
    operator.goto(address)
    pill(operator, "live", 10)
    operator.click("#pause")
    pill(operator, "paused", 1)
    assert (operator.locator("#pill-text").text_content() or "").startswith("Paused: data from ")
    requests: list[str] = []
    operator.on("request", lambda request: requests.append(request.url))
    queue.enqueue()
    operator.wait_for_timeout(2000)
    assert requests == []
    assert operator.locator("#count-enqueued").text_content() == "0"
    operator.goto(f"{address}/agents")
    operator.wait_for_timeout(500)
    assert operator.locator("#pill").get_attribute("data-state") == "paused"
    operator.goto(address)
    operator.keyboard.press("p")
    pill(operator, "live", 5)


def test_tasks_are_picked_and_cancelled_while_new_ones_wait_to_be_shown(
    queue: Queue, address: str, operator: Page
) -> None:
    operator.goto(f"{address}/tasks")
    pill(operator, "live", 10)
    assert operator.locator("#bulk").is_hidden(), "there is nothing to act on"
    documents = Json([{"document_path": f"/d/{number}.pdf"} for number in range(3)])
    rows = queue.call("enqueue_tasks", agent=AGENT, documents=documents)  # at once: none is held
    tasks = [row["task_id"] for row in rows]
    operator.wait_for_selector("#bulk button:has-text('for all that fit (3) …')", timeout=15_000)
    operator.check(f"#task-{tasks[0]} input[type=checkbox]")
    queue.enqueue("/d/new.pdf")
    queue.enqueue("/d/newer.pdf")
    operator.wait_for_selector("#show-held:has-text('2 new tasks')", timeout=15_000)
    assert operator.is_checked(f"#task-{tasks[0]} input[type=checkbox]"), "what is picked stays"
    assert operator.locator("#picked").text_content() == "1 picked"
    operator.click("#bulk button:has-text('1 picked')")
    operator.fill("input[name=reason]", "wrong folder")
    operator.click("button:has-text('Cancel 1 task')")
    assert "1 cancelled." in (operator.locator(".done").text_content() or "")
    assert queue.statuses() == {"enqueued": 4, "cancelled": 1}
    operator.check("label.chip:has-text('enqueued') input", force=True)
    operator.click("button:has-text('Apply')")
    operator.click("#bulk button[name=all]")
    operator.click("button:has-text('Cancel 4 tasks')")
    assert "4 cancelled." in (operator.locator(".done").text_content() or "")
    assert "status=enqueued" in operator.url
    assert queue.statuses() == {"cancelled": 5}


def test_keys_lead_everywhere_and_can_be_switched_off(
    queue: Queue, address: str, operator: Page
) -> None:
    task = queue.enqueue()
    operator.goto(address)
    operator.keyboard.press("g")
    operator.keyboard.press("t")
    operator.wait_for_url("**/tasks")
    operator.keyboard.press("j")
    operator.keyboard.press("x")
    assert operator.is_checked(f"#task-{task} input[type=checkbox]")
    operator.keyboard.press("/")
    operator.keyboard.type("gt?")
    assert operator.input_value("#find") == "gt?", "in a field a key is a letter"
    operator.fill("#find", str(task))
    operator.keyboard.press("Enter")
    operator.wait_for_url(f"**/tasks/{task}")
    operator.keyboard.press("?")
    operator.uncheck("#keys-on")
    operator.keyboard.press("Escape")
    operator.keyboard.press("?")
    assert not operator.locator("#keys").is_visible()


def test_a_hundred_files_one_of_them_broken(
    queue: Queue, address: str, operator: Page, tmp_path: Path
) -> None:
    """Checked before they are sent, each with a bar while it is sent and while it is processed."""
    whole = (DOCUMENTS / "letter-nl.pdf").read_bytes()
    files = [tmp_path / f"{number:03}.pdf" for number in range(100)]
    for number, file in enumerate(files):
        file.write_bytes(whole + f"\n% copy {number}\n".encode())
    files[57].write_bytes((DOCUMENTS.with_name("documents-broken") / "damaged.pdf").read_bytes())
    notes = tmp_path / "notes.pdf"
    notes.write_text("no PDF at all")
    operator.goto(f"{address}/upload")
    operator.set_input_files("#documents", [str(file) for file in (*files, notes)])
    operator.wait_for_selector("#chosen .bad:has-text('no PDF')")
    operator.click("text=Leave out")
    assert "100 files" in (operator.locator("#chosen .total").text_content() or "")
    assert operator.locator("#chosen .bad").count() == 0

    network = operator.context.new_cdp_session(operator)
    network.send("Network.emulateNetworkConditions", {
        "offline": False, "latency": 0, "downloadThroughput": -1,
        "uploadThroughput": sum(file.stat().st_size for file in files) / 2,
    })  # fmt: skip
    operator.click("#send")
    operator.wait_for_function(
        "() => { const bars = [...document.querySelectorAll('#chosen progress')];"
        " return bars.length === 100 && bars[0].value === 1 && bars[99].value === 0 }",
        polling=20,
    )
    operator.wait_for_url("**/extractions/*", timeout=60_000)
    network.detach()
    assert operator.locator("#done").text_content() == "1 of 100 documents done"
    assert operator.locator("#documents .status.refused").count() == 1
    assert operator.locator("#documents progress[value]").count() == 99
    row = queue.claim()
    operator.wait_for_selector("#documents progress:not([value])", timeout=15_000)
    assert "000.pdf" in (operator.locator("tr:has(progress:not([value]))").text_content() or "")
    queue.call("record_callback", attempt=row["attempt_id"], token=row["callback_token"],
               outcome="permanent_failure")  # fmt: skip
    operator.wait_for_selector("#done:has-text('2 of 100')", timeout=15_000)
    assert operator.locator("#documents progress").count() == 98


def test_axe_finds_nothing_on_any_page(queue: Queue, address: str, browser: Browser) -> None:
    """Light and dark, with everything that opens open."""
    task, extraction = busy_queue(queue)
    queue.call("configure_agent", agent=AGENT, max_concurrent_tasks=1, max_tpm=100)
    queue.call("cancel_tasks", tasks=[queue.enqueue()], reason="wrong folder")
    queue.call("pause_agent", agent=AGENT, reason="lunch")
    queue.call("worker_heartbeat", worker="w")
    queue.call("fold_rollups")
    found: list[tuple[str, ...]] = []

    def check(page: Page, name: str) -> None:
        found.extend(
            (look, name, each["impact"], each["id"], each["nodes"][0]["html"])
            for each in Axe().run(page).response["violations"]
        )

    for look in ("light", "dark"):
        context = browser.new_context(
            color_scheme=look,
            extra_http_headers={"X-Forwarded-Email": "ann"},
        )
        page = context.new_page()
        for path in ("/", "/tasks", "/agents", "/activity", "/upload", "/extractions",
                     f"/extractions/{extraction}", f"/tasks/{task}", "/tasks/0"):  # fmt: skip
            page.goto(address + path)
            page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
            check(page, path)
        page.goto(f"{address}/tasks")
        page.click("#bulk button[name=all]")
        check(page, "confirm")
        context.close()
    assert found == []


def test_words_without_an_end_do_not_widen_the_page_of_a_task(
    queue: Queue, address: str, operator: Page
) -> None:
    queue.enqueue("/d/a.pdf", customer="c" * 200)
    task = queue.complete({"fields": {"f" * 300: "v" * 300}}, trace_id="t" * 500)
    operator.set_viewport_size({"width": 390, "height": 844})
    operator.goto(f"{address}/tasks/{task}")
    assert operator.evaluate("() => document.documentElement.scrollWidth") == 390
