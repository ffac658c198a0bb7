"""What a rule waits for, in words: for its author, and for whoever reads a finding."""

from __future__ import annotations

from collections.abc import Iterator

from steward.model.rules import Clause, Extract, MetricTerm, Negation, Rule, RuleNode, Term

__all__ = ["condition_words", "effect_words", "lasting", "rule_words", "what_words"]

_UNITS = ((86400 * 10**9, "d"), (3600 * 10**9, "h"), (60 * 10**9, "min"), (10**9, "s"),
          (10**6, "ms"), (10**3, "µs"))  # fmt: skip


def lasting(ns: int) -> str:
    """Write a length of time exactly, in as few units as it needs.

    >>> lasting(90 * 10**9), lasting(0), lasting(250 * 10**6)
    ('1 min 30 s', '0 s', '250 ms')
    """
    parts, left = [], abs(ns)
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts) or "0 s"


def rule_words(rule: Rule) -> list[str]:
    """Return what must happen, what must not, and what is done about it, as indented lines."""
    return [*condition_words(rule), *effect_words(rule)]


def condition_words(rule: Rule) -> list[str]:
    """Return what must happen and what must not, as indented lines."""
    return list(_node(rule.root, "It waits for"))


def what_words(what: Term | MetricTerm | RuleNode) -> str:
    """Return one condition as part of a sentence."""
    if isinstance(what, Term):
        told = {"value": "a line with `{}`", "regex": "a line that fits the pattern `{}`"}
        return told.get(what.kind, "a line of JSON for which jq `{}` holds").format(what.text)
    if isinstance(what, MetricTerm):
        held = f" for {lasting(round(what.for_s * 1e9))}" if what.for_s else ""
        every = f", looked at every {what.interval_s:g} s" if what.interval_s else ""
        return f"a series for which `{what.expr}` holds{held}{every}"
    return f"the {what.kind} below"


def effect_words(rule: Rule) -> Iterator[str]:
    """Return what a rule of optimisation does about what it finds."""
    treatment = rule.treatment
    if treatment is None:
        return
    yield f"Then: {treatment.action}. {treatment.advice}".rstrip()
    if treatment.precondition:
        yield f"  only while `{treatment.precondition}` holds"
    if treatment.effect is not None:
        effect = treatment.effect
        after = lasting(round(treatment.check_after_s * 1e9))
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
    within = f" within {lasting(node.window_ns)}" if node.window_ns else ""
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
    yield f"{pad}{number} {often}{what_words(clause.what)}{differ}"
    for extract in clause.extracts:
        yield f"{pad}   {_extract(extract)}"


def _extract(extract: Extract) -> str:
    return f"which gives `{extract.name}` by {extract.kind} `{extract.text}`"


def _negation(node: RuleNode, negation: Negation, pad: str) -> Iterator[str]:
    when = _when(node, negation)
    if isinstance(negation.what, RuleNode):
        yield from _node(negation.what, f"unless, {when}, there is", pad)
    else:
        yield f"{pad}unless, {when}, there is {what_words(negation.what)}"


def _when(node: RuleNode, negation: Negation) -> str:
    needed = sum(max(each.count, 1) for each in node.clauses)
    anchor = "it" if needed == 1 else _ordinal(negation.anchor)
    slide, window = negation.slide_ns, negation.window_ns
    start = f"from {anchor}"
    if slide:
        start = f"from {lasting(slide)} {'before' if slide < 0 else 'after'} {anchor}"
    if negation.absolute or needed == 1:
        return f"{start} on, for {lasting(window)}" if window else f"{start.removeprefix('from ')}"
    if not window and not slide and not negation.anchor:
        return "between the first and the last of them"
    longer = f" and {lasting(window)} longer" if window > 0 else ""
    longer = longer or (f" less {lasting(window)}" if window < 0 else "")
    return f"{start} on, for as long as the match lasted{longer}"


def _ordinal(anchor: int) -> str:
    names = ("the first", "the second", "the third")
    return f"{names[anchor]} of them" if anchor < len(names) else f"thing {anchor + 1}"
