"""What the loop keeps between turns, and what it makes of states that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from factories import finding
from steward.bookkeeping import Bookkeeping
from steward.learn.rules import RuleTally
from steward.model.finding import Opinion
from steward.model.identity import FindingId
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates


class Counter:
    """Learns a number."""

    name = "counter"

    def __init__(self, version: int = 1) -> None:
        self.state_version = version
        self.count = 0

    def save_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self.count = int(state["count"])


def book(folder: Path) -> Bookkeeping:
    journal = open_journal(f"sqlite:///{folder / 'journal.sqlite3'}")
    return Bookkeeping(journal, LearnedStates(folder / "learned"))


def test_what_was_learned_is_restored_by_the_next_run(tmp_path: Path) -> None:
    first, second = Counter(), Counter()
    first.count = 7

    book(tmp_path).save_learned([first], 1000.0)
    again = book(tmp_path)
    again.restore_learned([second])

    assert second.count == 7
    assert list(again.faults) == []


def test_a_plug_that_cannot_save_costs_its_own_state_only(tmp_path: Path) -> None:
    class Broken(Counter):
        name = "broken"

        def save_state(self) -> dict[str, Any]:
            raise KeyError("nothing")

    good, restored, first = Counter(), Counter(), book(tmp_path)
    good.count = 7

    first.save_learned([Broken(), good], 1000.0)
    book(tmp_path).restore_learned([restored])

    assert restored.count == 7
    assert first.faults[-1].where == "broken"


def test_a_state_of_another_version_is_discarded_with_a_reason(tmp_path: Path) -> None:
    book(tmp_path).save_learned([Counter(version=1)], 1000.0)
    newer, again = Counter(version=2), book(tmp_path)

    again.restore_learned([newer])

    assert newer.count == 0
    assert "version 1" in again.faults[-1].problem


def test_a_state_that_raises_is_discarded_with_a_reason(tmp_path: Path) -> None:
    class Picky(Counter):
        def restore_state(self, state: Mapping[str, Any]) -> None:
            raise ValueError("columns differ")

    book(tmp_path).save_learned([Counter()], 1000.0)
    again = book(tmp_path)

    again.restore_learned([Picky()])

    assert "columns differ" in again.faults[-1].problem


def test_learned_state_is_saved_every_ten_minutes(tmp_path: Path) -> None:
    made, plug = book(tmp_path), Counter()
    made.save_learned_if_due([plug], 1000.0)
    plug.count = 1
    made.save_learned_if_due([plug], 1500.0)
    early = Counter()
    book(tmp_path).restore_learned([early])
    made.save_learned_if_due([plug], 1600.0)
    late = Counter()
    book(tmp_path).restore_learned([late])

    assert (early.count, late.count) == (0, 1)


def test_nothing_saved_is_no_fault(tmp_path: Path) -> None:
    made = book(tmp_path)

    made.restore_learned([Counter()])

    assert list(made.faults) == []


class NewerTally(RuleTally):
    """A tally whose saved state has another form."""

    state_version = RuleTally.state_version + 1


def judged(made: Bookkeeping, *names: str) -> None:
    """Write findings of one rule that a person confirmed, and add them to the tally."""
    for name in names:
        seen = replace(finding(), id=FindingId(name), rule="R-1", t_s=1000.0)
        said = Opinion(finding=seen.id, rule="R-1", t_s=1000.0, opinion="confirm", user="ann")
        made.journal.append([seen, said])
    made.rule_weights(1000.0, first=False)


def test_the_tally_of_rules_goes_on_where_the_last_run_saved_it(tmp_path: Path) -> None:
    first = book(tmp_path)
    judged(first, "f-1")
    first.rules.add(
        Opinion(finding=FindingId("f-0"), rule="R-1", t_s=1.0, opinion="confirm", user="ann")
    )
    first.save_learned([], 1000.0)
    judged(first, "f-2")
    again = book(tmp_path)

    again.restore_rules()

    (stats,) = again.rules.stats()
    assert (stats.fired, stats.findings, stats.confirmed) == (2, 2, 3)  # f-0 is saved only
    assert again.rules.stats() == first.rules.stats()
    assert again.rule_weights(1000.0, first=False) is None
    assert list(again.faults) == []


def test_a_tally_of_another_version_is_discarded_and_made_anew_from_the_journal(
    tmp_path: Path,
) -> None:
    first = book(tmp_path)
    first.rules = NewerTally()
    judged(first, "f-1")
    first.save_learned([], 1000.0)
    again = book(tmp_path)

    again.restore_rules()

    assert again.rules.stats() == first.rules.stats()
    assert "rule-tally was discarded" in again.faults[-1].problem
    assert "version 2" in again.faults[-1].problem


def test_a_tally_of_entries_that_the_journal_has_lost_is_discarded(tmp_path: Path) -> None:
    first = book(tmp_path)
    judged(first, "f-1", "f-2")
    first.save_learned([], 1000.0)
    first.journal.close()
    (tmp_path / "journal.sqlite3").unlink()
    again = book(tmp_path)

    again.restore_rules()

    assert again.rules.stats() == ()
    assert "lost entries" in again.faults[-1].problem
    judged(again, "f-3")
    assert again.rules.stats()[0].findings == 1


def test_a_panic_of_a_library_costs_one_answer_and_not_the_loop(tmp_path: Path) -> None:
    made = book(tmp_path)

    def panic() -> int:
        raise pl.exceptions.PanicException("index out of bounds")

    assert made.call("recogniser", panic, 7) == 7
    assert [each.where for each in made.faults] == ["recogniser"]
