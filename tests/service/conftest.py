from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service.house import LONG_ENOUGH_S, House, MakeHouse, build_house

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a real browser, for tests that are marked `real`."""
    from service.browsing import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[MakeHouse]:
    """Return what builds a house; all are closed at the end."""
    houses: list[House] = []

    def make(**rest: Any) -> House:
        folder = tmp_path / str(len(houses))
        folder.mkdir()
        houses.append(build_house(folder, **rest))
        return houses[-1]

    yield make
    for house in houses:
        house.lab.close()
        house.loop.close()


@pytest.fixture(scope="module")
def asking_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Return a house with a decision that waits, for tests that change nothing."""
    house = build_house(tmp_path_factory.mktemp("house"), run_s=LONG_ENOUGH_S)
    yield house
    house.loop.close()
