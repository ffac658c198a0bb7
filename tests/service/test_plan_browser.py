"""The page of plans in a real Chromium: it answers while one types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from service.browsing import opened
from service.running import Running, started

pytestmark = pytest.mark.real

CATALOG = """
sites:
  - name: own
    engine: slurm
    grams_per_kwh: 300
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: gpu, cores_per_node: 32, memory_per_node: 256 GB, gpus_per_node: 4,
         gpu_model: A100-SXM4-40GB, charging: {basis: gpu-hour, rate: 1.5}}
  - name: cloud
    engine: cloud
    source: {text: by hand, as_of: 2026-11-01}
    queues:
      - {name: a100, cores_per_node: 96, memory_per_node: 1 TB, gpus_per_node: 8,
         gpu_model: A100-SXM4-40GB, charging: {basis: gpu-hour, rate: 4}}
"""
PHONE = {"width": 375, "height": 812}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "sites.yaml").write_text(CATALOG, encoding="utf-8")
    config = tmp_path / "steward.toml"
    config.write_text(f'[planning]\ncatalog = ["{tmp_path}/sites.yaml"]\n', encoding="utf-8")
    with started(config, tmp_path / "data", "--demo") as running:
        yield running


def test_the_plan_stands_there_while_one_types(browser: Browser, service: Running) -> None:
    with opened(browser, service) as page:
        page.goto(f"{service.address}/plan")
        expect(page.get_by_text("Nothing asked yet")).to_be_visible()

        page.get_by_label("How long it runs").fill(
            "1xA100-SXM4-40GB=8h..12h, 4xA100-SXM4-40GB=2h..4h"
        )
        expect(page.get_by_text("Recommended")).to_be_visible()
        expect(page.locator(".st-scatter svg")).to_be_visible()
        expect(page.locator(".st-planned")).to_contain_text("own/gpu")

        page.get_by_label("Ends by").fill("2h")
        expect(page.get_by_text("Nothing that is known can do this")).to_be_visible()
        page.get_by_label("Ends by").fill(EVIL)
        expect(page.locator(".st-notice")).to_contain_text("onerror")
        expect(page.locator(".st-main img")).to_have_count(0)


def test_the_page_fits_a_phone(browser: Browser, service: Running) -> None:
    with opened(browser, service, viewport=PHONE) as page:
        page.goto(f"{service.address}/plan")
        page.get_by_label("How long it runs").fill("4xA100-SXM4-40GB=2h..4h")
        expect(page.get_by_text("Recommended")).to_be_visible()

        assert page.evaluate("document.documentElement.scrollWidth") == 375
