"""People may choose only what can still be done, and it is stored with their name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from factories import call_back, decision, finding, outcome, preempt, receipt, start
from steward.errors import StewardError
from steward.model.decision import EFFECT_CHECK, Choice, DecisionState, Ruling, Verdict
from steward.model.identity import DecisionId, FindingId, TenantId
from steward.store.choices import (
    ApprovalRequest,
    approve_in_advance,
    known_tenants,
    possible_choices,
    record_choice,
    revoke,
    standing_approvals,
)
from steward.store.journal import Journal, Record, open_journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as opened:
        yield opened


def ruled(ruling: Ruling) -> Verdict:
    return Verdict(decision=DecisionId("d-1"), t_s=1001.0, ruling=ruling, why="")


def message(choice: Any) -> Choice:
    return Choice(decision=DecisionId("d-1"), t_s=1002.0, choice=choice, user="ada")


MADE = decision()
UNDO = replace(call_back(MADE, MADE.undo_id(1002.0)), undoes=MADE.id)
STATES: dict[str, tuple[Sequence[Record], tuple[str, ...]]] = {
    "waiting": ([MADE, ruled(Ruling.ASK)], ("approve", "reject")),
    "advised": ([MADE, ruled(Ruling.ADVISE)], ("approve",)),
    "held": ([MADE, ruled(Ruling.HOLD)], ("approve",)),
    "active": ([MADE, ruled(Ruling.GO), receipt(MADE)], ("undo",)),
    "approved": ([MADE, ruled(Ruling.ASK), message("approve")], ()),
    "rejected": ([MADE, ruled(Ruling.ASK), message("reject")], ()),
    "failed": ([MADE, ruled(Ruling.GO), receipt(MADE, result="failed")], ()),
    "done": ([MADE, receipt(MADE), outcome(final=True)], ()),
    "expired": ([MADE, ruled(Ruling.ASK), ruled(Ruling.EXPIRE)], ()),
    "undone": (
        [MADE, receipt(MADE), message("undo"), UNDO, receipt(UNDO), outcome(final=True)],
        (),
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_only_what_can_still_be_done_may_be_chosen(journal: Journal, state: str) -> None:
    entries, allowed = STATES[state]
    journal.append(entries)
    before = journal.newest()

    assert journal.story(MADE.id).state.value == state
    assert possible_choices(journal.story(MADE.id)) == allowed
    for choice in {"approve", "reject", "undo"} - set(allowed):
        with pytest.raises(StewardError, match=f"cannot {choice} it: it is"):
            record_choice(journal, "d-1", choice, user="ada", t_s=1010.0)
    assert journal.newest() == before


@pytest.mark.parametrize("state", ["waiting", "advised", "held", "active"])
def test_a_choice_is_in_the_journal_with_its_user(journal: Journal, state: str) -> None:
    entries, (first, *_) = STATES[state]
    journal.append(entries)

    made = record_choice(journal, "d-1", first, user="ada", t_s=1010.0, note="fine")

    (entry,) = journal.read(kinds=["choice"])
    assert entry.value == made
    assert (made.user, made.choice, made.note, made.t_s) == ("ada", first, "fine", 1010.0)
    assert entry.cause == "d-1"


def test_a_choice_cannot_be_made_twice(journal: Journal) -> None:
    journal.append(STATES["waiting"][0])
    record_choice(journal, "d-1", "reject", user="ada", t_s=1010.0)

    with pytest.raises(StewardError, match="it is rejected") as caught:
        record_choice(journal, "d-1", "approve", user="bob", t_s=1011.0)

    assert caught.value.hint == "nothing is left to choose about it"


def test_a_way_back_cannot_be_undone(journal: Journal) -> None:
    back = call_back(decision("d-1"), "d-1")
    journal.append([back, receipt(back)])

    with pytest.raises(StewardError, match="itself a way back"):
        record_choice(journal, "d-1", "undo", user="ada", t_s=1010.0)

    assert possible_choices(journal.story(call_back(MADE, "d-1").id)) == ()


@pytest.mark.parametrize("made", [start("d-1"), preempt("d-1")], ids=["start", "preempt"])
def test_what_was_started_or_stopped_can_be_undone_once(journal: Journal, made: Any) -> None:
    journal.append([made, receipt(made)])
    assert journal.story(made.id).state is DecisionState.DONE

    record_choice(journal, "d-1", "undo", user="ada", t_s=1010.0)

    assert journal.story(made.id).state is DecisionState.DONE  # until that is carried out
    assert journal.story(made.id).decision == made
    with pytest.raises(StewardError, match="cannot undo it: it is done"):
        record_choice(journal, "d-1", "undo", user="ada", t_s=1011.0)


def test_an_unknown_choice_is_refused_with_the_known_ones(journal: Journal) -> None:
    journal.append(STATES["waiting"][0])

    with pytest.raises(StewardError, match="expected approve, reject, undo") as caught:
        record_choice(journal, "d-1", "aprove", user="ada", t_s=1010.0)

    assert caught.value.hint == "did you mean 'approve'?"


def test_an_unknown_decision_is_named(journal: Journal) -> None:
    with pytest.raises(StewardError, match="there is no decision 'd-1'"):
        record_choice(journal, "d-1", "approve", user="ada", t_s=1010.0)


def test_a_standing_approval_is_in_force_until_its_time_or_until_it_is_revoked(
    journal: Journal,
) -> None:
    asked = ApprovalRequest(tenant="bio", action="lend", hours=1.0, gpus=8)

    made = approve_in_advance(journal, asked, user="ada", t_s=1000.0)

    assert standing_approvals(journal, 2000.0) == [made]
    assert standing_approvals(journal, 4600.0) == []
    revoke(journal, made.id, user="bob", t_s=2000.0)
    assert standing_approvals(journal, 2000.0) == []
    with pytest.raises(StewardError, match="standing approval"):
        revoke(journal, made.id, user="bob", t_s=2001.0)


def test_hours_are_those_of_people_however_fast_the_clock_of_the_journal_is(
    journal: Journal,
) -> None:
    asked = ApprovalRequest(tenant="bio", action="lend", hours=2.0, gpus=8)

    made = approve_in_advance(journal, asked, user="ada", t_s=1000.0, speed=60.0)

    assert made.until_s == 1000.0 + 60 * 7200.0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"action": "lent"}, "no action called 'lent'"),
        ({"tenant": ""}, "no tenant called ''; known: bio"),
        ({"tenant": "boi"}, "no tenant called 'boi'; known: bio"),
        ({"gpus": 0}, "GPUs are 0"),
        ({"hours": 0.0}, "the time is 0 h"),
    ],
)
def test_a_standing_approval_needs_a_known_tenant_an_action_a_time_and_gpus(
    changes: dict[str, Any], problem: str
) -> None:
    good: dict[str, Any] = {"tenant": "bio", "action": "lend", "hours": 1.0, "gpus": 1}

    ApprovalRequest(**good).check(["bio"])

    with pytest.raises(StewardError, match=problem):
        ApprovalRequest(**{**good, **changes}).check(["bio"])


def test_tenants_are_known_from_findings_and_decisions(journal: Journal) -> None:
    journal.append([replace(finding(), tenant=TenantId("bio")), decision(tenant=TenantId("chem"))])
    journal.append([replace(finding(), id=FindingId("f-2"), tenant=None)])

    assert known_tenants(journal) == {"bio", "chem"}


def test_of_two_choices_at_once_the_second_is_told(journal: Journal) -> None:
    journal.append([MADE, ruled(Ruling.ASK)])
    start = Barrier(4)

    def choose(word: str) -> bool:
        start.wait()
        try:
            record_choice(journal, "d-1", word, user="ada", t_s=1002.0)
        except StewardError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(choose, ("approve", "reject", "approve", "reject")))

    assert taken.count(True) == 1
    assert len(journal.story(DecisionId("d-1")).choices) == 1


def test_nobody_chooses_under_the_name_of_the_checks(journal: Journal) -> None:
    journal.append([MADE, ruled(Ruling.GO), receipt(MADE)])

    with pytest.raises(StewardError, match="how steward names its own checks"):
        record_choice(journal, "d-1", "undo", user=EFFECT_CHECK, t_s=1002.0)
