"""Limits of waits: they hold where forecasts are wrong, and learn from jobs that still wait."""

from __future__ import annotations

import numpy as np
import pytest

from steward.learn.wait_calibration import WaitCalibration

DRAWS_S = np.exp(np.linspace(np.log(600.0), np.log(2400.0), 41))


def test_without_a_past_the_limits_are_near_those_of_the_draws() -> None:
    low_s, mid_s, high_s = WaitCalibration().limits("j", 0.0, DRAWS_S)

    assert low_s == pytest.approx(np.quantile(DRAWS_S, 0.05), rel=0.25)
    assert mid_s == pytest.approx(1200.0, rel=0.05)
    assert high_s == pytest.approx(np.quantile(DRAWS_S, 0.95), rel=0.25)


@pytest.mark.parametrize("factor", [0.3, 1.0, 5.0])
def test_limits_hold_in_nine_of_ten_where_draws_are_too_short_or_too_long(factor: float) -> None:
    random = np.random.default_rng(3)
    calibration, held, mids = WaitCalibration(), [], []

    for number in range(600):
        wait_s = factor * 1200.0 * np.exp(0.8 * random.standard_normal())
        low_s, mid_s, high_s = calibration.limits(number, number * 1e6, DRAWS_S)
        calibration.started(number, number * 1e6 + wait_s)
        held.append(low_s <= wait_s <= high_s)
        mids.append(mid_s)

    assert 0.87 <= np.mean(held[100:]) <= 0.95
    assert np.median(mids[100:]) == pytest.approx(factor * 1200.0, rel=0.35)


def test_jobs_that_still_wait_lift_the_limits_before_any_has_started() -> None:
    calibration = WaitCalibration()
    _, mid_s, high_s = calibration.limits("first", 0.0, DRAWS_S)
    for number in range(40):
        calibration.limits(number, 0.0, DRAWS_S)

    _, later_mid_s, later_high_s = calibration.limits("later", 20_000.0, DRAWS_S)

    assert later_high_s > high_s
    assert later_mid_s > mid_s


def test_jobs_that_start_at_once_as_was_said_change_nothing() -> None:
    calibration = WaitCalibration()
    before = calibration.limits("j", 0.0, DRAWS_S)
    calibration.started("j", 1200.0)
    after_one = calibration.limits("k", 5000.0, DRAWS_S)
    calibration.started("k", 6200.0)
    reference = calibration.limits("l", 9000.0, DRAWS_S)
    calibration.started("l", 10_200.0)

    for number in range(50):
        calibration.limits(number, 20_000.0, np.zeros(64))
        calibration.started(number, 20_000.0)

    after = calibration.limits("m", 30_000.0, DRAWS_S)
    assert before != after_one
    assert after == pytest.approx(reference, rel=0.05)


def test_what_was_not_asked_for_is_not_learned_and_what_is_kept_is_bounded() -> None:
    calibration = WaitCalibration()
    calibration.started("never asked", 1e6)
    for number in range(1200):
        calibration.limits(number, 0.0, DRAWS_S)
    before = calibration.limits("j", 1.0, DRAWS_S)

    calibration.started(0, 1e9)  # dropped long ago: only the newest 1,000 are kept

    assert calibration.limits("k", 1.0, DRAWS_S) == pytest.approx(before, rel=0.01)


def test_limits_are_in_order_for_any_past() -> None:
    random = np.random.default_rng(5)
    calibration = WaitCalibration()

    for number in range(200):
        draws_s = np.exp(random.normal(6.0, 2.0) + random.uniform(0.0, 2.0) * DRAWS_S / 1200.0)
        low_s, mid_s, high_s = calibration.limits(number, number * 900.0, draws_s)
        assert 0.0 <= low_s <= mid_s <= high_s
        if random.random() < 0.7:
            calibration.started(number, number * 900.0 + float(np.exp(random.normal(6.0, 3.0))))
