"""What is wrong with recorded telemetry, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

__all__ = ["Flaw", "FlawSeverity", "QualityReport"]


class FlawSeverity(IntEnum):
    """How much a flaw can mislead: worth knowing, wrong in places, wrong throughout."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """The severity's name in reports."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One thing that is not as it seems. `entity` is `*` where all of the kind `of` have it."""

    kind: str
    entity: str
    metric: str
    severity: FlawSeverity
    meaning: str
    hint: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    of: str = ""  # the kind of entity: node, gpu, disk, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityReport:
    """All flaws of a folder, worst first, and what was looked at."""

    flaws: tuple[Flaw, ...]
    files: int
    rows: int
    entities: int
    metrics: int
    from_s: float | None
    to_s: float | None
    notes: tuple[str, ...] = ()
