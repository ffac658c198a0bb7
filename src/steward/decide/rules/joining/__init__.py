"""Nodes over other nodes: several sources, series and lines together, joined on what they share.

Belongs here: taking rules apart, what things can be joined on, and handing matches up. Does not:
matching itself (`matching`).
"""

from __future__ import annotations

from steward.decide.rules.joining.attributes import KNOWN_ATTRIBUTES, attributes_of
from steward.decide.rules.joining.board import Board
from steward.decide.rules.joining.plan import Join, Leaf, Plans, Up, Watch, plan, slots_of
from steward.decide.rules.joining.report import Report

__all__ = [
    "KNOWN_ATTRIBUTES",
    "Board",
    "Join",
    "Leaf",
    "Plans",
    "Report",
    "Up",
    "Watch",
    "attributes_of",
    "plan",
    "slots_of",
]
