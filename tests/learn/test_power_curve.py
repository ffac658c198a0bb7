"""The curve of a job is learnt from its own steps, and believed no further than it was measured."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_bench import Bench, root_law
from steward.learn.estimators.power_curve import PowerCurve
from steward.learn.power_fit import PowerPoint, fit_of
from steward.model.forecast import (
    POWER_FLOOR_WATTS,
    POWER_LIMIT_CHANGES,
    POWER_LIMITS_TRIED,
    POWER_PROVEN_WATTS,
    POWER_SAVING_SHARE,
    POWER_SLOWDOWN_SHARE,
)
from steward.model.identity import JobId
from steward.model.view import ClusterView

J1 = JobId("j1")
QUICK = partial(PowerCurve, least_windows=3, reference_windows=3)


def point(limit: float, speed: float | None = None, error: float = 0.0) -> PowerPoint:
    law, watts = root_law(limit)
    made = law if speed is None else speed
    return PowerPoint(limit_watts=limit, steps_per_s=made, watts=watts, error_share=error)


def learnt(bench: Bench, learner: PowerCurve, turns: int) -> ClusterView:
    for _ in range(turns):
        seen = bench.turn()
        learner.learn(seen, ())
    return seen


def believed(learner: PowerCurve, seen: ClusterView) -> dict[str, tuple[float, float, float]]:
    return {
        each.quantity: (float(each.low[0]), float(each.mid[0]), float(each.high[0]))
        for each in learner.predict(seen)
    }


# -- the fit ---------------------------------------------------------------------------------------


def test_the_fit_goes_through_points_that_are_concave_already() -> None:
    fit = fit_of([point(700.0), point(400.0), point(500.0)])

    for limit in (400.0, 500.0, 700.0):
        expected = 1.0 - root_law(limit)[0] / root_law(700.0)[0]
        assert fit.slowdown(limit).mid == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8))
def test_whatever_was_measured_the_curve_is_monotone_and_concave(speeds: list[float]) -> None:
    limits = 200.0 + 50.0 * np.arange(len(speeds))
    fit = fit_of([point(x, speed) for x, speed in zip(limits, speeds, strict=True)])

    slow = [fit.slowdown(x).mid for x in limits[:-1]]

    falls = -np.diff([*slow, fit.slowdown(limits[-1]).mid])
    assert (falls >= -1e-6).all()
    assert (np.diff(falls) <= 1e-6).all()


def test_a_single_slow_outlier_does_not_bend_the_curve_upwards() -> None:
    noisy = [point(700.0), point(600.0, 19.0, error=0.2), point(500.0)]

    fit = fit_of(noisy)

    assert 0.0 <= fit.slowdown(600.0).mid <= fit.slowdown(500.0).mid


def test_below_what_was_measured_the_range_is_wide_and_holds_the_truth() -> None:
    fit = fit_of([point(700.0)])

    far, near = fit.slowdown(450.0), fit.slowdown(560.0)

    assert far.high - far.low > near.high - near.low
    assert far.low <= 1.0 - root_law(450.0)[0] / 20.0 <= far.high


def test_the_floor_is_at_the_allowed_slowdown_and_its_ends_are_in_order() -> None:
    fit = fit_of([point(700.0), point(580.0), point(500.0)])

    floor = fit.floor(0.05, 200.0)

    assert floor.mid == pytest.approx(600.0 * 0.95**2, abs=6.0)
    assert floor.low <= floor.mid <= floor.high


def test_where_less_power_costs_more_energy_the_floor_stays_up() -> None:
    def energy_rises(limit: float) -> PowerPoint:
        return point(limit, 20.0 * (min(limit, 600.0) / 600.0) ** 1.5)

    fit = fit_of([energy_rises(700.0), energy_rises(560.0), energy_rises(500.0)])

    assert fit.floor(0.4, 200.0).mid > 590.0


def test_the_proven_limit_is_the_best_of_those_within_the_allowance() -> None:
    fit = fit_of([point(700.0), point(560.0), point(500.0)])

    assert fit.proven(0.05).limit_watts == 560.0
    assert fit.proven(0.10).limit_watts == 500.0
    assert fit.proven(0.0).limit_watts == 700.0


# -- the estimator ---------------------------------------------------------------------------------


def test_nothing_is_believed_before_three_windows_at_a_limit() -> None:
    bench, learner = Bench(), QUICK()

    early = believed(learner, learnt(bench, learner, 9))
    later = believed(learner, learnt(bench, learner, 3))

    assert np.isnan([mid for _, mid, _ in early.values()]).all()
    assert later[POWER_LIMITS_TRIED][1] == 1.0
    assert later[POWER_SLOWDOWN_SHARE][1] == 0.0
    assert 480.0 < later[POWER_FLOOR_WATTS][1] < 640.0


def test_the_highest_limit_is_measured_longer_than_others() -> None:
    bench, learner = Bench(), PowerCurve(least_windows=3, reference_windows=5)

    early = believed(learner, learnt(bench, learner, 15))
    later = believed(learner, learnt(bench, learner, 9))

    assert np.isnan([mid for _, mid, _ in early.values()]).all()
    assert later[POWER_SLOWDOWN_SHARE][1] == 0.0


def test_speed_and_power_are_those_of_each_limit() -> None:
    bench, learner = Bench(gpus=2), QUICK()
    learnt(bench, learner, 12)
    bench.limit = 500.0
    seen = learnt(bench, learner, 12)

    low, high = learner.points(J1)
    now = believed(learner, seen)

    assert (low.limit_watts, high.limit_watts) == (500.0, 700.0)
    assert low.steps_per_s == pytest.approx(root_law(500.0)[0], rel=0.01)
    assert (low.watts, high.watts) == (pytest.approx(500.0), pytest.approx(600.0))
    assert now[POWER_SLOWDOWN_SHARE][1] == pytest.approx(0.087, abs=0.005)
    assert now[POWER_PROVEN_WATTS][1] == 700.0  # 8.7 % is more than the 5 % that are allowed
    assert now[POWER_LIMIT_CHANGES][1] == 1.0
    assert now[POWER_SAVING_SHARE][1] < 0.0  # against where it is now


def test_the_energy_saved_is_that_of_the_steps_under_a_cap() -> None:
    bench, learner = Bench(), QUICK()
    learnt(bench, learner, 12)
    bench.limit = 560.0
    learnt(bench, learner, 13)

    speed, watts = root_law(560.0)
    full = 600.0 / 20.0
    steps = sum(each.windows for each in learner.points(J1)[:1]) * 30.0 * speed
    # before the third window the limit was not known well enough for a curve, but its steps count
    assert learner.saved_joules(J1) == pytest.approx((full - watts / speed) * steps, rel=0.05)
    assert learner.saved_joules(JobId("other")) == 0.0


def test_one_slow_window_is_not_the_speed_of_a_limit() -> None:
    pause = {"left": 0}

    def saving_now_and_then(limit: float) -> tuple[float, float]:
        pause["left"] += 1
        speed, watts = root_law(limit)
        return (0.4 * speed if pause["left"] in (8, 9) else speed), watts

    bench, learner = Bench(saving_now_and_then), QUICK()
    learnt(bench, learner, 22)

    assert learner.points(J1)[0].steps_per_s == pytest.approx(20.0, rel=0.02)


def test_a_window_that_stands_still_is_not_counted() -> None:
    speed = {"now": 20.0}
    bench, learner = Bench(lambda limit: (speed["now"], min(limit, 600.0))), QUICK()
    learnt(bench, learner, 2)
    speed["now"] = 0.0
    learnt(bench, learner, 70)
    speed["now"] = 20.0
    learnt(bench, learner, 12)

    assert learner.points(J1)[0].steps_per_s == pytest.approx(20.0, rel=0.01)


def test_time_without_power_readings_is_not_measured() -> None:
    bench, learner = Bench(lambda _: (20.0, float("nan"))), QUICK()

    learnt(bench, learner, 20)

    assert learner.points(J1) == ()


@pytest.mark.parametrize("slowdown", [0.0, 0.05])
def test_only_jobs_whose_owner_allows_it_are_followed(slowdown: float) -> None:
    bench, learner = Bench(slowdown=slowdown), QUICK()

    learnt(bench, learner, 12)

    assert bool(learner.points(J1)) == (slowdown > 0)


def test_a_changed_limit_is_unknown_until_it_was_measured() -> None:
    bench, learner = Bench(), QUICK()
    learnt(bench, learner, 12)
    bench.limit = 500.0

    now = believed(learner, learnt(bench, learner, 2))

    assert np.isnan(now[POWER_SLOWDOWN_SHARE][1])
    assert np.isnan(now[POWER_FLOOR_WATTS][1])


def test_curves_survive_a_restart_and_only_so_many_are_kept() -> None:
    bench, first = Bench(), QUICK(memory=1)
    seen = learnt(bench, first, 12)
    second = QUICK()
    second.restore_state(first.save_state())

    assert second.points(J1) == first.points(J1)
    assert believed(second, seen) == believed(first, seen)
    crowded = QUICK(memory=1)
    state = first.save_state()
    state["jobs"]["old"] = {**state["jobs"]["j1"], "seen_s": 1.0}
    crowded.restore_state(state)
    learnt(bench, crowded, 1)
    assert (crowded.points(JobId("old")), bool(crowded.points(J1))) == ((), True)


def test_not_more_limits_are_kept_than_can_be_used() -> None:
    bench, learner = Bench(), PowerCurve(least_windows=1, reference_windows=1)
    for limit in range(700, 300, -20):
        bench.limit = float(limit)
        learnt(bench, learner, 5)

    assert len(learner.points(J1)) == 16
    assert learner.points(J1)[-1].limit_watts == 700.0
