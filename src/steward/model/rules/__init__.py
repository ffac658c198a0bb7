"""Model of rules: rules, log blocks and hits.

Belongs here: frozen values that parser, engine, packages and pages share. Does not: reading files
(`store`, `observe`), matching (`decide.rules`), or checking rule files (`store.rules`).
"""

from __future__ import annotations

from steward.model.rules.block import LogBlock, Stream
from steward.model.rules.hit import Hit, Item
from steward.model.rules.node import Clause, Negation, RuleNode, SourceLocation
from steward.model.rules.rule import Application, Mode, Rule, RuleSeverity
from steward.model.rules.standing import RuleStanding, RuleState, RuleStats
from steward.model.rules.syslog import syslog_host
from steward.model.rules.term import Extract, MetricTerm, Term
from steward.model.treatment import Effect, Treatment

__all__ = [
    "Application",
    "Clause",
    "Effect",
    "Extract",
    "Hit",
    "Item",
    "LogBlock",
    "MetricTerm",
    "Mode",
    "Negation",
    "Rule",
    "RuleNode",
    "RuleSeverity",
    "RuleStanding",
    "RuleState",
    "RuleStats",
    "SourceLocation",
    "Stream",
    "Term",
    "Treatment",
    "syslog_host",
]
