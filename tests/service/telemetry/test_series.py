"""What a screen is given of telemetry: few points, true extremes, gaps as gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.service.telemetry import MOST_POINTS, contrast, read_heat_map, read_series
from steward.service.telemetry.heat_map import MOST_CELLS, rhythm_map_for
from steward.store.telemetry import Telemetry

GPU, BUSY = "n1/gpu0", "gpu.busy_share"
START_S = 1_700_000_000.0 - 1_700_000_000.0 % 86400


def stored(
    folder: Path, times: np.ndarray, values: np.ndarray, *, metric: str = BUSY, entity: str = GPU
) -> Telemetry:
    telemetry = Telemetry(folder / "telemetry")
    names = pl.Series("entity", [entity]).new_from_index(0, len(times))
    telemetry.append(pl.DataFrame({"t_s": times, "entity": names, metric: values}))
    return telemetry


def test_a_day_at_one_second_is_at_most_two_thousand_points_and_keeps_its_spike(
    tmp_path: Path,
) -> None:
    times = START_S + np.arange(86400.0)
    values = np.full(86400, 0.5)
    values[40_000] = 1.0
    telemetry = stored(tmp_path, times, values)

    (series,) = read_series(telemetry, [GPU], [BUSY], from_s=START_S, to_s=START_S + 86400)

    assert len(series.t_s) <= MOST_POINTS
    assert np.nanmax(series.most) == 1.0
    assert np.nanmax(series.mean) < 0.6


def test_few_samples_are_given_as_they_are(tmp_path: Path) -> None:
    times = START_S + np.arange(10) * 7.0
    telemetry = stored(tmp_path, times, np.linspace(0, 1, 10))

    (series,) = read_series(telemetry, [GPU], [BUSY], from_s=START_S, to_s=START_S + 100)

    assert series.step_s == 0.0
    assert series.t_s.tolist() == times.tolist()


@pytest.mark.parametrize("span_s", [100.0, 86400.0])
def test_a_gap_is_a_point_without_a_value_and_never_zero(tmp_path: Path, span_s: float) -> None:
    times = START_S + np.linspace(0, span_s, int(span_s))
    keep = (times < START_S + 0.4 * span_s) | (times > START_S + 0.6 * span_s)
    telemetry = stored(tmp_path, times[keep], np.full(keep.sum(), 0.8))

    (series,) = read_series(telemetry, [GPU], [BUSY], from_s=START_S, to_s=START_S + span_s)

    assert np.isnan(series.mean).sum() == 1
    assert np.nanmin(series.mean) == pytest.approx(0.8)
    hole = series.t_s[np.isnan(series.mean)][0]
    assert START_S + 0.4 * span_s < hole < START_S + 0.6 * span_s


def test_a_metric_without_samples_is_left_out(tmp_path: Path) -> None:
    telemetry = stored(tmp_path, START_S + np.arange(5.0), np.ones(5))

    names = [BUSY, "gpu.power_watts"]
    found = read_series(telemetry, [GPU, "n1/gpu1"], names, from_s=START_S, to_s=START_S + 9)

    assert [(each.entity, each.metric) for each in found] == [(GPU, BUSY)]


def test_a_stall_in_every_second_is_one_row_of_the_map(tmp_path: Path) -> None:
    ticks = np.arange(1200)
    values = np.where(ticks % 10 == 3, 0.1, 0.9)
    telemetry = stored(tmp_path, START_S + ticks * 0.1 + 0.0004, values)

    heat = read_heat_map(telemetry, GPU, BUSY, from_s=START_S, to_s=START_S + 119.99)

    assert heat is not None
    assert (heat.rhythm_map.column_s, heat.rhythm_map.row_s) == (1.0, 0.1)
    assert heat.values.shape == (120, 10)
    assert heat.values[:, 3] == pytest.approx(0.1)
    assert np.delete(heat.values, 3, axis=1) == pytest.approx(0.9)


def test_a_map_of_one_second_samples_has_minutes_and_seconds_and_leaves_gaps(
    tmp_path: Path,
) -> None:
    ticks = np.arange(3600)
    keep = (ticks < 600) | (ticks >= 660)
    telemetry = stored(tmp_path, START_S + ticks[keep], np.full(keep.sum(), 0.5))

    heat = read_heat_map(telemetry, GPU, BUSY, from_s=START_S, to_s=START_S + 3599)

    assert heat is not None
    assert heat.values.shape == (60, 60)
    assert np.isnan(heat.values[10]).all()
    assert np.isfinite(np.delete(heat.values, 10, axis=0)).all()


def test_too_few_samples_make_no_map(tmp_path: Path) -> None:
    telemetry = stored(tmp_path, START_S + np.arange(3.0), np.ones(3))

    assert read_heat_map(telemetry, GPU, BUSY, from_s=START_S, to_s=START_S + 60) is None


@given(span_s=st.floats(1, 40 * 86400), period_s=st.floats(0.01, 7200))
def test_a_map_is_never_larger_than_a_screen(span_s: float, period_s: float) -> None:
    rhythm_map = rhythm_map_for(span_s, period_s)

    assert (span_s / rhythm_map.column_s + 1) * rhythm_map.rows <= MOST_CELLS + rhythm_map.rows


def test_what_was_different_in_a_range_comes_first(tmp_path: Path) -> None:
    times = START_S + np.arange(600.0)
    inside = (times >= START_S + 300) & (times < START_S + 320)
    telemetry = stored(tmp_path, times, np.where(inside, 0.1, 0.9))
    noise = np.random.default_rng(1).normal(60, 1, 600)
    telemetry.append(
        pl.DataFrame({"t_s": times, "entity": ["n1"] * 600, "host.cpu.busy_share": noise / 100})
    )

    found = contrast(
        telemetry,
        [GPU, "n1"],
        whole=(START_S, START_S + 600),
        inside=(START_S + 300, START_S + 320),
    )

    assert [each.metric for each in found] == [BUSY, "host.cpu.busy_share"]
    assert (found[0].inside, found[0].outside) == pytest.approx((0.1, 0.9))
    assert found[0].samples_inside == 20
    assert found[0].distance > 3 > 3 * found[1].distance


def test_a_range_without_samples_is_compared_with_nothing(tmp_path: Path) -> None:
    telemetry = stored(tmp_path, START_S + np.arange(60.0), np.ones(60))

    whole = (START_S, START_S + 600)
    assert contrast(telemetry, [GPU], whole=whole, inside=(START_S + 300, START_S + 400)) == []
