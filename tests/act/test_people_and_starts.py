"""What people approve, refuse and undo, and what waits for them meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, desk, rulings, said
from factories import (
    decision,
    job,
    node,
    preempt,
    start,
    view,
)
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.model.actions import Drain, Reprioritise
from steward.model.decision import (
    Autonomy,
    Decision,
    Ruling,
    StandingApproval,
)
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import JobShape

GPU, OTHER = "n1/gpu0", "n1/gpu1"
AFTER = replace(start(), after=(preempt().id,))
ASKED = TenantId("b")
ASKS_ONE = Limits(autonomy=Autonomy.AUTO, tenant_autonomy={ASKED: Autonomy.APPROVE})


def approval(*, gpus: int) -> StandingApproval:
    """Return ada's approval of starts of tenant a."""
    return StandingApproval(
        id="a-1",
        t_s=1000.0,
        tenant=TenantId("a"),
        action="start",
        until_s=2000.0,
        gpus=gpus,
        user="ada",
    )


def asked_stop(name: str = "d-stop", *, job: str = "j1", gpu: str = GPU) -> Decision:
    return replace(preempt(name, job=job, gpus=(gpu,)), tenant=ASKED)


def test_what_expired_is_proposed_again_while_its_reason_lasts() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    limits = replace(table.guard.limits, answer_within_s=100.0)
    table.guard.limits = limits
    table.receive([start()], (), view(jobs=[job("j2")]))
    expired = table.receive([], (), view(jobs=[job("j2")], t_s=1101.0))

    again = table.receive([start()], (), view(jobs=[job("j2")], t_s=1110.0))

    assert rulings(expired) == [("d-start", Ruling.EXPIRE)]
    (made,) = [each for each in again if isinstance(each, Decision)]
    assert made.id != "d-start"
    assert made.action == start().action


def test_people_have_as_long_as_the_setting_says_to_answer() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.receive([start()], (), view(jobs=[job("j2")]))

    late = table.receive([], [said("approve", "d-start")], view(jobs=[job("j2")], t_s=9000.0))

    assert rulings(late) == [("d-start", Ruling.GO)]


def test_a_standing_approval_saves_clicks_until_its_time_or_its_gpus_run_out() -> None:
    guard = Guard(Limits(autonomy=Autonomy.APPROVE))
    seen = view(jobs=[job("j2"), job("j3")])
    allowed = approval(gpus=1)
    guard.allow(allowed)

    first = guard.judge(start(), seen)
    guard.record(start(), 1000.0)
    used_up = guard.judge(start("d-2", job="j3"), seen)

    assert first.ruling is Ruling.GO
    assert "ada approved such actions in advance" in first.why
    assert used_up.ruling is Ruling.ASK
    assert Guard(Limits(autonomy=Autonomy.APPROVE)).judge(start(), seen).ruling is Ruling.ASK


@pytest.mark.parametrize(
    ("site", "tenant", "left"),
    [(Autonomy.APPROVE, Autonomy.ADVISE, 0), (Autonomy.AUTO, Autonomy.APPROVE, 1)],
)
def test_a_start_uses_a_standing_approval_where_the_site_asks_and_only_there(
    site: Autonomy, tenant: Autonomy, left: int
) -> None:
    guard = Guard(Limits(autonomy=site, tenant_autonomy={TenantId("a"): tenant}))
    allowed = approval(gpus=1)
    guard.allow(allowed)

    assert guard.judge(start(), view(jobs=[job("j2")])).ruling is Ruling.GO
    guard.record(start(), 1000.0)

    assert guard.approvals(1000.0) == [(allowed, left)]


def test_changing_a_tenants_job_is_no_start_that_its_owner_asked_for() -> None:
    ceilings = {TenantId("a"): Autonomy.ADVISE}
    guard = Guard(Limits(autonomy=Autonomy.AUTO, tenant_autonomy=ceilings))
    sooner = Reprioritise(job=JobId("j2"), before=0, priority=5)

    verdict = guard.judge(replace(start(), action=sooner), view(jobs=[job("j2")]))

    assert verdict.ruling is Ruling.ADVISE


def test_a_standing_approval_covers_its_tenant_and_action_alone_and_can_be_revoked() -> None:
    guard = Guard(Limits(autonomy=Autonomy.APPROVE))
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    allowed = approval(gpus=9)
    guard.allow(allowed)

    assert guard.judge(preempt(), seen).ruling is Ruling.ASK
    assert (
        guard.judge(replace(start(gpus=(OTHER,)), tenant=TenantId("b")), seen).ruling is Ruling.ASK
    )
    late = view(jobs=[job("j2")], t_s=2001.0)
    assert guard.judge(replace(start(), t_s=2001.0), late).ruling is Ruling.ASK
    assert guard.approvals(1000.0) == [(allowed, 9)]
    guard.allow(replace(allowed, id="a-2", revokes="a-1"))
    assert guard.judge(start(gpus=(OTHER,)), seen).ruling is Ruling.ASK


def test_a_job_that_a_person_kept_from_starting_is_left_alone_for_a_while() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j2")])
    table.receive([start()], (), seen)

    table.receive([], [said("reject", "d-start")], seen)

    assert table.reserved(seen) == {"job:j2"}
    assert table.reserved(view(jobs=[job("j1")])) == frozenset()
    verdict = table.guard.judge(start("d-again"), seen)
    assert verdict.ruling is Ruling.HOLD
    assert "j2 is left alone for 600 s more, a person refused" in verdict.why


def test_free_gpus_are_not_kept_for_a_start_while_a_person_is_asked_about_a_stop() -> None:
    table = Desk(Guard(ASKS_ONE), Hand())
    wide = replace(start(gpus=(GPU, OTHER)), after=("d-stop",))
    seen = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j2", shape=JobShape(gpus=2))])

    new = table.receive([asked_stop(), wide], (), seen)

    assert new == []
    assert table.refused["it would keep GPUs free until a stop is allowed"] == 1
    assert table.reserved(seen) == {"job:j1"}  # so that policies plan without stopping it
    assert table.reserved(replace(seen, t_s=1600.0)) == frozenset()


def test_no_job_is_stopped_while_a_person_is_asked_about_another_stop_for_the_same_start() -> None:
    hand = Hand()
    table = Desk(Guard(ASKS_ONE), hand)
    wide = replace(start(gpus=(GPU, OTHER)), after=("d-stop", "d-other"))
    jobs = [job("j1", on=[GPU]), job("j3", on=[OTHER]), job("j2", shape=JobShape(gpus=2))]
    seen = view(node("n1", 2), jobs=jobs)

    table.receive([asked_stop(), asked_stop("d-other", job="j3", gpu=OTHER), wide], (), seen)
    one = table.receive([], [said("approve", "d-stop")], seen)
    list(table.carry_out(1000.0))
    before = list(hand.done)
    table.receive([], [said("approve", "d-other")], seen)
    list(table.carry_out(1010.0))

    assert rulings(one) == [("d-stop", Ruling.HOLD)]
    assert (before, hand.done) == ([], ["d-stop", "d-other"])


def test_a_job_whose_start_waits_for_a_person_goes_to_who_may_start_it_at_once() -> None:
    hand = Hand()
    table = Desk(Guard(ASKS_ONE), hand)
    seen = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j2")])
    table.receive([asked_stop(), AFTER], (), seen)

    kept = table.reserved(seen)
    new = table.receive([start("d-now", gpus=(OTHER,))], (), seen)
    list(table.carry_out(1000.0))

    assert kept == {f"gpu:{GPU}", "job:j1"}
    assert rulings(new) == [
        ("d-start", Ruling.EXPIRE),
        ("d-stop", Ruling.EXPIRE),
        ("d-now", Ruling.GO),
    ]
    assert hand.done == ["d-now"]


def test_a_start_that_waits_for_a_person_does_not_give_way_to_another_that_does() -> None:
    table = Desk(Guard(ASKS_ONE), Hand())
    jobs = [job("j1", on=[GPU]), job("j3", on=[OTHER]), job("j2")]
    seen = view(node("n1", 2), jobs=jobs)
    table.receive([asked_stop(), AFTER], (), seen)

    other = replace(start("d-too", gpus=(OTHER,)), after=("d-other",))
    new = table.receive([asked_stop("d-other", job="j3", gpu=OTHER), other], (), seen)

    assert new == []
    assert table.refused["conflict"] == 1


def test_a_borrower_that_waits_for_a_persons_word_can_be_started() -> None:
    table = Desk(Guard(ASKS_ONE), Hand())
    seen = view(node("n1", 2), jobs=[job("j1", on=[GPU]), job("j2")])
    table.receive([replace(decision(), tenant=ASKED)], (), seen)

    new = table.receive([start("d-now", gpus=(OTHER,))], (), seen)

    assert rulings(new) == [("d-1", Ruling.EXPIRE), ("d-now", Ruling.GO)]


def test_where_every_start_needs_a_person_a_waiting_job_stays_reserved() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j2")])

    table.receive([start()], (), seen)

    assert table.reserved(seen) == {f"gpu:{GPU}", "job:j2"}


def test_a_node_is_drained_although_a_person_is_asked_about_one_of_its_gpus() -> None:
    table = Desk(Guard(ASKS_ONE), Hand())
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    table.receive([asked_stop(), AFTER], (), seen)

    drains = replace(decision("d-drain"), action=Drain(node=NodeId("n1"), gpus=(GpuId(GPU),)))
    new = table.receive([drains], (), seen)

    assert rulings(new) == [
        ("d-start", Ruling.EXPIRE),
        ("d-stop", Ruling.EXPIRE),
        ("d-drain", Ruling.GO),
    ]


def test_what_a_person_undid_is_left_alone_for_a_while() -> None:
    table = desk()
    table.receive([start()], (), view(jobs=[job("j2")]))
    list(table.carry_out(1000.0))
    runs = view(jobs=[job("j2", on=[GPU])], t_s=1010.0)

    table.receive([], [said("undo", "d-start")], runs)

    assert table.guard.resting(1010.0) == ["j2"]


def test_what_a_person_approved_does_not_use_up_a_standing_approval() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    ahead = StandingApproval(
        id="s-1", t_s=0.0, tenant=decision().tenant, action="lend", until_s=1e9, gpus=4, user="ada"
    )

    table.guard.allow(ahead)
    table.guard.record(decision("d-1"), 1000.0, approved=True)
    by_hand = table.guard.approvals(1000.0)
    table.guard.record(decision("d-2"), 1000.0)

    assert by_hand == [(ahead, 4)]
    assert table.guard.approvals(1000.0) == [(ahead, 3)]
