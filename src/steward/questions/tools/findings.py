"""The tool `findings`: what was noticed, and one finding with its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from steward.model.finding import Finding, Severity
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Span, WindowArguments
from steward.questions.tools.sources import journal_source, span_source

__all__ = ["FindingArguments", "finding_line", "findings"]

MOST_NAMED = 5
_ORDER = (Severity.FAULT, Severity.WASTE, Severity.NOTE)


class FindingArguments(WindowArguments):
    """One finding by its id, or those of a time."""

    finding: str = Field("", max_length=200, description="a finding's id, as f-0123456789ab")
    severity: Literal["", "fault", "waste", "note"] = ""
    about: str = Field("", max_length=200, description="only those about this node, GPU or job")


def findings(records: Records, asked: FindingArguments) -> Reply:
    """Explain one finding, or list those of a time, the gravest first."""
    if asked.finding:
        found = records.ledger.finding(asked.finding)
        if found is None:
            return unknown(f"There is no finding {asked.finding} in the journal.")
        return Reply(sentences=tuple(_explained(records, found)))
    span = asked.span(records, "24h")
    chosen = [
        each
        for each in records.ledger.noticed(span.from_s, span.to_s)
        if (not asked.severity or each.severity.value == asked.severity)
        and (not asked.about or _is_about(each, asked.about))
    ]
    return Reply(sentences=tuple(_listed(chosen, asked, span)))


def _is_about(found: Finding, name: str) -> bool:
    places = (found.subject, found.place, str(found.job or ""), *found.gpus)
    return any(place == name or place.startswith(f"{name}/") for place in places)


def _listed(chosen: list[Finding], asked: FindingArguments, span: Span) -> Iterator[Sentence]:
    given = {"severity": asked.severity, "about": asked.about}
    source = span_source(
        "findings", span.from_s, span.to_s, **{k: v for k, v in given.items() if v}
    )

    def fact(label: str, value: float, unit: str) -> Fact:
        return Fact(label=label, value=value, unit=unit, source=source, link="/findings")

    start = fact("from", span.from_s, "time")
    count = fact("findings", len(chosen), "findings")
    since = "There are {count} so far" if span.from_s <= 0 else "There are {count} since {start}"
    kind = f" of severity {asked.severity}" if asked.severity else ""
    facts = {"count": count} if span.from_s <= 0 else {"count": count, "start": start}
    yield say(f"{since}{kind}.", **facts)
    by_severity = Counter(each.severity for each in chosen)
    if len(by_severity) > 1:
        parts = {
            each.value: fact(f"{each.value}s", by_severity[each], f"{each.value}s")
            for each in _ORDER
            if by_severity[each]
        }
        yield say(f"They are {', '.join(f'{{{name}}}' for name in parts)}.", **parts)
    gravest = sorted(chosen, key=lambda each: (_ORDER.index(each.severity), -each.t_s))
    for each in gravest[:MOST_NAMED]:
        yield finding_line(each)


def finding_line(found: Finding) -> Sentence:
    """Return one sentence that names a finding."""
    fact = _facts_of(found)
    return say(
        "{id} ({severity}, {t}): {title}, about {place}.",
        id=fact("finding", found.id),
        severity=fact("severity", found.severity.value),
        t=fact("noticed", found.t_s, "time"),
        title=fact("title", found.title, "text"),
        place=fact("about", found.place),
    )


class _facts_of:  # noqa: N801 - reads as a function with a memory
    def __init__(self, found: Finding) -> None:
        self._source, self._link = journal_source("finding", found.id)

    def __call__(self, label: str, value: str | float, unit: str = "name") -> Fact:
        return Fact(label=label, value=value, unit=unit, source=self._source, link=self._link)


def _explained(records: Records, found: Finding) -> Iterator[Sentence]:
    fact = _facts_of(found)
    yield finding_line(found)
    hits = fact("matches of its rule", records.ledger.hits(found.id) or found.hits, "times")
    yield say("Rule {rule} made it; it matched {hits}.", rule=fact("rule", found.rule), hits=hits)
    for piece in found.evidence[:2]:
        facts = {
            "entity": fact("entity", piece.entity),
            "metric": fact("metric", piece.metric),
            "says": fact("evidence", piece.says, "text"),
            "start": fact("evidence from", piece.from_s, "time"),
            "end": fact("evidence to", piece.to_s, "time"),
        }
        yield say("Evidence: {metric} of {entity} from {start} to {end}: {says}.", **facts)
    if found.quotes:
        lines = fact("log lines behind it", len(found.quotes), "log lines")
        yield say("It rests on {lines} too, which its page shows.", lines=lines)
    yield from _decided(records, found)


def _decided(records: Records, found: Finding) -> Iterator[Sentence]:
    about = [each for each in records.ledger.stories if found.id in each.story.decision.findings]
    if not about:
        yield Sentence(text="No decision came of it.")
    for each in about[:2]:
        source, link = journal_source("decision", each.story.decision.id)
        id_ = Fact(label="decision", value=each.story.decision.id, source=source, link=link)
        state = Fact(label="state", value=each.state.value, source=source, link=link)
        yield say("Decision {id} came of it; it is {state}.", id=id_, state=state)
