from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import job, moment, node, tenants, view
from steward.errors import StewardError
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.learn.estimators.tenant_use import TenantUse
from steward.model.event import Observation
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_RANK_GPU_S,
    SIMILAR_JOBS,
    USED_GPU_S,
    About,
    ForecastColumn,
)
from steward.model.job import Job, JobState
from steward.model.view import ClusterView

GPU = "n1/gpu0"


def named(id_: str, *, user: str, name: str, **changes: Any) -> Job:
    return replace(job(id_, user=user, **changes), name=name)


def ended(seconds: float, *, user: str = "ada", tenant: str = "a") -> Job:
    over = {"state": JobState.COMPLETED, "start_s": 0.0, "end_s": seconds}
    return named("gone", user=user, name="bert-1", tenant=tenant, **over)


def after(*jobs: Job, seen: ClusterView | None = None) -> ClusterView:
    return replace(seen or view(node("n1", 2)), ended=jobs)


def believed(learner: SimilarJobs, *jobs: Job, t_s: float = 1000.0) -> dict[str, ForecastColumn]:
    seen = view(node("n1", 2), jobs=jobs, t_s=t_s)
    return {column.quantity: column for column in learner.predict(seen)}


def test_before_anything_was_learned_nothing_is_likelier_and_the_young_go_first() -> None:
    told = believed(SimilarJobs(), job("old", on=[GPU], start_s=0.0), job("new"), t_s=5000.0)

    old, new = 0, 1
    assert told[RUN_RANK_GPU_S].mid[new] < told[RUN_RANK_GPU_S].mid[old]
    assert told[RUN_LEFT_S].low[new] < told[RUN_LEFT_S].mid[new] / 10  # anything is possible
    assert told[SIMILAR_JOBS].mid.tolist() == [0.0, 0.0]


def test_jobs_of_one_user_and_name_are_expected_to_run_as_they_ran() -> None:
    learner = SimilarJobs()
    learner.learn(after(*[ended(300.0 + i) for i in range(60)]), ())
    learner.learn(after(*[ended(9000.0 + i, user="bob") for i in range(60)]), ())

    told = believed(
        learner,
        named("hers", user="ada", name="bert-77"),
        named("his", user="bob", name="bert-78"),
        named("new", user="eve", name="gpt"),
    )

    left = told[RUN_LEFT_S]
    assert left.low[0] < 310 < left.high[0] < 600
    assert 7000 < left.mid[1] < 11_000
    assert left.low[2] < 400
    assert left.high[2] > 8000  # like one or like the other
    assert told[RUN_RANK_GPU_S].mid[0] < told[RUN_RANK_GPU_S].mid[2] < told[RUN_RANK_GPU_S].mid[1]
    assert told[SIMILAR_JOBS].mid[0] == pytest.approx(60, rel=0.1)
    assert left.basis == "similar-jobs, 120 jobs"


def test_what_has_run_longer_than_most_is_expected_to_run_on() -> None:
    learner = SimilarJobs()
    learner.learn(after(*[ended(300.0) for _ in range(60)]), ())

    told = believed(learner, named("j1", on=[GPU], start_s=0.0, user="ada", name="bert-2"), t_s=5e3)

    assert told[RUN_LEFT_S].mid[0] > 300


def test_a_job_that_never_began_teaches_nothing() -> None:
    learner = SimilarJobs()

    learner.learn(after(replace(ended(0.0), start_s=None, state=JobState.CANCELLED)), ())

    assert believed(learner, job())[RUN_LEFT_S].basis == "similar-jobs, 0 jobs"


def test_kinds_not_heard_of_for_long_are_forgotten_and_wider_ones_keep_what_they_taught() -> None:
    learner = SimilarJobs(classes=8)
    learner.learn(after(*[ended(300.0, user="ada") for _ in range(40)]), ())
    size = len(pickle.dumps(learner))
    for i in range(200):
        learner.learn(after(ended(300.0, user=f"user-{i}", tenant=f"t{i % 30}")), ())

    told = believed(learner, named("j1", user="ada", name="bert-9"))

    assert len(pickle.dumps(learner)) < size * 1.2
    assert len(learner._rows) == 8
    assert 200 < told[RUN_LEFT_S].mid[0] < 500  # as all jobs of this size went
    parents = {row: learner._past.parent[row] for row in learner._rows.values()}
    assert all(parent == -1 or parent in parents for parent in parents.values())


@settings(max_examples=20)
@given(
    lengths=st.lists(st.floats(0.0, 1e8), max_size=12),
    age_s=st.floats(0.0, 1e9),
    strength=st.floats(0.01, 100.0),
)
def test_forecasts_are_ordered_and_finite_whatever_was_seen(
    lengths: list[float], age_s: float, strength: float
) -> None:
    learner = SimilarJobs(strength=strength)
    learner.learn(after(*[ended(seconds) for seconds in lengths]), ())

    told = believed(learner, job("j1", on=[GPU], start_s=0.0), t_s=age_s)  # orders are checked

    for column in told.values():
        assert np.isfinite([column.low, column.mid, column.high]).all()
        assert (column.low >= 0).all()


@pytest.mark.parametrize("options", [{"classes": 3}, {"strength": 0.0}, {"memory": 0.5}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(StewardError, match=next(iter(options))):
        SimilarJobs(**options)  # type: ignore[arg-type]


def test_what_was_held_until_now_adds_up_and_halves_with_its_half_life() -> None:
    made = moment(node("n1", 2), jobs=[job("j1", on=[GPU])], of=tenants("a", "b"))
    learner = TenantUse(half_life_s=100.0)
    learner.learn(made.view(1000.0), ())
    learner.learn(made.view(1050.0), ())
    made.fold(Observation(jobs=(job("j1").changed(1050.0, JobState.CANCELLED, ""),)))
    learner.learn(made.view(1050.0), ())
    learner.learn(made.view(1150.0), ())

    (used,) = learner.predict(made.view(1150.0))

    assert (used.about, used.quantity) == (About.TENANTS, USED_GPU_S)
    assert used.mid.tolist() == [25.0, 0.0]
