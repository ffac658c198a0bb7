"""Demands of a rule, each with the rule relaxed by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from steward.inspection.explanation.description import describe_condition, duration_text
from steward.model.rules import Clause, Hit, MetricTerm, Negation, Rule, RuleNode

__all__ = ["RuleDemand", "beginning", "demands"]

_WIDER = (2, 10, 100)  # factors of the window, before it is dropped
_ANY_NS = 100 * 365 * 86400 * 10**9
_SHORTER = (0.75, 0.5, 0.25, 0.0)  # shares of `for`


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDemand:
    """A demand of a rule, and the rule without it."""

    kind: str
    without: Rule
    text: Callable[[Hit], str]
    forbidden: Negation | None = None
    lasts: bool = True  # whether the forbidden window grows with the match

    def denies(self, hit: Hit, t_ns: int) -> bool:
        """Return whether a time lies in the forbidden window around a match."""
        if self.forbidden is None or self.forbidden.anchor >= len(hit.items):
            return False
        times = sorted(item.t_ns for item in hit.items)
        start = times[self.forbidden.anchor] + self.forbidden.slide_ns
        width = self.forbidden.window_ns + (times[-1] - times[0] if self.lasts else 0)
        return start <= t_ns <= start + max(width, 0)


def demands(rule: Rule) -> list[RuleDemand]:
    """Return the demands of a rule beyond its conditions."""
    return [*_negations(rule), *_windows(rule), *_orders(rule), *_joins(rule), *_lengths(rule),
            *_counts(rule)]  # fmt: skip


def beginning(rule: Rule, count: int) -> Rule:
    """Return the rule with its first conditions only, and without negations."""
    root = rule.root
    clauses = root.clauses[:count]
    alone = sum(each.count for each in clauses) == 1
    node = replace(
        root,
        kind="set" if alone else root.kind,
        window_ns=0 if alone else root.window_ns,
        clauses=clauses,
        negations=(),
    )
    return replace(rule, root=node)


def _nodes(node: RuleNode) -> Iterator[RuleNode]:
    yield node
    parts: Sequence[Clause | Negation] = (*node.clauses, *node.negations)
    for each in parts:
        if isinstance(each.what, RuleNode):
            yield from _nodes(each.what)


def _rewritten(node: RuleNode, change: Callable[[RuleNode], RuleNode]) -> RuleNode:
    """Return the tree with every node changed, from the leaves up."""

    def clause(each: Clause) -> Clause:
        return (
            replace(each, what=_rewritten(each.what, change))
            if isinstance(each.what, RuleNode)
            else each
        )

    def negation(each: Negation) -> Negation:
        return (
            replace(each, what=_rewritten(each.what, change))
            if isinstance(each.what, RuleNode)
            else each
        )

    inner = replace(
        node,
        clauses=tuple(clause(each) for each in node.clauses),
        negations=tuple(negation(each) for each in node.negations),
    )
    return change(inner)


def _with(rule: Rule, change: Callable[[RuleNode], RuleNode]) -> Rule:
    return replace(rule, root=_rewritten(rule.root, change))


def _negations(rule: Rule) -> Iterator[RuleDemand]:
    for node in _nodes(rule.root):
        for each in node.negations:
            place = each.place

            def without(inner: RuleNode, forbidden: Negation = each) -> RuleNode:
                kept = tuple(one for one in inner.negations if one.place != forbidden.place)
                return replace(inner, negations=kept)

            text = f"it is denied by what must not happen (line {place.line} of the rule)"
            yield RuleDemand(
                kind=f"negation {place}",
                without=_with(rule, without),
                text=lambda _hit, text=text: text,  # type: ignore[misc]  # bound now, not later
                forbidden=each,
                lasts=not each.absolute,
            )


def _windows(rule: Rule) -> Iterator[RuleDemand]:
    if not any(node.window_ns for node in _nodes(rule.root)):
        return
    window_ns = max(node.window_ns for node in _nodes(rule.root))
    for factor in (*_WIDER, 0):

        def wider(node: RuleNode, factor: int = factor) -> RuleNode:
            wide = node.window_ns * factor if factor else _ANY_NS
            return replace(node, window_ns=wide if node.window_ns else 0)

        text = f"the lines are too far apart: the window is {duration_text(window_ns)}"
        yield RuleDemand(kind="window", without=_with(rule, wider), text=lambda _hit, t=text: t)  # type: ignore[misc]


def _orders(rule: Rule) -> Iterator[RuleDemand]:
    if not any(node.kind == "sequence" for node in _nodes(rule.root)):
        return

    def unordered(node: RuleNode) -> RuleNode:
        return replace(node, kind="set")

    text = "the lines come in another order than the rule asks for"
    yield RuleDemand(kind="order", without=_with(rule, unordered), text=lambda _hit: text)


def _joins(rule: Rule) -> Iterator[RuleDemand]:
    names = [name for node in _nodes(rule.root) for name in node.correlations]
    if not names:
        return

    def apart(node: RuleNode) -> RuleNode:
        return replace(node, correlations=())

    def text(hit: Hit) -> str:
        values = [", ".join(f"{k}={v}" for k, v in each.extracted.items()) for each in hit.items]
        known = "; ".join(dict.fromkeys(value for value in values if value)) or "none was found"
        return f"the lines do not share the same {' and '.join(dict.fromkeys(names))} ({known})"

    yield RuleDemand(kind="join", without=_with(rule, apart), text=text)


def _lengths(rule: Rule) -> Iterator[RuleDemand]:
    every = [
        each.what
        for node in _nodes(rule.root)
        for each in node.clauses
        if isinstance(each.what, MetricTerm) and each.what.for_s
    ]
    if not every:
        return
    for share in _SHORTER:

        def shorter(node: RuleNode, share: float = share) -> RuleNode:
            return replace(node, clauses=tuple(_shortened(each, share) for each in node.clauses))

        held = duration_text(round(every[0].for_s * share * 1e9))
        text = (
            f"no series was so for long enough: {describe_condition(every[0])}; for {held} one was"
        )
        yield RuleDemand(kind="for", without=_with(rule, shorter), text=lambda _hit, t=text: t)  # type: ignore[misc]


def _shortened(clause: Clause, share: float) -> Clause:
    what = clause.what
    if not isinstance(what, MetricTerm):
        return clause
    return replace(clause, what=replace(what, for_s=what.for_s * share))


def _counts(rule: Rule) -> Iterator[RuleDemand]:
    most = max((each.count for node in _nodes(rule.root) for each in node.clauses), default=1)
    if most <= 1:
        return

    def once(node: RuleNode) -> RuleNode:
        return replace(node, clauses=tuple(replace(each, count=1) for each in node.clauses))

    text = f"it does not happen often enough: the rule asks for {most} times"
    yield RuleDemand(kind="count", without=_with(rule, once), text=lambda _hit: text)
