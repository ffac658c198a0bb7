from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from memory_views import BLOCK, blocks_system, moment_of, snapshot
from steward.errors import StewardError
from steward.model.actions import Demote, Drain, Pin, Promote, domain_of
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.forecast import About, ForecastColumn
from steward.model.identity import DecisionId, JobId, NodeId, TenantId
from steward.model.memory.moment import BLOCK_ACCESSES, NEW_BLOCKS
from steward.model.memory.state import MemoryState

FIRST = 1 << 30
PROCESS = "7@100"


def act(kind: type, *starts: int, process: str = PROCESS, **more: object) -> object:
    blocks = tuple((start, start + BLOCK) for start in starts)
    return kind(process=process, pid=7, blocks=blocks, **more)


def done(state: MemoryState, action: object, *, result: str = "done", t_s: float = 1.0) -> None:
    decision = Decision(
        id=DecisionId("d-1"),
        t_s=t_s,
        policy="test",
        action=action,  # type: ignore[arg-type]
        because="",
        check_after_s=1.0,
        tenant=TenantId(""),
    )
    state.apply(decision, Receipt(decision=decision.id, t_s=t_s, result=result, gpus=(), text=""))  # type: ignore[arg-type]


def test_a_block_is_where_most_of_it_is() -> None:
    moment = moment_of(snapshot((512, 0, 3), (100, 412, 0), (0, 0, 0)))

    assert moment.view.tier.tolist() == [0, 1, -1]
    assert moment.view.count.tolist() == [3, 0, 0]
    assert moment.view.used.tolist() == [1, 1]
    assert moment.view.idle.tolist() == [0, 1, 1]


def test_idleness_counts_looks_and_ends_with_a_use() -> None:
    state = MemoryState(blocks_system(4))
    for _ in range(3):
        moment_of(snapshot((512, 0, 0)), state=state)

    assert moment_of(snapshot((512, 0, 0)), state=state).view.idle.tolist() == [4]
    assert moment_of(snapshot((512, 0, 5)), state=state).view.idle.tolist() == [0]
    assert state.view(1.5).view.count.tolist() == [0]  # nothing new was seen since


def test_another_process_of_the_same_number_begins_anew() -> None:
    state = MemoryState(blocks_system(4))
    moment_of(snapshot((512, 0, 0), (512, 0, 0)), state=state)
    other = replace(snapshot((512, 0, 0)), started_s=900.0)

    assert len(moment_of(other, state=state).rows) == 1


def test_moves_that_were_done_are_shown_to_what_learns() -> None:
    state = MemoryState(blocks_system(4))
    moment_of(snapshot((512, 0, 0), (0, 512, 0)), state=state)
    done(state, act(Promote, FIRST + BLOCK))
    done(state, act(Demote, FIRST))
    done(state, act(Demote, FIRST), result="failed")
    moment = state.view(2.0)

    assert moment.moved is not None
    assert moment.moved.promote.tolist() == [1]
    assert moment.moved.demote.tolist() == [0]
    assert state.view(3.0).moved is None


def test_what_was_read_back_counts_as_near_though_it_was_not_touched_yet() -> None:
    state = MemoryState(blocks_system(4))
    moment_of(snapshot((0, 512, 0)), state=state)
    done(state, act(Promote, FIRST), t_s=1.0)

    assert state.view(2.0).view.tier.tolist() == [0]
    assert state.view(60.0).view.tier.tolist() == [1]
    done(state, act(Promote, FIRST), t_s=61.0)
    done(state, act(Demote, FIRST), t_s=61.0)
    assert state.view(62.0).view.tier.tolist() == [1]


def test_pins_last_until_they_are_taken_back() -> None:
    state = MemoryState(blocks_system(4))
    moment_of(snapshot((512, 0, 0)), state=state)
    pin = act(Pin, FIRST)
    done(state, pin)
    pinned = state.view(2.0)
    done(state, pin.undo(DecisionId("d-1")))  # type: ignore[attr-defined]

    assert pinned.view.pinned == {0}
    assert pinned.may_be_done(pin)
    assert state.view(3.0).view.pinned == set()
    assert state.view(3.0).may_be_done(act(Pin, FIRST, pinned=False))


def test_a_silent_process_is_unknown() -> None:
    state = MemoryState(blocks_system(4))

    assert state.view(0.0).unknown == "nothing was read"
    moment_of(snapshot((512, 0, 0), t_s=1.0), state=state)
    assert state.view(2.0).unknown == ""
    assert state.view(60.0).unknown == "nothing was read for 59 s"
    gone = state
    gone.fold(Observation(memory=snapshot(problem="the process has ended")))
    gone.fold(Observation())
    assert gone.view(2.0).unknown == "the process has ended"
    assert gone.view(2.0).is_lost(None)


def test_reserved_blocks_and_claims_are_named_by_address() -> None:
    state = MemoryState(blocks_system(4))
    moment = moment_of(snapshot((512, 0, 0)), state=state)
    state.reserve(moment.claims_of(JobId(PROCESS)))

    assert state.view(1.0).is_reserved(0)
    assert moment.claims_of(JobId("other")) == frozenset()
    assert act(Promote, FIRST).claims == moment.claims_of(JobId(PROCESS))  # type: ignore[attr-defined]


def test_actions_need_the_same_process_and_mapped_blocks() -> None:
    moment = moment_of(snapshot((512, 0, 0)))

    assert moment.unmet(act(Promote, FIRST)) == ""
    assert "has ended" in moment.unmet(act(Promote, FIRST, process="7@5"))
    assert "1 block of it are not mapped" in moment.unmet(act(Promote, FIRST + BLOCK))
    assert "not about memory" in moment.unmet(Drain(node=NodeId("n1"), gpus=()))
    assert "something else" in act(Promote, FIRST).unmet(None)  # type: ignore[attr-defined]


def test_demotion_needs_room_in_the_far_tier() -> None:
    moment = moment_of(snapshot((512, 0, 0), swap_free_bytes=1 << 20))

    assert moment.unmet(act(Demote, FIRST)) == "swap has 1 MiB free, and 2 are needed"
    assert moment_of(snapshot((512, 0, 0))).unmet(act(Demote, FIRST)) == ""


def test_each_move_is_undone_by_the_other() -> None:
    promote = act(Promote, FIRST)
    demote = promote.undo(DecisionId("d"))  # type: ignore[attr-defined]

    assert isinstance(demote, Demote)
    assert demote.undo(DecisionId("d")) == promote
    assert domain_of(demote) == "memory"
    assert demote.sentence == "Move 1 block (2.0 MiB) of process 7 from memory to swap"
    assert promote.sentence == "Move 1 block (2.0 MiB) of process 7 from swap to memory"  # type: ignore[attr-defined]
    assert act(Pin, FIRST).sentence == "Keep 1 block (2.0 MiB) of process 7 where they are"  # type: ignore[attr-defined]
    assert "Let policies move" in act(Pin, FIRST, pinned=False).sentence  # type: ignore[attr-defined]
    assert (demote.gpus, demote.acts_on, demote.affects) == ((), None, PROCESS)
    assert Demote.for_finding(None, None) is None  # type: ignore[arg-type,func-returns-value]


def test_what_seems_done_is_seen_in_the_tiers() -> None:
    moment = moment_of(snapshot((512, 0, 0), (0, 512, 0)))

    assert moment.may_be_done(act(Promote, FIRST))
    assert not moment.may_be_done(act(Promote, FIRST + BLOCK))
    assert moment.may_be_done(act(Demote, FIRST + BLOCK))
    assert not moment.may_be_done(act(Demote, FIRST))
    assert not moment.may_be_done(Drain(node=NodeId("n1"), gpus=()))
    assert not act(Demote, FIRST).may_be_done(None)  # type: ignore[attr-defined]


def column(quantity: str, *values: float) -> ForecastColumn:
    mid = np.array(values)
    return ForecastColumn(
        about=About.WHOLE, quantity=quantity, low=mid, mid=mid, high=mid, basis="test"
    )


def test_forecasts_of_other_rows_are_not_used() -> None:
    moment = moment_of(snapshot((512, 0, 0))).with_findings(())
    new = column(NEW_BLOCKS, 1e-6, 0.0, 0.0)
    fitting = moment.with_forecasts((column(BLOCK_ACCESSES, 4.0), new))
    expects = fitting.expects()

    assert expects is not None
    assert (expects.accesses.tolist(), expects.arms) == ([4.0], None)
    assert moment.with_forecasts((column(BLOCK_ACCESSES, 4.0, 5.0), new)).expects() is None
    assert moment.expects() is None
    assert moment.lasting == {}


def test_sizes_of_a_snapshot_are_sums_of_its_blocks() -> None:
    seen = snapshot((512, 0, 0), (100, 412, 0))

    assert (seen.near_bytes, seen.far_bytes) == (612 * 4096, 412 * 4096)
    assert seen.process == PROCESS


def test_a_tier_without_latency_is_refused() -> None:
    system = blocks_system(1)
    with pytest.raises(StewardError, match="tier memory"):
        replace(system, tiers=(replace(system.tiers[0], latency_s=0.0),))
    assert system.pages > 0


def test_blocks_that_were_not_looked_at_this_time_do_not_count_as_idle() -> None:
    state = MemoryState(blocks_system(4))
    seen = replace(snapshot((512, 0, 0), (512, 0, 0)), looked=np.array([True, False]))

    assert moment_of(seen, state=state).view.idle.tolist() == [1, 0]


def test_actions_of_other_domains_move_no_block() -> None:
    state = MemoryState(blocks_system(4))
    moment_of(snapshot((512, 0, 0)), state=state)
    done(state, Drain(node=NodeId("n1"), gpus=()))

    assert state.view(2.0).moved is None
