from __future__ import annotations

from dataclasses import replace

import numpy as np

from steward.decide.scheduling.time_shares.gandiva import Gandiva
from time_share_problems import problem_of


def test_nobody_is_paired_while_there_are_gpus_for_all() -> None:
    shares = Gandiva().decide(problem_of([1.0, 1.0], capacity=(2.0,), together=0.9))

    assert shares.jobs.ravel().tolist() == [1.0, 1.0]
    assert shares.pairs.sum() == 0.0


def test_jobs_of_equal_size_are_paired_when_gpus_are_short() -> None:
    shares = Gandiva().decide(problem_of([1.0, 1.0], capacity=(1.0,), together=0.9))

    assert shares.memory.partner.tolist() == [1, 0]
    assert shares.pairs.ravel().tolist() == [1.0]


def test_jobs_of_different_size_stay_alone() -> None:
    shares = Gandiva().decide(problem_of([1.0, 2.0], capacity=(2.0,), together=0.9))

    assert shares.memory.partner.tolist() == [-1, -1]
    assert shares.jobs.ravel().tolist() == [1.0, 0.5]


def test_a_pair_that_pays_stays_together_and_one_that_does_not_is_parted() -> None:
    good = problem_of([1.0, 1.0, 1.0], capacity=(2.0,), together=0.9)
    known = replace(good.memory, partner=np.array([1, 0, -1]))
    bad = problem_of([1.0, 1.0], capacity=(2.0,), together=0.4)
    bad_memory = replace(bad.memory, partner=np.array([1, 0]))

    kept = Gandiva().decide(replace(good, memory=known)).memory.partner
    parted = Gandiva().decide(replace(bad, memory=bad_memory)).memory.partner

    assert kept.tolist() == [1, 0, -1]
    assert parted.tolist() == [-1, -1]


def test_a_pair_that_does_not_fit_is_parted_at_the_next_decision() -> None:
    tight = problem_of([1.0, 1.0], capacity=(2.0,), together=0.0)
    unknown = problem_of([1.0, 1.0], capacity=(2.0,))
    together = replace(tight.memory, partner=np.array([1, 0]))

    for problem in (tight, unknown):
        assert Gandiva().decide(replace(problem, memory=together)).memory.partner.tolist() == [
            -1,
            -1,
        ]
