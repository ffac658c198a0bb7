"""Terms: tests of one line, extracts, and conditions on series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Extract", "MetricTerm", "Term"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A test of one line. Equal terms are one test: equality is same kind and same text."""

    kind: Literal["value", "regex", "jq"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """A value read from a matching line, so that conditions can be joined on it."""

    name: str
    kind: Literal["regex", "jq"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTerm:
    """A condition on series, per entity: it occurs when it has held for `for_s` seconds.

    It occurs once, and again only after it has not held in between.
    """

    expr: str  # PromQL
    interval_s: float = 0.0  # evaluation interval; 0: at every sample
    for_s: float = 0.0
    source: str = ""
    origin: bool = False  # this condition is the origin and gives the time
