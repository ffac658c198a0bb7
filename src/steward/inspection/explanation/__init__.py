"""Explanations for rule authors: what a rule matches, and why it fires on a log or does not.

Belongs here: descriptions of rules, and trials of a rule with one demand less. Does not: matching,
and output formats.
"""

from __future__ import annotations

from steward.inspection.explanation.description import (
    describe_conditions,
    describe_detector,
    describe_rule,
    duration_text,
)
from steward.inspection.explanation.trials import ConditionSummary, Reason, RuleExplanation, explain

__all__ = [
    "ConditionSummary",
    "Reason",
    "RuleExplanation",
    "describe_conditions",
    "describe_detector",
    "describe_rule",
    "duration_text",
    "explain",
]
