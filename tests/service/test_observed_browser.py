"""Nodes and GPUs in a real Chromium: from the cluster down to a stretch of one GPU's time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from service.browsing import drawn, opened
from service.running import Running, running

pytestmark = pytest.mark.real

PHONE = {"width": 375, "height": 812}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("observed"), autonomy="observe") as service:
        yield service


def map_of(page: Page, service: Running) -> None:
    page.goto(f"{service.address}/gpus/n1/gpu1?for=10%20min")
    expect(page.locator(".st-rhythm canvas")).to_be_visible()


def test_one_gets_from_the_list_of_nodes_to_a_gpu(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/nodes")
        page.get_by_role("link", name="n1", exact=True).click()
        expect(page.get_by_text("No samples of the machine itself")).to_be_visible()
        expect(page.locator(".st-curves canvas").first).to_be_visible()

        page.get_by_role("link", name="gpu1").click()
        expect(page.get_by_role("heading", name="n1/gpu1")).to_be_visible()
        expect(page.get_by_text("A column is one minute, a cell 10 s")).to_be_visible()


def test_dragging_over_the_map_compares_a_stretch_with_the_rest(
    browser: Browser, watched: Running
) -> None:
    with opened(browser, watched) as page:
        map_of(page, watched)
        canvas = page.locator(".st-rhythm canvas")
        width = canvas.evaluate("(each) => each.clientWidth")
        # it waits until the canvas stays where it is: curves come in meanwhile
        canvas.drag_to(
            canvas,
            source_position={"x": 0.85 * width, "y": 20},
            target_position={"x": 0.92 * width, "y": 20},
        )

        expect(page.get_by_text("what was different from the rest")).to_be_visible()
        expect(page.locator(".st-rhythm-picked")).to_be_visible()

        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".st-rhythm-picked")).to_have_count(0)


def test_the_map_can_be_used_without_a_mouse(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        map_of(page, watched)

        page.locator(".st-rhythm canvas").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".st-rhythm-picked")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(".st-rhythm-picked")).to_have_count(0)


def test_another_metric_and_another_time_can_be_chosen(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        map_of(page, watched)

        page.get_by_role("button", name="power", exact=True).click()
        expect(page.get_by_label("Heat map of power of n1/gpu1")).to_be_visible()
        page.get_by_role("button", name="1 h", exact=True).click()
        expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute(
            "aria-pressed", "true"
        )


@pytest.mark.parametrize("path", ["/nodes/nowhere", "/gpus/n1/gpu99"])
def test_what_is_not_there_is_said_to_be_missing(
    browser: Browser, watched: Running, path: str
) -> None:
    with opened(browser, watched) as page:
        page.goto(watched.address + path)

        expect(page.get_by_text("There is no")).to_be_visible()


@pytest.mark.parametrize("path", ["/nodes", "/nodes/n1", "/gpus/n1/gpu0"])
def test_a_phone_does_not_scroll_sideways(browser: Browser, watched: Running, path: str) -> None:
    with opened(browser, watched, viewport=PHONE, color_scheme="dark") as page:
        page.goto(watched.address + path)
        expect(page.locator(".st-card").first).to_be_visible()
        drawn(page)

        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
