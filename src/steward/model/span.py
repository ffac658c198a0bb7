"""What was going on with an entity for a while: who it belonged to, which run, which phase.

Samples carry no labels. Whatever is known about them, then or later, is a span of their entity;
joining by entity and time says whose they were, also long after they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Span"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`entity` was part of `name` from `from_s` until `to_s`; None means that it still is.

    One id is one span: a later one with the same id replaces it, since ends are learned late.
    """

    id: str
    entity: str  # a trailing `/*` means all that is below it: `n01/*`
    kind: str  # job, run, workload, phase, step
    name: str
    from_s: float
    to_s: float | None = None
    source: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
