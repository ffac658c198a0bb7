from __future__ import annotations

from dataclasses import replace

import pytest

from act.hands import Hand, desk, said
from factories import call_back, decision, drain, job, loan, node, outcome, receipt, start, view
from steward.act.actuators.dry_run import DryRun
from steward.act.closed_decisions import LASTING, REMEMBERED, ClosedDecisions, End
from steward.act.desk import CarriedOut, Desk
from steward.act.guard import Guard, Limits
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.decision import EFFECT_CHECK, Autonomy, Decision, Receipt, Ruling, Verdict
from steward.model.identity import DecisionId, JobId
from steward.model.job import JobShape
from steward.model.outcome import Story
from steward.model.treatment import Treatment
from steward.model.view import ClusterView
from steward.resume import charge_again

GPU = "n1/gpu0"


def failing(fault: Exception) -> Hand:
    def act(made: Decision, t_s: float) -> Receipt:
        raise fault

    return Hand(act)


def ready(t_s: float = 1000.0) -> ClusterView:
    return view(node(), jobs=[job("j1", on=[GPU]), job("j2")], t_s=t_s)


def rulings(new: list[Decision | Verdict]) -> list[Ruling]:
    return [each.ruling for each in new if isinstance(each, Verdict)]


def test_a_decision_that_may_go_ahead_is_carried_out_once() -> None:
    hand = Hand()
    table = desk(hand)

    new = table.receive([decision()], (), ready())
    (done,) = table.carry_out(1000.0)
    again = table.receive([decision()], (), ready())

    assert rulings(new) == [Ruling.GO]
    assert isinstance(done, CarriedOut)
    assert again == []
    assert list(table.carry_out(1010.0)) == []
    assert hand.done == ["d-1"]


def test_what_waits_for_a_person_is_reserved_and_told_once() -> None:
    table = desk(autonomy=Autonomy.APPROVE)

    first = table.receive([decision()], (), ready())
    second = table.receive([], (), ready(1010.0))

    assert rulings(first) == [Ruling.ASK]
    assert second == []
    assert table.reserved(ready()) == {f"gpu:{GPU}", "job:j2"}
    assert list(table.carry_out(1010.0)) == []


def test_gpus_of_an_owner_that_is_left_alone_are_reserved() -> None:
    table = desk()
    lent = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
    gone = view(node(), jobs=[job("j9", on=[GPU])])
    table.guard.follow(lent)
    table.guard.follow(ready())

    assert table.reserved(ready()) == {f"gpu:{GPU}"}
    assert table.reserved(gone) == frozenset()
    assert table.reserved(ready(1601.0)) == frozenset()


def test_a_job_that_was_disturbed_often_enough_keeps_its_gpus_and_may_be_started() -> None:
    table = desk()
    for _ in range(table.guard.limits.disturbed_per_job_per_day):
        table.guard.record(decision(), 1000.0)

    assert table.reserved(ready()) == {f"gpu:{GPU}"}
    assert table.reserved(view(node(), jobs=[job("j1")])) == frozenset()


def test_an_approved_decision_is_carried_out() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.receive([decision()], (), ready())

    new = table.receive([], [said("approve")], ready())

    assert rulings(new) == [Ruling.GO]
    assert len(list(table.carry_out(1000.0))) == 1


def test_a_rejected_decision_is_off_the_desk_and_does_not_come_back() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.receive([decision()], (), ready())

    table.receive([], [said("reject")], ready())

    assert table.reserved(ready()) == {f"gpu:{GPU}"}  # and its owner is left alone for a while
    assert table.reserved(ready(1601.0)) == frozenset()
    assert table.receive([decision()], (), ready()) == []


def test_choices_about_decisions_that_are_not_open_change_nothing() -> None:
    table = desk()

    new = table.receive([], [said("approve", "x"), said("reject", "x")], ready())

    assert new == []


def test_an_undo_of_what_nobody_knows_any_more_is_answered() -> None:
    (answer,) = desk().receive([], [said("undo", "x")], ready())

    assert isinstance(answer, Verdict)
    assert (answer.decision, answer.ruling) == ("x", Ruling.HOLD)
    assert "cannot be undone any more" in answer.why


def test_an_undo_makes_a_decision_of_its_own_in_the_name_of_the_person() -> None:
    table = desk()
    table.receive([decision()], (), ready())
    list(table.carry_out(1000.0))
    lent = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])

    made, verdict = table.receive([], [said("undo")], lent)

    assert isinstance(made, Decision)
    assert made.action == decision().undo
    assert made.because == "ada undid d-1: please"
    assert isinstance(verdict, Verdict)
    assert verdict.ruling is Ruling.GO


def test_a_held_decision_goes_ahead_when_there_is_budget_again() -> None:
    table = desk(budget=0)
    held = table.receive([decision(t_s=1000.0)], (), ready())

    table.guard.limits = replace(table.guard.limits, disturbed_gpus_per_hour=64)
    freed = table.receive([], (), ready(1010.0))

    assert (rulings(held), rulings(freed)) == ([Ruling.HOLD], [Ruling.GO])


def test_a_held_decision_is_told_again_when_its_reason_changes() -> None:
    table = desk(budget=0)

    first = table.receive([decision()], (), ready())
    table.guard.leave_alone(JobId("j1"), 1010.0)
    second = table.receive([], (), ready(1010.0))
    third = table.receive([], (), ready(1020.0))  # ten seconds less to wait is nothing new

    assert (rulings(first), rulings(second), third) == ([Ruling.HOLD], [Ruling.HOLD], [])
    assert isinstance(second[0], Verdict)
    assert "j1 is left alone for 600 s more" in second[0].why


def test_two_decisions_of_one_turn_share_the_budget() -> None:
    table = desk(budget=1)
    seen = view(node(), jobs=[job("j1", on=[GPU, "n1/gpu1"]), job("j2"), job("j3")])

    new = table.receive([decision(), decision("d-2", gpus=("n1/gpu1",), borrower="j3")], (), seen)

    assert rulings(new) == [Ruling.GO, Ruling.HOLD]


def test_a_decision_whose_reason_is_gone_expires() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.receive([decision()], (), ready())

    new = table.receive([], (), view(node(), jobs=[job("j1", on=[GPU])]))

    assert rulings(new) == [Ruling.EXPIRE]
    assert table.reserved(ready()) == frozenset()


def test_a_fault_that_may_pass_is_tried_three_times_and_then_given_up() -> None:
    hand = failing(TemporaryError("busy"))
    table = desk(hand)
    table.receive([decision()], (), ready())

    results = []
    for turn in range(3):
        results += list(table.carry_out(1000.0 + turn))
        table.receive([], (), ready(1000.0 + turn))

    assert [type(each) for each in results] == [TemporaryError, TemporaryError, Receipt]
    assert results[-1].result == "failed"
    assert "given up after 3 tries: busy" in results[-1].text
    assert table.guard._done[0][3] == 1  # the budget was used once, not three times
    assert len(table.guard._done) == 1


def test_a_fault_for_good_and_a_bug_in_a_plug_both_end_in_a_receipt() -> None:
    for fault, text in ((PermanentError("no"), "no"), (KeyError("x"), "KeyError: 'x'")):
        table = desk(failing(fault))
        table.receive([decision()], (), ready())

        (result,) = table.carry_out(1000.0)

        assert isinstance(result, Receipt)
        assert (result.result, result.text) == ("failed", text)


def test_a_half_success_is_done_with_the_gpus_that_worked() -> None:
    made = decision(gpus=(GPU, "n1/gpu1"))
    half = replace(receipt(made), result="partly", gpus=(made.action.gpus[0],))
    table = desk(Hand(lambda _made, _t_s: half))
    two = job("j2", shape=JobShape(gpus=2))
    table.receive([made], (), view(node(), jobs=[job("j1", on=[GPU, "n1/gpu1"]), two]))

    (done,) = table.carry_out(1000.0)

    assert isinstance(done, CarriedOut)
    assert done.receipt.gpus == (GPU,)


def test_a_call_back_is_tried_until_it_is_done() -> None:
    hand = Hand(lambda made, t_s: receipt(made, t_s=t_s, result="failed"))
    table = desk(hand)
    lent = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])
    results = []
    for _ in range(5):
        table.receive([call_back(decision())], (), lent)
        results += list(table.carry_out(1000.0))
    hand.act = lambda made, t_s: receipt(made, t_s=t_s)

    table.receive([], (), lent)
    (done,) = table.carry_out(1000.0)

    assert [type(each) for each in results] == [TemporaryError] * 5
    assert isinstance(done, CarriedOut)


def test_giving_back_goes_on_when_nothing_can_be_written_down() -> None:
    hand = Hand()
    table = desk(hand)
    lent = view(
        node(),
        jobs=[job("j1", on=[GPU]), job("j2", on=[GPU]), job("j3"), job("j4", on=["n1/gpu1"])],
        loans=[loan()],
    )
    other = decision("d-9", gpus=("n1/gpu1",), owner="j4", borrower="j3")

    table.receive([call_back(decision()), other], (), lent)
    list(table.carry_out(1000.0, only_returns=True))

    assert hand.done == ["d-back"]


def test_a_lend_that_worked_though_its_answer_was_lost_is_asked_for_again() -> None:
    hand = failing(TemporaryError("no answer"))
    table = desk(hand)
    table.receive([decision()], (), ready())
    list(table.carry_out(1000.0))
    hand.act = lambda made, t_s: receipt(made, t_s=t_s)
    running = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])

    assert table.receive([], (), running) == []
    (done,) = table.carry_out(1010.0)

    assert isinstance(done, CarriedOut)


def test_what_an_earlier_run_meant_to_do_and_did_not_is_judged_anew() -> None:
    table = desk()
    go = Verdict(decision=decision().id, t_s=1000.0, ruling=Ruling.GO, why="")
    table.resume([Story(decision=decision(), verdicts=(go,))])

    new = table.receive([], (), ready(90_000.0))

    assert rulings(new) == [Ruling.EXPIRE]
    assert list(table.carry_out(90_000.0)) == []


def test_of_two_choices_at_once_the_first_counts_after_a_restart_too() -> None:
    table = desk(autonomy=Autonomy.APPROVE)

    table.resume([Story(decision=decision(), choices=(said("reject"), said("approve")))])

    assert table.receive([decision()], (), ready()) == []


def test_a_dry_run_changes_nothing_and_says_what_it_would_do() -> None:
    table = Desk(Guard(Limits(autonomy=Autonomy.AUTO)), DryRun())
    table.receive([decision()], (), ready())

    (result,) = table.carry_out(1000.0)

    assert isinstance(result, Receipt)
    assert result.gpus == ()
    assert "Lend 1 GPU of job j1 to job j2" in result.text


def test_what_a_crash_left_between_verdict_and_receipt_is_carried_out_after_all() -> None:
    hand = Hand()
    table = desk(hand)
    go = Verdict(decision=decision().id, t_s=1000.0, ruling=Ruling.GO, why="")
    finished = Story(decision=decision("d-2"), receipts=(receipt(decision("d-2")),))

    table.resume([Story(decision=decision(), verdicts=(go,)), finished])
    running = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])])
    assert table.receive([], (), running) == []  # not judged anew: it may be under way
    results = list(table.carry_out(1000.0))

    assert hand.done == ["d-1"]
    assert len(results) == 1
    assert table.receive([decision("d-2")], (), ready()) == []


def test_an_approval_outlives_a_restart() -> None:
    table = desk(autonomy=Autonomy.APPROVE)

    table.resume([Story(decision=decision(), choices=(said("approve"),))])

    assert rulings(table.receive([], (), ready())) == [Ruling.GO]


def test_the_desk_forgets_the_oldest_of_very_many_closed_decisions() -> None:
    table, lent = desk(), decision("d-lent")
    table.resume([Story(decision=lent, receipts=(receipt(lent),))])
    one = start()

    table.resume(
        Story(decision=replace(one, id=DecisionId(f"d-{i}")), receipts=(receipt(one),))
        for i in range(REMEMBERED + REMEMBERED // 4)
    )

    assert {each.decision.id for each in table._closed.newest_first()} == {
        "d-lent",
        *(f"d-{i}" for i in range(REMEMBERED // 4, REMEMBERED + REMEMBERED // 4)),
    }
    assert table.receive([], [said("undo", "d-lent")], ready()) != []


def test_what_is_proposed_on_and_on_is_remembered_and_not_carried_out_twice() -> None:
    table, waits = desk(), view(jobs=[job("j2")])
    table.receive([start()], (), waits)
    assert len(list(table.carry_out(1000.0))) == 1
    others = (replace(start(), id=DecisionId(f"d-{i}")) for i in range(3 * REMEMBERED))

    for made in others:
        table.resume([Story(decision=made, receipts=(receipt(made),))])
        assert table.receive([start()], (), waits) == []


def test_what_came_again_after_a_failure_is_remembered_with_all_its_attempts() -> None:
    faults = [PermanentError("busy")]

    def act(made: Decision, t_s: float) -> Receipt:
        if faults:
            raise faults.pop()
        return receipt(made, t_s=t_s)

    hand = Hand(act)
    table, treat = desk(hand), replace(start(), check_after_s=10.0)
    for i in range(4 * REMEMBERED):
        if i % 20 == 0:
            table.receive([treat], (), view(jobs=[job("j2")], t_s=1000.0 + i))
            list(table.carry_out(1000.0 + i))
        other = replace(start(), id=DecisionId(f"d-{i}"))
        table.resume([Story(decision=other, receipts=(receipt(other),))])

    assert len(hand.done) == 2
    assert len({*hand.done}) == 2


def test_loans_that_are_over_make_nobody_forget_a_drain() -> None:
    table, drained = desk(), drain("d-drain")
    table.resume([Story(decision=drained, receipts=(receipt(drained),))])

    for i in range(LASTING + 2 * REMEMBERED):
        lent = decision(f"d-{i}")
        over = outcome(lent.id, final=True)
        table.resume([Story(decision=lent, receipts=(receipt(lent),), outcomes=(over,))])

    assert "d-drain" in table._closed
    assert len(table._closed) < 3 * REMEMBERED


def test_a_loan_that_is_not_in_the_view_any_more_does_not_last() -> None:
    table = desk()
    table.receive([decision()], (), ready())
    list(table.carry_out(1000.0))
    both = [job("j1", on=[GPU]), job("j2", on=[GPU])]
    lent = view(node(), jobs=both, loans=[loan()], t_s=1010.0)

    table.receive([], (), lent)
    during = table._closed.get(DecisionId("d-1"))
    table.receive([], (), ready(1020.0))
    after = table._closed.get(DecisionId("d-1"))

    assert during is not None
    assert after is not None
    assert (during.lasts, after.lasts) == (True, False)


def test_who_was_refused_or_undone_by_a_person_is_left_alone_after_a_restart() -> None:
    table = desk()

    table.resume([Story(decision=decision(), choices=(said("reject"),))])
    held = table.receive([decision("d-2")], (), ready(1020.0))
    later = table.receive([decision("d-2")], (), ready(1601.0))

    assert rulings(held) == [Ruling.HOLD]
    assert rulings(later) == [Ruling.GO]


def test_what_may_have_been_done_before_a_restart_is_charged_when_it_is() -> None:
    table = desk(budget=1)
    go = Verdict(decision=DecisionId("d-1"), t_s=1000.0, ruling=Ruling.GO, why="")
    table.resume([Story(decision=decision(), verdicts=(go,))])
    done = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=["n1/gpu1"])], t_s=1010.0)

    table.receive([], (), done)
    list(table.carry_out(1010.0))

    assert table.guard.permits(decision("d-2"), 1010.0) is Ruling.HOLD


def test_an_undo_of_what_is_under_way_waits_until_it_is_over() -> None:
    answers = ["begun", "done"]

    def act(made: Decision, t_s: float) -> Receipt:
        return receipt(made, t_s=t_s, result=answers.pop(0) if answers else "done")

    table = desk(Hand(act))
    table.receive([decision()], (), ready())
    list(table.carry_out(1000.0))

    early = table.receive([], [said("undo")], ready(1010.0))
    list(table.carry_out(1010.0))
    later = table.receive([], (), ready(1020.0))

    assert early == []
    assert [each.undoes for each in later if isinstance(each, Decision)] == ["d-1"]


def test_what_was_new_in_a_turn_that_failed_is_returned_by_the_next() -> None:
    table, broken = desk(), ready()

    class Broken:
        def __getattr__(self, name: str) -> object:
            if name == "unmet":
                raise RuntimeError("a bug")
            return getattr(broken, name)

    with pytest.raises(RuntimeError):
        table.receive([decision()], (), Broken())  # type: ignore[arg-type]
    new = table.receive([], (), ready(1010.0))

    assert [each.id for each in new if isinstance(each, Decision)] == ["d-1"]


def test_errors_carry_what_where_and_what_next() -> None:
    fault = StewardError("it broke", where="here", hint="mend it")

    assert str(fault) == "here: it broke"
    assert fault.as_record() == {"problem": "it broke", "where": "here", "hint": "mend it"}


# -- the first views after a restart ---------------------------------------------------------------


def asked() -> Story:
    ask = Verdict(decision=DecisionId("d-1"), t_s=1000.0, ruling=Ruling.ASK, why="a person decides")
    return Story(decision=decision(), verdicts=(ask,))


def nothing(t_s: float) -> ClusterView:
    return view(t_s=t_s)


def test_what_waits_for_a_person_survives_first_views_without_answers_of_collectors() -> None:
    hand = Hand()
    table = desk(hand, autonomy=Autonomy.APPROVE)
    table.resume([asked()])

    empty = [table.receive([], (), nothing(1010.0 + 10.0 * turn)) for turn in range(5)]
    full = table.receive([], [said("approve")], ready(1060.0))
    list(table.carry_out(1060.0))

    assert empty == [[]] * 5
    assert rulings(full) == [Ruling.GO]
    assert hand.done == ["d-1"]


def test_what_was_approved_waits_for_the_first_answers_of_collectors() -> None:
    hand = Hand()
    table = desk(hand, autonomy=Autonomy.APPROVE)
    table.resume([asked()])

    held = table.receive([], [said("approve")], nothing(1010.0))
    list(table.carry_out(1010.0))
    before = list(hand.done)
    goes = table.receive([], (), ready(1020.0))

    assert (rulings(held), before) == ([Ruling.HOLD], [])
    assert rulings(goes) == [Ruling.GO]


def test_what_is_still_not_there_minutes_after_a_restart_expires() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.resume([asked()])
    table.receive([], (), nothing(1010.0))

    assert table.receive([], (), nothing(1300.0)) == []
    assert rulings(table.receive([], (), nothing(1320.0))) == [Ruling.EXPIRE]


def test_what_is_not_there_expires_at_once_where_the_engine_has_listed_all_that_it_has() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.resume([asked()])

    assert rulings(table.receive([], (), nothing(1010.0), listed=True)) == [Ruling.EXPIRE]


def gone_ahead(made: Decision) -> Story:
    """A decision that was to be carried out when steward was killed."""
    go = Verdict(decision=made.id, t_s=1000.0, ruling=Ruling.GO, why="within budgets")
    return Story(decision=made, verdicts=(go,))


def test_the_engine_is_asked_about_a_job_that_may_have_run_and_ended_meanwhile() -> None:
    hand = Hand()
    table = desk(hand)
    table.resume([gone_ahead(start())])

    first = table.receive([], (), nothing(1010.0))  # the first look has failed
    list(table.carry_out(1010.0))
    before = list(hand.done)
    then = table.receive([], (), view(node(), t_s=1011.0), listed=True)
    list(table.carry_out(1011.0))

    assert (rulings(first), before) == ([Ruling.HOLD], [])
    assert (rulings(then), hand.done) == ([Ruling.GO], ["d-start"])


def test_what_the_first_views_held_is_asked_about_when_it_looks_done() -> None:
    hand = Hand()
    table = desk(hand)
    table.resume([gone_ahead(start())])

    table.receive([], (), nothing(1010.0))
    runs = view(node(), jobs=[job("j2", on=[GPU])], t_s=1011.0)
    table.receive([], (), runs)
    list(table.carry_out(1011.0))

    assert hand.done == ["d-start"]


def test_without_a_restart_what_is_not_there_any_more_expires_at_once() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    table.receive([decision()], (), ready())

    assert rulings(table.receive([], (), nothing(1010.0))) == [Ruling.EXPIRE]


# -- what a restart and a check must not change ----------------------------------------------------


def test_the_owner_of_a_loan_that_ended_before_a_restart_is_left_alone_since_its_end() -> None:
    table, lent = desk(), decision()
    ended = (outcome(to_s=1200.0), outcome(to_s=1500.0, final=True))

    table.resume([Story(decision=lent, receipts=(receipt(lent),), outcomes=ended)])

    assert table.guard.resting(2099.0) == ["j1"]
    assert table.guard.resting(2100.0) == []


@pytest.mark.parametrize(("user", "left_alone"), [("ada", ["j1"]), (EFFECT_CHECK, [])])
def test_only_what_a_person_undid_is_left_alone(user: str, left_alone: list[str]) -> None:
    table = desk()
    table.receive([decision()], (), ready())
    list(table.carry_out(1000.0))
    lent = view(node(), jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])

    made, _ = table.receive([], [replace(said("undo"), user=user)], lent)

    assert isinstance(made, Decision)
    assert table.guard.resting(1001.0) == left_alone


def test_what_was_begun_before_a_restart_is_charged_once() -> None:
    table = desk(Hand(lambda made, t_s: receipt(made, t_s=t_s, result="begun")), budget=2)
    go = Verdict(decision=DecisionId("d-1"), t_s=1000.0, ruling=Ruling.GO, why="")
    taken = receipt(decision(), result="begun")
    begun = Story(decision=decision(), verdicts=(go,), receipts=(taken,))

    charge_again(table.guard, [begun])
    table.resume([begun])
    table.receive([], (), ready(1010.0))
    list(table.carry_out(1010.0))

    assert table.guard.permits(decision("d-2"), 1010.0) is Ruling.GO
    assert table.guard.permits(decision("d-3", gpus=(GPU, "n1/gpu1")), 1010.0) is Ruling.HOLD


def test_decisions_of_rules_are_remembered_longer_than_others() -> None:
    closed, advice = ClosedDecisions(), Treatment(action="tell", advice="look at it")
    for number in range(3):
        of_rule = replace(start(f"d-rule-{number}"), treatment=advice)
        closed.add(of_rule, End.REJECTED, 1000.0)

    for number in range(2 * REMEMBERED):
        closed.add(start(f"d-{number}"), End.DONE, 1000.0)

    assert all(f"d-rule-{number}" in closed for number in range(3))
    assert "d-0" not in closed


def test_a_drain_is_not_starved_by_starts_on_its_node() -> None:
    hand = Hand(lambda made, t_s: replace(receipt(made), result="begun", t_s=t_s))
    table = desk(hand)
    queue = view(node(), jobs=[job("j1"), job("j2")], t_s=1000.0)
    first, second, drained = start("d-1", job="j1"), start("d-2", job="j2"), drain("d-drain")
    table.receive([first], (), queue)
    list(table.carry_out(1000.0))

    held_back = table.receive([second, drained], (), queue)
    awaited = table.reserved(queue)
    hand.act = lambda made, t_s: replace(receipt(made), t_s=t_s)
    list(table.carry_out(1010.0))
    opened = table.receive([second, drained], (), queue)

    assert held_back == []
    assert "node:n1" in awaited
    assert [each.id for each in opened if isinstance(each, Decision)] == ["d-drain"]


def test_starts_go_on_while_a_drain_on_their_node_would_need_approval() -> None:
    table = desk(autonomy=Autonomy.APPROVE)
    queue = view(node(), jobs=[job("j1")], t_s=1000.0)
    table.receive([start("d-1", job="j1")], (), queue)

    table.receive([drain("d-drain")], (), queue)

    assert "node:n1" not in table.reserved(queue)
