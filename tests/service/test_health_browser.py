"""The health page in a real Chromium: a fleet with faults of several weeks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from service.browsing import drawn, opened
from service.running import Running, running

pytestmark = pytest.mark.real

PHONE = {"width": 375, "height": 812}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fleet")
    with running(folder, autonomy="auto", script="fleet_service.py") as service:
        yield service


def test_the_page_shows_the_fleet_its_incidents_and_the_worst_nodes(
    browser: Browser, fleet: Running
) -> None:
    with opened(browser, fleet) as page:
        page.goto(f"{fleet.address}/health")
        expect(page.get_by_role("link", name="Health").first).to_have_attribute(
            "aria-current", "page"
        )
        expect(page.get_by_role("img", name="n09: failed")).to_be_visible()
        expect(page.get_by_role("img", name="n01: well")).to_be_visible()
        expect(page.get_by_role("img", name="incidents on")).to_be_visible()
        fallen = page.get_by_role("cell", name="the GPU has fallen off the bus")
        expect(fallen.first).to_be_visible()  # not the title of its dot in the timeline
        expect(page.get_by_role("cell", name="n03").first).to_be_visible()
        expect(page.get_by_role("cell", name="xid 119", exact=True)).to_be_visible()
        expect(page.get_by_role("list", name="Nodes and their GPUs")).to_be_visible()


def test_the_page_fits_a_phone(browser: Browser, fleet: Running) -> None:
    with opened(browser, fleet, viewport=PHONE) as page:
        page.goto(f"{fleet.address}/health")
        expect(page.get_by_text("n09").first).to_be_visible()
        drawn(page)

        assert page.evaluate("document.documentElement.scrollWidth") == 375
