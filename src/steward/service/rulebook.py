"""The rules of a site beside what the journal says of them: what pages and programs are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.model.rules import RuleSeverity, RuleStanding, RuleState, RuleStats

__all__ = ["RuleRow", "rule_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: how it stands, and how it did."""

    standing: RuleStanding
    stats: RuleStats

    @property
    def id(self) -> str:
        """What people call it."""
        return self.standing.id

    @property
    def title(self) -> str:
        """What it is about, in a few words."""
        rule = self.standing.rule
        return rule.title if rule is not None else ""

    @property
    def severity(self) -> RuleSeverity | None:
        """How bad it is; None where its file could not be read."""
        rule = self.standing.rule
        return rule.severity if rule is not None else None


def rule_rows(standings: Sequence[RuleStanding], stats: Iterable[RuleStats]) -> tuple[RuleRow, ...]:
    """Put both together: faulty ones first, then those that matched last, then the rest by id."""
    by_rule = {each.rule: each for each in stats}
    rows = [
        RuleRow(standing=each, stats=by_rule.get(each.id, RuleStats(rule=each.id)))
        for each in standings
    ]
    return tuple(sorted(rows, key=_order))


def _order(row: RuleRow) -> tuple[bool, float, str]:
    newest = row.stats.last_s if row.stats.last_s is not None else float("-inf")
    return (row.standing.state is not RuleState.FAULTY, -newest, row.id)
