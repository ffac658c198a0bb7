"""A database of batches, on SQLite with a clock that tests move, or on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steward.store.batches import BatchDatabase, open_batches


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(journal_url: str, clock: Clock) -> Iterator[BatchDatabase]:
    opened = open_batches(journal_url, clock=clock)
    yield opened
    opened.close()
