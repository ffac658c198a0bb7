"""The page of patterns in a real Chromium: mined in a process of its own, shown in a frame."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser, expect

from service.browsing import opened
from service.running import Running, started
from steward.store.files.parquet import HOUR_S, Partitions, write_frame

pytestmark = pytest.mark.real

PATIENT_MS = 180_000  # the first time, kernels are compiled
NAME = "0<b>1"  # before the nodes of the demo


def recorded(folder: Path) -> None:
    """Write the half hour before now of a GPU that computes and rests in turn."""
    t_s = time.time() - np.arange(1800.0)[::-1]
    busy = (np.arange(1800) % 600 >= 300).astype(float)
    for number in np.unique(t_s // HOUR_S):
        inside = t_s // HOUR_S == number
        rows = {"t_s": t_s[inside], "entity": f"{NAME}/gpu0", "gpu.busy_share": busy[inside]}
        rows |= {"gpu.power_watts": 80 + 500 * busy[inside], "gpu.memory.used_bytes": 30e9}
        write_frame(Partitions(folder / "telemetry").folder(int(number)), pl.DataFrame(rows))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    recorded(tmp_path / "data")
    config = tmp_path / "steward.toml"
    config.write_text("", encoding="utf-8")
    with started(config, tmp_path / "data", "--demo") as running:
        yield running


def test_patterns_are_mined_when_asked_for(browser: Browser, service: Running) -> None:
    with opened(browser, service) as page:
        page.goto(f"{service.address}/patterns")
        expect(page.get_by_text("Nothing mined yet")).to_be_visible()

        page.get_by_role("button", name="Mine").click()

        inside = page.frame_locator("iframe.st-report")
        expect(inside.get_by_text("Runs over time")).to_be_visible(timeout=PATIENT_MS)
        expect(inside.get_by_text(f"{NAME}/gpu0").first).to_be_attached()
        expect(inside.locator("svg").first).to_be_visible()
