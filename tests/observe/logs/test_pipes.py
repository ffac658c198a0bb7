"""Following a pipe: lines are handed on when they are whole, and time passes in between."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from steward.model.rules import LogBlock, Stream
from steward.observe.logs import Following, Reading, follow_pipe

STREAM = Stream(name="stdin")


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    yield out, into
    for each in (out, into):
        try:
            os.close(each)
        except OSError:
            pass  # the test closed it


def texts(block: LogBlock | None) -> list[bytes]:
    assert block is not None
    return [block.text(entry) for entry in range(len(block))]


def test_a_line_comes_when_it_is_whole_and_silence_is_told(ends: tuple[int, int]) -> None:
    out, into = ends
    following = Following(idle_s=0.02)
    with os.fdopen(os.dup(out), "rb", buffering=0) as pipe:
        found = follow_pipe(pipe, STREAM, following)
        os.write(into, b"2026-01-01 00:00:00 one\n2026-01-01 00:00:01 tw")

        assert texts(next(found)) == [b"2026-01-01 00:00:00 one"]
        assert next(found) is None
        os.write(into, b"o\n2026-01-01 00:00:02 end")
        assert texts(next(found)) == [b"2026-01-01 00:00:01 two"]
        os.close(into)
        assert texts(next(found)) == [b"2026-01-01 00:00:02 end"]
        assert list(found) == []
    assert following.tallies["stdin"].lines == 3


def test_a_line_without_end_does_not_fill_the_memory(ends: tuple[int, int]) -> None:
    out, into = ends
    following = Following(idle_s=0.02, reading=Reading(longest_bytes=100))
    with os.fdopen(os.dup(out), "rb", buffering=0) as pipe:
        found = follow_pipe(pipe, STREAM, following)
        os.write(into, b"x" * 5000)

        assert texts(next(found)) == [b"x" * 100]
    assert following.tallies["stdin"].cut == 1


def test_it_can_be_stopped(ends: tuple[int, int]) -> None:
    out, _ = ends
    following = Following(idle_s=0.02)
    with os.fdopen(os.dup(out), "rb", buffering=0) as pipe:
        found = follow_pipe(pipe, STREAM, following)
        assert next(found) is None
        following.stop.set()

        assert list(found) == []
