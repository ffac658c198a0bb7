"""What is begun, asked for and tried again, also after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, desk
from factories import (
    job,
    preempt,
    receipt,
    start,
    view,
)
from steward.act.desk import CarriedOut
from steward.errors import TemporaryError
from steward.model.actions import Action, Tell
from steward.model.decision import (
    Decision,
    Receipt,
    Ruling,
    Verdict,
)
from steward.model.outcome import Story
from steward.model.view import ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"


def test_what_takes_time_is_asked_for_until_it_is_done() -> None:
    hand = Hand(lambda made, t_s: receipt(made, t_s=t_s, result="begun"))
    table = desk(hand)
    running, freed = view(jobs=[job("j1", on=[GPU])]), view(jobs=[job("j1")])

    table.receive([preempt()], (), running)
    (begun,) = table.carry_out(1000.0)
    table.receive([], (), running)
    silent = list(table.carry_out(1010.0))
    hand.act = lambda made, t_s: receipt(made, t_s=t_s)
    table.receive([], (), freed)
    (done,) = table.carry_out(1020.0)

    assert isinstance(begun, CarriedOut)
    assert begun.receipt.result == "begun"
    assert silent == []
    assert isinstance(done, CarriedOut)
    assert done.receipt.result == "done"
    assert hand.done == ["d-stop"]  # begun once, then only asked for


def test_what_was_begun_is_asked_for_after_a_restart_and_not_begun_again() -> None:
    hand = Hand()
    table = desk(hand)
    begun = receipt(preempt(), result="begun")
    go = Verdict(decision=preempt().id, t_s=1000.0, ruling=Ruling.GO, why="")

    table.resume([Story(decision=preempt(), verdicts=(go,), receipts=(begun,))])
    table.receive([preempt()], (), view(jobs=[job("j1", on=[GPU])], t_s=1010.0))
    (done,) = table.carry_out(1010.0)

    assert isinstance(done, CarriedOut)
    assert hand.done == []


def test_what_is_not_over_after_a_day_has_failed() -> None:
    hand = Hand(lambda made, t_s: receipt(made, t_s=t_s, result="begun"))
    table = desk(hand)
    seen = view(jobs=[job("j1", on=[GPU])])
    table.receive([preempt()], (), seen)
    list(table.carry_out(1000.0))

    (failed,) = table.carry_out(1000.0 + 90_000.0)

    assert isinstance(failed, Receipt)
    assert "not over after 24 hours" in failed.text


def test_an_engine_that_cannot_do_it_says_so_in_the_receipt() -> None:
    class NoHands(Hand):
        def actions(self) -> tuple[type[Action], ...]:
            return (Tell,)

    table = desk(NoHands())
    table.receive([start()], (), view(jobs=[job("j2")]))

    (failed,) = table.carry_out(1000.0)

    assert isinstance(failed, Receipt)
    assert failed.text == "hand cannot start"


@pytest.mark.parametrize(
    ("made", "under_way"),
    [
        (start(), view(jobs=[job("j2", on=[GPU])])),
        (preempt(), view(jobs=[job("j1")])),
    ],
    ids=["start", "preempt"],
)
def test_what_a_crash_left_half_done_is_asked_for_again_and_not_judged_again(
    made: Decision, under_way: ClusterView
) -> None:
    hand = Hand()
    table = desk(hand)
    go = Verdict(decision=made.id, t_s=1000.0, ruling=Ruling.GO, why="")

    table.resume([Story(decision=made, verdicts=(go,))])

    assert table.receive([], (), under_way) == []
    assert len(list(table.carry_out(1000.0))) == 1
    assert hand.done == [made.id]


def test_a_start_whose_gpus_are_not_free_yet_is_tried_again() -> None:
    def not_yet(made: Decision, t_s: float) -> Receipt:
        raise TemporaryError("j1 is still saving itself")

    table = desk(Hand(not_yet))
    table.receive([start()], (), view(jobs=[job("j2")]))

    assert isinstance(next(iter(table.carry_out(1000.0))), TemporaryError)
    assert isinstance(next(iter(table.carry_out(1010.0))), TemporaryError)
    (given_up,) = table.carry_out(1020.0)
    assert isinstance(given_up, Receipt)


def test_what_cannot_hold_is_not_proposed_again_in_every_turn() -> None:
    table = desk()
    gone = view(jobs=[job("j1")])
    entries = [
        table.receive([start()], (), replace(gone, t_s=1000.0 + t)) for t in range(0, 500, 10)
    ]

    assert sum(map(len, entries)) == 2  # one decision, one verdict
    assert table.receive([start()], (), replace(gone, t_s=1700.0)) != []


def test_what_could_not_be_written_down_is_not_carried_out_later() -> None:
    hand = Hand()
    table = desk(hand)
    table.receive([start()], (), view(jobs=[job("j2")]))

    table.drop([start().id, preempt().id])

    assert list(table.carry_out(1010.0)) == []
    assert hand.done == []
