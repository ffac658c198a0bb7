"""The newest findings of each severity, and how long each has lasted."""

from __future__ import annotations

from collections import OrderedDict

from steward.model.finding import Finding, Recurrence, Severity
from steward.model.identity import FindingId

__all__ = ["FindingSummary"]


class FindingSummary:
    """Keeps `keep` findings per severity: a thousand wasted hours never push out one fault."""

    def __init__(self, keep: int = 500) -> None:
        self._keep = keep
        self._kept: dict[Severity, OrderedDict[FindingId, Finding]] = {
            severity: OrderedDict() for severity in Severity
        }
        self._last_s: dict[FindingId, float] = {}

    def add(self, value: Finding | Recurrence) -> None:
        """Add a finding, or a later match of one that is kept."""
        if isinstance(value, Recurrence):
            if value.finding in self._last_s:
                self._last_s[value.finding] = max(self._last_s[value.finding], value.t_s)
            return
        kept = self._kept[value.severity]
        kept[value.id] = value
        self._last_s[value.id] = value.t_s
        while len(kept) > self._keep:
            dropped, _ = kept.popitem(last=False)
            self._last_s.pop(dropped, None)

    @property
    def last_s(self) -> dict[FindingId, float]:
        """When each kept finding was last seen."""
        return dict(self._last_s)

    def newest(self) -> list[Finding]:
        """Return the kept findings, newest first."""
        kept = [finding for each in self._kept.values() for finding in reversed(each.values())]
        return sorted(kept, key=lambda each: each.t_s, reverse=True)

    def gravest(self, limit: int) -> list[Finding]:
        """Return the most severe findings first, and of those that lasted longest."""
        ranks = list(Severity)

        def weight(finding: Finding) -> tuple[int, float, float]:
            lasted_s = self._last_s[finding.id] - finding.since_s
            return ranks.index(finding.severity), lasted_s, finding.t_s

        return sorted(self.newest(), key=weight, reverse=True)[:limit]
