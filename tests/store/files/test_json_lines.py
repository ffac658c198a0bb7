"""Lines that only grow: a crash costs at most the line that it tore."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.store.files.json_lines import JsonLines, read_json_lines


def read(file: Path) -> tuple[list[dict[str, object]], list[str]]:
    notes: list[str] = []
    return list(read_json_lines(file, notes.append)), notes


def test_a_torn_last_line_is_skipped_and_does_not_tear_the_next(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"a":1}\n{"a":2')

    lines = JsonLines(file)
    lines.append([{"a": 3}])
    lines.flush()

    records, notes = read(file)
    assert records == [{"a": 1}, {"a": 3}]
    assert notes == [f"{file}: 1 broken lines were skipped"]


@pytest.mark.parametrize("broken", [b"\xff\xfe", b"[1]", b"[" * 100_000, b'{"a":', b"null"])
def test_what_is_no_record_is_counted(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(broken + b'\n{"a":1}\n')

    records, notes = read(file)

    assert records == [{"a": 1}]
    assert len(notes) == 1


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == ([], [])


def test_a_full_disk_cuts_no_line_in_half(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    file = tmp_path / "x.jsonl"
    lines = JsonLines(file)
    lines.append([{"a": 1}])
    lines.flush()
    lines.append({"a": "x" * 100} for _ in range(50))

    with small_disk(1000), pytest.raises(StewardError, match="the disk is full"):
        lines.flush()
    between = file.read_bytes()
    lines.flush()

    assert between == b'{"a":1}\n'
    assert len(read(file)[0]) == 51
    assert lines.damage() == ()
