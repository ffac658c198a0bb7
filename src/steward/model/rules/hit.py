"""A match of a rule with its entries and samples.

A rule can match every line of a log: these are tuples with names, which cost a quarter of what
frozen dataclasses do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["Hit", "Item"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Item(NamedTuple):
    """One item of a match: an entry of a log, or a condition on series that came true."""

    t_ns: int
    text: str
    stream: str = ""  # name of the stream; '' for telemetry
    line: int = 0
    entity: str = ""
    metric: str = ""  # for telemetry: the expression, since when it holds, and its last value
    expr: str = ""
    since_ns: int = 0
    value: float = float("nan")
    extracted: Mapping[str, str] = _NOTHING


class Hit(NamedTuple):
    """One match. `items` are in the order of the rule's clauses, repetitions next to each other."""

    rule: str
    t_ns: int  # of its first item (of the origin, in nested rules)
    fired_ns: int  # when it was certain: after the windows of negations
    items: tuple[Item, ...]
    entity: str = ""
    joined_on: Mapping[str, str] = _NOTHING
