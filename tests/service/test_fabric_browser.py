"""The page of the network in a real Chromium, with the demo's fabric behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from patience import LONG_S
from service.browsing import opened
from service.running import Running, running

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that tests only look at."""
    with running(tmp_path_factory.mktemp("fabric")) as service:
        yield service


def test_the_fabric_is_drawn_with_its_load_and_who_is_capped(
    browser: Browser, watched: Running
) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/fabric")
        expect(page.locator(".st-fabric line").first).to_be_attached(timeout=LONG_S * 1000)

        expect(page.locator(".st-fabric .st-switch")).to_have_count(9)
        expect(page.locator(".st-fabric .st-node")).to_have_count(48)
        expect(page.get_by_text("pretrain-0").first).to_be_visible()
        expect(page.get_by_text("throttled", exact=True).first).to_be_visible(timeout=LONG_S * 1000)
        expect(page.locator(".st-nav [aria-current=page]")).to_have_text("hubFabric")
