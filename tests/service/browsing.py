"""A real Chromium, and pages that fail a test when anything in them does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from patience import LONG_S, until
from service.running import Running

__all__ = ["chromium", "drawn", "expect", "new_context", "opened", "told"]

LONG_MS = 1000 * LONG_S
expect.set_options(timeout=LONG_MS)  # it ends as soon as it is so

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# A message is gone after five seconds, and a busy machine may not look in time: keep what it says.
KEEP_MESSAGES = """
window.told = [];
const keep = (each) => window.told.push(each.innerText);
new MutationObserver(() => document.querySelectorAll(".q-notification").forEach(keep))
    .observe(document, {childList: true, subtree: true});
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=LONG_MS
        )
        yield browser
        browser.close()


def new_context(browser: Browser, address: str, token: str = "", **context: Any) -> BrowserContext:
    """Return a context that waits as long as it takes, logged in if there is a token."""
    made = browser.new_context(**context)
    made.set_default_timeout(LONG_MS)
    if token:
        made.request.post(f"{address}/login", form={"token": token}, timeout=LONG_MS)
    return made


@contextmanager
def opened(
    browser: Browser, service: Running, *, logged_in: bool = True, **context: Any
) -> Iterator[Page]:
    """Give a page that fails the test if anything breaks in it or comes from elsewhere."""
    address = service.address
    made = new_context(browser, address, service.token if logged_in else "", **context)
    made.add_init_script(KEEP_MESSAGES)
    page = made.new_page()
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda said: broken.append(said.text) if said.type == "error" else None)
    made.on("request", lambda request: broken.extend(_outside(request.url, address)))
    yield page
    made.close()
    faults = [each for each in broken if "401" not in each and "404" not in each]
    assert not faults, faults


def told(page: Page, words: str) -> None:
    """Wait until a message with these words has been shown, even if it is gone by now."""
    page.wait_for_function("words => told.some((each) => each.includes(words))", arg=words)


def drawn(page: Page) -> None:
    """Wait until fonts are there and two looks, half a second apart, show the same outline."""
    outline = """document.fonts.ready.then(() =>
        [document.body.scrollHeight, document.querySelectorAll('*').length].join())"""
    expect(page.locator("h1, h2, h3, label, button").first).to_be_visible()
    seen = [page.evaluate(outline)]

    def still() -> bool:
        page.wait_for_timeout(500)
        seen.append(page.evaluate(outline))
        return bool(seen[-1] == seen[-2])

    until(still, why="a page that stays as it is")


def _outside(url: str, address: str) -> list[str]:
    ours = url.startswith((address, "data:", "blob:", address.replace("http", "ws")))
    return [] if ours else [f"asked {url}"]
