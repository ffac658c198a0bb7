"""Names of things. Ids of our own values come from their content: the same cause, the same id."""

from __future__ import annotations

import hashlib
from typing import NewType

__all__ = [
    "DecisionId",
    "FindingId",
    "GpuId",
    "JobId",
    "NodeId",
    "TenantId",
    "stable_id",
]

NodeId = NewType("NodeId", str)
GpuId = NewType("GpuId", str)
JobId = NewType("JobId", str)
TenantId = NewType("TenantId", str)
FindingId = NewType("FindingId", str)
DecisionId = NewType("DecisionId", str)


def stable_id(prefix: str, *parts: object) -> str:
    """Return a short id that depends on the parts alone, so that a replay gives the same ids.

    >>> stable_id("f", "rule", "n1/gpu0", 12.0) == stable_id("f", "rule", "n1/gpu0", 12.0)
    True
    """
    text = "\x1f".join(str(part) for part in parts)
    return f"{prefix}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
