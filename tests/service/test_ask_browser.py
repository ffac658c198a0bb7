"""The page of questions in a real Chromium: answers, sources, a hostile question, a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from service.browsing import opened
from service.running import Running, started

pytestmark = pytest.mark.real

PHONE = {"width": 375, "height": 812}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    config = tmp_path / "steward.toml"
    config.write_text("", encoding="utf-8")
    with started(config, tmp_path / "data", "--demo") as running:
        yield running


def test_a_question_is_answered_with_its_sources(browser: Browser, service: Running) -> None:
    with opened(browser, service) as page:
        page.goto(f"{service.address}/ask")
        box = page.get_by_label("Your question")
        box.fill("how busy is the cluster?")
        box.press("Enter")
        answers = page.get_by_role("log")
        expect(answers).to_contain_text("There are 64 GPUs.")
        answers.locator("summary").first.click()
        expect(answers).to_contain_text("steward://cluster?t=")
        expect(page).to_have_url(f"{service.address}/ask?q=how+busy+is+the+cluster%3F")

        box.fill(EVIL)
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(answers).to_contain_text("onerror")
        expect(page.locator(".st-main img")).to_have_count(0)


def test_a_link_with_a_question_asks_it_and_fits_a_phone(
    browser: Browser, service: Running
) -> None:
    with opened(browser, service, viewport=PHONE) as page:
        page.goto(f"{service.address}/ask?q=what+waits+for+approval")
        expect(page.get_by_role("log")).to_contain_text("for approval")

        assert page.evaluate("document.documentElement.scrollWidth") == 375
