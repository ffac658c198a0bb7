"""The lab's page in a real Chromium, with the real engines behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from patience import LONG_S, until
from service.browsing import drawn, opened
from service.labs import TRACE
from service.running import Running, running
from steward.store.tokens import Role, Tokens

# The engines may have to be compiled first: a minute and a half, or ten on a busy machine.
pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

COMPILED_WITHIN_MS = 1_200_000
COMPARISONS = "/api/v1/lab/comparisons"
EMPTY = "empty.csv: the file is empty"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture(autouse=True)
def none_runs_yet(request: pytest.FixtureRequest) -> None:
    """Cancel what an earlier test left running: one comparison at a time, others are refused."""
    if "service" not in request.fixturenames:
        return
    asked: Running = request.getfixturevalue("service")
    with httpx.Client(base_url=asked.address, headers=asked.headers, timeout=LONG_S) as client:
        for each in client.get(COMPARISONS).raise_for_status().json()["items"]:
            if each["state"] == "running":
                client.delete(f"{COMPARISONS}/{each['id']}").raise_for_status()


def choose(page: Page, *policies: str) -> None:
    for box in page.locator("[name=policies]").all():
        box.set_checked(box.get_attribute("value") in policies)


def run(page: Page) -> None:
    page.get_by_role("button", name="Run the comparison").click()


def report(page: Page) -> FrameLocator:
    return page.frame_locator("iframe.st-report")


def test_an_uploaded_trace_is_compared_and_its_table_is_seen(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    file = tmp_path / "may.csv"
    file.write_text(f"{TRACE}late,soon,10,1,team0\nhuge,900,10,64,team0\n")
    with opened(browser, service) as page:
        page.goto(f"{service.address}/lab")
        page.get_by_label("Trace file").set_input_files(file)
        choose(page, "fifo", "commons")
        page.get_by_label("GPUs", exact=True).fill("8")
        run(page)

        # until then the page shows another test's comparison, if there was one
        result = page.locator(".st-lab-result")
        left_out = "1 row left out: larger than the cluster (8 GPUs)"
        expect(result).to_contain_text(left_out, timeout=COMPILED_WITHIN_MS)
        expect(result).to_contain_text("8 GPUs in 1 node")

        table = report(page).get_by_role("table").first
        names = table.get_by_role("rowheader")
        expect(names).to_have_count(2)
        assert set(names.all_inner_texts()) == {"fifo", "commons"}
        expect(table.locator("td.best").first).to_be_visible()
        expect(table.locator("small", has_text="…").first).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download results.json").click()
        saved = json.loads(download.value.path().read_text())
        assert set(saved["policies"]) == {"fifo", "commons"}
        assert download.value.suggested_filename == "results.json"


def test_the_report_is_as_tall_as_it_is_and_has_the_colours_of_the_page(
    browser: Browser, service: Running
) -> None:
    with opened(browser, service, color_scheme="light") as page:
        page.goto(f"{service.address}/lab")
        page.get_by_label("The example").check()
        choose(page, "fifo", "commons")
        run(page)
        body = report(page).locator("body")
        expect(body).to_contain_text("made up", timeout=COMPILED_WITHIN_MS)
        expect(page.locator(".st-lab-result")).to_contain_text("synthetic")

        def as_tall() -> bool:
            inside = body.evaluate("(each) => each.scrollHeight")
            frame = page.locator("iframe.st-report").bounding_box()
            return frame is not None and abs(frame["height"] - inside) < 60

        until(as_tall, why="a frame as tall as the report")

        for _ in range(2):  # from auto to light to dark
            page.get_by_role("button", name=re.compile("^Colours")).click()
        expect(page.locator("body.body--dark")).to_be_attached()

        def dark() -> bool:
            colour = body.evaluate("(each) => getComputedStyle(each).backgroundColor")
            return max(int(part) for part in re.findall(r"\d+", colour)[:3]) < 60

        until(dark, why="a dark report")


def test_what_is_wrong_is_said_on_the_page(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    file = tmp_path / "shopping.csv"
    file.write_text("what,how many\nmilk,2\n")
    with opened(browser, service) as page:
        page.goto(f"{service.address}/lab")
        run(page)
        expect(page.locator(".st-refused")).to_contain_text("Choose a file first")

        page.get_by_label("Trace file").set_input_files(file)
        choose(page)
        run(page)
        expect(page.locator(".st-refused")).to_contain_text("Choose 1 to 12 policies")

        choose(page, "fifo")
        page.get_by_label("GPUs", exact=True).fill("0")
        run(page)
        expect(page.locator(".st-refused")).to_contain_text("GPUs: ")

        page.get_by_label("GPUs", exact=True).fill("")
        run(page)
        notice = page.locator(".st-lab-result .st-notice")
        # an earlier comparison may still be under way, and only one is at a time
        expect(notice).to_contain_text(
            "shopping.csv: is no known format", timeout=COMPILED_WITHIN_MS
        )
        expect(notice).to_contain_text("lacks")


def test_a_file_that_was_mended_after_a_bad_upload_can_be_chosen_again(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    file = tmp_path / "mended.csv"
    file.write_text("what,how many\nmilk,2\n")
    with opened(browser, service) as page:
        page.goto(f"{service.address}/lab")
        page.get_by_label("Trace file").set_input_files(file)
        choose(page, "fifo")
        run(page)
        result = page.locator(".st-lab-result")
        expect(result).to_contain_text("mended.csv: is no known format", timeout=COMPILED_WITHIN_MS)

        file.write_text(TRACE)  # browsers refuse to send a file that is not as it was chosen
        run(page)
        expect(page.locator(".st-refused")).to_contain_text("mended.csv was changed")
        expect(page.get_by_label("Trace file")).to_have_value("")

        page.get_by_label("Trace file").set_input_files(file)
        expect(page.locator(".st-refused")).to_be_hidden()
        run(page)
        expect(result).not_to_contain_text("no known format")


def test_a_comparison_that_runs_is_cancelled_and_the_others_stay_within_reach(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("")
    with opened(browser, service) as page:
        page.goto(f"{service.address}/lab")
        page.get_by_label("Trace file").set_input_files(file)
        run(page)
        shown = page.locator(".st-lab-result")
        # until then the page shows another test's comparison, which may have failed too
        expect(shown).to_contain_text(EMPTY, timeout=COMPILED_WITHIN_MS)

        page.get_by_label("The example").check()
        choose(page, "shockwave", "themis", "max-min")  # they take minutes
        run(page)
        expect(shown).not_to_contain_text("empty.csv")
        page.get_by_role("button", name="Cancel").click()
        expect(shown.locator(".st-chip").first).to_have_text("cancelled")

        other = page.locator("a.st-news", has_text="empty.csv")
        address = other.get_attribute("href")
        other.click()

        expect(page).to_have_url(f"{service.address}{address}")
        expect(shown).to_contain_text(EMPTY)


def test_a_viewer_sees_what_came_out_and_no_form(browser: Browser, tmp_path: Path) -> None:
    token = Tokens(tmp_path / "tokens.json").make("vic", Role.VIEWER)
    with (
        running(tmp_path, host="0.0.0.0") as guarded,  # noqa: S104 - that is what is tested
        opened(browser, guarded, logged_in=False) as page,
    ):
        page.goto(f"{guarded.address}/lab")
        page.get_by_label("Access token").fill(token)
        page.get_by_role("button", name="Log in").click()

        expect(page.get_by_text("Operators start comparisons")).to_be_visible()
        expect(page.locator("form.st-lab")).to_have_count(0)


def test_the_form_and_a_comparison_fit_a_phone(browser: Browser, service: Running) -> None:
    phone = {"width": 375, "height": 812}
    with opened(browser, service, viewport=phone) as page:
        page.goto(f"{service.address}/lab")
        expect(page.get_by_role("button", name="Run the comparison")).to_be_visible()
        expect(page.locator("form.st-lab")).to_be_visible()
        drawn(page)

        assert page.evaluate("document.documentElement.scrollWidth") == 375
