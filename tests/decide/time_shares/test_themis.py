from __future__ import annotations

from dataclasses import replace

import numpy as np

from steward.decide.scheduling.time_shares.themis import Themis
from time_share_problems import problem_of


def test_the_job_that_is_furthest_behind_wins_the_auction() -> None:
    problem = problem_of([1.0, 1.0, 1.0], capacity=(1.0,), elapsed_s=[0.0, 9000.0, 100.0])

    shares = Themis().decide(problem)

    assert shares.jobs.ravel().tolist() == [0.0, 1.0, 0.0]
    assert shares.plan is not None
    assert shares.plan.tolist() == [[-1, -1, -1], [0, 0, 0], [-1, -1, -1]]


def test_a_lease_that_has_not_ended_is_not_up_for_auction() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), elapsed_s=[0.0, 9000.0], t_s=9000.0)
    memory = replace(
        problem.memory,
        held_type=np.array([0, -1]),
        lease_until_s=np.array([9360.0, 0.0]),
    )

    shares = Themis().decide(replace(problem, memory=memory))

    assert shares.plan is not None
    assert shares.plan.tolist() == [[0, -1, -1], [-1, -1, -1]]


def test_what_nobody_won_goes_to_the_others_on_their_best_type() -> None:
    problem = problem_of(
        [1.0, 1.0, 4.0], capacity=(1.0, 2.0), rate=[[4.0, 1.0], [4.0, 1.0], [4.0, 1.0]]
    )

    held = Themis().decide(problem).memory.held_type

    assert sorted(held[:2].tolist()) == [0, 1]
    assert held[2] == -1


def test_with_every_lease_running_there_is_no_auction() -> None:
    problem = problem_of([1.0], capacity=(1.0,))
    memory = replace(problem.memory, held_type=np.array([0]), lease_until_s=np.array([720.0]))

    shares = Themis(aware=False).decide(replace(problem, memory=memory))

    assert shares.memory.lease_until_s.tolist() == [720.0]
