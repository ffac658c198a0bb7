"""Plans over virtual queues: never worse than earliest deadline first, near the best there is."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.serving.request_groups import Groups
from steward.decide.serving.virtual_queues import Plan, Queues, edf_plan, penalty, searched_plan

BOUND = (0.2, 1.3)


@st.composite
def problems(draw: st.DrawFn, most: int = 5) -> tuple[Groups, Queues]:
    """Return some groups, and queues that hold one of two models each and may swap."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(1, 4, draw(st.integers(1, most)))
    members = int(sizes.sum())
    work_s = rng.exponential(2.0, members)
    groups = Groups(
        begin=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        member=np.arange(members),
        model=rng.integers(0, 2, len(sizes)),
        work_s=work_s,
        variance=(0.3 * work_s) ** 2,
        slack_s=rng.exponential(8.0, members),
    )
    count = draw(st.integers(1, 2))
    swap_s = np.where(rng.random((count, 2)) < 0.8, rng.exponential(3.0, (count, 2)), np.inf)
    queues = Queues(
        row=np.arange(count),
        model=rng.integers(0, 2, count),
        backlog_s=rng.normal(1.0, 2.0, count),
        variance=rng.random(count),
        swap_s=swap_s,
    )
    return groups, queues


def best_penalty(groups: Groups, queues: Queues) -> float:
    """Try every order on every queue."""
    size, queued = len(groups), len(queues)
    found = np.inf
    for where in product(range(queued + 1), repeat=size):  # the last: on none
        for order in permutations(range(size)):
            group = np.zeros((queued, size), np.int64)
            count = np.zeros(queued, np.int64)
            for g in order:
                if where[g] < queued:
                    group[where[g], count[where[g]]] = g
                    count[where[g]] += 1
            plan = Plan(group=group, count=count, penalty=0.0)
            found = min(found, penalty(groups, queues, plan, BOUND))
    return float(found)


@given(problem=problems(most=24))
@settings(max_examples=150)
def test_a_plan_is_never_worse_than_earliest_deadline_first(
    problem: tuple[Groups, Queues],
) -> None:
    groups, queues = problem

    plan = searched_plan(groups, queues, BOUND)

    assert plan.penalty <= edf_plan(groups, queues, BOUND).penalty
    assert plan.penalty == penalty(groups, queues, plan, BOUND)


@given(problem=problems(most=24))
@settings(max_examples=100)
def test_each_group_is_in_one_queue_that_can_serve_it(problem: tuple[Groups, Queues]) -> None:
    groups, queues = problem

    plan = searched_plan(groups, queues, BOUND)

    placed = [g for q in range(len(queues)) for g in plan.group[q, : plan.count[q]].tolist()]
    assert len(placed) == len(set(placed))
    for g in set(range(len(groups))) - set(placed):
        assert not np.isfinite(queues.swap_s[:, groups.model[g]]).all()


@given(problem=problems(most=4))
@settings(max_examples=25, deadline=None)
def test_the_search_is_not_below_the_exact_optimum_and_close_to_it(
    problem: tuple[Groups, Queues],
) -> None:
    groups, queues = problem

    found = searched_plan(groups, queues, BOUND).penalty

    exact = best_penalty(groups, queues)
    assert found >= exact - 1e-9
    assert found <= exact + 0.5 * len(groups.work_s)


def test_the_search_finds_the_optimum_of_most_small_problems() -> None:
    rng = np.random.default_rng(1)
    exact = found = 0.0
    for _ in range(20):
        work_s = rng.exponential(2.0, 4)
        groups = Groups(
            begin=np.arange(5),
            member=np.arange(4),
            model=np.zeros(4, np.int64),
            work_s=work_s,
            variance=np.zeros(4),
            slack_s=rng.exponential(3.0, 4),
        )
        queues = Queues(
            row=np.arange(1),
            model=np.zeros(1, np.int64),
            backlog_s=np.zeros(1),
            variance=np.zeros(1),
            swap_s=np.full((1, 1), np.inf),
        )
        exact += best_penalty(groups, queues)
        found += searched_plan(groups, queues, BOUND).penalty

    assert exact <= found <= 1.1 * exact


def test_one_long_group_waits_so_that_many_short_ones_are_in_time() -> None:
    groups = Groups(
        begin=np.array([0, 1, 2, 3, 4]),
        member=np.arange(4),
        model=np.zeros(4, np.int64),
        work_s=np.array([10.0, 1.0, 1.0, 1.0]),
        variance=np.zeros(4),
        slack_s=np.array([1.0, 2.0, 3.0, 4.0]),
    )
    queues = Queues(
        row=np.array([0]),
        model=np.array([0]),
        backlog_s=np.zeros(1),
        variance=np.zeros(1),
        swap_s=np.full((1, 1), np.inf),
    )

    plan = searched_plan(groups, queues, (0.0, 0.0))

    assert plan.group[0].tolist() == [1, 2, 3, 0]
    assert edf_plan(groups, queues, (0.0, 0.0)).penalty >= 3.0


def test_no_group_is_put_where_its_model_can_no_longer_be_loaded() -> None:
    """One queue may leave its model and not come back: what needs it has to go first."""
    left_out = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        work_s = rng.exponential(2.0, 16)
        groups = Groups(
            begin=np.arange(17),
            member=np.arange(16),
            model=rng.integers(0, 2, 16),
            work_s=work_s,
            variance=(0.3 * work_s) ** 2,
            slack_s=rng.exponential(8.0, 16),
        )
        queues = Queues(
            row=np.arange(1),
            model=np.array([1]),
            backlog_s=np.zeros(1),
            variance=np.ones(1),
            swap_s=np.array([[2.0, np.inf]]),
        )
        plan = searched_plan(groups, queues, BOUND)
        served = groups.model[plan.group[0, : plan.count[0]]]
        left_out += int((groups.model == 0).sum() - (served == 0).sum())
        assert list(served) == sorted(served, reverse=True)

    assert left_out == 0
