"""What a rule waits for, and why it fires on a log or does not: for those who write rules.

Belongs here: words for rules, and trying a rule with one demand less. Does not: matching, and how
it is shown.
"""

from __future__ import annotations

from steward.inspection.explanation.description import condition_words, lasting, rule_words
from steward.inspection.explanation.trials import ConditionSummary, Reason, RuleExplanation, explain

__all__ = [
    "ConditionSummary",
    "Reason",
    "RuleExplanation",
    "condition_words",
    "explain",
    "lasting",
    "rule_words",
]
