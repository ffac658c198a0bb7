"""`steward rules explain`: describe a rule, and why it fires on a log or does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines, print_warnings, waiting
from steward.cli.rules.formats.text import evidence_line
from steward.cli.rules.options import (
    Preq,
    RulePaths,
    Sources,
    Strict,
    choose,
    mode_of,
    source_patterns,
    store_folder,
)
from steward.errors import StewardError, did_you_mean

if TYPE_CHECKING:
    from steward.inspection.explanation import ConditionSummary, Reason, RuleExplanation
    from steward.inspection.feeds import Feed
    from steward.inspection.report import EvidenceItem
    from steward.model.rules import Rule

__all__ = ["explain"]

_PLACES = 5

Which = Annotated[
    str, typer.Argument(metavar="RULE|FILE", help="The id of a rule, or a file that has rules.")
]
On = Annotated[
    list[Path] | None,
    typer.Option("--on", metavar="LOG", help="A log: how far does it get? May be repeated."),
]
Telemetry = Annotated[
    list[Path] | None, typer.Option("--telemetry", metavar="PATH", help="Samples, likewise.")
]


def explain(  # noqa: PLR0913 - a command's options are its parameters
    which: Which,
    *,
    on: On = None,
    telemetry: Telemetry = None,
    rules: RulePaths = None,
    sources: Sources = None,
    preq: Preq = False,
    strict: Strict = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Describe a rule, and why it did not fire.

    With --on and --telemetry, show where each condition holds, and what kept it from firing. Exits
    1 when the rule does not fire on these.
    """
    from steward.inspection.explanation import explain as explained

    mode = mode_of(preq=preq, strict=strict)
    patterns = source_patterns(sources)
    found = _rules(which, rules, config, data)
    if not on and not telemetry:
        _show(found, as_json=as_json)
        return
    if len(found) > 1:
        known = ", ".join(rule.id for rule in found[:10])
        raise StewardError(f"{which} has {len(found)} rules", hint=f"name one of them: {known}")
    with waiting("reading"):
        explanation = explained(found[0], _feeds(on or (), telemetry or (), patterns), mode=mode)
    if as_json:
        print_json({**_record(found[0]), **_traced(explanation)})
    else:
        print_lines([*_words(found[0]), "", *_trace(explanation)])
        print_warnings(explanation.notes)
    raise typer.Exit(0 if explanation.hits else 1)


def _rules(
    which: str, rules: Sequence[Path] | None, config: Path | None, data: Path | None
) -> list[Rule]:
    from steward.inspection.checks import valid_rules

    path = Path(which)
    if path.exists() and not rules:
        return list(valid_rules([path], lenient=True))
    chosen = choose(rules, store_folder(config, data))
    named = [rule for rule in chosen.rules if which.upper() == rule.id.upper()]
    if not named:
        ids = [rule.id for rule in chosen.rules]
        problem = f"there is no rule or file called '{which}'"
        hint = did_you_mean(which, ids) or "`steward rules list` shows what there is"
        raise StewardError(problem, hint=hint)
    return named


def _feeds(on: Sequence[Path], telemetry: Sequence[Path], patterns: dict[str, str]) -> list[Feed]:
    from steward.inspection.feeds import LogFeed, TelemetryFeed
    from steward.observe.logs import streams_of

    found = streams_of(on, patterns)
    if found.unreadable:
        raise found.unreadable[0]
    logs = [LogFeed(stream=stream, sources=files) for stream, files in found.streams]
    return [*logs, *(TelemetryFeed(path=path) for path in telemetry)]


def _show(rules: Sequence[Rule], *, as_json: bool) -> None:
    if as_json:
        print_json([_record(rule) for rule in rules] if len(rules) != 1 else _record(rules[0]))
        return
    lines: list[str] = []
    for rule in rules:
        lines += [*([""] if lines else []), *_words(rule), *_meaning(rule)]
    print_lines(lines)


def _record(rule: Rule) -> dict[str, object]:
    from steward.inspection.explanation import describe_rule

    return {
        "rule": rule.id,
        "title": rule.title,
        "severity": rule.severity.word,
        "file": str(rule.place),
        "words": describe_rule(rule),
        "cause": rule.cause.strip(),
        "impact": rule.impact.strip(),
        "mitigation": rule.mitigation.strip(),
    }


def _traced(explanation: RuleExplanation) -> dict[str, object]:
    return {
        "lines": explanation.lines,
        "hits": len(explanation.hits),
        "conditions": explanation.conditions,
        "reasons": explanation.reasons,
    }


def _words(rule: Rule) -> Iterator[str]:
    from steward.inspection.explanation import describe_rule

    yield f"{rule.id} {rule.title} ({rule.severity.word})"
    yield f"  {rule.place}"
    for line in describe_rule(rule):
        yield f"  {line}"


def _meaning(rule: Rule) -> Iterator[str]:
    meaning = (("cause", rule.cause), ("impact", rule.impact), ("to do", rule.mitigation))
    for name, text in meaning:
        for at, line in enumerate(text.strip().splitlines()):
            yield f"  {name if at == 0 else '':<7} {line}"


def _trace(explanation: RuleExplanation) -> Iterator[str]:
    often = len(explanation.hits)
    if often:
        yield f"It fires {often} {'time' if often == 1 else 'times'} on these."
        first = explanation.hits[0]
        for item in first.items[:_PLACES]:
            where = f"{item.stream}:{item.line}" if item.stream else item.entity
            yield f"  > {where}: {item.text[:240]}"
    else:
        yield "It does not fire on these."
        for reason in explanation.reasons:
            yield from _why(reason)
    yield f"What holds where, in {explanation.lines:,} lines:"
    for each in explanation.conditions:
        yield from _condition_line(each)


def _why(reason: Reason) -> Iterator[str]:
    yield f"  because {reason.text}"
    yield from _places(reason.places, "    ")
    if reason.denied_by:
        yield "    denied by"
        yield from _places(reason.denied_by, "    ")


def _condition_line(each: ConditionSummary) -> Iterator[str]:
    times = "never" if not each.times else "once" if each.times == 1 else f"{each.times:,} times"
    more = f", and {each.elsewhere:,} times in other sources" if each.elsewhere else ""
    if each.other_case > 0:
        more += f" (but in other capitals {each.other_case:,} times)"
    yield f"  {each.label}: {times}{more}: {each.text}"
    yield from _places(each.places, "    ")


def _places(items: Sequence[EvidenceItem], pad: str) -> Iterator[str]:
    for proof in items[:_PLACES]:
        yield f"{pad}> {evidence_line(proof)}"
    if len(items) > _PLACES:
        yield f"{pad}> and {len(items) - _PLACES} more"
