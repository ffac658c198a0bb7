"""A finding as lines of text: what was found, on what it rests, what came of it, what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from steward.cli.output import plain
from steward.cli.words import moment, moment_ago, span
from steward.inspection.explanation import describe_detector, describe_rule
from steward.model.finding import Finding
from steward.model.rules import Rule
from steward.store.explain import FindingStory

__all__ = ["finding_lines", "finding_record", "meaning_lines"]


def finding_record(story: FindingStory, rule: Rule | None = None) -> dict[str, Any]:
    """Return a finding and what came of it as JSON shows it."""
    record: dict[str, Any] = {
        "finding": plain(story.finding),
        "hits": story.hits,
        "opinions": plain(story.opinions),
        "decisions": [
            {
                "id": each.decision.id,
                "state": each.state.value,
                "what": each.decision.action.sentence,
            }
            for each in story.stories
        ],
    }
    if rule is not None:
        names = ("title", "description", "cause", "impact", "mitigation", "references")
        record["rule"] = {
            "id": rule.id,
            "severity": rule.severity.word,
            **{name: plain(getattr(rule, name)) for name in names},
        }
    return record


def finding_lines(story: FindingStory, now_s: float) -> Iterator[str]:
    """Give what was found, the samples and lines behind it, opinions, and decisions."""
    finding = story.finding
    yield f"finding {finding.id}: {finding.title}"
    for name, text in _facts(story, now_s):
        yield f"  {name:<9} {text}"
    yield from _part("evidence", _evidence(finding))
    yield from _part("lines", _quotes(finding))
    said = {"confirm": "confirmed", "dismiss": "dismissed"}
    yield from _part(
        "opinions",
        (
            f"{moment(each.t_s)}  {each.user} {said[each.opinion]} it"
            + (f": {each.note}" if each.note else "")
            for each in story.opinions
        ),
    )
    yield from _part(
        "decisions",
        (
            f"{each.decision.id}  {each.state.value}  {each.decision.action.sentence}"
            for each in story.stories
        ),
    )


def meaning_lines(rule: Rule | None, name: str) -> Iterator[str]:
    """Give what a rule looks for, what that means, and what to do about it."""
    if rule is None:
        yield from ("", *_detector_lines(name))
        return
    yield from ("", f"{rule.id} {rule.title} ({rule.severity.word})")
    yield from (f"  {line}" for line in describe_rule(rule))
    texts = (
        ("what it is", rule.description),
        ("cause", rule.cause),
        ("impact", rule.impact),
        ("what to do", rule.mitigation),
    )
    for title, text in texts:
        yield from _part(title, text.strip().splitlines())


def _detector_lines(name: str) -> Iterator[str]:
    text = describe_detector(name)
    if not text:
        yield f"{name} is not installed any more"
        return
    yield f"{name} (detector)"
    yield from (f"  {line}".rstrip() for line in text.splitlines())
    yield f"  Its options are in docs/reference/plugs.md; [plugs.{name}] sets them."


def _facts(story: FindingStory, now_s: float) -> Iterator[tuple[str, str]]:
    finding = story.finding
    yield "severity", f"{finding.severity.value}, by rule {finding.rule}"
    yield "noticed", moment_ago(finding.t_s, now_s)
    yield "since", f"{moment(finding.since_s)}, {span(finding.t_s - finding.since_s)} before that"
    yield "subject", finding.subject
    if finding.gpus:
        yield "GPUs", ", ".join(finding.gpus)
    if finding.job is not None:
        yield "job", f"{finding.job}" + (f" of {finding.tenant}" if finding.tenant else "")
    yield "matches", f"{story.hits:,}"
    if finding.treatment is not None:
        yield "advice", finding.treatment.advice


def _evidence(finding: Finding) -> Iterator[str]:
    for each in finding.evidence:
        yield f"{each.entity}: {each.says}"


def _quotes(finding: Finding) -> Iterator[str]:
    for each in finding.quotes:
        where = f"{each.stream}:{each.line}" if each.line else each.stream
        yield f"{moment(each.t_s)}  {where}  {each.text}"


def _part(title: str, lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield from ("", title)
        yield from (f"  {line}" for line in listed)
