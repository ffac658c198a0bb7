"""What the journal says of rules: how often they matched, and how often they were right.

Belongs here: counting, and what follows for how far a rule is trusted. Does not: matching rules
(`decide.rules`), or what is done with the weight (`act.guard`).
"""

from __future__ import annotations

from steward.learn.rules.tally import KEPT_SHARE, KINDS, RuleTally, rule_stats

__all__ = ["KEPT_SHARE", "KINDS", "RuleTally", "rule_stats"]
