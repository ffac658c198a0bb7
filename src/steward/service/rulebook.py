"""The rules of a site with their statistics from the journal, for pages and API."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.config.rulebook import rule_files
from steward.config.settings import Settings
from steward.model.rules import RuleSeverity, RuleStanding, RuleState, RuleStats

__all__ = ["RuleFiles", "RuleRow", "rule_rows"]

LOOKED_EVERY_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: how it stands, and how it did."""

    standing: RuleStanding
    stats: RuleStats

    @property
    def id(self) -> str:
        """Its id."""
        return self.standing.id

    @property
    def title(self) -> str:
        """Its title."""
        rule = self.standing.rule
        return rule.title if rule is not None else ""

    @property
    def severity(self) -> RuleSeverity | None:
        """How bad it is; None where its file could not be read."""
        rule = self.standing.rule
        return rule.severity if rule is not None else None


class RuleFiles:
    """The files that rules are in: whether they are as they were when steward began."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._then = self._now()
        self._changed: tuple[str, ...] = ()
        self._looked_s = time.monotonic()

    def changed(self) -> tuple[str, ...]:
        """Return the files that came, went or changed; the disk is read now and then."""
        if time.monotonic() - self._looked_s >= LOOKED_EVERY_S:
            now = self._now()
            every = sorted(self._then.keys() | now.keys())
            self._changed = tuple(each for each in every if self._then.get(each) != now.get(each))
            self._looked_s = time.monotonic()
        return self._changed

    def _now(self) -> dict[str, tuple[int, int]]:
        return rule_files(self._settings.rules, self._settings.store.path)


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
