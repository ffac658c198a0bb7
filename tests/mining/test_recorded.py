"""Patterns of the folder that steward records into, as its page shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from steward.errors import StewardError
from steward.mining.recorded import gpu_phases, recorded_page
from steward.store.files.parquet import HOUR_S, Partitions, write_frame

HOUR = 480_000
T0 = HOUR * HOUR_S


def record(folder: Path, t_s: np.ndarray, busy: np.ndarray, *, name: str = "n01/gpu0") -> None:
    parts = Partitions(folder / "telemetry")
    for number in np.unique(t_s // HOUR_S):
        inside = t_s // HOUR_S == number
        rows = {"t_s": t_s[inside], "entity": name, "gpu.busy_share": busy[inside]}
        rows |= {"gpu.power_watts": 80 + 500 * busy[inside], "gpu.memory.used_bytes": 30e9}
        write_frame(parts.folder(int(number)), pl.DataFrame(rows))


def test_a_gpu_that_computes_and_then_rests_is_drawn_as_training_and_then_as_quiet(
    tmp_path: Path,
) -> None:
    t_s = T0 + np.arange(1200.0)
    record(tmp_path, t_s, np.where(np.arange(1200) < 600, 0.95, 0.0))

    found = gpu_phases(tmp_path, from_s=T0, to_s=T0 + 1200)

    assert found is not None
    assert found.runs == ("n01/gpu0",)
    (spans,) = found.spans
    assert [found.kinds[kind] for _, _, kind in spans] == ["train", "quiet"]
    assert spans[0][1] == pytest.approx(600, abs=20)


def test_time_in_which_nothing_was_measured_is_left_white(tmp_path: Path) -> None:
    t_s = T0 + np.concatenate([np.arange(100.0), np.arange(900.0, 1000.0)])
    record(tmp_path, t_s, np.full(200, 0.9))

    found = gpu_phases(tmp_path, from_s=T0, to_s=T0 + 1000)

    assert found is not None
    assert [(a < 110) or (a >= 890) for a, _, _ in found.spans[0]] == [True, True]


def test_a_folder_without_gpus_has_no_phases(tmp_path: Path) -> None:
    rows = {"t_s": T0 + np.arange(100.0), "entity": "n01", "host.cpu.user_cores": 1.0}
    write_frame(Partitions(tmp_path / "telemetry").folder(HOUR), pl.DataFrame(rows))

    assert gpu_phases(tmp_path, from_s=T0, to_s=T0 + 100) is None


def test_the_page_is_of_the_newest_hours_alone(tmp_path: Path) -> None:
    t_s = T0 + np.arange(0.0, 3 * HOUR_S, 5.0)
    record(tmp_path, t_s, (np.arange(len(t_s)) % 100 >= 50).astype(float))

    drawn = recorded_page(tmp_path, window_s=60.0, hours=1)

    assert "Patterns of the last 1 h" in drawn
    assert "60 windows of 60 s in 1 runs" in drawn
    assert "phases of GPUs" in drawn
    assert "n01/gpu0" in drawn


def test_a_folder_that_is_empty_or_shorter_than_a_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no telemetry here"):
        recorded_page(tmp_path, window_s=60.0, hours=1)

    record(tmp_path, T0 + np.arange(3.0), np.ones(3))
    with pytest.raises(StewardError, match="full window"):
        recorded_page(tmp_path, window_s=60.0, hours=1)
