"""What the operators of jq cost, by how tightly they bind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from steward.decide.rules.terms.programs.cost import STEP, Cost, plus, scaled, times
from steward.decide.rules.terms.programs.functions import compared
from steward.decide.rules.terms.programs.refusing import refuse

__all__ = ["LEVELS", "OPERATORS", "either_of", "product", "put_together"]

LEVELS = (
    ("|",),
    (",",),
    ("//",),
    ("or",),
    ("and",),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")


def _logical(one: Cost, other: Cost) -> Cost:
    """Return the cost of a truth value for each pair: the second is asked after the first."""
    many = times(one.many, other.many)
    work = plus(one.work, times(one.many, plus(other.work, STEP)))
    return Cost(many=many, size=scaled(many, 5), work=work, scalar=True)


def put_together(one: Cost, other: Cost) -> Cost:
    """Return the cost of making one value of each pair."""
    cross = one.across(other)
    # To a text or a number nothing else can be added.
    scalar = one.scalar or other.scalar
    work = plus(cross.work, cross.size)
    return Cost(many=cross.many, size=cross.size, work=work, scalar=scalar)


def either_of(test: Cost, one: Cost, other: Cost) -> Cost:
    """Return the cost of a choice, for each outcome of the test."""
    both = one.instead(other)
    return Cost(
        many=times(test.many, both.many),
        size=times(test.many, both.size),
        work=plus(test.work, times(test.many, both.work)),
        scalar=both.scalar,
    )


def product(one: Cost, other: Cost, texts: tuple[str, str]) -> Cost:
    """Return the cost of multiplying, which repeats a text: one number has to be written out."""
    factors = [float(each) for each in texts if _NUMBER.fullmatch(each)]
    if not factors:
        hint = "`*` repeats texts: write one of the two numbers out"
        refuse("`*` between values that are not known, which may grow without end", hint=hint)
    cost = put_together(one, other)
    size = scaled(cost.size, max(*factors, 1))
    return Cost(many=cost.many, size=size, work=plus(cost.work, size), scalar=cost.scalar)


def _difference(one: Cost, other: Cost) -> Cost:
    cost = put_together(one, other)
    if cost.scalar:
        return cost
    return cost.working(scaled(times(one.size, other.size), 0.15))


def _quotient(one: Cost, other: Cost) -> Cost:
    """Return the cost of dividing numbers, or of cutting a text into pieces."""
    cross = one.across(other)
    work = plus(cross.work, scaled(cross.size, 10))
    return Cost(many=cross.many, size=scaled(cross.size, 4), work=work)


OPERATORS: Mapping[str, Callable[[Cost, Cost], Cost]] = {
    "|": Cost.then,
    ",": Cost.beside,
    "//": Cost.instead,
    "or": _logical,
    "and": _logical,
    "+": put_together,
    "-": _difference,
    "/": _quotient,
    "%": put_together,
    **dict.fromkeys(LEVELS[5], compared),
}
