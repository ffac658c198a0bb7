"""Messages of other machines: durable before they are acknowledged, with their sender.

Belongs here: durability, order, accepting each body once, the list of agents. Does not: wire
formats (`receive`), what an agent packs (`agent`), or HTTP (`service/api/agents.py`).
"""

from __future__ import annotations

from steward.observe.intake.agent_registry import SILENT_AFTER_S, AgentRegistry, AgentState
from steward.observe.intake.intake import Decoder, Intake, IntakeStats, StreamPosition

__all__ = [
    "SILENT_AFTER_S",
    "AgentRegistry",
    "AgentState",
    "Decoder",
    "Intake",
    "IntakeStats",
    "StreamPosition",
]
