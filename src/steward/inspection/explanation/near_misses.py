"""The demands of a rule, one by one: what it would be like without each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from steward.inspection.explanation.description import lasting, what_words
from steward.model.rules import Clause, Hit, MetricTerm, Negation, Rule, RuleNode

__all__ = ["RuleDemand", "beginning", "demands"]

_WIDER = (2, 10, 100)  # times the window, before any distance will do
_ANY_NS = 100 * 365 * 86400 * 10**9
_SHORTER = (0.75, 0.5, 0.25, 0.0)  # of how long a series has to be so


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDemand:
    """Something that a rule asks for, and the rule that does not."""

    kind: str
    without: Rule
    words: Callable[[Hit], str]
    forbidden: Negation | None = None
    lasts: bool = True  # whether the time that is forbidden grows with the match

    def denies(self, hit: Hit, t_ns: int) -> bool:
        """Whether something at that time is where nothing may happen around a match."""
        if self.forbidden is None or self.forbidden.anchor >= len(hit.items):
            return False
        times = sorted(item.t_ns for item in hit.items)
        start = times[self.forbidden.anchor] + self.forbidden.slide_ns
        width = self.forbidden.window_ns + (times[-1] - times[0] if self.lasts else 0)
        return start <= t_ns <= start + max(width, 0)


def demands(rule: Rule) -> list[RuleDemand]:
    """Return what a rule asks for beyond its conditions, each with the rule without it."""
    return [*_negations(rule), *_windows(rule), *_orders(rule), *_joins(rule), *_lengths(rule),
            *_counts(rule)]  # fmt: skip


def beginning(rule: Rule, count: int) -> Rule:
    """Return a rule that asks for the first conditions only, and forbids nothing."""
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

            told = f"it is denied by what must not happen (line {place.line} of the rule)"
            yield RuleDemand(
                kind=f"negation {place}",
                without=_with(rule, without),
                words=lambda _hit, told=told: told,  # type: ignore[misc]  # bound now, not later
                forbidden=each,
                lasts=not each.absolute,
            )


def _windows(rule: Rule) -> Iterator[RuleDemand]:
    if not any(node.window_ns for node in _nodes(rule.root)):
        return
    asked = max(node.window_ns for node in _nodes(rule.root))
    for factor in (*_WIDER, 0):

        def wider(node: RuleNode, factor: int = factor) -> RuleNode:
            wide = node.window_ns * factor if factor else _ANY_NS
            return replace(node, window_ns=wide if node.window_ns else 0)

        told = f"the lines are too far apart: the window is {lasting(asked)}"
        yield RuleDemand(kind="window", without=_with(rule, wider), words=lambda _hit, t=told: t)  # type: ignore[misc]


def _orders(rule: Rule) -> Iterator[RuleDemand]:
    if not any(node.kind == "sequence" for node in _nodes(rule.root)):
        return

    def unordered(node: RuleNode) -> RuleNode:
        return replace(node, kind="set")

    told = "the lines come in another order than the rule asks for"
    yield RuleDemand(kind="order", without=_with(rule, unordered), words=lambda _hit: told)


def _joins(rule: Rule) -> Iterator[RuleDemand]:
    names = [name for node in _nodes(rule.root) for name in node.correlations]
    if not names:
        return

    def apart(node: RuleNode) -> RuleNode:
        return replace(node, correlations=())

    def told(hit: Hit) -> str:
        values = [", ".join(f"{k}={v}" for k, v in each.extracted.items()) for each in hit.items]
        known = "; ".join(dict.fromkeys(value for value in values if value)) or "none was found"
        return f"the lines do not share the same {' and '.join(dict.fromkeys(names))} ({known})"

    yield RuleDemand(kind="join", without=_with(rule, apart), words=told)


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

        held = lasting(round(every[0].for_s * share * 1e9))
        told = f"no series was so for long enough: {what_words(every[0])}; for {held} one was"
        yield RuleDemand(kind="for", without=_with(rule, shorter), words=lambda _hit, t=told: t)  # type: ignore[misc]


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

    told = f"it does not happen often enough: the rule asks for {most} times"
    yield RuleDemand(kind="count", without=_with(rule, once), words=lambda _hit: told)
