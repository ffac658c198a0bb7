"""Taking decisions back: once, again after it came to nothing, and not after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, desk, rulings, said
from factories import drain, job, moment, node, preempt, receipt, start, view
from steward.errors import TemporaryError
from steward.model.actions import Undrain
from steward.model.decision import Autonomy, Decision, DecisionState, Receipt, Ruling
from steward.model.event import Observation
from steward.model.identity import NodeId, TenantId
from steward.model.job import JobShape
from steward.model.outcome import Story
from steward.model.view import ClusterView
from steward.store.choices import possible_choices

DRAIN = replace(drain("d-1"), tenant=TenantId(""))
GPU, OTHER = "n1/gpu0", "n1/gpu1"


def drained(t_s: float, *, draining: bool = True) -> ClusterView:
    made = moment(node("n1"))
    made.fold(Observation(draining={NodeId("n1"): draining}))
    return made.view(t_s)


def test_an_undo_that_failed_can_be_asked_for_again() -> None:
    def act(made: Decision, t_s: float) -> Receipt:
        if isinstance(made.action, Undrain) and t_s < 2000.0:
            raise TemporaryError("the controller is away")
        return receipt(made, t_s=t_s)

    hand = Hand(act)
    table = desk(hand)
    table.receive([DRAIN], (), drained(1000.0, draining=False))
    list(table.carry_out(1000.0))
    asked = replace(said("undo", "d-1"), t_s=1010.0)
    for turn in range(4):
        table.receive([], [asked] if turn == 0 else [], drained(1010.0 + turn))
        list(table.carry_out(1010.0 + turn))

    table.receive([], [replace(asked, t_s=3000.0)], drained(3000.0))
    list(table.carry_out(3000.0))

    assert hand.done[-1] == DRAIN.undo_id(3000.0)


@pytest.mark.parametrize(
    ("undo", "possible"),
    [
        (None, ()),
        (DecisionState.APPROVED, ()),
        (DecisionState.FAILED, ("undo",)),
        (DecisionState.EXPIRED, ("undo",)),
        (DecisionState.REJECTED, ("undo",)),
    ],
)
def test_people_may_undo_what_an_undo_left_as_it_was(
    undo: DecisionState | None, possible: tuple[str, ...]
) -> None:
    story = Story(
        decision=DRAIN,
        receipts=(receipt(DRAIN),),
        choices=(said("undo", "d-1"),),
        undo_state=undo,
    )

    assert possible_choices(story) == possible


def test_undoing_an_older_drain_leaves_a_newer_one_alone() -> None:
    hand = Hand()
    table = desk(hand)
    undrain = replace(DRAIN, id="d-2", action=DRAIN.action.undo(DRAIN.id))
    for made, before, t_s in ((DRAIN, False, 1000.0), (undrain, True, 5000.0)):
        table.receive([replace(made, t_s=t_s)], (), drained(t_s, draining=before))
        list(table.carry_out(t_s))
    table.receive([replace(DRAIN, id="d-3", t_s=9000.0)], (), drained(9000.0, draining=False))
    list(table.carry_out(9000.0))

    new = table.receive([], [replace(said("undo", "d-1"), t_s=9010.0)], drained(9010.0))

    assert rulings(new) == [("d-1", Ruling.HOLD)]
    assert hand.done == ["d-1", "d-2", "d-3"]


def test_an_account_called_steward_undoes_as_a_person() -> None:
    table = desk(Hand(), Autonomy.APPROVE)
    table.receive([DRAIN], [], drained(1000.0, draining=False))
    table.receive([], [said("approve", "d-1")], drained(1000.0, draining=False))
    list(table.carry_out(1000.0))

    new = table.receive([], [replace(said("undo", "d-1"), user="steward")], drained(1010.0))

    assert [ruling for _, ruling in rulings(new)] == [Ruling.GO]


def test_no_job_is_stopped_when_another_stop_for_the_same_start_came_to_nothing() -> None:
    hand = Hand()
    table = desk(hand, budget=1)
    stops = [preempt("d-s1", job="j1", gpus=(GPU,)), preempt("d-s2", job="j3", gpus=(OTHER,))]
    wide = replace(start("d-start", job="j2", gpus=(GPU, OTHER)), after=("d-s1", "d-s2"))
    jobs = [job("j1", on=[GPU]), job("j3", on=[OTHER]), job("j2", shape=JobShape(gpus=2))]
    table.receive([*stops, wide], (), view(node("n1"), jobs=jobs))
    list(table.carry_out(1000.0))

    table.receive([], (), view(node("n1"), jobs=jobs[1:], t_s=1010.0))
    list(table.carry_out(1010.0))

    assert hand.done == []


def test_of_an_approval_and_a_refusal_at_once_the_first_counts() -> None:
    hand = Hand()
    table = desk(hand, Autonomy.APPROVE)
    waiting = view(jobs=[job("j1", on=[GPU], shape=JobShape(gpus=1)), job("j2")])
    table.receive([replace(preempt(), t_s=1000.0)], (), waiting)

    table.receive([], [said("approve", "d-stop"), said("reject", "d-stop")], waiting)
    list(table.carry_out(1000.0))

    assert hand.done == [preempt().id]
