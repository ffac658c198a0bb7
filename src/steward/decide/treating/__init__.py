"""Treating: from what a rule found to what it would do about it.

Belongs here: policies that turn the block `steward` of a rule into decisions. Does not: who gets
which GPUs (`decide.scheduling`), or whether it may be done (`act.guard`).
"""

from __future__ import annotations

from steward.decide.treating.treat import Treat
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["TREATING"]

TREATING: dict[str, type[Policy[ClusterView]]] = {"treat": Treat}
