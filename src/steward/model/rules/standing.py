"""State of a rule at a site: whether it runs, and its statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from steward.model.rules.node import SourceLocation
from steward.model.rules.rule import Rule

__all__ = ["RuleStanding", "RuleState", "RuleStats"]


class RuleState(Enum):
    """Whether a rule runs."""

    ON = "on"
    OFF = "off"  # by the configuration
    FAULTY = "faulty"  # it cannot run


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStanding:
    """One rule of a site. `rule` is None where its file could not be read."""

    id: str  # of the rule, or of its file where the id is unknown
    state: RuleState
    rule: Rule | None = None
    pack: str = ""  # the folder or package that it came with
    why: str = ""  # reason if off or faulty
    place: SourceLocation = field(default=SourceLocation())


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStats:
    """Statistics of one rule from the journal.

    `weight` is the estimated share of its judged findings that were right; it lies
    between `low` and `high` with a probability of 80 %, so that it is above `high` in one of ten.
    """

    rule: str
    fired: int = 0  # matches
    findings: int = 0
    confirmed: int = 0
    dismissed: int = 0
    decisions: int = 0
    refused: int = 0  # by a person
    undone: int = 0
    met: int = 0  # effect checks that met the rule's promise
    missed: int = 0
    weight: float = 0.5
    low: float = 0.0
    high: float = 1.0
    judged: int = 0
    retire: bool = False  # very likely more often wrong than right
    last_s: float | None = None  # when it last matched
    history: tuple[tuple[float, int], ...] = ()  # matches by stretches of ten minutes, oldest first
