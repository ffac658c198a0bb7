"""Values prompt blocks by how often they are going to be used: the page estimator's own answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.pages.reuse import PageReuse
from steward.model.memory.tiers import MemorySystem, Tier
from steward.model.memory.view import NOWHERE, MemoryView
from steward.model.serving.kv_tiers import KvView

__all__ = ["KvReuse"]


@dataclass(slots=True, kw_only=True)
class KvReuse:
    """Learns from each look which blocks were used again, by how they were used before.

    A look is an epoch of `every_s`. Implements `KvPolicy`.
    """

    every_s: float = 5.0
    name: str = "reuse"
    reuse: PageReuse = field(default_factory=PageReuse)
    _epoch: int = 0
    _idle: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def values(self, view: KvView) -> NDArray[np.float64]:
        """Return the uses that are expected of each block."""
        count = len(view.uses)
        if len(self._idle) != count:
            self._idle = np.zeros(count, np.int32)
        seen = np.isfinite(view.last_s)
        self._idle = np.where(view.uses > 0, 0, self._idle + 1).astype(np.int32)
        tier = np.where(seen, 0, NOWHERE).astype(np.int8)
        system = MemorySystem(tiers=(Tier(name="blocks", latency_s=1.0, pages=count),))
        moment = MemoryView(
            t_s=view.t_s,
            epoch=self._epoch,
            system=system,
            tier=tier,
            count=view.uses.astype(np.int32),
            idle=self._idle,
            touched=np.flatnonzero(view.uses).astype(np.int32),
            used=np.array([int(seen.sum())], np.int64),
        )
        self._epoch += 1
        self.reuse.learn(moment)
        return self.reuse.expected(count).copy()
