"""Limits go down while that is allowed, measured and worth it; never where nobody asked for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from power_bench import Bench, root_law
from steward.decide.energy.save_energy import SaveEnergy
from steward.learn.estimators.power_curve import PowerCurve
from steward.model.actions import CapPower
from steward.model.decision import Decision
from steward.model.forecast import (
    POWER_FLOOR_WATTS,
    POWER_LIMIT_CHANGES,
    POWER_LIMITS_TRIED,
    POWER_PROVEN_WATTS,
    POWER_SAVING_SHARE,
    POWER_SLOWDOWN_SHARE,
    About,
    ForecastColumn,
)
from steward.model.view import ClusterView

KNOWN = {
    POWER_SLOWDOWN_SHARE: 0.0,
    POWER_FLOOR_WATTS: 540.0,
    POWER_SAVING_SHARE: 0.06,
    POWER_PROVEN_WATTS: 700.0,
    POWER_LIMITS_TRIED: 1.0,
    POWER_LIMIT_CHANGES: 0.0,
}


def believing(limit: float = 700.0, *, slowdown: float = 0.05, **changes: float) -> ClusterView:
    bench = Bench(slowdown=slowdown)
    bench.limit = limit
    named = {name.split(".")[1]: name for name in KNOWN}
    given = {**KNOWN, **{named[key]: value for key, value in changes.items()}}
    return bench.turn().with_forecasts(
        ForecastColumn(
            about=About.JOBS,
            quantity=name,
            low=np.array([value]),
            mid=np.array([value]),
            high=np.array([value]),
            basis="test",
        )
        for name, value in given.items()
    )


def watts(seen: ClusterView) -> list[float]:
    found = []
    for each in SaveEnergy().decide(seen):
        assert isinstance(each.action, CapPower)
        found.append(each.action.watts)
    return found


def test_the_next_limit_is_where_the_slowdown_is_believed_to_be_allowed() -> None:
    seen = believing(floor_watts=537.0)

    (made,) = SaveEnergy().decide(seen)

    assert isinstance(made.action, CapPower)
    assert (made.action.before_watts, made.action.watts) == (700.0, 540.0)  # in steps of 5 W
    assert made.action.unmet(seen) == ""
    assert made.expects.mid == pytest.approx(600.0 * 600.0 * 0.06)  # joules until the check
    assert "0.0% slower at 700 W, 5% allowed; 540 W should need less energy" in made.because
    assert len(made.forecasts) == 5
    assert made.tenant == "a"


@pytest.mark.parametrize(
    ("why", "seen"),
    [
        ("nobody allowed it", believing(slowdown=0.0)),
        ("little would change", believing(floor_watts=690.0)),
        ("little would be saved", believing(saving_share=0.005)),
        ("enough was tried", believing(limits_tried=6.0)),
        ("it was not measured", believing(slowdown_share=float("nan"))),
        ("the best one is in force", believing(540.0, proven_watts=540.0, floor_watts=538.0)),
    ],
)
def test_nothing_is_changed_where(why: str, seen: ClusterView) -> None:
    assert watts(seen) == [], why


def test_nothing_is_decided_without_forecasts_or_about_what_is_reserved() -> None:
    seen = believing()
    reserved = replace(seen, gpus=replace(seen.gpus, reserved=np.array([True])))

    assert watts(replace(seen, forecasts={})) == []
    assert watts(reserved) == []


def test_one_step_is_never_far_below_what_is_surely_allowed() -> None:
    assert watts(believing(floor_watts=300.0)) == [300.0]
    column = believing(floor_watts=300.0).forecast(About.JOBS, POWER_FLOOR_WATTS)
    assert column is not None
    wide = replace(column, high=np.array([600.0]))

    assert watts(believing().with_forecasts((wide,))) == [480.0]


def test_a_limit_that_is_too_low_gives_way_to_one_between_or_to_the_best_measured() -> None:
    slow = {"slowdown_share": 0.08, "proven_watts": 700.0, "limits_tried": 2.0}

    assert watts(believing(500.0, floor_watts=572.0, **slow)) == [575.0]
    assert watts(believing(500.0, floor_watts=505.0, **slow)) == [700.0]
    assert watts(believing(500.0, floor_watts=572.0, **{**slow, "limits_tried": 6.0})) == [700.0]


def test_a_limit_that_needs_more_energy_gives_way_to_the_best_measured() -> None:
    seen = believing(500.0, proven_watts=560.0, slowdown_share=0.03)

    (made,) = SaveEnergy().decide(seen)

    assert watts(seen) == [560.0]
    assert made.expects.mid == 0.0  # going back promises nothing
    assert "needs the least energy" in made.because


def test_going_to_a_limit_again_is_another_decision() -> None:
    first, again = believing(limit_changes=0.0), believing(limit_changes=2.0)

    assert SaveEnergy().decide(first)[0].id != SaveEnergy().decide(again)[0].id
    assert SaveEnergy().decide(first)[0].id == SaveEnergy().decide(believing())[0].id


def test_a_job_of_no_known_tenant_is_the_sites() -> None:
    seen = believing()
    nobody = replace(seen, jobs=replace(seen.jobs, tenant=np.array([-1])))

    assert SaveEnergy().decide(nobody)[0].tenant == ""


@pytest.mark.parametrize(("allowed", "most"), [(0.05, 0.06), (0.10, 0.11)])
def test_learner_and_policy_settle_within_the_allowance_and_save_energy(
    allowed: float, most: float
) -> None:
    bench, learner, policy = Bench(slowdown=allowed), PowerCurve(), SaveEnergy()
    made: list[Decision] = []
    for _ in range(200):
        seen = bench.turn()
        learner.learn(seen, ())
        for each in policy.decide(seen.with_forecasts(learner.predict(seen))):
            assert isinstance(each.action, CapPower)
            bench.limit = each.action.watts
            made.append(each)

    speed, drawn = root_law(bench.limit)
    assert 1.0 - speed / 20.0 <= most
    assert drawn / speed < 0.96 * 30.0
    assert 1 <= len(made) <= 8
    assert len({each.id for each in made}) == len(made)
