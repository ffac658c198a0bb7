from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.patterns.anomalies import AnomalySearch, Horizons, find_anomalies
from steward.learn.patterns.anomalies.measures import series_scores
from steward.learn.patterns.anomalies.tail_share import damped, rolling_spread, tail_scores
from steward.learn.patterns.series import EntitySeries


def of(values: np.ndarray) -> EntitySeries:
    names = tuple(f"m{i}" for i in range(values.shape[1]))
    return EntitySeries(entity="n1", metrics=names, t_s=np.arange(len(values)) * 5.0, values=values)


def daily(rows: int = 1500, metrics: int = 1) -> np.ndarray:
    wave = np.sin(2 * np.pi * np.arange(rows) / 100.0)[:, None]
    return 10.0 * wave + np.random.default_rng(3).normal(size=(rows, metrics))


def test_a_spike_is_one_event_with_its_metric_at_fault() -> None:
    values = daily(metrics=4)
    values[900, 2] += 60.0

    found = find_anomalies(of(values))

    (event,) = [each for each in found.events if each.score == max(found.scores)]
    assert event.from_s <= 4500.0 <= event.to_s + 5.0
    assert event.culprits[0].metric == "m2"
    assert event.culprits[0].value > 40.0
    assert abs(event.culprits[0].usual) < 15.0


def test_a_shape_that_was_never_seen_is_found_though_each_value_is_usual() -> None:
    values = daily()
    values[1000:1100] = values[1000]  # stuck

    scores = find_anomalies(of(values)).scores

    assert scores[1000:1120].max() == scores[200:].max()


def test_a_level_shift_is_an_event_at_its_beginning_and_not_for_good() -> None:
    values = daily(2500)
    values[1200:] += 80.0

    found = find_anomalies(of(values))

    assert found.scores[1200:1210].max() == found.scores.max()
    assert found.scores[1900:].max() < found.scores.max() / 2
    assert sum(event.from_s > 1500 * 5.0 for event in found.events) <= 1


def test_many_metrics_a_little_unusual_count_together() -> None:
    values = np.random.default_rng(5).normal(size=(1200, 30))
    values[800] += 2.5 * np.sign(np.arange(30) % 2 - 0.5)

    found = find_anomalies(of(values))

    assert found.scores[800] == found.scores.max()


def test_at_most_so_many_events_are_kept_the_strongest() -> None:
    values = daily()
    for row, size in ((500, 40.0), (800, 90.0), (1200, 60.0)):
        values[row] += size

    every = find_anomalies(of(values), AnomalySearch(threshold=2.0)).events
    kept = find_anomalies(of(values), AnomalySearch(threshold=2.0, most=2)).events

    assert len(every) > 2
    assert sorted(each.score for each in kept) == sorted(each.score for each in every)[-2:]


@given(cut=st.integers(150, 399))
@settings(max_examples=5)
def test_what_comes_later_does_not_change_a_score(cut: int) -> None:
    values = daily(400)[:, 0]
    horizons = Horizons(shapes=(1, 6), search=200)
    later = values.copy()
    later[cut:] = values[cut:] * 1.3 - 2.0

    before, after = series_scores(values, horizons), series_scores(later, horizons)

    assert before[:cut] == pytest.approx(after[:cut], abs=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((0, 1)),
        np.zeros((4, 0)),
        np.full((300, 2), np.nan),
        np.full((300, 1), 7.0),
        np.array([[1.0], [np.nan], [2.0]]),
        np.full((300, 1), 1e308),
    ],
)
def test_series_without_information_score_nothing(values: np.ndarray) -> None:
    found = find_anomalies(of(values))

    assert not found.scores.any()
    assert found.events == ()


@given(values=st.lists(st.floats(0, 1e6) | st.just(float("nan")), max_size=200))
@settings(max_examples=30)
def test_tail_scores_are_finite_and_not_negative(values: list[float]) -> None:
    scores = tail_scores(np.array(values, float), 50, 5)

    assert np.isfinite(scores).all()
    assert (scores >= 0.0).all()


def test_a_tail_score_is_the_share_of_the_past_that_was_as_large() -> None:
    past = np.arange(1.0, 100.0)

    scores = tail_scores(np.append(past, 50.0), 200, 10)

    assert scores[-1] == pytest.approx(np.log10(100 / 51))


def test_the_rolling_median_is_that_of_the_values_before() -> None:
    values = np.random.default_rng(1).normal(size=60)

    middle, _ = rolling_spread(values, 11, 11)

    assert middle[40] == np.median(values[29:40])


def test_damping_keeps_what_exceeds_the_rest_of_earlier_scores() -> None:
    assert damped(np.array([4.0, 3.0, 5.0, 0.0, 1.0]), 0.5).tolist() == [4.0, 3.0, 5.0, 0.0, 0.0]
