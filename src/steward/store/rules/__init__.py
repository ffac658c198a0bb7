"""Rule files: from YAML to `Rule` values, with all faults at once and where they are.

Belongs here: the language of rule files, and its parser. Does not: compiling patterns and matching
lines (`decide.rules`); packages of rules (`store.packages`).
"""

from __future__ import annotations

from steward.store.rules.faults import RuleFault, RuleFaults
from steward.store.rules.files import (
    SUFFIXES,
    Parsed,
    examine_rules,
    examine_text,
    parse_rules,
    read_rules,
)
from steward.store.rules.language.schema import rule_schema

__all__ = [
    "SUFFIXES",
    "Parsed",
    "RuleFault",
    "RuleFaults",
    "examine_rules",
    "examine_text",
    "parse_rules",
    "read_rules",
    "rule_schema",
]
