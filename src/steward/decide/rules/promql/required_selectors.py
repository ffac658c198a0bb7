"""Selectors without which an expression has no value, whatever the others select."""

from __future__ import annotations

from steward.decide.rules.promql.expression import (
    Aggregate,
    Binary,
    Expression,
    FunctionCall,
    Selector,
)
from steward.decide.rules.promql.functions import ABSENCE

__all__ = ["required_selectors"]

_NONE: frozenset[Selector] = frozenset()


def required_selectors(expression: Expression) -> frozenset[Selector]:
    """Return the selectors that all have to select something if the expression is to hold.

    Most sites have some of the metrics that rules know: the terms of the others need not be
    evaluated.
    """
    match expression:
        case Selector():
            return frozenset([expression])
        case Aggregate(of=of):
            return required_selectors(of)
        case FunctionCall(name=name, args=args) if name not in ABSENCE:
            return _NONE.union(*map(required_selectors, args))
        case Binary():
            return _of_both(expression)
    return _NONE


def _of_both(how: Binary) -> frozenset[Selector]:
    left, right = required_selectors(how.left), required_selectors(how.right)
    if how.op == "unless":
        return left
    return left & right if how.op == "or" else left | right
