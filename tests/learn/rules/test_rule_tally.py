from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import decision, finding, outcome
from steward.learn.rules import RuleTally, rule_stats
from steward.learn.rules.tally import HALF_LIFE_S, MOST_BUCKETS, MOST_JUDGED, SAVED
from steward.model.actions import Drain, Tell
from steward.model.decision import EFFECT_CHECK, Choice
from steward.model.finding import Finding, Opinion, Recurrence
from steward.model.identity import DecisionId, FindingId, GpuId, NodeId
from steward.model.outcome import Change
from steward.model.rules import RuleStats
from steward.store.learned import LearnedStates

RULE = "R-1"


def found(name: str = "f-1", *, t_s: float = 1000.0) -> Finding:
    return replace(finding(), id=FindingId(name), rule=RULE, t_s=t_s)


def said(opinion: Any, name: str = "f-1", *, t_s: float = 1000.0, user: str = "ann") -> Opinion:
    return Opinion(finding=FindingId(name), rule=RULE, t_s=t_s, opinion=opinion, user=user)


def decided(name: str = "d-1", **more: Any) -> Any:
    drain = Drain(node=NodeId("n1"), gpus=(GpuId("n1/gpu0"),))
    return decision(name, **{"findings": (FindingId("f-1"),), "action": drain, **more})


def lent(name: str = "d-1") -> Any:
    return decision(name, findings=(FindingId("f-1"),))


def checked(*, met: bool | None, name: str = "d-1") -> Any:
    effect = Change(expr="x", before=None, after=None, by=None, met=met)
    return outcome(name, effect=effect)


def chosen(choice: Any, *, user: str = "ann") -> Choice:
    return Choice(decision=DecisionId("d-1"), t_s=1000.0, choice=choice, user=user)


def only(*values: object, now_s: float | None = None) -> RuleStats:
    (stats,) = rule_stats(values, now_s=now_s)
    return stats


def test_matches_are_counted_over_time() -> None:
    again = Recurrence(finding=FindingId("f-1"), rule=RULE, from_s=1000.0, t_s=2500.0, hits=7)

    stats = only(found(), found(), again)

    assert (stats.fired, stats.findings) == (9, 1)
    assert stats.last_s == 2500.0
    assert stats.history == ((600.0, 2), (2400.0, 7))


def test_nothing_is_known_of_a_rule_that_nobody_judged() -> None:
    stats = only(found())

    assert (stats.weight, stats.judged, stats.retire) == (0.5, 0, False)
    assert stats.low < 0.2
    assert stats.high > 0.8


def test_who_thinks_again_is_counted_once() -> None:
    stats = only(found(), said("dismiss"), said("confirm", t_s=1001.0))

    assert (stats.confirmed, stats.dismissed, stats.judged) == (1, 0, 1)
    assert stats.weight > 0.5


def test_what_came_of_decisions_counts() -> None:
    stats = only(found(), decided(), decided(), chosen("reject"), chosen("undo"), checked(met=True))

    assert (stats.decisions, stats.refused, stats.undone, stats.met) == (1, 1, 1, 1)
    assert stats.judged == 3


def test_what_steward_itself_undid_is_counted_by_its_check_alone() -> None:
    stats = only(found(), decided(), checked(met=False), chosen("undo", user=EFFECT_CHECK))

    assert (stats.undone, stats.missed, stats.judged) == (0, 1, 1)


def test_an_approval_or_an_unknown_effect_says_nothing_of_the_rule() -> None:
    stats = only(found(), decided(), chosen("approve"), checked(met=None), outcome(expected=0.0))

    assert stats.judged == 0


def test_advice_that_nobody_followed_is_not_held_against_its_rule() -> None:
    tell = Tell(to="ann", about="n1", text="do it")

    unheeded = only(found(), decided(action=tell), checked(met=False))
    heeded = only(found(), decided(action=tell), checked(met=True))

    assert (unheeded.missed, unheeded.judged, unheeded.weight) == (1, 0, 0.5)
    assert (heeded.met, heeded.judged) == (1, 1)


def test_a_rule_is_retired_when_it_is_surely_more_wrong_than_right() -> None:
    wrong = [said("dismiss", f"f-{i}") for i in range(8)]

    assert not only(*wrong[:7]).retire
    assert only(*wrong).retire
    assert not only(*wrong, *(said("confirm", f"g-{i}") for i in range(6))).retire


def test_what_was_said_long_ago_counts_less() -> None:
    wrong = [said("dismiss", f"f-{i}") for i in range(8)]

    fresh, old = only(*wrong), only(*wrong, now_s=1000.0 + 10 * HALF_LIFE_S)

    assert fresh.weight < 0.2
    assert 0.45 < old.weight < 0.5
    assert not old.retire


def test_values_that_are_not_about_rules_are_left_alone() -> None:
    book = RuleTally()

    assert not book.add("something else")
    assert book.add(chosen("undo"))  # of an unknown decision
    assert book.stats() == ()
    assert book.weights(0.0) == {}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.learn.rules.tally.REMEMBERED", 100)
    many = [found(f"f-{i}", t_s=600.0 * i) for i in range(2 * MOST_BUCKETS)]
    judged = [said("confirm", f"f-{i}") for i in range(2 * MOST_JUDGED)]

    stats = only(*many, *judged)

    assert stats.fired == 2 * MOST_BUCKETS
    assert len(stats.history) == MOST_BUCKETS
    assert stats.judged == MOST_JUDGED


@given(st.lists(st.booleans(), max_size=40))
def test_the_weight_lies_within_its_range_and_grows_with_what_is_good(opinions: list[bool]) -> None:
    values = [said("confirm" if good else "dismiss", f"f-{i}") for i, good in enumerate(opinions)]
    stats = only(found(), *values)

    better = only(found(), *values, said("confirm", "f-more"))

    assert 0.0 <= stats.low <= stats.weight <= stats.high <= 1.0 or not opinions
    assert better.weight > stats.weight


def test_a_loan_that_brought_what_it_promised_speaks_for_its_rule() -> None:
    loans = [(lent(f"d-{n}"), outcome(f"d-{n}", gained=240.0)) for n in range(8)]

    stats = only(found(), *(value for pair in loans for value in pair))

    assert (stats.met, stats.missed, stats.retire) == (8, 0, False)
    assert stats.weight > 0.8


def test_what_a_rule_promised_beside_a_loan_is_not_held_against_it() -> None:
    stats = only(found(), lent(), outcome(gained=240.0), checked(met=False))

    assert (stats.met, stats.missed) == (1, 0)


def test_a_loan_that_brought_less_than_a_quarter_speaks_against_its_rule() -> None:
    later = outcome(gained=-50.0, expected=0.0)  # of the same loan: nothing was promised any more

    stats = only(found(), lent(), outcome(gained=60.0), later)

    assert (stats.met, stats.missed) == (0, 1)


def test_a_restored_tally_goes_on_as_the_saved_one_would(tmp_path: Path) -> None:
    store, made, again = LearnedStates(tmp_path), RuleTally(), RuleTally()
    for value in (found(), said("confirm"), found("f-2", t_s=9000.0), decided(), lent("d-2")):
        made.add(value)
    made.seq = 5

    store.save(made.name, made.state_version, made.save_state(), learnt_from={})
    state, why = store.load(again.name, again.state_version)
    assert state is not None, why
    again.restore_state(state.payload)

    assert again.seq == 5
    assert again.stats() == made.stats()
    for value in (found("f-2"), checked(met=True), chosen("reject"), said("dismiss")):
        assert again.add(value) == made.add(value)
    assert again.stats(10_000.0) == made.stats(10_000.0)


def test_a_state_that_does_not_fit_leaves_a_tally_as_it_was() -> None:
    made, empty = RuleTally(), RuleTally()
    made.add(found())
    state = made.save_state()

    with pytest.raises(KeyError):
        empty.restore_state({**state, "content": '{"accounts": [{"rule": "R-1"}]}'})

    assert empty.stats() == ()


def test_only_the_newest_findings_are_saved() -> None:
    made, again = RuleTally(), RuleTally()
    for i in range(SAVED + 1):
        made.add(found(f"f-{i}"))

    again.restore_state(made.save_state())

    again.add(found("f-1"))
    assert again.stats()[0].findings == SAVED + 1
    again.add(found("f-0"))
    assert again.stats()[0].findings == SAVED + 2
