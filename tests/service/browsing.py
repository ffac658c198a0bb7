"""A real Chromium, and pages that fail a test when anything in them does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from patience import LONG_S
from service.running import Running

__all__ = ["chromium", "expect", "opened"]

expect.set_options(timeout=1000 * LONG_S)  # it ends as soon as it is so

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


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, service: Running, *, logged_in: bool = True, **context: Any
) -> Iterator[Page]:
    """Give a page that fails the test if anything breaks in it or comes from elsewhere."""
    address = service.address
    made = browser.new_context(**context)
    if logged_in:
        made.request.post(f"{address}/login", form={"token": service.token})
    page = made.new_page()
    page.set_default_timeout(1000 * LONG_S)
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda said: broken.append(said.text) if said.type == "error" else None)
    made.on("request", lambda request: broken.extend(_outside(request.url, address)))
    yield page
    made.close()
    faults = [each for each in broken if "401" not in each and "404" not in each]
    assert not faults, faults


def _outside(url: str, address: str) -> list[str]:
    ours = url.startswith((address, "data:", "blob:", address.replace("http", "ws")))
    return [] if ours else [f"asked {url}"]
