"""What a rule waits for, in words."""

from __future__ import annotations

from collections.abc import Iterator

from steward.model.rules.node import Clause, Negation, RuleNode
from steward.model.rules.term import MetricTerm, Term

__all__ = ["long", "waits_for"]

MOST_DEEP = 16  # as deep as rules may be
_KINDS = {"value": "a line with", "regex": "a line that matches", "jq": "a line for which jq says"}


def waits_for(node: RuleNode, *, deep: int = 0) -> Iterator[tuple[int, str]]:
    """Give sentences with how far each is indented: a node, its conditions, what denies it."""
    yield deep, _heading(node)
    if deep >= MOST_DEEP:
        return
    for clause in node.clauses:
        yield from _condition(clause, deep + 1)
    for negation in node.negations:
        yield from _denial(negation, deep + 1)


def long(ns: int) -> str:
    """Say a duration as people do.

    >>> long(90 * 10**9), long(3600 * 10**9), long(1_500_000)
    ('90 s', '1 h', '1.5 ms')
    """
    for size, word in ((3600 * 10**9, "h"), (60 * 10**9, "min")):
        if ns >= size and not ns % size:
            return f"{ns // size} {word}"
    return f"{ns / 1e9:g} s" if ns >= 10**9 else f"{ns / 1e6:g} ms"


def _heading(node: RuleNode) -> str:
    many = len(node.clauses) > 1 or any(clause.count > 1 for clause in node.clauses)
    order = "in this order" if node.kind == "sequence" else "in any order"
    parts = [f"all of these, {order}" if many else "this"]
    if node.window_ns:
        parts.append(f"within {long(node.window_ns)}")
    if node.source:
        parts.append(f"in {node.source}")
    if node.correlations:
        parts.append(f"with the same {', '.join(node.correlations)}")
    return ", ".join(parts)


def _condition(clause: Clause, deep: int) -> Iterator[tuple[int, str]]:
    times = f", {clause.count} times" if clause.count > 1 else ""
    if isinstance(clause.what, RuleNode):
        if times:
            yield deep, f"the following{times}"
        yield from waits_for(clause.what, deep=deep)
    else:
        yield deep, _said(clause.what) + times


def _denial(negation: Negation, deep: int) -> Iterator[tuple[int, str]]:
    window = f" within {long(negation.window_ns)}" if negation.window_ns else ""
    if isinstance(negation.what, RuleNode):
        yield deep, f"unless{window} of it"
        yield from waits_for(negation.what, deep=deep + 1)
    else:
        yield deep, f"unless{window} there is {_said(negation.what)}"


def _said(what: Term | MetricTerm) -> str:
    if isinstance(what, Term):
        return f"{_KINDS[what.kind]} {what.text}"
    held = f" for {long(round(what.for_s * 1e9))}" if what.for_s else ""
    return f"series with {' '.join(what.expr.split())}{held}"
