"""A rule: what to look for, what it means, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from steward.model.finding import Severity
from steward.model.rules.node import RuleNode, SourceLocation
from steward.model.treatment import Treatment

__all__ = ["Application", "Mode", "Rule", "RuleSeverity"]

_WASTE = ("-waste", "-inefficiency")  # how categories of rules about waste end


class Mode(Enum):
    """How rules are read: `STRICT` as they are meant, `PREQ` as preq runs them."""

    STRICT = "strict"
    PREQ = "preq"


class RuleSeverity(IntEnum):
    """How bad it is, in the numbers that rules are written with: 0 is worst."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 2
    LOW = 3
    INFO = 4

    @property
    def word(self) -> str:
        """The name as people write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A program that a rule is about."""

    name: str = ""
    process_name: str = ""
    process_path: str = ""
    container_name: str = ""
    image_url: str = ""
    repo_url: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of a rule file."""

    id: str  # `cre.id`: what people call it
    key: str  # `metadata.id`
    hash: str  # `metadata.hash`: changes with every word of the rule
    root: RuleNode
    title: str = ""
    severity: RuleSeverity = RuleSeverity.CRITICAL
    category: str = ""
    author: str = ""
    description: str = ""
    cause: str = ""
    impact: str = ""
    mitigation: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    applications: tuple[Application, ...] = ()
    impact_score: int = 0
    mitigation_score: int = 0
    reports: int = 0
    generation: int = 0
    version: str = ""
    treatment: Treatment | None = None
    place: SourceLocation = field(default=SourceLocation(), compare=False)

    @property
    def finding_severity(self) -> Severity:
        """Return how a finding of this rule counts: its category says waste, its severity the rest.

        What the rule does about it says nothing about how bad it is; only lending needs waste.
        """
        lends = self.treatment is not None and self.treatment.action == "lend"
        if lends or self.category.endswith(_WASTE):
            return Severity.WASTE
        return Severity.FAULT if self.severity <= RuleSeverity.MEDIUM else Severity.NOTE
