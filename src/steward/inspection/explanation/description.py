"""Descriptions of rules and detectors as text, for authors and for readers of findings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from steward.decide.rules import DETECTORS
from steward.model.rules import Clause, Extract, MetricTerm, Negation, Rule, RuleNode, Term
from steward.registry import known, resolve

__all__ = [
    "describe_condition",
    "describe_conditions",
    "describe_detector",
    "describe_effect",
    "describe_rule",
    "duration_text",
]

_UNITS = ((86400 * 10**9, "d"), (3600 * 10**9, "h"), (60 * 10**9, "min"), (10**9, "s"),
          (10**6, "ms"), (10**3, "µs"))  # fmt: skip


def duration_text(ns: int) -> str:
    """Return a duration exactly, in as few units as it needs.

    >>> duration_text(90 * 10**9), duration_text(0), duration_text(250 * 10**6)
    ('1 min 30 s', '0 s', '250 ms')
    """
    parts, left = [], abs(ns)
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts) or "0 s"


def describe_detector(name: str) -> str:
    """Return what a detector reports, as its documentation has it; '' if there is none such."""
    if name not in known("detector", DETECTORS):
        return ""
    return inspect.getdoc(resolve("detector", name, DETECTORS)) or ""


def describe_rule(rule: Rule) -> list[str]:
    """Return conditions, negations and the effect of a rule, as indented lines."""
    return [*describe_conditions(rule), *describe_effect(rule)]


def describe_conditions(rule: Rule) -> list[str]:
    """Return conditions and negations of a rule, as indented lines."""
    return list(_node(rule.root, "It waits for"))


def describe_condition(what: Term | MetricTerm | RuleNode) -> str:
    """Return one condition as part of a sentence."""
    if isinstance(what, Term):
        templates = {"value": "a line with `{}`", "regex": "a line that fits the pattern `{}`"}
        return templates.get(what.kind, "a line of JSON for which jq `{}` holds").format(what.text)
    if isinstance(what, MetricTerm):
        held = f" for {duration_text(round(what.for_s * 1e9))}" if what.for_s else ""
        every = f", looked at every {what.interval_s:g} s" if what.interval_s else ""
        return f"a series for which `{what.expr}` holds{held}{every}"
    return f"the {what.kind} below"


def describe_effect(rule: Rule) -> Iterator[str]:
    """Return the effect of an optimisation rule."""
    treatment = rule.treatment
    if treatment is None:
        return
    yield f"Then: {treatment.action}. {treatment.advice}".rstrip()
    if treatment.precondition:
        yield f"  only while `{treatment.precondition}` holds"
    if treatment.effect is not None:
        effect = treatment.effect
        after = duration_text(round(treatment.check_after_s * 1e9))
        yield (
            f"  after {after}, the mean of `{effect.expr}` should be {effect.direction} "
            f"by {effect.at_least:g} or more"
        )
    if treatment.undo:
        yield f"  taken back by: {treatment.undo}"


def _node(node: RuleNode, begin: str, pad: str = "") -> Iterator[str]:
    yield f"{pad}{begin} {_heading(node)}:"
    for number, clause in enumerate(node.clauses, start=1):
        yield from _clause(clause, f"{number}.", pad + "  ")
    if node.correlations:
        yield f"{pad}  all of the same {' and '.join(node.correlations)}"
    for negation in node.negations:
        yield from _negation(node, negation, pad)


def _heading(node: RuleNode) -> str:
    where = f" in logs of source {node.source}" if node.source else ""
    within = f" within {duration_text(node.window_ns)}" if node.window_ns else ""
    if len(node.clauses) == 1 and max(node.clauses[0].count, 1) == 1:
        return f"this{within}{where}"
    order = "in this order" if node.kind == "sequence" else "in any order"
    return f"all of these {order}{within}{where}"


def _clause(clause: Clause, number: str, pad: str) -> Iterator[str]:
    often = f"{clause.count} times " if clause.count > 1 else ""
    if isinstance(clause.what, RuleNode):
        yield from _node(clause.what, f"{number} {often}".rstrip(), pad)
        return
    differ = f", each with another `{clause.distinct}`" if clause.distinct else ""
    yield f"{pad}{number} {often}{describe_condition(clause.what)}{differ}"
    for extract in clause.extracts:
        yield f"{pad}   {_extract(extract)}"


def _extract(extract: Extract) -> str:
    return f"which gives `{extract.name}` by {extract.kind} `{extract.text}`"


def _negation(node: RuleNode, negation: Negation, pad: str) -> Iterator[str]:
    when = _when(node, negation)
    if isinstance(negation.what, RuleNode):
        yield from _node(negation.what, f"unless, {when}, there is", pad)
    else:
        yield f"{pad}unless, {when}, there is {describe_condition(negation.what)}"


def _when(node: RuleNode, negation: Negation) -> str:
    needed = sum(max(each.count, 1) for each in node.clauses)
    anchor = "it" if needed == 1 else _ordinal(negation.anchor)
    slide, window = negation.slide_ns, negation.window_ns
    start = f"from {anchor}"
    if slide:
        start = f"from {duration_text(slide)} {'before' if slide < 0 else 'after'} {anchor}"
    if negation.absolute or needed == 1:
        return (
            f"{start} on, for {duration_text(window)}"
            if window
            else f"{start.removeprefix('from ')}"
        )
    if not window and not slide and not negation.anchor:
        return "between the first and the last of them"
    longer = f" and {duration_text(window)} longer" if window > 0 else ""
    longer = longer or (f" less {duration_text(window)}" if window < 0 else "")
    return f"{start} on, for as long as the match lasted{longer}"


def _ordinal(anchor: int) -> str:
    names = ("the first", "the second", "the third")
    return f"{names[anchor]} of them" if anchor < len(names) else f"thing {anchor + 1}"
