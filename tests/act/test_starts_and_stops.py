"""Starting and stopping jobs: what must hold for it, and how the desk keeps track of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, desk, said
from factories import (
    SAVES,
    call_back,
    decision,
    drain,
    job,
    loan,
    moment,
    node,
    preempt,
    receipt,
    start,
    view,
)
from steward.act.actuators.dry_run import DryRun
from steward.act.desk import CarriedOut, Desk
from steward.act.guard import Guard, Limits
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import Action, Drain, Preempt, Reprioritise, Start, Tell
from steward.model.cluster import Health
from steward.model.decision import (
    Autonomy,
    Decision,
    Receipt,
    Ruling,
    StandingApproval,
    Verdict,
)
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, JobShape
from steward.model.outcome import Story
from steward.model.view import ClusterView
from steward.sim.scenario import demo
from steward.sim.world import World

GPU, OTHER = "n1/gpu0", "n1/gpu1"
AFTER = replace(start(), after=(preempt().id,))


def rulings(new: list[Decision | Verdict]) -> list[tuple[str, Ruling]]:
    return [(each.decision, each.ruling) for each in new if isinstance(each, Verdict)]


def sick(health: Health) -> ClusterView:
    made = moment(node(), jobs=[job("j2")])
    made.fold(Observation(health={GpuId(GPU): health}))
    return made.view(1000.0)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j1")]), "j2 is not waiting any more"),
        (view(jobs=[job("j2", on=[OTHER])]), "j2 is not waiting any more"),
        (view(node("n2"), jobs=[job("j2")]), "not in the cluster"),
        (view(jobs=[job("j2", shape=JobShape(gpus=2))]), "j2 asks for 2 GPUs now"),
        (sick(Health.BAD), "not healthy"),
        (sick(Health.UNKNOWN), "not healthy"),
        (sick(Health.WORN), ""),
        (view(jobs=[job("j1", on=[GPU]), job("j2")]), "in use"),
        (view(jobs=[job("j2")]), ""),
    ],
)
def test_a_start_needs_a_waiting_job_and_free_gpus(seen: ClusterView, broken: str) -> None:
    found = start().action.unmet(seen)

    assert broken in found
    assert bool(found) == bool(broken)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j2")]), "j1 is not running any more"),
        (view(jobs=[job("j1")]), "j1 is not running any more"),
        (view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]), "cannot save its work"),
        (view(jobs=[job("j1", on=[OTHER])]), "holds other GPUs now"),
        (
            view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()]),
            "lends or borrows GPUs now",
        ),
        (view(jobs=[job("j1", on=[GPU], checkpointing=SAVES)]), ""),
    ],
)
def test_only_who_runs_and_can_save_itself_is_preempted(seen: ClusterView, broken: str) -> None:
    found = preempt().action.unmet(seen)

    assert broken in found
    assert bool(found) == bool(broken)


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


def test_starts_and_disturbances_have_budgets_of_their_own() -> None:
    guard = Guard(
        Limits(autonomy=Autonomy.AUTO, disturbed_gpus_per_hour=1, started_gpus_per_hour=2)
    )
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    guard.record(start("d-1"), 1000.0)
    guard.record(start("d-2"), 1000.0)

    full = guard.judge(start("d-3", gpus=(OTHER,)), seen)

    assert guard.judge(preempt(), seen).ruling is Ruling.GO
    assert full.ruling is Ruling.HOLD
    assert "2 of 2 GPUs an hour to start on are used up" in full.why


def test_jobs_and_gpus_of_open_decisions_are_reserved() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])

    table.receive([preempt(), AFTER], (), seen)

    assert table.reserved(seen) == {f"gpu:{GPU}", "job:j1", "job:j2"}


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


def test_moves_are_not_returns_and_need_autonomy() -> None:
    seen = view(jobs=[job("j2")])

    assert not start().returns
    assert not preempt().returns
    assert Guard(Limits()).judge(start(), seen).ruling is Ruling.ADVISE
    assert Guard(Limits(autonomy=Autonomy.AUTO)).judge(start(), seen).ruling is Ruling.GO
    assert call_back(decision()).action.affects == "j1"
    assert call_back(decision()).action.acts_on == "j2"


def test_actions_describe_themselves() -> None:
    assert start().action.sentence == "Start job j2 on 1 GPU"
    assert preempt().action.sentence.startswith("Save job j1, free its 1 GPU")
    assert "Start job j2 on 1 GPU" in DryRun().carry_out(start(), 1000.0).text


def test_a_cluster_with_a_scheduler_of_its_own_does_not_start_jobs() -> None:
    own, ours = (
        World(replace(demo(), starts_jobs=starts, initial_jobs=0), seed=1, start_s=1_000_000.0)
        for starts in (True, False)
    )

    assert Start not in own.actions()
    assert Start in ours.actions()


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


ASKED = TenantId("b")
ASKS_ONE = Limits(autonomy=Autonomy.AUTO, tenant_autonomy={ASKED: Autonomy.APPROVE})


def asked_stop(name: str = "d-stop", *, job: str = "j1", gpu: str = GPU) -> Decision:
    return replace(preempt(name, job=job, gpus=(gpu,)), tenant=ASKED)


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


def test_what_a_person_undid_is_left_alone_for_a_while() -> None:
    table = desk()
    table.receive([start()], (), view(jobs=[job("j2")]))
    list(table.carry_out(1000.0))
    runs = view(jobs=[job("j2", on=[GPU])], t_s=1010.0)

    table.receive([], [said("undo", "d-start")], runs)

    assert table.guard.resting(1010.0) == ["j2"]


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
