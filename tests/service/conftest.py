from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service.bed import LONG_ENOUGH_S, MakeBed, ServiceBed, build_bed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a real browser, for tests that are marked `real`."""
    from service.browsing import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def make_bed(tmp_path: Path) -> Iterator[MakeBed]:
    """Return what builds a bed; all are closed at the end."""
    beds: list[ServiceBed] = []

    def make(**rest: Any) -> ServiceBed:
        folder = tmp_path / str(len(beds))
        folder.mkdir()
        beds.append(build_bed(folder, **rest))
        return beds[-1]

    yield make
    for bed in beds:
        bed.lab.close()
        bed.loop.close()


@pytest.fixture(scope="module")
def approval_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBed]:
    """Return a bed with a decision that waits, for tests that change nothing."""
    bed = build_bed(tmp_path_factory.mktemp("bed"), run_s=LONG_ENOUGH_S)
    yield bed
    bed.loop.close()
