from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from steward.decide.scheduling.time_shares import finish_time_fairness
from steward.decide.scheduling.time_shares.finish_time_fairness import FinishTimeFairness
from steward.decide.scheduling.time_shares.interior_point import CentralOptimum, ShareProgram
from steward.decide.scheduling.time_shares.isolated import isolated_rates, isolated_shares
from steward.decide.scheduling.time_shares.problem import TimeShareProblem
from time_share_problems import problem_of, problems


def test_who_has_waited_longer_gets_more() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), elapsed_s=[7200.0, 0.0])

    shares = FinishTimeFairness().decide(problem).jobs.ravel()

    assert shares[0] > 1.5 * shares[1]


@settings(max_examples=10)
@given(problem=problems())
def test_the_worst_ratio_is_no_worse_than_with_isolated_shares(problem: TimeShareProblem) -> None:
    alone_s = problem.steps_left / isolated_rates(problem, problem.rate)

    def worst(shares: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        speed = (problem.rate * shares).sum(axis=1)
        return float(((problem.elapsed_s + problem.steps_left / speed) / alone_s).max())

    found = FinishTimeFairness().decide(problem).jobs

    assert worst(found) <= worst(isolated_shares(problem)) * 1.002


def test_the_time_alone_adds_up_over_decisions() -> None:
    first = problem_of([1.0, 1.0], capacity=(1.0,))
    policy = FinishTimeFairness(aware=False)
    memory = policy.decide(first).memory

    later = policy.decide(
        replace(first, memory=memory, steps_left=np.array([3000.0, 3600.0]), t_s=1920.0)
    )

    assert later.memory.isolated_s.tolist() == [1200.0, 0.0]
    assert later.memory.steps_left.tolist() == [3000.0, 3600.0]


def test_where_no_program_is_solved_jobs_have_their_own_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gives_up(program: ShareProgram) -> CentralOptimum:
        nothing = np.zeros(len(program.gpus))
        return CentralOptimum(
            shares=np.zeros_like(program.rate),
            level=0.5,
            slack=nothing,
            price=nothing,
            converged=False,
        )

    monkeypatch.setattr(finish_time_fairness, "solve_centrally", gives_up)
    problem = problem_of([1.0, 1.0], capacity=(1.0,))

    shares = FinishTimeFairness().decide(problem).jobs

    assert shares.ravel().tolist() == [0.5, 0.5]
