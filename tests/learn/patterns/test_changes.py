from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.learn.patterns.changes import (
    DETECTORS,
    Segmentation,
    change_points,
    find_changes,
    find_periods,
    online,
    periodicity,
)
from steward.learn.patterns.series import EntitySeries


def noise(rows: int, metrics: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, metrics))


def of(values: np.ndarray, *, step_s: float = 10.0) -> EntitySeries:
    names = tuple(f"m{i}" for i in range(values.shape[1]))
    return EntitySeries(
        entity="n1", metrics=names, t_s=np.arange(len(values)) * step_s, values=values
    )


def test_a_change_of_level_in_one_of_several_metrics_is_placed_and_named() -> None:
    values = noise(400, 5)
    values[250:, 3] += 3.0

    (change,) = find_changes(of(values))

    assert abs(change.t_s - 2500.0) <= 20.0
    assert change.metrics[0].metric == "m3"
    assert change.metrics[0].after - change.metrics[0].before == pytest.approx(3.0, abs=0.5)


def test_a_change_of_spread_alone_is_found() -> None:
    values = noise(1000)
    values[500:] *= 6.0

    rows, scores = change_points(values)

    assert np.min(np.abs(rows - 500)) <= 10
    assert scores.min() > 1.0


def test_a_single_outlier_is_no_change() -> None:
    values = noise(400, 2)
    values[200] = 1e6

    assert len(change_points(values)[0]) == 0


def test_a_long_series_is_divided_on_a_grid_and_its_changes_are_refined() -> None:
    values = noise(4000)
    values[1777:] += 2.0

    rows, _ = change_points(values, Segmentation(most_cells=200))

    assert len(rows) == 1
    assert abs(rows[0] - 1777) <= 5


@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
@settings(max_examples=20)
def test_changes_do_not_depend_on_units(scale: float, shift: float) -> None:
    values = noise(200, 2)
    values[90:] += 2.0

    plain, _ = change_points(values)
    scaled, _ = change_points((values + shift) * scale)

    assert plain.tolist() == scaled.tolist()


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((0, 1)),
        np.zeros((3, 2)),
        np.full((50, 1), np.nan),
        np.full((50, 3), 1e300),
        np.zeros((50, 0)),
    ],
)
def test_nothing_is_found_where_nothing_varies(values: np.ndarray) -> None:
    assert find_changes(of(values)) == ()
    assert find_periods(of(values)) == ()
    for method in DETECTORS:
        assert list(online(values, method)) == []


@pytest.mark.parametrize("method", sorted(DETECTORS))
def test_an_online_detector_sees_a_change_soon_and_says_when_it_began(method: str) -> None:
    values = noise(600, 3)
    values[300:, 1] += 5.0
    values[100, 0] = np.nan

    found = [(row, each) for row, each in online(values, method) if row >= 300]

    row, change = found[0]
    assert row - 300 <= 40
    assert abs(row - change.ago - 300) <= 10
    assert change.at_fault[0] == 1


@pytest.mark.parametrize("method", sorted(DETECTORS))
def test_an_online_detector_is_silent_on_noise(method: str) -> None:
    alarms = sum(len(online(noise(500, 2, seed), method)) for seed in range(4))

    assert alarms <= 2


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(StewardError, match="bocpd"):
        find_changes(of(noise(20)), method="cusum")


def test_a_period_is_found_with_the_stretch_in_which_it_is_lost() -> None:
    rows = np.arange(2400)
    values = np.sin(2 * np.pi * rows / 60.0) + 0.2 * noise(2400)[:, 0]
    values[1200:1560] = 0.2 * noise(360, seed=1)[:, 0]

    (period,) = find_periods(of(values[:, None]))

    assert period.period_s == pytest.approx(600.0, rel=0.02)
    assert len(period.lost) == 1
    assert period.lost[0][0] == pytest.approx(12_000.0, abs=1200.0)
    assert period.lost[0][1] == pytest.approx(15_600.0, abs=1200.0)


def test_noise_and_a_trend_have_no_period() -> None:
    assert periodicity(noise(2000)[:, 0]) is None
    assert periodicity(np.arange(500.0)) is None


def test_series_whose_time_goes_back_are_refused() -> None:
    with pytest.raises(StewardError, match="time goes back"):
        EntitySeries(entity="n", metrics=("m",), t_s=np.array([1.0, 0.0]), values=np.zeros((2, 1)))
