"""Live pages in a real browser: changes arrive, and what the pill says is true."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.proxy import Proxy
from tests.python.web_server import AGENT, Queue
from tests.python.web_server import server as web_server
from tests.servers import Database

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

CHANGES = 12


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def address(queue: Queue, tmp_path: Path) -> Iterator[str]:
    with web_server(queue.database, tmp_path) as (address, _):
        yield address


@pytest.fixture
def proxy(address: str) -> Iterator[Proxy]:
    proxy = Proxy(address)
    yield proxy
    proxy.close()


def psql(database: Database, statement: str) -> None:
    """A change as an operator makes it: by psql, from outside."""
    subprocess.run(
        [database.server.program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1",
         f"--dbname={database.conninfo()}", f"--command={statement}"],
        stdout=subprocess.DEVNULL,
        check=True,
    )  # fmt: skip


def pill(page: Page, state: str, seconds: float) -> None:
    """Wait for it; `seconds` is what it takes at most on a machine that does little else."""
    page.wait_for_selector(f"#pill[data-state={state}]", timeout=3 * seconds * 1000)


def test_a_change_made_in_psql_reaches_the_page_within_a_second(
    queue: Queue, address: str, page: Page
) -> None:
    page.goto(address)
    pill(page, "live", 15)
    page.evaluate(
        """() => {
            window.seen = [];
            const look = () => {
                const text = document.getElementById("count-enqueued").textContent;
                if (window.seen.at(-1)?.text !== text) window.seen.push({ text, at: Date.now() });
            };
            look();
            new MutationObserver(look).observe(document.getElementById("numbers"),
                { subtree: true, childList: true, characterData: true });
        }"""
    )
    delays = []
    for number in range(1, CHANGES + 1):
        psql(queue.database, f"select lakequeue.enqueue_task('{AGENT}', '/d/{number}.pdf')")
        committed = time.time()
        page.wait_for_function("n => window.seen.at(-1).text === String(n)", arg=number)
        seen = page.evaluate("() => window.seen.at(-1).at") / 1000
        delays.append(max(0.0, seen - committed))
        page.wait_for_timeout(900)
    median = statistics.median(delays)
    print(f"\nfrom psql to the page: median {median:.3f} s, most {max(delays):.3f} s")
    assert median < 1.0
    assert page.locator("#pill").get_attribute("data-state") == "live"


def test_with_the_stream_swallowed_the_pill_says_so_and_the_numbers_stay_right(
    queue: Queue, proxy: Proxy, page: Page
) -> None:
    page.goto(proxy.address)
    pill(page, "live", 15)
    proxy.swallow_streams = True
    pill(page, "polling", 20)
    assert page.locator("#pill-text").text_content() == "Polling every 10 s"
    psql(queue.database, f"select lakequeue.enqueue_task('{AGENT}', '/d/1.pdf')")
    page.wait_for_function(
        "() => document.getElementById('count-enqueued').textContent === '1'", timeout=30_000
    )
    assert page.locator("#pill").get_attribute("data-state") == "polling"
    proxy.swallow_streams = False
    pill(page, "live", 30)
    psql(queue.database, f"select lakequeue.enqueue_task('{AGENT}', '/d/2.pdf')")
    page.wait_for_function(
        "() => document.getElementById('count-enqueued').textContent === '2'", timeout=9_000
    )


def test_with_the_server_gone_the_pill_says_how_old_the_numbers_are(
    queue: Queue, proxy: Proxy, page: Page
) -> None:
    psql(queue.database, f"select lakequeue.enqueue_task('{AGENT}', '/d/1.pdf')")
    page.goto(proxy.address)
    pill(page, "live", 15)
    proxy.refuse = True
    proxy.hang_up()
    pill(page, "polling", 5)
    pill(page, "stale", 35)
    words = page.locator("#pill-text").text_content() or ""
    assert re.fullmatch(r"Stale: data from \d\d:\d\d:\d\d", words)
    assert page.locator("#count-enqueued").text_content() == "1", "the last numbers stay"
    psql(queue.database, f"select lakequeue.enqueue_task('{AGENT}', '/d/2.pdf')")
    proxy.refuse = False
    page.wait_for_function(
        "() => document.getElementById('count-enqueued').textContent === '2'", timeout=30_000
    )
    pill(page, "live", 40)


def test_an_update_disturbs_nobody(queue: Queue, address: str, page: Page) -> None:
    """Focus, what is opened and what is written stay; rows of a list do not move."""
    task = queue.enqueue("/d/first.pdf")
    queue.complete({"fields": {}, "pages": [{"number": 1, "text": "words", "characters": 5}]})
    page.goto(f"{address}/tasks/{task}")
    pill(page, "live", 15)
    page.click("summary")
    queue.enqueue("/d/second.pdf")
    time.sleep(2)
    assert page.locator("details").first.get_attribute("open") is not None

    page.goto(f"{address}/tasks")
    pill(page, "live", 15)
    link = page.locator(f"#task-{task} a")
    link.focus()
    page.fill("input[name=from]", "2026-01-02")
    link.focus()
    queue.enqueue("/d/third.pdf")
    page.wait_for_selector("#held:not([hidden])")
    assert page.evaluate("() => document.activeElement.closest('tr').id") == f"task-{task}"
    assert page.input_value("input[name=from]") == "2026-01-02"
    assert page.locator("tbody tr").count() == 2, "a new row waits to be shown"
    queue.claim()
    status = f"#task-{task + 1} .status.processing"
    page.wait_for_selector(status)
    page.click("#show-held")
    assert page.locator("tbody tr").count() == 3
    assert page.locator(f"{status} path").count() == 2, "its icon is whole"
    assert page.locator("#held").is_hidden()


def test_the_agents_page_follows_its_limits_and_a_pause(
    queue: Queue, address: str, page: Page
) -> None:
    """A limit that binds, a 429 and a pause show within seconds; what is opened stays open."""
    psql(queue.database, f"select lakequeue.configure_agent('{AGENT}', max_concurrent_tasks => 1)")
    queue.enqueue("/d/1.pdf")
    row = queue.claim()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/agents")
    pill(page, "live", 15)
    gauge = page.locator(".limits .bar")
    assert gauge.get_attribute("aria-label") == "1 of 1 tasks"
    assert page.locator(".tag.low").count() == 0, "nothing waits for it"
    page.click("summary")
    queue.enqueue("/d/2.pdf")
    page.wait_for_selector(".low-row:has-text('Next task')", timeout=9_000)
    psql(
        queue.database,
        f"select lakequeue.report_rate_limit({row['attempt_id']}, '{row['callback_token']}')",
    )
    page.wait_for_selector(".notice:has-text('Cooling down until')", timeout=9_000)
    psql(queue.database, f"select lakequeue.pause_agent('{AGENT}', 'lunch')")
    page.wait_for_selector(".agent-head .status.paused", timeout=9_000)
    assert "lunch" in (page.locator(".notice").first.text_content() or "")
    assert page.locator("details").get_attribute("open") is not None
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


def test_a_hidden_tab_holds_no_stream(queue: Queue, address: str, page: Page) -> None:
    page.goto(address)
    pill(page, "live", 15)

    def streams() -> int:
        health = page.request.get(f"{address}/api/health").json()
        return int(health["streams"])

    def hide(hidden: bool) -> None:
        page.evaluate(
            """hidden => {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )

    assert streams() == 1
    hide(True)
    until = time.monotonic() + 12
    while streams():
        assert time.monotonic() < until
        time.sleep(0.2)
    queue.enqueue()
    hide(False)
    page.wait_for_function(
        "() => document.getElementById('count-enqueued').textContent === '1'", timeout=9_000
    )
    pill(page, "live", 10)


def test_without_scripts_the_pill_claims_nothing(
    queue: Queue, address: str, browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    queue.enqueue()
    page.goto(address)
    assert page.locator("#pill-text").text_content() == "Not live"
    assert page.locator("#count-enqueued").text_content() == "1"
    page.check("input[value=failed]", force=True)
    page.click("button:has-text('Apply')")
    assert "status=failed" in page.url
    context.close()
