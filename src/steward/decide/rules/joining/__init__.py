"""Nodes over other nodes: several sources, series and lines, joined on shared attributes.

Belongs here: splitting rules into plans, join attributes, and passing matches to parent nodes. Does
not: matching itself (`matching`).
"""

from __future__ import annotations

from steward.decide.rules.joining.attributes import KNOWN_ATTRIBUTES, attributes_of
from steward.decide.rules.joining.match_queue import MatchQueue
from steward.decide.rules.joining.node_match import NodeMatch
from steward.decide.rules.joining.plan import (
    Join,
    LogLeaf,
    MetricLeaf,
    ParentLink,
    Plans,
    plan,
    slots_of,
)

__all__ = [
    "KNOWN_ATTRIBUTES",
    "Join",
    "LogLeaf",
    "MatchQueue",
    "MetricLeaf",
    "NodeMatch",
    "ParentLink",
    "Plans",
    "attributes_of",
    "plan",
    "slots_of",
]
