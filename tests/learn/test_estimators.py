from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import (
    believing,
    gpu_row,
    host_row,
    job,
    moment,
    node,
    outcome,
    samples,
    view,
)
from steward.learn.estimators.idle_spells import IdleSpells
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.learn.patterns.idle_habits import IdleHabits, wilson
from steward.model.event import Observation
from steward.model.forecast import LOAN_YIELD, REMAINING_S, About
from steward.model.frame import job_entity
from steward.model.identity import JobId
from steward.model.moment import Moment
from steward.model.view import ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"


def at(
    made: Moment, t_s: float, busy: dict[str, float], host: dict[str, float | None]
) -> ClusterView:
    rows = {gpu: gpu_row(share) for gpu, share in busy.items()}
    made.fold(
        Observation(
            frame=samples(t_s, {**rows, **({job_entity(JobId("j1")): host} if host else {})})
        )
    )
    return made.view(t_s)


def unexplained(learner: QuietPhases, seen: ClusterView) -> list[float]:
    learner.learn(seen, ())
    return list(learner.predict(seen)[0].mid)


def test_a_gpu_quiet_with_an_idle_host_is_unexplained_from_its_first_quiet_sample() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), QuietPhases()
    unexplained(learner, at(made, 0.0, {GPU: 0.9}, host_row(1.1)))

    first = unexplained(learner, at(made, 10.0, {GPU: 0.0}, host_row(0.05)))
    later = unexplained(learner, at(made, 310.0, {GPU: 0.0}, host_row(0.05)))

    assert first[0] == 0.0
    assert later[0] == 300.0
    assert np.isnan(later[1])  # nobody holds the other one


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(host_row(1.7), id="compiling"),
        pytest.param(host_row(1.1, read=2e8), id="loading data"),
        pytest.param(host_row(0.2, write=4e8), id="writing a checkpoint"),
        pytest.param({}, id="a host side that nobody sees"),
    ],
)
def test_work_on_the_host_explains_a_quiet_gpu(host: dict[str, float | None]) -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), QuietPhases()

    unexplained(learner, at(made, 0.0, {GPU: 0.0}, host))
    seconds = unexplained(learner, at(made, 400.0, {GPU: 0.0}, host))

    assert np.isnan(seconds[0])


def test_idleness_counts_from_the_end_of_the_work_on_the_host() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), QuietPhases()
    for t_s in (0.0, 200.0, 400.0):
        unexplained(learner, at(made, t_s, {GPU: 0.0}, host_row(1.5)))

    unexplained(learner, at(made, 410.0, {GPU: 0.0}, host_row(0.05)))
    seconds = unexplained(learner, at(made, 500.0, {GPU: 0.0}, host_row(0.05)))

    assert seconds[0] == 90.0


def test_beside_a_gpu_that_computes_the_hosts_work_explains_nothing() -> None:
    made, learner = moment(jobs=[job(on=[GPU, OTHER])]), QuietPhases()

    unexplained(learner, at(made, 0.0, {GPU: 0.9, OTHER: 0.0}, host_row(3.0)))
    seconds = unexplained(learner, at(made, 300.0, {GPU: 0.9, OTHER: 0.0}, host_row(3.0)))

    assert np.isnan(seconds[0])
    assert seconds[1] == 300.0


def test_a_new_node_does_not_forget_how_long_others_were_idle() -> None:
    made, learner = moment(jobs=[job(on=[GPU])]), QuietPhases()
    unexplained(learner, at(made, 0.0, {GPU: 0.0}, host_row()))

    made.fold(Observation(cluster=moment(node("n0"), node("n1")).view(0.0).cluster))
    seconds = unexplained(learner, at(made, 100.0, {GPU: 0.0}, host_row()))

    assert seconds[2] == 100.0


# -- idle spells -----------------------------------------------------------------------------------


def remaining(learner: IdleSpells, age_s: float) -> tuple[float, float, float]:
    seen = believing(view(jobs=[job(on=[GPU])]), idle_s={GPU: age_s})
    found = learner.predict(seen)[0]
    assert found.quantity == REMAINING_S
    return float(found.low[0]), float(found.mid[0]), float(found.high[0])


def live_through(learner: IdleSpells, spells: list[float]) -> None:
    for age_s in spells:
        learner.learn(believing(view(jobs=[job(on=[GPU])]), idle_s={GPU: age_s}), ())
        learner.learn(believing(view(jobs=[job(on=[GPU])]), idle_s={}), ())


def test_without_data_what_has_lasted_will_last_about_as_long_again() -> None:
    low, mid, high = remaining(IdleSpells(), 600.0)

    assert mid == pytest.approx(600.0)
    assert low == pytest.approx(600.0 / 9)
    assert high == pytest.approx(5400.0)


def test_spells_that_always_end_after_an_hour_are_expected_to() -> None:
    learner = IdleSpells()
    live_through(learner, [3600.0] * 50)

    low, mid, high = remaining(learner, 600.0)

    assert low == mid == high == pytest.approx(3000.0)


def test_spells_still_going_on_make_the_estimate_longer() -> None:
    short, long = IdleSpells(), IdleSpells()
    for learner in (short, long):
        live_through(learner, [600.0, 700.0, 800.0, 900.0])
    long.learn(believing(view(jobs=[job(on=[GPU])]), idle_s={GPU: 50_000.0}), ())

    assert remaining(long, 300.0)[2] > remaining(short, 300.0)[2]


def test_a_spell_older_than_any_before_is_treated_as_if_nothing_were_known() -> None:
    learner = IdleSpells()
    live_through(learner, [600.0] * 5)

    assert remaining(learner, 6000.0)[1] == pytest.approx(6000.0)


@given(
    spells=st.lists(st.floats(60.0, 1e5), max_size=30),
    age_s=st.floats(60.0, 2e5),
)
def test_remaining_times_are_never_negative_and_ordered(spells: list[float], age_s: float) -> None:
    learner = IdleSpells()
    live_through(learner, spells)

    low, mid, high = remaining(learner, age_s)

    assert 0.0 <= low <= mid <= high


def test_the_yield_of_loans_follows_their_outcomes() -> None:
    learner = IdleSpells()
    seen = believing(view(jobs=[job(on=[GPU])]))
    before = learner.predict(seen)[1]

    for _ in range(200):
        learner.learn(seen, [outcome(gained=60.0, counted_on=600.0)])
        learner.learn(seen, [outcome(gained=600.0, counted_on=0.0)])  # a later part: not promised
    after = learner.predict(seen)[1]

    assert before.about is About.WHOLE
    assert before.quantity == LOAN_YIELD
    assert before.mid[0] == pytest.approx(1 / 3)
    assert after.mid[0] == pytest.approx(0.1, abs=0.05)


# -- habits ----------------------------------------------------------------------------------------


def test_a_tenant_that_leaves_gpus_idle_is_named_with_its_range() -> None:
    miner = IdleHabits(fewest=4)
    idle = {GPU: 400.0}
    for t_s in (0.0, 600.0, 650.0):
        seen = view(jobs=[job("j1", on=[GPU]), job("j2", on=[OTHER])], t_s=t_s)
        found = miner.mine(believing(seen, idle_s=idle))

    assert [(each.hits, each.cases) for each in found] == [(2, 4)]  # 650 s is too soon to count
    assert "a leaves 50% of the GPUs" in found[0].statement
    assert found[0].low_share < 0.5 < found[0].high_share


def test_few_cases_are_not_a_habit() -> None:
    seen = view(jobs=[job(on=[GPU])])

    assert IdleHabits().mine(believing(seen, idle_s={GPU: 999.0})) == ()


@given(hits=st.integers(0, 200), more=st.integers(0, 200))
def test_the_range_of_a_share_holds_the_share(hits: int, more: int) -> None:
    cases = max(1, hits + more)

    low, high = wilson(hits, cases)

    assert 0.0 <= low <= hits / cases <= high <= 1.0
