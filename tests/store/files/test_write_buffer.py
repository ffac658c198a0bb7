"""The write buffer: one table per set of columns, and no table stays mostly empty."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import polars as pl

from factories import samples
from steward.store.telemetry import Telemetry

T0 = 1_700_000_000.0


def columns_on_disk(folder: Path) -> list[list[str]]:
    return sorted(pl.read_parquet(file).columns[2:] for file in folder.rglob("*.parquet"))


def test_frames_of_different_columns_become_different_files(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path)) as telemetry:
        telemetry.append(samples(T0, {"n1/gpu0": {"a": 1.0, "b": 2.0}}))
        telemetry.append(samples(T0, {"n1": {"c": 3.0}}))
        telemetry.append(samples(T0 + 1, {"n1/gpu0": {"b": 2.0, "a": 1.0}}))

    assert columns_on_disk(tmp_path) == [["a", "b"], ["c"]]


def test_a_frame_put_together_from_several_kinds_is_taken_apart(tmp_path: Path) -> None:
    gpu = samples(T0, {"n1/gpu0": {"a": 1.0, "dead": None}, "n1/gpu1": {"a": None, "dead": None}})
    merged = pl.concat([gpu, samples(T0, {"n1": {"c": 3.0}})], how="diagonal")

    with closing(Telemetry(tmp_path)) as telemetry:
        telemetry.append(merged)
        before = telemetry.read(from_s=0.0, to_s=1e11)
        telemetry.flush()
        after = telemetry.read(from_s=0.0, to_s=1e11)

    assert columns_on_disk(tmp_path) == [["a", "dead"], ["c", "dead"]]
    assert after.equals(before)


def test_a_silent_sensor_keeps_its_column(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path)) as telemetry:
        telemetry.append(samples(T0, {"n1/gpu0": {"a": None}}))

    assert columns_on_disk(tmp_path) == [["a"]]
