"""The tool `rules`: what a rule looks for and how often it was right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from steward.model.rules import RuleStanding, RuleState, RuleStats
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Arguments
from steward.questions.tools.sources import fact_at, no_such

__all__ = ["RuleArguments", "rules"]

MOST_NAMED = 5
Row = tuple[RuleStanding, RuleStats]


class RuleArguments(Arguments):
    """One rule by its id, or all of them."""

    rule: str = Field("", max_length=200, description="a rule's id, as STW-GPU-0022")
    order: Literal["fired", "wrong"] = Field(
        "fired", description="which come first: most matches, or most often wrong"
    )


def rules(records: Records, asked: RuleArguments) -> Reply:
    """Explain one rule, or say how all of them do."""
    if asked.rule:
        found = next(
            (row for row in records.rules if row[0].id.lower() == asked.rule.lower()), None
        )
        if found is None:
            known = [standing.id for standing, _ in records.rules]
            return no_such("rule", asked.rule, known, records.now_s)
        return Reply(sentences=tuple(_explained(records, *found)))
    if not records.rules:
        return unknown("No rules are loaded here, or no steward runs here now.")
    return Reply(sentences=tuple(_all(records, asked)))


def _explained(records: Records, standing: RuleStanding, stats: RuleStats) -> Iterator[Sentence]:
    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("rule", standing.id, records.now_s, label, value, unit)

    id_ = fact("rule", standing.id)
    rule = standing.rule
    title = fact("title", rule.title if rule else standing.why or "unreadable", "text")
    state = fact("state", standing.state.value)
    yield say("Rule {id} is {state}: {title}.", id=id_, state=state, title=title)
    for label, text in (
        ("cause", rule.cause if rule else ""),
        ("do", rule.mitigation if rule else ""),
    ):
        if text:
            word = "Usual cause" if label == "cause" else "What to do"
            yield say(f"{word}: {{text}}", text=fact(label, text, "text"))
    facts = {
        "fired": fact("matches", stats.fired, "times"),
        "findings": fact("findings", stats.findings, "findings"),
        "decisions": fact("decisions", stats.decisions, "decisions"),
    }
    yield say("It matched {fired}, made {findings} and led to {decisions}.", **facts)
    if stats.judged:
        right = fact("share that was right", stats.weight, "share")
        judged = fact("findings that were judged", stats.judged, "findings")
        yield say(
            "Right so far: {right}, by {judged} that were judged.", right=right, judged=judged
        )
    else:
        yield Sentence(text="How often it is right is not known: none of its findings was judged.")


def _all(records: Records, asked: RuleArguments) -> Iterator[Sentence]:
    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("rules", "", records.now_s, label, value, unit)

    states = Counter(standing.state for standing, _ in records.rules)
    parts = {
        state.value.replace("-", "_"): fact(f"rules that are {state.value}", n, "")
        for state, n in states.items()
    }
    fields = ", ".join(f"{{{state.value.replace('-', '_')}}} {state.value}" for state in states)
    yield say(
        f"There are {{all}}: {fields}.", all=fact("rules", len(records.rules), "rules"), **parts
    )
    for standing, stats in _ranked(records.rules, asked.order)[:MOST_NAMED]:
        facts = {
            "id": fact_at("rule", standing.id, records.now_s, "rule", standing.id),
            "fired": fact_at("rule", standing.id, records.now_s, "matches", stats.fired, "times"),
            "right": fact_at(
                "rule", standing.id, records.now_s, "share right", stats.weight, "share"
            ),
        }
        known = ", right so far {right}" if stats.judged else ", not judged yet"
        used = facts if stats.judged else {k: v for k, v in facts.items() if k != "right"}
        yield say(f"{{id}} matched {{fired}}{known}.", **used)
    retire = [standing.id for standing, stats in records.rules if stats.retire]
    if retire:
        count = fact("rules more often wrong than right", len(retire), "rules")
        yield say("{count} should be retired: more often wrong than right.", count=count)


def _ranked(rows: Sequence[Row], order: str) -> list[Row]:
    on = [row for row in rows if row[0].state is not RuleState.FAULTY]
    if order == "wrong":
        judged = [row for row in on if row[1].judged]
        return sorted(judged, key=lambda row: (row[1].weight, row[0].id))
    return sorted((row for row in on if row[1].fired), key=lambda row: (-row[1].fired, row[0].id))
