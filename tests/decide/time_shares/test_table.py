from __future__ import annotations

import copy
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings

from steward.decide.scheduling.time_shares import TIME_SHARE_POLICIES
from steward.decide.scheduling.time_shares.problem import TimeShareProblem, fresh_notes
from time_share_problems import is_feasible, problem_of, problems

PLANNING = ("themis", "shockwave")


@pytest.mark.parametrize("name", sorted(TIME_SHARE_POLICIES))
def test_file_class_and_plug_have_one_name(name: str) -> None:
    plug = TIME_SHARE_POLICIES[name]

    assert plug().name == name
    assert plug.__module__.rpartition(".")[2] == name.replace("-", "_")
    assert plug.__name__ == "".join(word.title() for word in name.split("-"))


@pytest.mark.parametrize("name", sorted(TIME_SHARE_POLICIES))
@settings(max_examples=6)
@given(problem=problems())
def test_no_job_gets_more_than_its_time_and_no_type_more_than_its_gpus(
    name: str, problem: TimeShareProblem
) -> None:
    shares = TIME_SHARE_POLICIES[name]().decide(problem)

    assert is_feasible(problem, shares)


@pytest.mark.parametrize("name", sorted(TIME_SHARE_POLICIES))
@settings(max_examples=3)
@given(problem=problems())
def test_deciding_is_pure(name: str, problem: TimeShareProblem) -> None:
    policy, before = TIME_SHARE_POLICIES[name](), copy.deepcopy(problem)

    first, second = policy.decide(problem), policy.decide(problem)

    assert np.array_equal(first.jobs, second.jobs)
    assert np.array_equal(first.pairs, second.pairs)
    assert repr(asdict(problem)) == repr(asdict(before))


@pytest.mark.parametrize("name", PLANNING)
@settings(max_examples=6)
@given(problem=problems(paired=False))
def test_no_round_of_a_plan_needs_more_gpus_than_there_are(
    name: str, problem: TimeShareProblem
) -> None:
    plan = TIME_SHARE_POLICIES[name]().decide(problem).plan

    assert plan is not None
    for column in plan.T:
        runs = column >= 0
        held = np.bincount(
            column[runs], weights=problem.gpus[runs], minlength=len(problem.capacity)
        )
        assert (held <= problem.capacity).all()


def test_memory_follows_jobs_to_their_new_rows() -> None:
    memory = replace(
        fresh_notes(3), partner=np.array([2, -1, 0]), isolated_s=np.array([1.0, 2.0, 3.0])
    )

    kept = memory.rows(np.array([2, -1, 0]))
    alone = memory.rows(np.array([1, 2]))

    assert kept.partner.tolist() == [2, -1, 0]
    assert kept.isolated_s.tolist() == [3.0, 0.0, 1.0]
    assert alone.partner.tolist() == [-1, -1]


def test_a_blind_policy_takes_the_best_type_where_the_usual_one_cannot_run_the_job() -> None:
    problem = problem_of([1.0, 1.0], capacity=(2.0, 2.0), rate=[[4.0, 1.0], [0.0, 3.0]])

    assert problem.blind_rate.tolist() == [[4.0, 4.0], [3.0, 3.0]]
