"""A rule: its conditions, its meaning, and its treatment."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from steward.model.finding import Severity
from steward.model.rules.node import RuleNode, SourceLocation
from steward.model.site import Mode
from steward.model.treatment import Treatment

__all__ = ["Application", "Mode", "Rule", "RuleSeverity"]

_WASTE = ("-waste", "-inefficiency")  # suffix of categories of rules about waste


class RuleSeverity(IntEnum):
    """Severity, in the numbers of rule files: 0 is worst."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 2
    LOW = 3
    INFO = 4

    @property
    def word(self) -> str:
        """The name of the severity."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A program that a rule applies to."""

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

    id: str  # `cre.id`: its public name
    key: str  # `metadata.id`
    hash: str  # `metadata.hash`: changes with the text of the rule
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
        """Return the severity of findings: waste by the category, otherwise by the rule's severity.

        The treatment does not change the severity; only lending needs waste.
        """
        lends = self.treatment is not None and self.treatment.action == "lend"
        if lends or self.category.endswith(_WASTE):
            return Severity.WASTE
        return Severity.FAULT if self.severity <= RuleSeverity.MEDIUM else Severity.NOTE
