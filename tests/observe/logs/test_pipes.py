"""Following a pipe: lines are handed on when they are whole, and time passes in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO

import pytest

from steward.model.rules import LogBlock, Stream
from steward.observe.logs import Following, Reading, follow_pipe

STREAM = Stream(name="stdin")


@pytest.fixture
def ends() -> Iterator[tuple[FileIO, FileIO]]:
    out, into = os.pipe()
    with FileIO(out, "r") as pipe, FileIO(into, "w") as writing:
        yield pipe, writing


def texts(block: LogBlock | None) -> list[bytes]:
    assert block is not None
    return [block.text(entry) for entry in range(len(block))]


def test_a_line_comes_when_it_is_whole_and_silence_is_reported(ends: tuple[FileIO, FileIO]) -> None:
    pipe, into = ends
    following = Following(idle_s=0.02)
    found = follow_pipe(pipe, STREAM, following)
    into.write(b"2026-01-01 00:00:00 one\n2026-01-01 00:00:01 tw")

    assert texts(next(found)) == [b"2026-01-01 00:00:00 one"]
    assert next(found) is None
    into.write(b"o\n2026-01-01 00:00:02 end")
    assert texts(next(found)) == [b"2026-01-01 00:00:01 two"]
    into.close()
    assert texts(next(found)) == [b"2026-01-01 00:00:02 end"]
    assert list(found) == []
    assert following.tallies["stdin"].lines == 3


def test_a_line_without_end_does_not_fill_the_memory(ends: tuple[FileIO, FileIO]) -> None:
    pipe, into = ends
    following = Following(idle_s=0.02, reading=Reading(longest_bytes=100))
    found = follow_pipe(pipe, STREAM, following)
    into.write(b"x" * 5000)

    assert texts(next(found)) == [b"x" * 100]
    assert following.tallies["stdin"].cut == 1


def test_it_can_be_stopped(ends: tuple[FileIO, FileIO]) -> None:
    following = Following(idle_s=0.02)
    found = follow_pipe(ends[0], STREAM, following)
    assert next(found) is None
    following.stop.set()

    assert list(found) == []
