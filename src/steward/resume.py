"""Takes up what an earlier run left open: decisions, loans, budgets and what was learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter

from steward.act.guard import Guard
from steward.bookkeeping import Bookkeeping
from steward.model.actions import Reboot, Reset, domain_of
from steward.model.decision import Choice, Decision, DecisionState, StandingApproval
from steward.model.event import LogLine
from steward.model.finding import Finding, Recurrence
from steward.model.outcome import Story
from steward.ports import V
from steward.stages import Stages
from steward.store.journal import Journal, JournalEntry

__all__ = ["charge_again", "missed_undos", "resume"]

DAY_S = 86400.0
RESUMED_S = 14 * DAY_S  # open decisions and loans of this time are taken up again
APPROVALS_READ = 1_000
FINDINGS_READ = 1_000
OLDER_READ, LASTING_READ = 20_000, 2_000  # older decisions; those of them that may still last


def resume(
    book: Bookkeeping, stages: Stages[V], view: V, now_s: float, *, lines: Sequence[LogLine] = ()
) -> None:
    """Bring desk, guard, verifier, domain state and bookkeeping to where the journal is.

    `lines` are those that were recorded last: recognisers restore what these had begun.
    """
    journal = book.journal
    book.t_s = now_s
    book.last_choice_seq = journal.newest()
    stories = [
        each
        for each in _recent_stories(journal, since_s=now_s - RESUMED_S)
        if domain_of(each.decision.action) == stages.domain
    ]
    for entry in journal.read(kinds=("approval",), newest_first=True, limit=APPROVALS_READ)[::-1]:
        if isinstance(entry.value, StandingApproval):
            stages.desk.guard.allow(entry.value)
    stages.desk.resume(stories)
    for story in stories:
        _resume_story(book, stages, story)
    charge_again(stages.desk.guard, stories)
    book.missed_choices += missed_undos(stories, since_s=now_s - RESUMED_S)
    known = journal.read(kinds=("finding",), newest_first=True, limit=FINDINGS_READ)[::-1]
    book.found.update({entry.id: entry.t_s for entry in known})
    found = _last_seen(journal, known)
    for each in stages.recognisers:
        book.call(each.name, partial(each.resume, found, lines), None)
    book.restore_rules()
    stages.desk.guard.learn(book.due_outcomes(now_s))
    book.restore_learned((*stages.estimators, *stages.miners))
    book.restore_measured(stages.verifier)
    stages.moment.reserve(stages.desk.reserved(view))


def _resume_story(book: Bookkeeping, stages: Stages[V], story: Story) -> None:
    book.unlearned += [each for each in story.outcomes if each.effect is None]
    stages.verifier.resume(story)
    mended = isinstance(story.decision.action, Reboot | Reset) and bool(story.receipts)
    if story.state is DecisionState.ACTIVE or (mended and story.receipts[-1].result == "done"):
        stages.moment.apply(story.decision, story.receipts[-1])


def charge_again(guard: Guard, stories: Sequence[Story]) -> None:
    """Charge what was carried out to budgets and standing approvals, in the order of its time."""
    done = [
        (receipts[0].t_s, story)
        for story in stories
        if (receipts := [each for each in story.receipts if each.result != "failed"])
    ]
    for t_s, story in sorted(done, key=itemgetter(0)):
        by_person = story.decision.policy == "person"
        approved = by_person or any(each.choice == "approve" for each in story.choices)
        guard.record(story.decision, t_s, approved=approved)


def missed_undos(stories: Sequence[Story], *, since_s: float) -> Iterator[Choice]:
    """Return the undos that were asked for and never answered: neither begun nor refused."""
    begun = Counter(story.decision.undoes for story in stories)
    for story in stories:
        asked = [each for each in story.undos_asked if each.t_s >= since_s]
        if not asked[begun[story.decision.id] :] or not story.undo_may_begin:
            continue
        if not any(each.t_s >= asked[-1].t_s for each in story.verdicts):
            yield asked[-1]


def _last_seen(journal: Journal, known: Sequence[JournalEntry]) -> list[tuple[Finding, float]]:
    """Return findings with the time of their last entry in the journal: themselves, or again."""
    found = [entry.value for entry in known if isinstance(entry.value, Finding)]
    again = journal.read(kinds=("recurrence",), newest_first=True, limit=FINDINGS_READ)[::-1]
    last_s = {
        entry.value.finding: entry.value.t_s
        for entry in again
        if isinstance(entry.value, Recurrence)
    }
    return [(each, last_s.get(each.id, each.t_s)) for each in found]


def _recent_stories(journal: Journal, *, since_s: float) -> list[Story]:
    """Return the stories since then, and older ones that still last; oldest first."""
    found: list[Story] = []
    before: int | None = None
    while page := journal.stories(before=before, limit=200):
        recent = [(seq, story) for seq, story in page if story.decision.t_s >= since_s]
        found += [story for _, story in recent]
        before = recent[-1][0] if recent else before
        if len(recent) < len(page):
            break
    return _older_in_effect(journal, before) + found[::-1]


def _older_in_effect(journal: Journal, before: int | None) -> list[Story]:
    """Return older stories that still last, such as a node that was drained weeks ago."""
    older = journal.read(kinds=("decision",), before=before, limit=OLDER_READ, newest_first=True)
    ids = [
        entry.id
        for entry in older
        if isinstance(entry.value, Decision) and entry.value.action.lasts
    ][:LASTING_READ]
    stories = journal.stories(ids=ids, limit=len(ids)) if ids else []
    return [story for _, story in stories[::-1] if story.state is DecisionState.ACTIVE]
