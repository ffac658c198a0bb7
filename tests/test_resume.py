"""What a restart takes up again, and what it leaves as it is."""

from __future__ import annotations

from dataclasses import replace

from act.hands import desk, said
from factories import decision, drain, job, moment, node, receipt, view
from steward.act.guard import Guard, Limits
from steward.learn.estimators.tenant_use import TenantUse
from steward.model.decision import Autonomy, DecisionState, Ruling, StandingApproval
from steward.model.identity import TenantId
from steward.model.outcome import Story
from steward.resume import charge_again, missed_undos

DRAIN = replace(drain("d-1"), tenant=TenantId(""))
HOUR_S = 3600.0


def test_an_undo_is_taken_up_after_a_restart_only_if_nobody_has_answered_it() -> None:
    asked = said("undo", "d-1")
    open_ = Story(decision=DRAIN, receipts=(receipt(DRAIN),), choices=(asked,))
    done = replace(open_, undo_state=DecisionState.DONE)
    taking_back = replace(decision(), undoes=DRAIN.id)
    table = desk()
    (refused, *_) = table.receive([], [replace(asked, decision="d-1")], view(t_s=asked.t_s))

    assert list(missed_undos([open_], since_s=0.0)) == [asked]
    assert list(missed_undos([open_], since_s=asked.t_s + 1.0)) == []
    assert list(missed_undos([done], since_s=0.0)) == []
    assert list(missed_undos([open_, Story(decision=taking_back)], since_s=0.0)) == []
    assert list(missed_undos([replace(open_, verdicts=(refused,))], since_s=0.0)) == []


def test_budgets_are_charged_by_when_things_were_done() -> None:
    guard = Guard(Limits(autonomy=Autonomy.AUTO, disturbed_gpus_per_hour=2))
    late = Story(decision=replace(decision("d-late"), t_s=0.0))
    late = replace(late, receipts=(receipt(late.decision, t_s=10 * HOUR_S),))
    early = [replace(decision(f"d-{i}"), t_s=5 * HOUR_S) for i in range(2)]

    charge_again(
        guard, [late, *(Story(decision=x, receipts=(receipt(x, t_s=x.t_s),)) for x in early)]
    )

    assert guard.permits(decision("d-new"), 10 * HOUR_S + 60) is Ruling.GO


def test_what_a_person_undid_is_not_charged_to_a_standing_approval() -> None:
    guard = Guard(Limits(autonomy=Autonomy.APPROVE))
    undone = replace(decision(), policy="person", t_s=1000.0)
    in_advance = StandingApproval(
        id="a-1",
        t_s=0.0,
        tenant=undone.tenant,
        action=undone.action.type,
        until_s=9000.0,
        gpus=4,
        user="ada",
    )
    guard.allow(in_advance)

    charge_again(guard, [Story(decision=undone, receipts=(receipt(undone),))])

    assert guard.approvals(2000.0) == [(in_advance, 4)]


def test_a_view_of_nothing_does_not_cost_what_tenants_used() -> None:
    use = TenantUse()
    held = [job("j1", on=["n1/gpu0"])]
    use.learn(view(node(), jobs=held, t_s=1000.0), ())
    use.learn(view(node(), jobs=held, t_s=5000.0), ())
    before = use.save_state()["used"]

    use.learn(moment().view(5010.0), ())

    assert before
    assert use.save_state()["used"].keys() == before.keys()
