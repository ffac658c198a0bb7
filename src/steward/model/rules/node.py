"""Nodes of rules: sets and sequences of terms or of other nodes, with negations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from steward.model.rules.term import Extract, MetricTerm, Term

__all__ = ["Clause", "Negation", "RuleNode", "SourceLocation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A place in a rule file, counted from 1."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One condition, which must occur `count` times."""

    what: Term | MetricTerm | RuleNode
    count: int = 1
    extracts: tuple[Extract, ...] = ()
    distinct: str = ""  # an extract; each of its values counts once
    place: SourceLocation = field(default=SourceLocation(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """A condition that must not occur around a match: see `docs/rules/language.md` for the window.

    From `t[anchor] + slide`, as long as `window`, and as the match itself unless `absolute`.
    """

    what: Term | MetricTerm | RuleNode
    window_ns: int = 0
    slide_ns: int = 0
    anchor: int = 0
    absolute: bool = False
    place: SourceLocation = field(default=SourceLocation(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleNode:
    """A set (in any order) or a sequence (in this order) within a window.

    A leaf has a `source` and terms; a node above has other nodes and no source. Metric terms may
    stand in either: their source is the telemetry.
    """

    kind: Literal["set", "sequence"]
    clauses: tuple[Clause, ...]
    negations: tuple[Negation, ...] = ()
    window_ns: int = 0  # 0: a set of one condition
    source: str = ""
    origin: bool = False  # this leaf is the origin and gives the time
    correlations: tuple[str, ...] = ()  # join attributes: `host`, `gpu`, an extract
    place: SourceLocation = field(default=SourceLocation(), compare=False)

    @property
    def is_leaf(self) -> bool:
        """Whether it reads lines or series itself."""
        return not any(isinstance(each.what, RuleNode) for each in self.clauses)
