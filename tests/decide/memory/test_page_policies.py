from __future__ import annotations

import numpy as np
import pytest

from memory_views import forecasts, moment_of, snapshot, view_of
from steward.decide.memory import PAGE_POLICIES
from steward.decide.memory.indigo import Indigo, chance_of_gain
from steward.decide.memory.kv_blocks import KeepRecent
from steward.decide.memory.migrate_blocks import MigrateBlocks
from steward.decide.memory.move_by_cost import MoveByCost
from steward.model.actions import Demote, Promote
from steward.model.forecast import About, ForecastColumn
from steward.model.memory.moment import (
    ARM_DRAWS,
    ARM_REWARDS,
    BLOCK_ACCESSES,
    NEW_BLOCKS,
    MemoryMoment,
)
from steward.model.memory.ranking import ARMS
from steward.model.memory.view import ArmBeliefs
from steward.model.serving.kv_tiers import KvView


def beliefs(mean: float, deviation: float, *, best: int = 12) -> ArmBeliefs:
    drawn = np.full(len(ARMS), mean)
    drawn[0], drawn[best] = 0.0, mean + abs(mean)
    means = np.full(len(ARMS), mean)
    means[0] = 0.0
    wide = np.full(len(ARMS), deviation)
    return ArmBeliefs(mean=means, deviation=wide, drawn=drawn, seen=np.zeros(len(ARMS)))


def column(quantity: str, values: list[float] | np.ndarray) -> ForecastColumn:  # type: ignore[type-arg]
    mid = np.array(values, np.float64)
    return ForecastColumn(
        about=About.WHOLE, quantity=quantity, low=mid - 0.1, mid=mid, high=mid + 0.1, basis="test"
    )


def expecting(moment: MemoryMoment, accesses: list[float], mean: float = 1.0) -> MemoryMoment:
    believed = beliefs(mean, 0.1)
    return moment.with_forecasts(
        (
            column(BLOCK_ACCESSES, accesses),
            column(NEW_BLOCKS, [1.0, 0.0, 0.0]),
            column(ARM_REWARDS, believed.mean),
            column(ARM_DRAWS, believed.drawn),
        )
    )


# -- policies of pages -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PAGE_POLICIES))
def test_deciding_is_pure_and_survives_an_empty_view(name: str) -> None:
    policy = PAGE_POLICIES[name]()
    empty, full = view_of([], near=1), view_of([0, 1], near=1)

    for view in (empty, full, full.with_forecasts(forecasts([1.0, 99.0]))):
        first, again = policy.migrate(view), policy.migrate(view)
        assert first.promote.tolist() == again.promote.tolist()
        assert first.demote.tolist() == again.demote.tolist()


def test_nothing_is_moved_before_anything_is_known() -> None:
    assert "nothing is known" in Indigo().migrate(view_of([1], near=1)).why
    assert len(MoveByCost().migrate(view_of([1], near=1)).promote) == 0


def test_the_arm_with_the_best_draw_moves() -> None:
    expects = forecasts([0.0, 1e6], arms=beliefs(0.5, 0.1))
    moves = Indigo().migrate(view_of([0, 1], near=1).with_forecasts(expects))

    assert (moves.promote.tolist(), moves.demote.tolist()) == ([1], [0])
    assert moves.arm == 12


def test_the_guard_moves_nothing_where_moving_is_not_likely_to_pay() -> None:
    expects = forecasts([0.0, 1e6], arms=beliefs(-0.5, 0.1))
    moves = Indigo().migrate(view_of([0, 1], near=1, epoch=3).with_forecasts(expects))

    assert len(moves.promote) == 0
    assert "guard: moving pays with a chance of 0%" in moves.why


def test_the_guard_tries_the_least_budget_now_and_then() -> None:
    expects = forecasts([0.0, 1e6], arms=beliefs(-0.5, 0.1))
    moves = Indigo().migrate(view_of([0, 1], near=1, epoch=16).with_forecasts(expects))

    assert moves.promote.tolist() == [1]
    assert moves.arm in (1, 2, 3)
    assert moves.why.startswith("probe")


def test_a_page_that_is_promoted_at_once_is_not_trapped_too() -> None:
    expects = forecasts([0.0, 1e6, 1e6], after_touch=[0.0, 1e6, 1e6])
    moves = MoveByCost().migrate(view_of([0, 1, 1], near=1).with_forecasts(expects))

    assert moves.promote.tolist() == [1]
    assert moves.trap.tolist() == [2]


def test_chances_follow_the_posterior() -> None:
    chances = chance_of_gain(beliefs(0.0, 1.0))

    assert chances.tolist() == pytest.approx([0.5] * len(ARMS))


def test_recent_prompt_blocks_are_worth_alike() -> None:
    view = KvView(t_s=0.0, uses=np.array([1, 9]), last_s=np.array([0.0, 1.0]))

    assert KeepRecent().values(view).tolist() == [0.0, 0.0]


# -- decisions about blocks of a process ---------------------------------------------------------


def test_hot_far_blocks_are_promoted_in_one_decision() -> None:
    moment = expecting(moment_of(snapshot((512, 0, 0), (0, 512, 9), (0, 512, 8))), [0.0, 1e6, 2e6])
    (decision,) = MigrateBlocks().decide(moment)

    assert isinstance(decision.action, Promote)
    assert len(decision.action.blocks) == 2
    assert decision.expects.mid > 0.0
    assert "arm" in decision.because


def test_promotions_wait_for_the_demotions_that_make_room() -> None:
    seen = snapshot((512, 0, 0), (0, 512, 9))
    demote, promote = MigrateBlocks().decide(expecting(moment_of(seen, near=1), [0.0, 1e6]))

    assert isinstance(demote.action, Demote)
    assert promote.after == (demote.id,)


def idle_for(looks: int) -> MemoryMoment:
    from memory_views import blocks_system
    from steward.model.memory.state import MemoryState

    state = MemoryState(blocks_system(1))
    for at in range(looks):
        moment = moment_of(
            snapshot((512, 0, 1), (512, 0, 0), (512, 0, 0), t_s=float(at)), state=state
        )
    return moment


def test_what_is_above_the_limit_is_demoted_coldest_first_once_it_is_idle() -> None:
    few = MigrateBlocks().decide(expecting(idle_for(3), [0.0] * 3, mean=-1.0))
    (decision,) = MigrateBlocks().decide(expecting(idle_for(30), [0.0] * 3, mean=-1.0))

    assert few == ()
    assert isinstance(decision.action, Demote)
    assert [start for start, _ in decision.action.blocks] == [
        (1 << 30) + (2 << 20),
        (1 << 30) + (4 << 20),
    ]
    assert "unused for" in decision.because


def test_pinned_reserved_and_unmapped_blocks_are_left_alone() -> None:
    from dataclasses import replace

    from steward.model.memory.moment import block_claim

    moment = expecting(moment_of(snapshot((0, 512, 9), (0, 512, 9))), [1e6, 1e6])
    first = block_claim(moment.snapshot.process, int(moment.rows[0]))
    (decision,) = MigrateBlocks().decide(replace(moment, reserved=frozenset({first})))
    pinned = replace(moment, view=replace(moment.view, pinned=frozenset({0, 1})))
    unmapped = replace(moment, snapshot=snapshot())

    assert len(decision.action.blocks) == 1  # type: ignore[union-attr]
    assert MigrateBlocks().decide(pinned) == ()
    assert MigrateBlocks().decide(unmapped) == ()


def test_nothing_is_decided_about_a_process_that_ended() -> None:
    moment = moment_of(snapshot(problem="the process has ended"))

    assert MigrateBlocks().decide(expecting(moment, [])) == ()
    assert MigrateBlocks().decide(moment_of(snapshot((512, 0, 0)))) == ()
    assert MigrateBlocks().name == "indigo"
