"""Merging: neighbours become one file, a few columns at a time, and no row is lost or moved."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from factories import samples
from steward.model.frame import Frame
from steward.store.files.compaction import column_batches, merge
from steward.store.files.parquet import TableSchema, write_frame

T0 = 1_700_000_000.0


def written(folder: Path, frames: list[Frame]) -> None:
    """Write files a second apart: a clock of files may be coarse."""
    for number, frame in enumerate(frames):
        os.utime(write_frame(folder, frame), (T0 + number, T0 + number))


def merged(folder: Path, max_values: int) -> list[Frame]:
    notes: list[str] = []
    merge(folder, schema=TableSchema(), max_values=max_values, note=notes.append)
    assert notes == []
    found = [pl.read_parquet(file) for file in folder.glob("*.parquet")]
    return sorted(found, key=lambda frame: float(frame["t_s"][0]))


def test_files_that_were_written_one_after_the_other_go_into_one(tmp_path: Path) -> None:
    written(tmp_path, [samples(T0 + second, {"a": {"x": 1.0}}) for second in range(6)])

    found = merged(tmp_path, max_values=6)

    assert [(frame["t_s"] - T0).to_list() for frame in found] == [[0, 1], [2, 3], [4, 5]]


def test_rows_stay_whole_when_columns_are_read_by_turns(tmp_path: Path) -> None:
    rows = 60_000  # of which one column is read at a time
    number = pl.int_range(rows, eager=True).cast(pl.Float64)
    entity = pl.select(
        pl.when(number % 2 == 0).then(pl.lit("b")).otherwise(pl.lit("a"))
    ).to_series()
    frame = pl.DataFrame({"t_s": T0 + number, "entity": entity, "x": number, "y": -number})
    written(tmp_path, [frame[30_000:], frame[:30_000]])

    (found,) = merged(tmp_path, max_values=1_000_000)

    assert found.equals(frame.sort("entity", "t_s"))


def test_every_column_has_its_turn_once() -> None:
    columns = [f"c{number}" for number in range(7)]

    turns = [*column_batches(columns, 40_000)]

    assert [name for turn in turns for name in turn] == columns
    assert {len(turn) for turn in turns} == {2, 1}
    assert [*column_batches(columns, 0)] == [columns]
