"""A cap is measured by the energy of a step before and after it."""

from __future__ import annotations

import pytest

from factories import decision, receipt
from power_bench import Bench, root_law
from steward.act.energy_outcomes import EnergyOutcomes
from steward.act.verify import ClusterVerifier
from steward.model.actions import CapPower
from steward.model.decision import Decision, Expectation
from steward.model.identity import GpuId, JobId
from steward.model.outcome import Outcome, Story
from steward.model.yardstick import ENERGY

GPU = (GpuId("n1/gpu0"),)


def cap(watts: float, name: str = "d-1", before: float = 700.0) -> Decision:
    return decision(
        name,
        action=CapPower(job=JobId("j1"), gpus=GPU, before_watts=before, watts=watts),
        expects=Expectation(low=100.0, mid=10_000.0, high=90_000.0),
        check_after_s=300.0,
    )


def follow(bench: Bench, outcomes: EnergyOutcomes, turns: int) -> list[Outcome]:
    return [found for _ in range(turns) for _, found in outcomes.follow(bench.turn())]


def carried_out(bench: Bench, outcomes: EnergyOutcomes, made: Decision) -> None:
    assert isinstance(made.action, CapPower)
    outcomes.begin(made, receipt(made, t_s=bench.t_s), bench.moment.view(bench.t_s))
    bench.limit = made.action.watts


def test_the_gain_is_what_the_steps_since_would_have_taken_more() -> None:
    bench, outcomes = Bench(), EnergyOutcomes()
    follow(bench, outcomes, 20)
    carried_out(bench, outcomes, cap(540.0))

    assert follow(bench, outcomes, 29) == []
    (found,) = follow(bench, outcomes, 1)

    speed, watts = root_law(540.0)
    assert found.gained.mid == pytest.approx((30.0 - watts / speed) * speed * 290.0, rel=0.02)
    assert found.gained.low <= found.gained.mid <= found.gained.high
    assert (found.yardstick, found.final, found.expected) == (ENERGY, True, 10_000.0)
    assert found.effect is not None
    assert (found.effect.met, found.effect.worse) == (True, False)
    assert "a step took 30 J at 700 W" in found.text


def test_a_cap_that_costs_energy_is_worse_and_its_undo_is_not() -> None:
    bench = Bench(lambda limit: (20.0 * (min(limit, 600.0) / 600.0) ** 2, min(limit, 600.0)))
    outcomes = EnergyOutcomes()
    follow(bench, outcomes, 20)
    carried_out(bench, outcomes, cap(400.0))
    (worse,) = follow(bench, outcomes, 30)
    carried_out(bench, outcomes, cap(700.0, "d-2", before=400.0))
    (back,) = follow(bench, outcomes, 30)

    assert worse.effect is not None
    assert worse.effect.worse
    assert worse.gained.mid < 0
    assert back.effect is not None
    assert (back.effect.worse, back.effect.met) == (False, True)


def test_a_cap_that_another_replaces_is_measured_up_to_then() -> None:
    bench, outcomes = Bench(), EnergyOutcomes()
    follow(bench, outcomes, 20)
    carried_out(bench, outcomes, cap(600.0))
    follow(bench, outcomes, 12)
    carried_out(bench, outcomes, cap(540.0, "d-2", before=600.0))

    (first,) = follow(bench, outcomes, 1)

    assert first.decision == "d-1"
    assert first.effect is not None
    assert first.effect.after is not None


def test_what_was_before_a_restart_is_unknown_and_no_promise_is_broken() -> None:
    bench, outcomes = Bench(), EnergyOutcomes()
    bench.limit = 540.0
    made = cap(540.0)
    done = receipt(made, t_s=bench.t_s)
    outcomes.resume(Story(decision=made, receipts=(done,)))
    outcomes.resume(Story(decision=cap(500.0, "d-9")))  # it was never carried out

    (found,) = follow(bench, outcomes, 30)

    assert (found.gained.mid, found.expected) == (0.0, 0.0)
    assert found.text.startswith("unknown")
    assert found.effect is not None
    assert found.effect.met is None


def test_the_end_of_steward_settles_what_is_open() -> None:
    bench, outcomes = Bench(), EnergyOutcomes()
    follow(bench, outcomes, 20)
    carried_out(bench, outcomes, cap(540.0))
    follow(bench, outcomes, 12)

    (found,) = outcomes.settle(bench.moment.view(bench.t_s))

    assert found.gained.mid > 0
    assert outcomes.settle(bench.moment.view(bench.t_s)) == []


def test_one_that_failed_or_is_no_cap_is_not_followed() -> None:
    bench, outcomes = Bench(), EnergyOutcomes()
    follow(bench, outcomes, 10)
    carried_out(bench, outcomes, cap(540.0))
    outcomes.forget(cap(540.0).id)
    outcomes.begin(decision(), receipt(decision()), bench.moment.view(bench.t_s))

    assert follow(bench, outcomes, 40) == []
    assert outcomes.so_far(bench.moment.view(bench.t_s)) == ()


def test_a_job_without_steps_has_no_known_outcome() -> None:
    bench, outcomes = Bench(lambda _: (0.0, 300.0)), EnergyOutcomes()
    follow(bench, outcomes, 20)
    carried_out(bench, outcomes, cap(540.0))

    (found,) = follow(bench, outcomes, 30)

    assert found.text.startswith("unknown")


def test_the_verifier_hands_caps_to_it() -> None:
    bench, verifier = Bench(), ClusterVerifier()
    for _ in range(20):
        verifier.follow(bench.turn())
    verifier.begin(cap(540.0), receipt(cap(540.0), t_s=bench.t_s), bench.moment.view(bench.t_s))
    bench.limit = 540.0

    found = [each for _ in range(30) for _, each in verifier.follow(bench.turn())]

    assert [each.yardstick for each in found] == [ENERGY]
