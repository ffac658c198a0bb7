from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from factories import call_back, decision, job, node, outcome, receipt, view
from steward.act.effects import MOST_OPEN, Effects
from steward.act.guard import Guard, Limits
from steward.model.actions import Drain, Tell
from steward.model.decision import Autonomy, Decision, Ruling
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.outcome import Interval, Story
from steward.model.treatment import Effect, Treatment
from steward.model.view import ClusterView

GPU = "n1/gpu0"
BUSY = "gpu_busy_share"


@dataclass
class FakeMeter:
    """Knows the mean before 1000 s and after it."""

    before: float | None = 0.1
    after: float | None = 0.6
    is_so: bool | None = True
    half: float = 0.05
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def mean(
        self, expr: str, about: Sequence[str], *, from_s: float, to_s: float
    ) -> Interval | None:
        assert expr == BUSY
        self.asked.append(tuple(about))
        mid = self.before if to_s <= 1000.0 else self.after
        return None if mid is None else Interval(low=mid - self.half, mid=mid, high=mid + self.half)

    def holds(self, expr: str, about: Sequence[str], *, t_s: float) -> bool | None:
        self.asked.append((expr, *about))
        return self.is_so


def treated(name: str = "d-1", *, direction: Any = "up", **more: Any) -> Decision:
    effect = Effect(expr=BUSY, direction=direction, at_least=0.2)
    treatment = Treatment(action="tell", advice="do it", effect=effect)
    tell = Tell(to="ann", about=GPU, text="do it", job=JobId("j1"))
    values: dict[str, Any] = {"action": tell, "treatment": treatment, "subject": GPU}
    return decision(name, **{**values, **more})


def at(t_s: float) -> ClusterView:
    return replace(view(node("n1", 2), jobs=[job("j1", on=[GPU])]), t_s=t_s)


def test_a_promise_is_checked_when_it_is_due_and_once() -> None:
    meter = FakeMeter()
    effects = Effects(meter)
    effects.begin(treated(), receipt(treated()), None)

    assert effects.follow(at(1599.0)) == []
    ((decided, checked),) = effects.follow(at(1600.0))
    assert effects.follow(at(1700.0)) == []

    assert decided == treated()
    assert checked.effect is not None
    assert checked.effect.by == Interval(
        low=pytest.approx(0.5 - 0.0707, abs=1e-3), mid=0.5, high=pytest.approx(0.5707, abs=1e-3)
    )
    assert (checked.effect.met, checked.effect.worse) == (True, False)
    assert checked.final
    assert checked.text.endswith("up by at least 0.2 was promised: kept")
    assert meter.asked[0] == (GPU, "job:j1", "n1")


@pytest.mark.parametrize(
    ("direction", "after", "met", "worse"),
    [
        ("up", 0.29, False, False),
        ("up", 0.01, False, True),
        ("up", 0.09, False, False),
        ("down", 0.6, False, True),
        ("down", -0.2, True, False),
    ],
)
def test_a_promise_may_be_broken(direction: str, after: float, *, met: bool, worse: bool) -> None:
    effects = Effects(FakeMeter(after=after, half=0.01))
    effects.begin(treated(direction=direction), receipt(treated()), None)

    ((_, checked),) = effects.follow(at(2000.0))

    assert checked.effect is not None
    assert (checked.effect.met, checked.effect.worse) == (met, worse)
    assert ("it got worse" in checked.text) == worse


@pytest.mark.parametrize("meter", [None, FakeMeter(before=None), FakeMeter(after=float("nan"))])
def test_what_nobody_knows_stays_unknown(meter: FakeMeter | None) -> None:
    effects = Effects(meter)
    effects.begin(treated(), receipt(treated()), None)

    ((_, checked),) = effects.follow(at(2000.0))

    assert checked.effect is not None
    assert (checked.effect.met, checked.effect.worse, checked.effect.by) == (None, False, None)
    assert "unknown whether" in checked.text


def test_a_loan_is_judged_by_its_own_yardstick_and_not_by_its_rules_expression_too() -> None:
    lend = decision("d-1", treatment=treated().treatment, subject=GPU)
    effects = Effects(FakeMeter())
    effects.begin(lend, receipt(lend), None)

    assert effects.follow(at(2000.0)) == []


def test_decisions_without_a_promise_are_not_waited_for() -> None:
    effects = Effects(FakeMeter())
    effects.begin(decision(), receipt(decision()), None)

    assert effects.follow(at(9000.0)) == []


def test_a_check_that_an_earlier_run_missed_is_made_and_one_that_it_made_is_not() -> None:
    done = receipt(treated())
    effects = Effects(FakeMeter())
    effects.resume(Story(decision=treated(), receipts=(done,)))
    ((_, checked),) = effects.follow(at(9000.0))

    effects.resume(Story(decision=treated(), receipts=(done,), outcomes=(checked,)))
    effects.resume(Story(decision=treated(), receipts=(receipt(treated(), result="failed"),)))
    assert effects.follow(at(9000.0)) == []


def test_more_than_can_be_waited_for_is_given_up() -> None:
    effects = Effects(FakeMeter())
    for i in range(MOST_OPEN + 5):
        each = treated(f"d-{i}")
        effects.begin(each, receipt(each), None)

    assert len(effects.follow(at(9000.0))) == MOST_OPEN


# -- what a rule asks for before anything is done ----------------------------------------------


def asking(precondition: str = f"{BUSY} < 0.5", **more: Any) -> Decision:
    treatment = Treatment(action="tell", advice="do it", precondition=precondition)
    return treated(treatment=treatment, **more)


def guard(meter: FakeMeter | None, autonomy: Autonomy = Autonomy.AUTO) -> Guard:
    return Guard(Limits(autonomy=autonomy), meter)


def test_what_a_rule_asks_for_is_looked_at_when_it_would_be_done() -> None:
    meter = FakeMeter()

    assert guard(meter).judge(asking(), at(1000.0)).ruling is Ruling.GO
    assert meter.asked == [(f"{BUSY} < 0.5", GPU, "job:j1", "n1")]


def test_where_it_is_not_so_nothing_is_done_whatever_a_person_says() -> None:
    verdict = guard(FakeMeter(is_so=False)).judge(asking(), at(1000.0), approved=True)

    assert verdict.ruling is Ruling.EXPIRE
    assert "does not hold" in verdict.why


@pytest.mark.parametrize("meter", [None, FakeMeter(is_so=None)])
def test_where_nobody_can_tell_it_is_held_back(meter: FakeMeter | None) -> None:
    assert guard(meter).judge(asking(), at(1000.0)).ruling is Ruling.HOLD


def test_giving_back_asks_for_nothing() -> None:
    back = call_back(decision())

    assert guard(FakeMeter(is_so=False)).judge(back, at(1000.0)).ruling is not Ruling.HOLD


def test_a_rule_that_was_wrong_too_often_advises_unless_a_person_approves() -> None:
    doubted = treated(trusted=False)

    assert guard(None).judge(doubted, at(1000.0)).ruling is Ruling.ADVISE
    assert guard(None).judge(doubted, at(1000.0), approved=True).ruling is Ruling.GO


def test_saying_something_needs_no_approval_but_draining_does() -> None:
    drain = treated(action=Drain(node=NodeId("n1"), gpus=(GpuId(GPU),)))
    asks = guard(None, Autonomy.APPROVE)

    assert asks.judge(treated(), at(1000.0)).ruling is Ruling.GO
    assert asks.judge(drain, at(1000.0)).ruling is Ruling.ASK
    assert guard(None, Autonomy.ADVISE).judge(treated(), at(1000.0)).ruling is Ruling.ADVISE


def test_nobody_is_told_about_a_job_that_has_ended_and_no_lost_node_is_drained() -> None:
    gone = treated(action=Tell(to="ann", about="job:j9", text="x", job=JobId("j9")))
    lost = treated(action=Drain(node=NodeId("n9"), gpus=()))

    assert guard(None).judge(gone, at(1000.0)).ruling is Ruling.EXPIRE
    assert guard(None).judge(lost, at(1000.0)).ruling is Ruling.EXPIRE
    about_a_node = treated(action=Tell(to="operators", about="n1", text="x"))
    assert guard(None).judge(about_a_node, at(1000.0)).ruling is Ruling.GO


def test_checks_of_effects_count_no_gpu_seconds() -> None:
    from steward.model.outcome import Assumptions, savings_of

    effects = Effects(FakeMeter())
    effects.begin(treated(), receipt(treated()), None)
    ((_, checked),) = effects.follow(at(2000.0))

    with_check = savings_of([outcome(), checked], Assumptions())

    assert with_check == savings_of([outcome()], Assumptions())
