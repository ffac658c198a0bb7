"""Which pages move between tiers of memory. Add a policy: its file and one line in the table.

`benchmarks/memory.py` says what each is worth. Policies look at a `MemoryView` and are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from steward.decide.memory.indigo import Indigo
from steward.decide.memory.move_by_cost import MoveByCost
from steward.decide.memory.on_touch import (
    AutoNuma,
    AutoNumaTiering,
    Lfu,
    Lru,
    Nothing,
    Tpp,
    TwoQueue,
)
from steward.model.memory.view import PagePolicy

__all__ = ["PAGE_POLICIES"]

PAGE_POLICIES: Mapping[str, Callable[..., PagePolicy]] = MappingProxyType(
    {
        "autonuma": AutoNuma,
        "autonuma-tiering": AutoNumaTiering,
        "indigo": Indigo,
        "lfu": Lfu,
        "lru": Lru,
        "move-by-cost": MoveByCost,
        "none": Nothing,
        "tpp": Tpp,
        "two-queue": TwoQueue,
    }
)
