from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from steward.decide.scheduling.time_shares import shockwave
from steward.decide.scheduling.time_shares.problem import TimeShareProblem
from steward.decide.scheduling.time_shares.shockwave import Shockwave
from time_share_problems import problem_of


def rounds_of(problem: TimeShareProblem, policy: Shockwave | None = None) -> list[int]:
    plan = (policy or Shockwave()).decide(problem).plan
    assert plan is not None
    return [int(n) for n in (plan >= 0).sum(axis=1)]


def test_jobs_that_all_fit_run_until_they_end() -> None:
    problem = problem_of([1.0, 1.0], capacity=(2.0,), steps_left=[1000.0, 3600.0])

    assert rounds_of(problem) == [3, 10]


def test_the_longest_job_runs_in_every_round() -> None:
    problem = problem_of(
        [1.0, 1.0, 1.0],
        capacity=(2.0,),
        steps_left=[90000.0, 9000.0, 9000.0],
        steps_total=[90000.0, 9000.0, 9000.0],
    )

    assert rounds_of(problem)[0] == 20


def test_a_late_job_goes_before_one_that_is_not() -> None:
    problem = problem_of(
        [1.0, 1.0],
        capacity=(1.0,),
        t_s=90000.0,
        elapsed_s=[90000.0, 0.0],
        steps_left=[7200.0, 7200.0],
        steps_total=[7200.0, 7200.0],
    )

    plan = Shockwave(makespan_weight=1e-9).decide(problem).plan

    assert plan is not None
    assert plan[0, 0] == 0


def test_promises_that_can_be_kept_are_kept() -> None:
    # jobs that came just now and long windows before their fair end
    problem = problem_of(
        [1.0, 1.0],
        capacity=(1.0,),
        steps_left=[36000.0, 36000.0],
        steps_total=[36000.0, 36000.0],
    )
    policy = Shockwave(window_rounds=4)

    assert sum(rounds_of(problem, policy)) == 4


def test_promises_that_need_more_gpus_than_there_are_are_dropped() -> None:
    problem = problem_of(
        [1.0] * 3, capacity=(1.0,), steps_left=[7300.0] * 3, steps_total=[7300.0] * 3
    )
    hard, much = Shockwave(window_rounds=20, ratio_limit=0.35), Shockwave(ratio_limit=0.6)

    for policy in (hard, much):
        assert sum(rounds_of(problem, policy)) <= 20


def test_the_fair_end_is_mostly_the_mean_of_the_forecasts() -> None:
    problem = problem_of([1.0], capacity=(1.0,))
    policy = Shockwave()
    first = policy.decide(problem).memory

    crowded = problem_of([1.0, 1.0], capacity=(1.0,), t_s=360.0, elapsed_s=[360.0, 0.0])
    second = policy.decide(replace(crowded, memory=first.rows(np.array([0, -1])))).memory

    assert first.fair_end_s.tolist() == [3600.0]
    assert second.fair_mean_s.tolist() == [3600.0, 360.0 + 7200.0]
    assert second.fair_end_s.tolist() == [7200.0, 7560.0]


def test_a_solver_that_gives_up_leaves_gpus_to_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shockwave, "milp", lambda *_, **__: OptimizeResult(x=None))

    problem = problem_of([1.0] * 3, capacity=(1.0,), steps_left=[36000.0] * 3)

    assert rounds_of(problem, Shockwave(window_rounds=4)) == [0, 0, 0]
