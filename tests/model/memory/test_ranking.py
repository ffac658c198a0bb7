from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_views import forecasts, view_of
from steward.model.memory.ranking import (
    ARMS,
    Arm,
    chosen,
    move_cost_s,
    moves_of,
    net_s,
    rank,
    saved_now_s,
    trapped,
)
from steward.model.memory.view import LinkState


def test_the_most_expected_pages_replace_the_least_expected_ones() -> None:
    view = view_of([0, 0, 1, 1], near=2)
    ranked = rank(view, forecasts([5.0, 1.0, 9.0, 50.0]))

    assert ranked.promote.tolist() == [3, 2]
    assert ranked.replaced.tolist() == [1, 0]
    assert ranked.free == 0


def test_free_room_needs_no_victim_and_costs_half() -> None:
    view = view_of([0, 1, 1], near=2)
    ranked = rank(view, forecasts([5.0, 9.0, 7.0]))

    assert ranked.free == 1
    assert ranked.cost_s.tolist() == pytest.approx([move_cost_s(view), 2 * move_cost_s(view)])


def test_room_is_made_for_pages_that_are_expected_to_be_new() -> None:
    view = view_of([0, 0, 0, 1], near=3)
    ranked = rank(view, forecasts([5.0, 0.0, 3.0, 0.0], new_pages=1.2, new_accesses=40.0))

    assert ranked.room.tolist() == [1, 2]
    room, promotions = moves_of(ranked, Arm(budget=1.0, threshold=1.0), 3)
    assert (room, promotions) == (2, 0)
    assert chosen(ranked, room, promotions).demote.tolist() == [1, 2]
    assert net_s(ranked, room, promotions) > 0.0


def test_pages_without_expected_accesses_are_not_promoted() -> None:
    assert len(rank(view_of([1, 1], near=2), forecasts([0.0, 0.0])).promote) == 0


def test_pinned_pages_stay() -> None:
    view = view_of([0, 0, 1], near=2, pinned={0, 2})
    ranked = rank(view, forecasts([0.0, 1.0, 90.0]))

    assert len(ranked.promote) == 0
    room = rank(view, forecasts([0.0, 1.0, 90.0], new_pages=1.0, new_accesses=9.0)).room
    assert room.tolist() == [1]


def test_an_arm_that_asks_for_more_gain_moves_less() -> None:
    view = view_of([0] * 20 + [1] * 20, near=20)
    ranked = rank(view, forecasts([0.0] * 20 + [10.0 + each for each in range(20)]))
    counts = [moves_of(ranked, Arm(budget=1.0, threshold=each), 20)[1] for each in (0.1, 1.0, 99.0)]

    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_no_budget_moves_and_traps_nothing() -> None:
    view = view_of([0, 1], near=1)
    ranked = rank(view, forecasts([0.0, 1e6], after_touch=[0.0, 1e6]))

    assert moves_of(ranked, ARMS[0], 1) == (0, 0)
    assert trapped(ranked, ARMS[0]).tolist() == []
    assert trapped(ranked, ARMS[-1]).tolist() == [1]
    assert trapped(rank(view_of([1], near=0), forecasts([1e6], after_touch=[1e6])), ARMS[-1]).size


def test_a_loaded_link_makes_far_accesses_and_moves_dearer() -> None:
    quiet, busy = view_of([1], near=1), view_of([1], near=1, link=LinkState(load_share=0.9))

    assert saved_now_s(busy) > saved_now_s(quiet)
    assert move_cost_s(busy) > move_cost_s(quiet)
    measured = view_of([1], near=1, link=LinkState(far_access_s=1e-3))
    assert saved_now_s(measured) == pytest.approx(1e-3 - measured.system.access_s(0))


@given(
    tiers=st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=60),
    seed=st.integers(0, 9),
    new=st.floats(0, 8),
)
def test_moves_never_overfill_the_near_tier_and_name_each_page_once(
    tiers: list[int], seed: int, new: float
) -> None:
    draw = np.random.default_rng(seed)
    used = tiers.count(0)
    view = view_of(tiers, near=used + int(draw.integers(0, 4)))
    ranked = rank(view, forecasts(draw.exponential(20, len(tiers)), new_pages=new, new_accesses=30))

    for arm in ARMS:
        moves = chosen(ranked, *moves_of(ranked, arm, view.system.tiers[0].pages))
        assert used - len(moves.demote) + len(moves.promote) <= view.system.tiers[0].pages
        assert len({*moves.demote.tolist()}) == len(moves.demote)
        assert len({*moves.promote.tolist()}) == len(moves.promote)
        assert (view.tier[moves.demote] == 0).all()
        assert (view.tier[moves.promote] == 1).all()


def test_arms_are_named_by_budget_and_threshold() -> None:
    assert [each.name for each in ARMS[:2]] == ["none", "0.125 x1"]
