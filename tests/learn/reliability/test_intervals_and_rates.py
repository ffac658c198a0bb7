"""Rates with exact intervals, and units that stand out."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steward.learn.reliability import poisson_rate, rate_of, rate_ratio, share, worst_units


def test_garwoods_interval_is_that_of_the_tables() -> None:
    # Ulm (1990): 10 events: 4.795 to 18.39.
    found = poisson_rate(10, 1.0)

    assert (found.low, found.high) == pytest.approx((4.795, 18.39), abs=0.005)


@given(count=st.integers(0, 60), exposure=st.floats(0.1, 1e9))
def test_the_interval_is_exact_in_both_tails(count: int, exposure: float) -> None:
    found = poisson_rate(count, exposure)

    assert found.low <= found.mid <= found.high
    assert stats.poisson.cdf(count, found.high * exposure) == pytest.approx(0.025, abs=1e-6)
    if count:
        assert stats.poisson.sf(count - 1, found.low * exposure) == pytest.approx(0.025, abs=1e-6)


def test_without_exposure_nothing_is_known_and_that_is_said() -> None:
    found = poisson_rate(3, 0.0)

    assert (found.low, found.high) == (0.0, inf)
    assert isnan(found.mid)
    assert share(0, 0).high == 1.0


def test_a_single_event_has_a_wide_interval() -> None:
    found = poisson_rate(1, 100.0)

    assert found.high / found.low > 200


def test_shares_at_the_ends_stay_inside() -> None:
    assert (share(0, 20).low, share(20, 20).high) == (0.0, 1.0)
    assert share(0, 20).high == pytest.approx(0.1684, abs=1e-4)


def test_the_ratio_of_few_events_does_not_prove_what_it_seems_to() -> None:
    per_gpu = rate_ratio((24, 2.13e6), (34, 9.63e6))
    per_gb = rate_ratio((24, 2.13e6 * 96), (34, 9.63e6 * 40))

    assert per_gpu.low > 1.5
    assert per_gb.low < 1 < per_gb.high  # the study's 24 % is not established
    assert rate_ratio((0, 1.0), (0, 1.0)).high == inf
    assert rate_ratio((3, 1.0), (0, 1.0)).mid == inf


def test_few_units_that_carry_most_events_are_found_and_left_out() -> None:
    counts = np.array([0] * 995 + [1, 1, 2, 40, 100])
    exposure = np.full(1000, 1e4)

    found = rate_of(counts, exposure)

    assert found.worst[:2] == (999, 998)
    assert found.without_worst_count <= 4
    assert found.without_worst.high < found.exact.low
    assert found.between_units.high > found.exact.high
    assert found.dispersion > 10
    assert found.dispersed_p < 1e-6
    assert found.mtbe_h.mid == pytest.approx(1e7 / 144)


def test_units_of_one_rate_stand_out_hardly_ever() -> None:
    rng = np.random.default_rng(0)

    found = [len(worst_units(rng.poisson(0.5, 500), np.full(500, 100.0))) for _ in range(100)]

    assert np.mean(np.array(found) > 0) < 0.1


def test_units_without_exposure_do_not_hide_others() -> None:
    found = rate_of(np.array([5, 0]), np.array([0.0, 10.0]))

    assert (found.count, found.exposure_h) == (5, 10.0)
    assert rate_of(np.array([0]), np.array([0.0])).exact.high == inf
    assert rate_of(np.array([0, 0]), np.array([1.0, 1.0])).dispersed_p == 1.0
    assert rate_of(np.zeros(2, np.int64), np.zeros(2)).mtbe_h.high == inf
