"""Where prompt blocks go that leave a GPU: its host, and remote memory; and what chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["KvPolicy", "KvTiers", "KvView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTiers:
    """How many prefix blocks fit on each instance's host and in remote memory, and how far away."""

    host_blocks: int = 0
    remote_blocks: int = 0
    host_s: float = 0.0  # until one block is back on the GPU
    remote_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KvView:
    """Prompt blocks by row: requests that had each since the last look, and when one last did."""

    t_s: float
    uses: NDArray[np.int64]
    last_s: NDArray[np.float64]  # -inf: never


class KvPolicy(Protocol):
    """Says which prompt blocks are worth keeping: those with the least value are dropped first."""

    @property
    def name(self) -> str: ...

    @property
    def every_s(self) -> float: ...

    def values(self, view: KvView) -> NDArray[np.float64]:
        """Return the value of each block until the next call."""
        ...
