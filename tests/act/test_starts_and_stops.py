"""Starts that wait for stops: in which order the desk does them, and when it drops them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, PlacingHand, desk, rulings, said
from factories import (
    decision,
    drain,
    job,
    moment,
    node,
    preempt,
    receipt,
    start,
    view,
)
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.errors import PermanentError
from steward.model.actions import Preempt
from steward.model.cluster import Health
from steward.model.decision import (
    Autonomy,
    Decision,
    Receipt,
    Ruling,
    Verdict,
)
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId, TenantId
from steward.model.job import Job, JobShape
from steward.model.view import ClusterView

GPU, OTHER = "n1/gpu0", "n1/gpu1"
AFTER = replace(start(), after=(preempt().id,))


def test_a_start_waits_until_the_stop_that_makes_room_is_done_and_can_be_undone() -> None:
    hand = Hand()
    table = desk(hand)
    held = view(jobs=[job("j1", on=[GPU]), job("j2")])

    first = table.receive([preempt(), AFTER], (), held)
    list(table.carry_out(1000.0))
    freed = view(jobs=[job("j1"), job("j2")], t_s=1010.0)
    second = table.receive([], (), freed)
    list(table.carry_out(1010.0))

    assert rulings(first) == [("d-stop", Ruling.GO), ("d-start", Ruling.HOLD)]
    assert rulings(second) == [("d-start", Ruling.GO)]
    assert hand.done == ["d-stop", "d-start"]
    runs = view(jobs=[job("j1"), job("j2", on=[GPU])], t_s=1020.0)
    new = table.receive([], [said("undo", "d-start")], runs)
    (back,) = [each for each in new if isinstance(each, Decision)]
    assert back.action == Preempt(job=JobId("j2"), gpus=(GpuId(GPU),))
    assert (back.undoes, back.treatment, back.findings) == ("d-start", None, ())
    assert [ruling for _, ruling in rulings(new)] == [Ruling.GO]


@pytest.mark.parametrize("now", [[job("j1"), job("j2", on=[GPU])], [job("j1")]])
def test_a_start_that_the_engine_made_itself_is_reported_and_keeps_no_gpus(now: list[Job]) -> None:
    hand = Hand()
    table = desk(hand)
    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))

    runs = view(jobs=now, t_s=1010.0)  # it runs, or has run and ended
    new = table.receive([], (), runs)
    list(table.carry_out(1010.0))

    (verdict,) = [each for each in new if isinstance(each, Verdict)]
    assert (verdict.ruling, verdict.why) == (
        Ruling.GO,
        "j2 is not waiting any more: the engine is asked",
    )
    assert hand.done == ["d-stop", "d-start"]
    assert table.reserved(runs) == frozenset()


@pytest.mark.parametrize(("hand", "ruling"), [(Hand(), Ruling.HOLD), (PlacingHand(), Ruling.GO)])
def test_a_start_whose_gpus_another_took_goes_where_the_engine_chooses_gpus(
    hand: Hand, ruling: Ruling
) -> None:
    table = desk(hand)
    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))

    taken = view(jobs=[job("j1"), job("j2"), job("j3", on=[GPU])], t_s=1010.0)
    new = table.receive([], (), taken)

    assert rulings(new) == [("d-start", ruling)]


@pytest.mark.parametrize("hand", [Hand(), PlacingHand()])
def test_a_start_expires_at_once_when_the_room_that_was_made_for_it_is_lost(hand: Hand) -> None:
    table = desk(hand)
    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))

    lost = moment(node(), jobs=[job("j1"), job("j2")])
    lost.fold(Observation(health={GpuId(GPU): Health.BAD}))

    assert rulings(table.receive([], (), lost.view(1010.0))) == [("d-start", Ruling.EXPIRE)]


@pytest.mark.parametrize(
    ("autonomy", "now", "ruling"),
    [
        (Autonomy.AUTO, [], Ruling.HOLD),  # a view without anybody
        (Autonomy.AUTO, [job("j1", on=[GPU]), job("j2")], Ruling.HOLD),  # from before the stop
        (Autonomy.APPROVE, [job("j1"), job("j2"), job("j3", on=[GPU])], Ruling.HOLD),
    ],
)
def test_an_engine_that_chooses_gpus_is_not_asked_past_the_guard_or_about_unseen_jobs(
    autonomy: Autonomy, now: list[Job], ruling: Ruling
) -> None:
    table = desk(PlacingHand())
    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))
    table.guard = Guard(Limits(autonomy=autonomy))

    new = table.receive([], (), view(jobs=now, t_s=1010.0))

    assert rulings(new) == [("d-start", ruling)]


def test_a_view_that_lacks_everybody_is_no_proof_that_a_job_has_ended() -> None:
    table = desk()
    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))

    new = table.receive([], (), view(jobs=[], t_s=1010.0))

    assert rulings(new) == [("d-start", Ruling.HOLD)]


def test_a_start_is_not_released_past_the_consent_of_the_tenant_that_makes_room() -> None:
    asks = Limits(autonomy=Autonomy.AUTO, tenant_autonomy={TenantId("b"): Autonomy.APPROVE})
    hand = Hand()
    table = Desk(Guard(asks), hand)
    seen = view(jobs=[job("j1", on=[GPU], tenant=TenantId("b")), job("j2")])

    new = table.receive([replace(preempt(), tenant=TenantId("b")), AFTER], (), seen)
    list(table.carry_out(1000.0))

    assert rulings(new) == [("d-stop", Ruling.ASK), ("d-start", Ruling.HOLD)]
    assert hand.done == []


@pytest.mark.parametrize(
    ("why", "end"),
    [("failed", PermanentError("no")), ("was rejected", None)],
)
def test_a_start_is_dropped_when_what_it_waits_for_does_not_happen(
    why: str, end: Exception | None
) -> None:
    def act(made: Decision, t_s: float) -> Receipt:
        raise end or AssertionError

    table = desk(Hand(act), autonomy=Autonomy.AUTO if end else Autonomy.APPROVE)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    table.receive([preempt(), AFTER], (), seen)
    list(table.carry_out(1000.0))

    choices = [] if end else [said("reject", "d-stop")]
    new = table.receive([], choices, seen)

    (verdict,) = [each for each in new if isinstance(each, Verdict)]
    assert (verdict.decision, verdict.ruling) == ("d-start", Ruling.EXPIRE)
    assert why in verdict.why


def test_two_policies_never_get_one_job_or_one_gpu_in_the_same_turn() -> None:
    table = desk()
    seen = view(jobs=[job("j1", on=[GPU]), job("j2"), job("j3")])
    lend = decision("d-lend")  # j2 beside j1
    same_job = start("d-start", job="j2", gpus=(OTHER,))
    same_gpu = preempt("d-stop", job="j1", gpus=(GPU,))
    other = start("d-other", job="j3", gpus=(OTHER,))

    new = table.receive([lend, same_job, same_gpu, other], (), seen)

    assert [each.id for each in new if isinstance(each, Decision)] == ["d-lend", "d-other"]
    assert table.refused.total() == 2


def test_a_node_is_not_drained_while_a_job_starts_on_it_and_the_other_way_round() -> None:
    seen = view(jobs=[job("j2")])
    first, second = desk(), desk()

    first.receive([start(), drain()], (), seen)
    second.receive([drain(), start()], (), seen)

    assert first.refused.total() == second.refused.total() == 1


def test_a_start_whose_stop_was_refused_is_refused_too() -> None:
    table = desk()
    seen = view(jobs=[job("j1", on=[GPU]), job("j2"), job("j3")])

    new = table.receive([decision("d-lend", borrower="j3"), preempt(), AFTER], (), seen)

    assert [each.id for each in new if isinstance(each, Decision)] == ["d-lend"]


def test_jobs_and_gpus_of_open_decisions_are_reserved() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])

    table.receive([preempt(), AFTER], (), seen)

    assert table.reserved(seen) == {f"gpu:{GPU}", "job:j1", "job:j2"}


def test_no_job_is_stopped_for_a_start_that_may_not_go() -> None:
    hand = Hand()
    table = Desk(Guard(Limits(autonomy=Autonomy.AUTO, started_gpus_per_hour=0)), hand)

    table.receive([preempt(), AFTER], (), view(jobs=[job("j1", on=[GPU]), job("j2")]))
    list(table.carry_out(1000.0))

    assert hand.done == []


def test_an_approved_stop_goes_when_the_start_that_needs_it_is_approved_too() -> None:
    hand = Hand()
    table = Desk(Guard(Limits(autonomy=Autonomy.APPROVE)), hand)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])

    first = table.receive([preempt(), AFTER], (), seen)
    table.receive([], [said("approve", "d-stop")], seen)
    list(table.carry_out(1000.0))
    before = list(hand.done)
    table.receive([], [said("approve", "d-start")], seen)
    list(table.carry_out(1010.0))

    assert rulings(first) == [("d-stop", Ruling.HOLD), ("d-start", Ruling.ASK)]
    assert (before, hand.done) == ([], ["d-stop"])


def test_a_stop_is_refused_when_the_start_it_makes_room_for_is() -> None:
    table = desk()
    seen = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j3", on=[OTHER]), job("j2")])

    new = table.receive(
        [decision("d-lend", owner="j3", gpus=(OTHER,)), preempt(), AFTER], (), seen
    )  # the loan takes j2

    assert [each.id for each in new if isinstance(each, Decision)] == ["d-lend"]


def test_a_start_is_valid_from_when_what_it_waited_for_is_done() -> None:
    hand = Hand(lambda made, t_s: receipt(made, t_s=t_s, result="begun"))
    table = desk(hand)
    for t_s in (1000.0, 1500.0, 2000.0):
        table.receive(
            [preempt(), AFTER] if t_s == 1000.0 else [],
            (),
            view(jobs=[job("j1", on=[GPU]), job("j2")], t_s=t_s),
        )
        list(table.carry_out(t_s))
    hand.act = lambda made, t_s: receipt(made, t_s=t_s)
    list(table.carry_out(2010.0))

    late = table.receive([], (), view(jobs=[job("j1", on=[GPU]), job("j2")], t_s=2020.0))
    seen = table.receive([], (), view(jobs=[job("j1"), job("j2")], t_s=2030.0))

    # the view does not show yet that the GPU is free
    assert rulings(late) == [("d-start", Ruling.HOLD)]
    assert rulings(seen) == [("d-start", Ruling.GO)]


def test_an_undo_takes_the_place_of_open_decisions_about_the_same() -> None:
    table = desk()
    held = view(jobs=[job("j1", on=[GPU]), job("j2")])
    table.receive([preempt(), AFTER], (), held)
    list(table.carry_out(1000.0))
    freed = view(jobs=[job("j1"), job("j2")], t_s=1010.0)

    new = table.receive([], [said("undo", "d-stop")], freed)

    made = [each for each in new if isinstance(each, Decision)]
    assert [each.undoes for each in made] == ["d-stop"]
    assert ("d-start", Ruling.EXPIRE) in rulings(new)


def test_a_start_that_was_stopped_and_resumed_since_can_no_longer_be_undone() -> None:
    table = desk()
    waits, runs = view(jobs=[job("j2")]), view(jobs=[job("j2", on=[GPU])], t_s=1010.0)
    for made, seen in ((start(), waits), (preempt(job="j2"), runs)):
        table.receive([replace(made, t_s=seen.t_s)], (), seen)
        list(table.carry_out(seen.t_s))

    (answer,) = table.receive([], [said("undo", "d-start")], replace(runs, t_s=1020.0))

    assert isinstance(answer, Verdict)
    assert answer.ruling is Ruling.HOLD
    assert answer.why == "it cannot be undone any more: d-stop was carried out since"


def test_two_decisions_that_need_what_one_gives_up_both_go_and_it_is_told() -> None:
    site = Limits(autonomy=Autonomy.AUTO, tenant_autonomy={TenantId("b"): Autonomy.APPROVE})
    hand = Hand()
    table, gpus = Desk(Guard(site), hand), (GPU, "n2/gpu0")
    held = job("j1", on=list(gpus), tenant=TenantId("b"))
    waits = replace(preempt("d-stop", job="j1", gpus=gpus), tenant=TenantId("b"))
    drains = [replace(drain(f"d-{name}", name), tenant=TenantId("")) for name in ("n1", "n2")]

    def seen(t_s: float) -> ClusterView:
        return view(node("n1"), node("n2"), jobs=[held], t_s=t_s)

    table.receive([waits], (), seen(1000.0))
    new = table.receive(drains, (), seen(1010.0))
    list(table.carry_out(1010.0))

    assert rulings(new) == [
        ("d-stop", Ruling.EXPIRE),
        ("d-n1", Ruling.GO),
        ("d-n2", Ruling.GO),
    ]
    assert hand.done == ["d-n1", "d-n2"]


def test_no_job_is_stopped_where_the_budget_is_too_small_for_all_stops_of_a_start() -> None:
    hand = Hand()
    table = desk(hand, budget=1)
    stops = [preempt("d-s1", job="j1", gpus=(GPU,)), preempt("d-s2", job="j3", gpus=(OTHER,))]
    made = replace(start("d-start", job="j2", gpus=(GPU, OTHER)), after=("d-s1", "d-s2"))
    running = [job("j1", on=[GPU]), job("j3", on=[OTHER]), job("j2", shape=JobShape(gpus=2))]

    for t_s in (1000.0, 1010.0, 1020.0):
        table.receive([*stops, made], (), view(node("n1"), jobs=running, t_s=t_s))
        list(table.carry_out(t_s))

    assert hand.done == []


def test_a_stop_does_not_go_when_the_start_that_it_makes_room_for_was_rejected() -> None:
    hand = Hand()
    table = desk(hand, Autonomy.APPROVE)
    seen = [view(jobs=[job("j1", on=[GPU]), job("j2")], t_s=1000.0 + 10 * i) for i in range(3)]

    table.receive([preempt(), AFTER], (), seen[0])
    table.receive([preempt(), AFTER], [said("approve", "d-stop")], seen[1])
    list(table.carry_out(1010.0))
    table.receive([preempt(), AFTER], [said("reject", "d-start")], seen[2])
    list(table.carry_out(1020.0))

    assert hand.done == []
