"""Syntax tree of a PromQL expression. Equal subexpressions are equal values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Aggregate",
    "Binary",
    "Expression",
    "FunctionCall",
    "LabelMatcher",
    "Number",
    "Selector",
    "walk",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatcher:
    """A condition on one label."""

    label: str
    op: Literal["=", "!=", "=~", "!~"]
    text: str
    at: int = field(default=0, compare=False)  # where it is written, in characters from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number literal."""

    value: float
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Series by name and labels: their newest value, or all of the last `range_ns`."""

    name: str
    matchers: tuple[LabelMatcher, ...] = ()
    range_ns: int = 0
    offset_ns: int = 0
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A function and its arguments."""

    name: str
    args: tuple[Expression, ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One value for several series: those that share the labels of `by`, or all but `without`."""

    op: str
    of: Expression
    parameter: float | None = None
    labels: tuple[str, ...] = ()
    without: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A binary operator and its operands.

    `on` and `ignoring` are the matching labels; both None: all labels. `many` is the side that may
    have several for one of the other (`group_left`: left).
    """

    op: str
    left: Expression
    right: Expression
    as_bool: bool = False
    on: tuple[str, ...] | None = None
    ignoring: tuple[str, ...] | None = None
    many: Literal["", "left", "right"] = ""
    taken: tuple[str, ...] = ()  # labels that the many take from the one
    at: int = field(default=0, compare=False)


Expression = Number | Selector | FunctionCall | Aggregate | Binary


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all its subexpressions."""
    yield expression
    match expression:
        case FunctionCall(args=args):
            inside: tuple[Expression, ...] = args
        case Aggregate(of=of):
            inside = (of,)
        case Binary(left=left, right=right):
            inside = (left, right)
        case _:
            inside = ()
    for each in inside:
        yield from walk(each)
