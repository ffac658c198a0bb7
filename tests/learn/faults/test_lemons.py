"""Units with more faults than their like are told by exposure."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.learn.faults.lemons import PUBLISHED, RatePrior, fit, poisson_interval


def test_the_same_count_means_less_after_a_longer_time() -> None:
    soon, late = PUBLISHED.unit(3, 30.0), PUBLISHED.unit(3, 900.0)

    assert soon.lemon_probability > 0.8
    assert late.lemon_probability < 0.01
    assert soon.mean > 10 * late.mean


def test_zero_exposure_says_nothing_whatever_was_counted() -> None:
    assert PUBLISHED.unit(5, 0.0) == PUBLISHED.unit(0, 0.0)
    assert PUBLISHED.unit(0, 0.0).lemon_probability == pytest.approx(PUBLISHED.lemon_share)
    assert PUBLISHED.unit(5, float("nan")) == PUBLISHED.unit(0, 0.0)


def test_a_single_fault_in_a_year_makes_no_lemon() -> None:
    assert PUBLISHED.unit(1, 365.0).lemon_probability < 0.001


def test_a_unit_without_faults_is_cleared_by_time() -> None:
    shares = [PUBLISHED.unit(0, days).lemon_probability for days in (1.0, 30.0, 300.0)]

    assert shares == sorted(shares, reverse=True)


@given(faults=st.integers(0, 500), days=st.floats(0.0, 1e5), more=st.integers(1, 50))
def test_more_faults_never_make_a_unit_less_suspicious(faults: int, days: float, more: int) -> None:
    few, many = PUBLISHED.unit(faults, days), PUBLISHED.unit(faults + more, days)

    assert 0.0 <= few.lemon_probability <= many.lemon_probability + 1e-9 <= 1.0 + 1e-8
    assert few.mean <= many.mean + 1e-12


def test_a_fleet_finds_its_planted_lemons_and_how_common_they_are() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random(2000) < 0.03
    days = rng.uniform(60.0, 400.0, 2000)
    faults = rng.poisson(np.where(truth, 0.08, 0.004) * days)

    prior = fit(faults.tolist(), days.tolist())
    called = [prior.unit(k, t).lemon_probability > 0.5 for k, t in zip(faults, days, strict=True)]

    assert prior.lemon_share == pytest.approx(0.03, abs=0.012)
    assert prior.normal == pytest.approx(0.004, rel=0.25)
    assert np.mean(np.array(called)[truth]) > 0.9
    assert np.mean(np.array(called)[~truth]) < 0.01


def test_without_units_or_exposure_the_published_figures_hold() -> None:
    assert fit([], []) == PUBLISHED
    assert fit([3, 1], [0.0, 0.0]) == PUBLISHED


def test_a_fleet_without_faults_is_thought_better_than_published() -> None:
    prior = fit([0] * 500, [300.0] * 500)

    assert prior.normal < PUBLISHED.normal
    assert prior.lemon >= 5 * prior.normal


def test_intervals_are_exact_and_never_falsely_sure() -> None:
    assert poisson_interval(0, 100.0).low == 0.0
    assert poisson_interval(0, 100.0).high == pytest.approx(0.03689, rel=1e-3)
    low, mid, high = poisson_interval(10, 2.0)
    assert (low, mid, high) == pytest.approx((2.3977, 5.0, 9.1952), rel=1e-3)
    nothing = poisson_interval(3, 0.0)
    assert (nothing.low, nothing.high, isnan(nothing.mid)) == (0.0, inf, True)


def test_hardly_possible_odds_do_not_overflow() -> None:
    extreme = RatePrior(normal=1e-6, lemon=1e3, lemon_share=1e-6)

    assert extreme.unit(0, 1e6).lemon_probability == pytest.approx(0.0, abs=1e-6)
    assert extreme.unit(10_000, 10.0).lemon_probability == pytest.approx(1.0)
