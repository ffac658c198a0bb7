"""The page /memory in a real browser: a real process, watched into the store of the service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from patience import LONG_S
from service.browsing import opened
from service.running import Running, running
from steward.clock import WallClock
from steward.config.memory_loop import MemoryWatch, WatchOptions

pytestmark = pytest.mark.real


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        yield found


def test_a_watched_process_is_shown_with_tiers_hot_set_and_moves(
    browser: Browser, service: Running, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as sleeper:
        options = WatchOptions(pid=sleeper.pid, near_bytes=1 << 40)
        store = next(each.parent for each in tmp_path.rglob("journal.sqlite*"))
        journal = f"sqlite:///{tmp_path}/memory.sqlite"
        watch = MemoryWatch(options, store, journal, clock=WallClock())
        for _ in range(3):
            watch.turn()
        watch.write_status()
        watch.close()

        with opened(browser, service) as page:
            page.goto(f"{service.address}/memory")
            heading = page.get_by_role("heading", name=f"({sleeper.pid})")
            expect(heading).to_be_visible(timeout=1000 * LONG_S)
            for words in ("Tiers", "Stall saved", "Hot set", "Moves"):
                expect(page.get_by_text(words, exact=True).first).to_be_visible()
            if folder := os.environ.get("STEWARD_SCREENSHOTS"):
                page.screenshot(path=f"{folder}/memory.png", full_page=True)
        sleeper.kill()
