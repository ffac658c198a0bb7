"""Checks of a rule beyond its fields: slots, anchors, joins, and the origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from steward.model.rules import Clause, MetricTerm, RuleNode, SourceLocation, Term
from steward.store.rules.faults import Diagnostics
from steward.store.rules.language.fields import ALIASES, ATTRIBUTES
from steward.store.rules.mapping_reader import shown

__all__ = [
    "anchor_faults",
    "correlation_faults",
    "expanded",
    "slot_faults",
    "with_known_joins",
    "with_origin",
]

MAX_SLOTS = 64


def expanded(node: RuleNode) -> int:
    """Return the number of events in a match, each repetition counted."""
    return sum(each.count for each in node.clauses)


def slot_faults(node: RuleNode, diagnostics: Diagnostics) -> None:
    """Report more distinct slots than an engine supports."""
    terms = [each.what for each in node.clauses if isinstance(each.what, Term)]
    others = len(node.clauses) - len(terms)
    distinct = len(set(terms)) if node.kind == "set" else len(list(groupby(terms)))
    if distinct + others > MAX_SLOTS:
        problem = f"{distinct + others} different things; at most {MAX_SLOTS} in one {node.kind}"
        diagnostics.fault(node.place, problem, "an alternation in one `regex` is one thing")


def anchor_faults(node: RuleNode, diagnostics: Diagnostics) -> None:
    """Report anchors that are not an event of the match."""
    events = [first for each in node.clauses for first in (True, *[False] * (each.count - 1))]
    for each in node.negations if events else ():
        if each.anchor >= len(events):
            problem = f"`anchor: {each.anchor}`, but a match has {len(events)} events"
            diagnostics.fault(each.place, problem, f"count from 0: 0 to {len(events) - 1}")
        elif each.anchor > 1:
            said = f"`anchor: {each.anchor}`: other tools accept 0 and 1 only"
            diagnostics.note(each.place, said)
        elif node.kind == "sequence" and not events[each.anchor]:
            said = f"`anchor: {each.anchor}` is a repetition, which other tools refuse"
            diagnostics.note(each.place, said)


def correlation_faults(node: RuleNode, place: SourceLocation, diagnostics: Diagnostics) -> None:
    """Report joins on names that nothing provides."""
    possible = sorted({*ATTRIBUTES, *_extract_names(node)})
    for name in node.correlations:
        if name not in possible and name not in ALIASES:
            problem = f"nothing gives '{shown(name)}' to join on; known: {', '.join(possible)}"
            hint = diagnostics.near(name, possible) or "name an `extract` of one of its terms"
            diagnostics.ignored(place, problem, hint)


def with_known_joins(node: RuleNode) -> RuleNode:
    """Return the node with canonical join names, without the unknown ones reported before."""
    extracted = set(_extract_names(node))
    names = [each if each in extracted else ALIASES.get(each, each) for each in node.correlations]
    known = tuple(each for each in names if each in extracted or each in ATTRIBUTES)
    return replace(node, correlations=known)


def _extract_names(node: RuleNode) -> Iterator[str]:
    for each in node.clauses:
        yield from (extract.name for extract in each.extracts)
        if isinstance(each.what, RuleNode):
            yield from _extract_names(each.what)


def with_origin(root: RuleNode, diagnostics: Diagnostics) -> RuleNode:
    """Return the rule's root with exactly one origin leaf, or report the fault."""
    leaves = list(_leaves(root))
    chosen = [place for place, is_origin in leaves if is_origin]
    if len(leaves) == 1 and not chosen:
        return _marked(root)
    if len(chosen) > 1:
        first, *others = chosen
        for place in others:
            problem = f"a second `origin: true`; the first is in line {first.line}"
            diagnostics.fault(place, problem, "one part of a rule takes the blame")
    elif not chosen:
        places = ", ".join(str(place.line) for place, _ in leaves)
        problem = f"a rule over {len(leaves)} sources needs one `origin: true`"
        diagnostics.fault(root.place, problem, f"under the `event` of lines {places}, at one")
    return root


def _leaves(node: RuleNode) -> Iterator[tuple[SourceLocation, bool]]:
    """Yield each possible origin, and whether it is marked as one. Negations cannot be origins."""
    if node.is_leaf:  # lines of one source, or series
        series = [each.place for each in node.clauses if _is_origin(each)]
        yield from ((place, True) for place in series)
        if not series:
            yield node.place, node.origin
        return
    for each in node.clauses:
        if isinstance(each.what, RuleNode):
            yield from _leaves(each.what)
        elif isinstance(each.what, MetricTerm):
            yield each.place, _is_origin(each)


def _is_origin(clause: Clause) -> bool:
    return isinstance(clause.what, MetricTerm) and clause.what.origin


def _marked(node: RuleNode) -> RuleNode:
    if node.is_leaf:
        return replace(node, origin=True)
    return replace(node, clauses=tuple(_marked_clause(each) for each in node.clauses))


def _marked_clause(clause: Clause) -> Clause:
    inside = clause.what
    return replace(clause, what=_marked(inside)) if isinstance(inside, RuleNode) else clause
