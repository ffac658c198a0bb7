"""What has to happen: sets and sequences of terms or of other nodes, and what must not happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from steward.model.rules.term import Extract, MetricTerm, Term

__all__ = ["Clause", "Negation", "RuleNode", "SourceLocation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """Where something is written, counted from 1."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One thing that must happen, `count` times."""

    what: Term | MetricTerm | RuleNode
    count: int = 1
    extracts: tuple[Extract, ...] = ()
    distinct: str = ""  # an extract; repetitions with a value that was counted do not count again
    place: SourceLocation = field(default=SourceLocation(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """One thing that must not happen around a match: see `docs/rules/language.md` for the window.

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
    window_ns: int = 0  # 0: a set of one thing
    source: str = ""
    origin: bool = False  # this leaf is the origin and gives the time
    correlations: tuple[str, ...] = ()  # what all conditions must share: `host`, `gpu`, an extract
    place: SourceLocation = field(default=SourceLocation(), compare=False)

    @property
    def is_leaf(self) -> bool:
        """Whether it looks at lines or series itself."""
        return not any(isinstance(each.what, RuleNode) for each in self.clauses)
