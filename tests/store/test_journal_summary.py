from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import decision, finding, outcome, preempt, receipt, start
from steward.model.decision import EFFECT_CHECK, Choice, DecisionState, Ruling, Verdict
from steward.model.finding import Recurrence, Severity
from steward.model.outcome import Assumptions, Interval, savings_of
from steward.model.yardstick import STOP_COST
from steward.store import journal_summary
from steward.store.journal import Journal, open_journal
from steward.store.journal_summary import CurvePoint, DownsampledCurve, JournalSummary


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(open_journal(f"sqlite:///{tmp_path / 'journal.sqlite3'}")) as opened:
        yield opened


def point(t_s: float) -> CurvePoint:
    return CurvePoint(t_s=t_s, low=0.0, mid=t_s, high=0.0)


def test_sums_taken_bit_by_bit_are_those_of_all_outcomes(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions())
    outcomes = [
        outcome(
            f"d-{n % 3}",
            t_s=float(n),
            gained=100.0 * n - 150.0,
            idle_watts=60.0 + n,
        )
        for n in range(10)
    ]
    journal.append([decision(f"d-{n}") for n in range(3)])

    for each in outcomes:
        journal.append([each])
        assert summary.catch_up()

    exact = savings_of(outcomes, Assumptions())
    for name in ("gpu_hours", "cost", "energy_kwh", "co2_kg"):
        _assert_close(getattr(summary.savings, name), getattr(exact, name))
    assert (summary.savings.outcomes, summary.savings.decisions) == (10, 3)


def test_what_stops_cost_is_summed_beside_savings_and_is_no_outcome_of_theirs(
    journal: Journal,
) -> None:
    summary = JournalSummary(journal, Assumptions())
    journal.append([decision("d-1"), preempt("d-stop")])

    journal.append([outcome("d-1"), outcome("d-stop", gained=-900.0, yardstick=STOP_COST)])
    summary.catch_up()

    assert summary.stop_cost_gpu_hours == 0.25
    assert summary.savings.gpu_hours.mid == pytest.approx(300.0 / 3600.0)
    assert (summary.savings.outcomes, summary.savings.decisions) == (1, 1)


def test_a_long_journal_is_not_held_in_memory_while_it_is_read(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_summary, "_READ_AT_ONCE", 50)
    most = 0

    def measure(_value: object) -> None:
        nonlocal most
        most = max(most, len(summary.stories()))

    summary = JournalSummary(journal, Assumptions(), keep=10, on_value=measure)
    for n in range(100):
        made = start(f"d-{n}")
        journal.append([made, receipt(made, result="failed")])

    summary.catch_up()

    assert most <= 10 + 50
    assert len(summary.stories()) == 10


def _assert_close(one: Interval, other: Interval) -> None:
    for bound in ("low", "mid", "high"):
        assert getattr(one, bound) == pytest.approx(getattr(other, bound))


def test_a_refresh_without_new_entries_reports_no_change(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions())
    journal.append([decision("d-1")])

    assert [summary.catch_up(), summary.catch_up()] == [True, False]


def test_what_happens_to_a_decision_changes_its_state(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions())
    made = decision("d-1")
    journal.append(
        [made, Verdict(decision=made.id, t_s=1.0, ruling=Ruling.ASK, why="autonomy is approve")]
    )
    summary.catch_up()
    waiting = summary.states

    journal.append([receipt(made)])
    summary.catch_up()

    assert waiting[DecisionState.WAITING] == 1
    assert (summary.states[DecisionState.WAITING], summary.states[DecisionState.ACTIVE]) == (0, 1)
    assert [result.seq for result in summary.stories()] == [3]


@pytest.mark.parametrize(
    ("ended", "undo_state", "state"),
    [
        ("done", DecisionState.DONE, DecisionState.UNDONE),
        ("failed", DecisionState.FAILED, DecisionState.DONE),
        ("expired", DecisionState.EXPIRED, DecisionState.DONE),
        ("refused", DecisionState.REJECTED, DecisionState.DONE),
    ],
)
def test_a_decision_is_undone_once_its_undo_was_carried_out(
    journal: Journal, ended: str, undo_state: DecisionState, state: DecisionState
) -> None:
    made = start("d-1")
    undo = replace(preempt(made.undo_id(1.0)), undoes=made.id)
    end = {
        "expired": Verdict(decision=undo.id, t_s=1.0, ruling=Ruling.EXPIRE, why="too late"),
        "refused": Choice(decision=undo.id, t_s=1.0, choice="reject", user="ann"),
    }.get(ended) or receipt(undo, result=ended)
    summary = JournalSummary(journal, Assumptions())
    asked = Choice(decision=made.id, t_s=1.0, choice="undo", user=EFFECT_CHECK)
    journal.append([made, receipt(made), asked])
    summary.catch_up()
    assert summary.states[DecisionState.DONE] == 1

    journal.append([undo, end])
    summary.catch_up()

    (_, first) = summary.stories()
    assert (first.state, first.story.undo_state) == (state, undo_state)
    assert first.seq == journal.newest()
    assert journal.story(made.id) == first.story
    assert sum(summary.states.values()) == 2


def test_decisions_that_are_over_are_forgotten_but_still_counted(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions(), keep=5)
    for n in range(20):
        made = decision(f"d-{n}")
        over = [receipt(made), outcome(made.id, final=True)] if n != 3 else []
        journal.append([made, *over])

    summary.catch_up()

    kept = [result.story.decision.id for result in summary.stories()]
    assert kept == ["d-19", "d-18", "d-17", "d-16", "d-3"]
    assert (summary.states[DecisionState.DONE], summary.states[DecisionState.HELD]) == (19, 1)
    assert summary.savings.decisions == 19


def test_the_newest_findings_come_first_and_old_ones_go(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions(), keep_findings=200)
    journal.append([finding(f"j{n}") for n in range(250)])

    summary.catch_up()

    assert len(summary.findings.newest()) == 200
    assert summary.findings.newest()[0].job == "j249"


def test_a_fault_is_kept_though_a_thousand_newer_findings_are_waste(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions(), keep_findings=10)
    fault = replace(finding("fault"), severity=Severity.FAULT, t_s=1.0)
    journal.append([fault, *(finding(f"j{n}") for n in range(1000))])

    summary.catch_up()

    assert fault in summary.findings.newest()
    assert len(summary.findings.newest()) == 11


def test_the_gravest_findings_are_severe_first_then_those_that_lasted_longest(
    journal: Journal,
) -> None:
    summary = JournalSummary(journal, Assumptions())
    fault = replace(finding("fault", since_s=990.0), severity=Severity.FAULT)
    short, long = finding("short", since_s=900.0), finding("long", since_s=800.0)
    later = Recurrence(finding=short.id, rule=short.rule, from_s=1000.0, t_s=5000.0, hits=3)
    journal.append([long, short, fault, later])

    summary.catch_up()

    assert summary.findings.gravest(3) == [fault, short, long]
    assert summary.findings.gravest(1) == [fault]


def test_what_was_carried_out_is_counted_once_per_decision(journal: Journal) -> None:
    summary = JournalSummary(journal, Assumptions())
    lent, failed = decision("d-1", gpus=("n1/gpu0", "n1/gpu1")), decision("d-2")
    journal.append([lent, receipt(lent, result="begun"), receipt(lent), receipt(lent)])
    journal.append([failed, receipt(failed, result="failed")])

    summary.catch_up()

    assert summary.carried_out == {"lend": 1}
    assert summary.lent_gpus == 2


@given(st.lists(st.floats(0, 1e6), max_size=300), st.integers(2, 20))
def test_a_curve_never_goes_back_and_never_grows_beyond_its_size(
    times: list[float], size: int
) -> None:
    curve: DownsampledCurve[CurvePoint] = DownsampledCurve(size)

    for t_s in times:
        curve.add(point(t_s))

    drawn = [each.t_s for each in curve.points]
    assert drawn == sorted(set(drawn))
    assert len(drawn) <= size
    assert drawn[-1:] == times[-1:]


def test_points_of_a_long_curve_are_equally_far_apart() -> None:
    curve: DownsampledCurve[CurvePoint] = DownsampledCurve(16)

    for t_s in range(1000):
        curve.add(point(float(t_s)))

    *kept, newest = [each.t_s for each in curve.points]
    assert {after - before for before, after in pairwise(kept)} == {kept[1] - kept[0]}
    assert newest == 999.0
    assert len(kept) >= 7


def test_history_is_drawn_from_outcomes_and_the_present_by_whoever_looks(journal: Journal) -> None:
    journal.append([decision("d-1"), outcome("d-1", t_s=10.0, gained=3600.0)])
    summary = JournalSummary(journal, Assumptions())
    summary.catch_up()

    journal.append([outcome("d-1", t_s=20.0, gained=3600.0)])
    summary.catch_up()
    summary.note(25.0, summary.savings_with([outcome("d-1", t_s=25.0, gained=1800.0)]))

    assert [(each.t_s, each.mid) for each in summary.curve.points] == [(10.0, 1.0), (25.0, 2.5)]
