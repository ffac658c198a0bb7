"""From any decision back to its samples: what was done, what was noticed, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from steward.model.decision import Decision
from steward.model.finding import Finding, Opinion, Recurrence
from steward.model.frame import Frame
from steward.model.identity import DecisionId, FindingId
from steward.model.outcome import Story
from steward.store.journal import Journal
from steward.store.telemetry import Telemetry

__all__ = ["DecisionExplanation", "FindingStory", "explain", "story_of_finding"]

_MAX_ROWS = 500  # of one series: more than a screen shows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionExplanation:
    """A decision's story with the findings it was based on and the samples behind those.

    `samples` are by "ENTITY METRIC". A finding or sample that retention or damage has removed is
    not there; the decision itself still has its reason as text.
    """

    story: Story
    findings: tuple[Finding, ...]
    samples: Mapping[str, Frame]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingStory:
    """A finding with all that following of it, oldest first. `hits` counts all matches so far."""

    finding: Finding
    hits: int
    opinions: tuple[Opinion, ...] = ()
    stories: tuple[Story, ...] = ()


def story_of_finding(journal: Journal, finding: FindingId) -> FindingStory:
    """Collect what is known of a finding: matches since, opinions, decisions and outcomes."""
    found = journal.finding(finding)
    following = [entry.value for entry in journal.read(causes=(finding,), limit=_MAX_ROWS)]
    again = sum(value.hits for value in following if isinstance(value, Recurrence))
    decisions = [value.id for value in following if isinstance(value, Decision)]
    stories = journal.stories(ids=decisions, limit=_MAX_ROWS) if decisions else []
    return FindingStory(
        finding=found,
        hits=found.hits + again,
        opinions=tuple(value for value in following if isinstance(value, Opinion)),
        stories=tuple(story for _, story in reversed(stories)),
    )


def explain(journal: Journal, telemetry: Telemetry, decision: DecisionId) -> DecisionExplanation:
    """Collect all that is known about why a decision was made and what following of it."""
    story = journal.story(decision)
    findings = _findings(journal, story)
    return DecisionExplanation(
        story=story, findings=findings, samples=_samples(telemetry, findings)
    )


def _findings(journal: Journal, story: Story) -> tuple[Finding, ...]:
    wanted = story.decision.findings
    if not wanted:
        return ()
    entries = journal.read(kinds=("finding",), ids=wanted, newest_first=True)
    found = {entry.id: entry.value for entry in entries}  # the first report of each comes last
    values = [found.get(id_) for id_ in wanted]
    return tuple(value for value in values if isinstance(value, Finding))


def _samples(telemetry: Telemetry, findings: tuple[Finding, ...]) -> Mapping[str, Frame]:
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for piece in (piece for finding in findings for piece in finding.evidence):
        series = (piece.entity, piece.metric)
        from_s, to_s = spans.get(series, (piece.from_s, piece.to_s))
        spans[series] = (min(from_s, piece.from_s), max(to_s, piece.to_s))
    return MappingProxyType(
        {
            f"{entity} {metric}": _thinned(
                telemetry.read(entities=[entity], metrics=[metric], from_s=from_s, to_s=to_s)
            )
            for (entity, metric), (from_s, to_s) in spans.items()
        }
    )


def _thinned(frame: Frame) -> Frame:
    """Return every n-th row, so that at most `_MAX_ROWS` remain."""
    return frame.gather_every(max(1, -(-frame.height // _MAX_ROWS)))
