"""The page of gateways in a real Chromium, with a server that answers as a gateway does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from service.browsing import drawn, opened
from service.gateway_statuses import answering, status
from service.running import Running, running

pytestmark = pytest.mark.real

EVIL = "<img src=x onerror=alert(1)>"
PHONE = {"width": 375, "height": 812}


class Gateway:
    """Its status can be changed while the page is open."""

    def __init__(self) -> None:
        self.code, self.status = 200, status()

    def answer(self) -> tuple[int, bytes]:
        return self.code, json.dumps(self.status).encode()


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def watched(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("serving")
    with (
        answering(gateway.answer) as (url, _),
        running(folder, autonomy="observe", gateways=(url,)) as service,
    ):
        yield service


def test_a_page_shows_a_gateway_and_follows_it(
    browser: Browser, watched: Running, gateway: Gateway
) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/serving")
        expect(page.get_by_role("heading", name="http://127.0.0.1")).to_be_visible()
        expect(page.get_by_text("3 wait, 7 in flight · 10.0 s deadline")).to_be_visible()
        expect(page.locator(".st-square canvas")).to_be_visible()
        page.evaluate("window.sameDocument = true")

        changed = {**gateway.status["classes"][0], "queued": 41, "name": EVIL}
        gateway.status = status(classes=[changed])
        expect(page.get_by_text("41 wait")).to_be_visible()
        expect(page.get_by_text(EVIL).first).to_be_visible()
        expect(page.locator(".st-queue img")).to_have_count(0)

        gateway.code = 503
        expect(page.locator(".st-notice")).to_contain_text("answers 503")
        expect(page.get_by_text("41 wait")).to_be_visible()  # the last answer stays
        assert page.evaluate("window.sameDocument") is True


def test_the_page_fits_a_phone(browser: Browser, watched: Running) -> None:
    with opened(browser, watched, viewport=PHONE) as page:
        page.goto(f"{watched.address}/serving")
        expect(page.get_by_text("gpu-a").first).to_be_visible()
        drawn(page)

        assert page.evaluate("document.documentElement.scrollWidth") == 375
