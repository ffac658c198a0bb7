"""Distributions of waits and run times, as points that are always the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans import HOUR_S, about, exactly
from steward.decide.planning.durations import (
    MOST_RESTARTS,
    POINTS,
    Attempts,
    Spans,
    points_of,
    range_of,
    spans_of,
)
from steward.model.planning.plan import Range

NO_WAIT = exactly(0.0)
WATTS = exactly(300.0)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, mid, high = sorted(draw(st.tuples(*[st.floats(0.0, 1e6)] * 3)))
    return Range(low=low, mid=mid, high=high)


def spans(run_s: Range, wait_s: Range = NO_WAIT, **attempts: float) -> Spans:
    found = spans_of(run_s, wait_s, WATTS, Attempts(**attempts))
    assert found is not None
    return found


@given(ranges())
def test_points_have_the_quantiles_of_their_range(value: Range) -> None:
    points = points_of(value, 0)

    again = range_of(points)

    assert len(points) == POINTS
    assert (points >= 0).all()
    size = value.high - value.low + 1e-9
    assert again.mid == pytest.approx(value.mid, abs=0.05 * size)
    assert again.low == pytest.approx(value.low, abs=0.1 * size)
    assert again.high == pytest.approx(value.high, abs=0.1 * size)


def test_orders_of_points_are_nearly_uncorrelated_and_the_same_each_time() -> None:
    skewed = about(2.0, factor=3.0)

    columns = np.array([points_of(skewed, order) for order in range(12)])

    correlations = np.corrcoef(columns) - np.eye(12)
    assert np.abs(correlations).max() < 0.25
    assert (columns == np.array([points_of(skewed, order) for order in range(12)])).all()


def test_the_sum_of_a_wait_and_a_run_is_narrower_than_the_sum_of_their_limits() -> None:
    found = spans(about(2.0), about(2.0)).summary.total_s

    assert found.mid == pytest.approx(4.1 * HOUR_S, rel=0.05)
    assert found.low > 2 * about(2.0).low * 1.05
    assert found.high < 2 * about(2.0).high * 0.95


def test_a_job_longer_than_the_limit_becomes_a_chain_that_waits_before_each_link() -> None:
    limited = spans(exactly(10 * HOUR_S), exactly(HOUR_S), limit_s=4 * HOUR_S, save_s=0.0)

    assert limited.links == 3
    assert limited.summary.busy_s == exactly(10 * HOUR_S)
    assert limited.summary.elapsed_s == exactly(12 * HOUR_S)
    assert limited.summary.total_s == exactly(13 * HOUR_S)


@given(
    work_h=st.floats(0.1, 100.0),
    limit_h=st.floats(2.0, 50.0),
    save_s=st.floats(0.0, 600.0),
    start_s=st.floats(0.0, 600.0),
)
def test_a_chain_has_as_many_links_as_its_work_needs_and_no_more(
    work_h: float, limit_h: float, save_s: float, start_s: float
) -> None:
    run_s = exactly(work_h * HOUR_S)
    attempts = Attempts(limit_s=limit_h * HOUR_S, save_s=save_s, start_s=start_s)

    found = spans_of(run_s, NO_WAIT, WATTS, attempts)

    assert found is not None
    if run_s.high + start_s <= limit_h * HOUR_S:
        assert found.links == 1
    else:
        work_s = run_s.high * (1 + save_s / attempts.save_every_s)
        assert (found.links - 1) * attempts.usable_s < work_s <= found.links * attempts.usable_s


def test_a_limit_in_which_nothing_but_saving_fits_is_never_enough() -> None:
    tight = Attempts(limit_s=600.0, save_s=500.0, start_s=200.0)

    assert spans_of(exactly(HOUR_S), NO_WAIT, WATTS, tight) is None


def test_interruptions_cost_what_was_not_saved_and_a_new_start_each() -> None:
    calm = spans(exactly(10 * HOUR_S))
    stopped = spans(
        exactly(10 * HOUR_S),
        exactly(600.0),
        interrupted_every_s=5 * HOUR_S,
        start_s=120.0,
        save_every_s=1800.0,
    )

    often = np.round((stopped.busy_s - 10 * HOUR_S - 120.0) / (900.0 + 120.0))
    assert calm.summary.elapsed_s == exactly(10 * HOUR_S)
    assert often.mean() == pytest.approx(2.0, rel=0.05)  # in ten hours, every five
    assert (often == 0).mean() == pytest.approx(np.exp(-2.0), abs=0.01)
    gaps = stopped.elapsed_s - stopped.busy_s
    assert gaps == pytest.approx(600.0 * often)


def test_a_job_that_is_stopped_far_too_often_has_no_end() -> None:
    often = Attempts(interrupted_every_s=60.0)

    assert spans_of(exactly(100 * HOUR_S), NO_WAIT, WATTS, often) is None
    assert MOST_RESTARTS < 100 * 60


def test_a_run_of_more_years_than_restarts_can_be_counted_in_has_no_end() -> None:
    assert spans_of(exactly(1e18), NO_WAIT, WATTS, Attempts(interrupted_every_s=8 * HOUR_S)) is None


def test_the_chance_of_a_deadline_and_its_time_are_each_others_inverse() -> None:
    found = spans(about(2.0), about(1.0))

    for chance in (0.05, 0.5, 0.9, 0.99):
        left_s = found.within(chance)

        assert found.chance_within(left_s) >= chance
        assert found.chance_within(left_s * 0.999) < chance + 1 / POINTS
    assert found.chance_within(-1.0) == 0.0
    assert found.chance_within(1e9) == 1.0
