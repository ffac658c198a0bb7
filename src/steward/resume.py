"""Takes up what an earlier run left open: decisions, loans, budgets and what was learned."""

from __future__ import annotations

from steward.bookkeeping import Bookkeeping
from steward.model.decision import DecisionState, StandingApproval
from steward.model.outcome import Story
from steward.ports import V
from steward.stages import Stages
from steward.store.journal import Journal

__all__ = ["resume"]

DAY_S = 86400.0
RESUMED_S = 14 * DAY_S  # open decisions and loans of this time are taken up again
APPROVALS_READ = 1_000


def resume(book: Bookkeeping, stages: Stages[V], view: V, now_s: float) -> None:
    """Bring desk, guard, verifier, domain state and bookkeeping to where the journal is."""
    journal = book.journal
    book.t_s = now_s
    book.last_choice_seq = journal.newest()
    stories = _recent_stories(journal, since_s=now_s - RESUMED_S)
    for entry in journal.read(kinds=("approval",), newest_first=True, limit=APPROVALS_READ)[::-1]:
        if isinstance(entry.value, StandingApproval):
            stages.desk.guard.allow(entry.value)
    stages.desk.resume(stories)
    for story in stories:
        _resume_story(book, stages, story)
    for entry in journal.read(kinds=("finding",), newest_first=True, limit=1000):
        book.found[entry.id] = entry.t_s
    book.restore_rules()
    stages.desk.guard.learn(book.due_outcomes(now_s))
    book.restore_learned((*stages.estimators, *stages.miners))
    book.restore_measured(stages.verifier)
    stages.moment.reserve(stages.desk.reserved(view))


def _resume_story(book: Bookkeeping, stages: Stages[V], story: Story) -> None:
    book.unlearned += [each for each in story.outcomes if each.effect is None]
    stages.verifier.resume(story)
    for receipt in story.receipts:
        if receipt.result != "failed":
            stages.desk.guard.record(story.decision, receipt.t_s)
            break
    if story.state is DecisionState.ACTIVE:
        stages.moment.apply(story.decision, story.receipts[-1])
    # the desk knows by their ids which of these were taken up before
    book.missed_choices += [each for each in story.choices if each.choice == "undo"]


def _recent_stories(journal: Journal, *, since_s: float) -> list[Story]:
    """Return the stories since then, oldest first."""
    found: list[Story] = []
    before: int | None = None
    while page := journal.stories(before=before, limit=200):
        found += [story for _, story in page if story.decision.t_s >= since_s]
        before = page[-1][0]
        if page[-1][1].decision.t_s < since_s:
            break
    return found[::-1]
