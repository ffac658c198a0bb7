"""Statistics of rules from the journal: how often they matched, and how often they were right.

Belongs here: counts and weights of rules. Does not: matching rules (`decide.rules`), or use of the
weights (`act.guard`).
"""

from __future__ import annotations

from steward.learn.rules.tally import KEPT_SHARE, KINDS, RuleTally, rule_stats

__all__ = ["KEPT_SHARE", "KINDS", "RuleTally", "rule_stats"]
