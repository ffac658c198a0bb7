"""Damaged files: noticed before they are decoded, set aside, named; everything else goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from polars.exceptions import PanicException

from factories import samples
from steward.errors import StewardError
from steward.model.frame import Frame
from steward.store.files.damage import BROKEN, intact, panics_as_errors
from steward.store.query import Query, Tail
from steward.store.telemetry import Telemetry

T0 = 1_699_999_200.0  # a whole hour
BUSY = "gpu.busy_share"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two files of one hour and their tier of 10 s."""
    with closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        for flush in range(2):
            telemetry.append(samples(T0 + flush, {"a": {BUSY: 0.94}, "b": {BUSY: 0.5 + flush}}))
            telemetry.flush()
    return tmp_path / "telemetry"


def parquet(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def damaged(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.damaged"))


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0x10
    file.write_bytes(content)


def break_pages(file: Path) -> None:
    """Overwrite the rows of a file and leave its footer, under a name without a checksum."""
    content = bytearray(file.read_bytes())
    content[4:150] = bytes(146)
    file.unlink()
    file.with_name("without-a-checksum.parquet").write_bytes(content)


def everything(telemetry: Telemetry) -> Frame:
    return telemetry.read(from_s=0.0, to_s=float("inf"))


def offsets(folder: Path) -> Iterator[int]:
    size = parquet(folder)[0].stat().st_size
    return iter(range(0, size, max(1, size // 60)))


def test_no_flipped_bit_ever_changes_a_value(folder: Path) -> None:
    file = parquet(folder)[0]
    content = file.read_bytes()
    with closing(Telemetry(folder, keep_days=None)) as telemetry:
        good = everything(telemetry)

    for at in offsets(folder):
        file.write_bytes(content)
        flip(file, at)
        with closing(Telemetry(folder, keep_days=None)) as telemetry:
            found = everything(telemetry)
            (message,) = telemetry.damage()

        assert found.height == 2
        assert found.join(good, on=good.columns, how="semi").height == 2
        assert f"{file} is damaged (" in message
        assert "does not match" in message
        assert file.exists()


def test_a_damaged_file_does_not_stop_the_start_nor_compaction(folder: Path) -> None:
    flip(parquet(folder)[0], 40)

    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        telemetry.table.compactor._settle()

        assert everything(telemetry).height == 2
        assert len(telemetry.damage()) == 1
    assert len(damaged(folder)) == 1


def test_a_file_without_checksum_that_cannot_be_decoded_does_not_end_compaction(
    folder: Path,
) -> None:
    break_pages(parquet(folder)[0])

    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        telemetry.table.compactor._settle()

        assert everything(telemetry).height == 2
    assert len(damaged(folder)) == 1


def test_a_lone_file_that_cannot_be_decoded_is_a_fault_of_its_tier_and_then_gone(
    folder: Path,
) -> None:
    parquet(folder)[1].unlink()
    break_pages(parquet(folder)[0])

    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        with pytest.raises(StewardError, match="cannot be merged"):
            telemetry.table.compactor._settle()
        telemetry.upkeep(T0 + 7300)
        telemetry.table.compactor._settle()

        assert everything(telemetry).height == 0
    assert len(damaged(folder)) == 1


def test_steps_are_read_without_the_files_that_cannot_be_decoded(folder: Path) -> None:
    break_pages(parquet(folder)[0])

    with closing(Telemetry(folder, keep_days=None)) as telemetry:
        found = telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)
        again = telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)

    assert (found.height, again.height) == (2, 2)
    assert damaged(folder) == []  # it was only read
    with closing(Telemetry(folder)) as telemetry:
        telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)
    assert len(damaged(folder)) == 1


def test_a_damaged_tier_is_worked_out_anew(folder: Path) -> None:
    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        telemetry.table.compactor._settle()
    tier = folder.with_name("telemetry_10s")
    flip(parquet(tier)[0], 30)

    with closing(Telemetry(folder, keep_days=None)) as telemetry:
        found = telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)

    assert found[f"{BUSY}.max"].to_list() == [0.94, 1.5]
    assert damaged(tier) == []
    with closing(Telemetry(folder)) as telemetry:
        telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)
    assert len(damaged(tier)) == 1


def test_sql_does_not_see_a_damaged_file_and_this_is_reported(folder: Path) -> None:
    flip(parquet(folder)[0], 40)

    with Query(folder.parent) as query:
        answer = query.run("SELECT count(*) FROM telemetry")
        query.run("SELECT count(*) FROM telemetry")

        assert answer.rows == [(2,)]
        (note,) = query.notes
        assert "(its checksum does not match) and was skipped" in note


def test_readers_leave_a_damaged_file_where_it_is(folder: Path) -> None:
    flip(parquet(folder)[0], 40)
    torn = parquet(folder)[1]
    torn.write_bytes(torn.read_bytes()[:50])
    before = {file: file.read_bytes() for file in folder.parent.rglob("*") if file.is_file()}

    with Query(folder.parent) as query:
        query.run("SELECT count(*) FROM telemetry")
        query.newest_s()
    Tail(folder.parent).skip()
    list(Tail(folder.parent).new())
    with closing(Telemetry(folder, keep_days=None)) as telemetry:
        everything(telemetry)
        message = telemetry.damage()

    assert {f: f.read_bytes() for f in folder.parent.rglob("*") if f.is_file()} == before
    assert len(message) == 2


def test_a_file_is_read_for_its_checksum_once_until_it_changes(folder: Path) -> None:
    file = parquet(folder)[0]
    notes: list[str] = []
    assert intact([file], notes.append) == [file]
    state = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"X")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    again = intact([file], notes.append)  # the same time and size: not read again

    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert again == [file]
    assert intact([file], notes.append) == []
    assert "its checksum does not match" in notes[0]


def test_a_panic_of_polars_becomes_an_error_that_handlers_see() -> None:
    with pytest.raises(BROKEN, match="index out of bounds"), panics_as_errors():
        raise PanicException("index out of bounds")


def test_a_damaged_file_that_cannot_be_moved_is_skipped_by_every_reader(
    folder: Path, unwritable: Path
) -> None:
    with seen_as_owner():
        flip(parquet(folder)[0], 40)
        for each in (folder, *folder.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)

    with closing(Telemetry(folder, keep_days=None)) as telemetry:
        rows = everything(telemetry)
        steps = telemetry.read(from_s=T0, to_s=T0 + 100, step_s=10.0)
        message = telemetry.damage()
    notes: list[str] = []

    assert (rows.height, steps.height) == (2, 2)
    assert "and was skipped" in message[0]
    assert intact(parquet(folder)[:1], notes.append) == []
    assert "was skipped; moving it failed: Permission denied" in notes[0]
    assert unwritable.exists()


def test_files_that_a_damaged_one_replaces_are_not_deleted(folder: Path) -> None:
    hour = parquet(folder)[0].parent
    before = {file.name: file.read_bytes() for file in parquet(folder)}
    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        telemetry.table.compactor._settle()
    (merged,) = parquet(folder)
    flip(merged, 40)
    for name, content in before.items():  # as after a crash before they were deleted
        (hour / name).write_bytes(content)

    with closing(Telemetry(folder)) as telemetry:
        telemetry.upkeep(T0 + 7200)
        telemetry.table.compactor._settle()

        assert everything(telemetry).height == 4


@contextmanager
def seen_as_owner() -> Iterator[None]:
    """Be root again for a moment, where the fixture `unwritable` has given that up."""
    now, saved = os.geteuid(), os.getuid()
    os.seteuid(saved)
    try:
        yield
    finally:
        os.seteuid(now)
