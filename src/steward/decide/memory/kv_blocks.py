"""Which prompt blocks are worth keeping near a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.kv_tiers import KvView

__all__ = ["KeepRecent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRecent:
    """Keeps what was used last (LRU). All values are alike: ties go by the last use."""

    name: str = "lru"
    every_s: float = 1e9

    def values(self, view: KvView) -> NDArray[np.float64]:
        """Return nothing to choose by but the last use."""
        return np.zeros(len(view.last_s))
