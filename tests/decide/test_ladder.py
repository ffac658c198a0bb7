"""Rungs are priced by what they are expected to cost until the node is well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.decide.health.ladder import NEEDS, Belief, Need, Prices, Rung, Stakes, price
from steward.model.faults import Part, Remedy

SMALL = Stakes(gpus=8, job_gpu_h=4.0)
LARGE = Stakes(gpus=8, job_gpu_h=1000.0)


def cheapest(remedy: Remedy, stakes: Stakes, *, lemon: float = 0.0) -> Rung:
    costs = price(Belief.of(remedy, lemon_probability=lemon), stakes, Prices())
    return min(costs, key=lambda rung: costs[rung])


@pytest.mark.parametrize("remedy", list(Remedy))
def test_what_a_fault_may_need_is_known_for_each_remedy(remedy: Remedy) -> None:
    assert sum(NEEDS[remedy]) == pytest.approx(1.0)


def test_a_fault_of_a_program_drains_no_node_whatever_the_job_is_worth() -> None:
    belief = Belief.of(Remedy.RESTART_JOB, Part.PROGRAM)
    costs = price(belief, Stakes(gpus=8, job_gpu_h=500.0), Prices())

    assert min(costs, key=lambda rung: costs[rung]) is Rung.LEAVE


def test_a_lost_gpu_restarts_its_node() -> None:
    assert cheapest(Remedy.REBOOT_NODE, SMALL) is Rung.REBOOT


def test_rows_that_cannot_be_replaced_cost_the_part_where_large_jobs_run() -> None:
    assert cheapest(Remedy.REPLACE, LARGE) is Rung.REPLACE


def test_a_node_that_fails_again_and_again_is_worth_another_part() -> None:
    lemon = Stakes(gpus=8, job_gpu_h=200.0, excess_per_day=0.2)

    assert cheapest(Remedy.RESET_GPU, lemon, lemon=0.95) is Rung.REPLACE


def test_waiting_is_cheaper_where_little_hangs_on_it() -> None:
    assert cheapest(Remedy.WATCH, SMALL) is Rung.LEAVE
    costs = price(Belief.of(Remedy.RESET_GPU), SMALL, Prices(test_h=9.0))
    assert min(costs, key=lambda rung: costs[rung]) is Rung.LEAVE


def test_what_was_tried_in_vain_moves_the_belief_to_what_is_harder() -> None:
    belief = Belief.of(Remedy.RESET_GPU).seen(Need.RESET, if_more=1.0, if_not=0.0)

    assert belief.shares[:2] == (0.0, 0.0)
    assert sum(belief.shares) == pytest.approx(1.0)


def test_what_cannot_have_been_seen_leaves_the_belief_as_it_was() -> None:
    belief = Belief(shares=(1.0, 0.0, 0.0, 0.0))

    assert belief.seen(Need.RESTART, if_more=1.0, if_not=0.0) == belief


def test_a_remedy_heals_what_needed_it_or_less() -> None:
    belief = Belief(shares=(0.1, 0.2, 0.3, 0.4))

    assert belief.healed(Need.RESET).shares == pytest.approx((0.3, 0.0, 0.3, 0.4))
    assert belief.healed(Need.REBOOT).shares == pytest.approx((0.6, 0.0, 0.0, 0.4))


@given(
    remedy=st.sampled_from(list(Remedy)),
    loss=st.floats(0.0, 1e4),
    more=st.floats(0.0, 1e4),
    lemon=st.floats(0.0, 1.0),
)
def test_waiting_never_gets_cheaper_when_more_is_at_stake(
    remedy: Remedy, loss: float, more: float, lemon: float
) -> None:
    belief = Belief.of(remedy, lemon_probability=lemon)
    low, high = (
        price(belief, Stakes(gpus=8, job_gpu_h=each), Prices()) for each in (loss, loss + more)
    )

    assert all(low[rung] <= high[rung] + 1e-6 for rung in Rung)
    assert low[Rung.REPLACE] == high[Rung.REPLACE]  # it risks no job


@given(
    shares=st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    if_more=st.floats(0.0, 1.0),
    if_not=st.floats(0.0, 1.0),
    need=st.sampled_from(list(Need)),
)
def test_a_belief_is_always_one_in_all(
    shares: list[float], if_more: float, if_not: float, need: Need
) -> None:
    total = sum(shares)
    a, b, c, d = (each / total for each in shares)

    belief = Belief(shares=(a, b, c, d)).seen(need, if_more=if_more, if_not=if_not).healed(need)

    assert sum(belief.shares) == pytest.approx(1.0)
