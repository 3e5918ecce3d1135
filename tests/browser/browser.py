"""A real Chromium, driven by Playwright: the system's own, found where Debian puts it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Without these, Chromium asks hosts on the internet for updates at every start, and as root it
# refuses to start at all.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)


def chromium_path() -> str:
    """Where Chromium is; without one the tests fail, they do not skip."""
    named = os.environ.get("LAKEQUEUE_TEST_CHROMIUM")
    for candidate in (named, "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(candidate) if candidate else None
        if found:
            return found
    raise RuntimeError(
        "no Chromium was found: install Debian's package chromium,"
        " or name a program by LAKEQUEUE_TEST_CHROMIUM"
    )


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser as long as the block lasts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
