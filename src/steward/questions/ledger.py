"""Decisions, outcomes and findings of a journal in memory, by time. Read once, then followed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from steward.model.decision import DecisionState
from steward.model.finding import Finding, Recurrence
from steward.model.identity import DecisionId, FindingId
from steward.model.outcome import Assumptions, Savings, Story, savings_of
from steward.store.journal import Journal
from steward.store.journal_summary import JournalSummary, TrackedStory
from steward.store.records import Record

__all__ = ["Ledger"]

MOST_STORIES, MOST_FINDINGS = 50_000, 50_000


class Ledger:
    """Answers about the past of one journal. For any thread.

    The newest 50,000 decisions and findings of each severity are kept; the sums are of all.
    """

    def __init__(self, journal: Journal, assumptions: Assumptions) -> None:
        self.journal = journal
        self.assumptions = assumptions
        self._lock = threading.Lock()
        self._hits: dict[FindingId, int] = {}
        self._summary = JournalSummary(
            journal,
            assumptions,
            keep=MOST_STORIES,
            keep_findings=MOST_FINDINGS,
            on_value=self._count,
        )
        self._seen = -1
        self._stories: tuple[TrackedStory, ...] = ()
        self._findings: tuple[Finding, ...] = ()
        self._by_id: Mapping[str, TrackedStory] = {}
        self._found: Mapping[str, Finding] = {}

    def catch_up(self) -> None:
        """Read what is new in the journal. The first time reads all of it."""
        with self._lock:
            self._summary.catch_up()
            if self._summary.seq == self._seen:
                return
            self._seen = self._summary.seq
            self._stories = tuple(self._summary.stories())
            self._findings = tuple(self._summary.findings.newest())
            self._by_id = {each.story.decision.id: each for each in self._stories}
            self._found = {each.id: each for each in self._findings}

    def _count(self, value: Record) -> None:
        if isinstance(value, Finding):
            self._hits[value.id] = value.hits
        elif isinstance(value, Recurrence) and value.finding in self._hits:
            self._hits[value.finding] += value.hits

    @property
    def stories(self) -> tuple[TrackedStory, ...]:
        """Decisions with all that came of them, newest first."""
        return self._stories

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings, newest first."""
        return self._findings

    @property
    def states(self) -> Mapping[DecisionState, int]:
        """How many decisions are in each state, of all time."""
        return self._summary.states

    @property
    def savings(self) -> Savings:
        """What all decisions together saved."""
        return self._summary.savings

    def hits(self, finding: FindingId) -> int:
        """Return how often a finding's rule has matched."""
        return self._hits.get(finding, 0)

    def story(self, id_: str) -> TrackedStory | None:
        """Return a decision by its id."""
        found = self._by_id.get(id_)
        if found is None:
            older = self.journal.stories(ids=(DecisionId(id_),), limit=1)
            return TrackedStory.of(older[0][1], seq=older[0][0]) if older else None
        return found

    def finding(self, id_: str) -> Finding | None:
        """Return a finding by its id."""
        found = self._found.get(id_)
        if found is None:
            entries = self.journal.read(kinds=("finding",), ids=(id_,), limit=1)
            older = entries[0].value if entries else None
            return older if isinstance(older, Finding) else None
        return found

    def decided(self, from_s: float, to_s: float) -> list[TrackedStory]:
        """Return the decisions made in a time, newest first."""
        return [each for each in self._stories if from_s <= each.story.decision.t_s <= to_s]

    def noticed(self, from_s: float, to_s: float) -> list[Finding]:
        """Return the findings made in a time, newest first."""
        return [each for each in self._findings if from_s <= each.t_s <= to_s]

    def saved(self, stories: Iterable[Story], from_s: float, to_s: float) -> Savings:
        """Return what decisions saved by outcomes measured in a time."""
        outcomes = (
            outcome
            for story in stories
            for outcome in story.outcomes
            if from_s <= outcome.t_s <= to_s and outcome.effect is None
        )
        return savings_of(outcomes, self.assumptions)
