"""What was read of one process: blocks of its memory, where they are and whether they are used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["MemorySnapshot"]

Rows = NDArray[np.int64]


def _none() -> Rows:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemorySnapshot:
    """Blocks by address; counts are pages. `used` is since the last look.

    `problem` says why nothing could be read: the process has ended, or may not be looked at.
    """

    t_s: float
    pid: int
    started_s: float
    name: str
    start: Rows = field(default_factory=_none)
    end: Rows = field(default_factory=_none)
    present: Rows = field(default_factory=_none)
    swapped: Rows = field(default_factory=_none)
    used: Rows = field(default_factory=_none)
    huge: Rows = field(default_factory=_none)
    looked: NDArray[np.bool_] | None = None  # which blocks are new in this look; None: all
    tracked_share: float = 0.0  # of blocks whose written pages are told
    page_bytes: int = 4096
    swap_free_bytes: int = 0
    major_faults: int = 0  # since the process started: pages that were read from swap or a file
    problem: str = ""

    @property
    def process(self) -> str:
        """Return what names the process beyond the life of its number."""
        return f"{self.pid}@{self.started_s:.0f}"

    @property
    def near_bytes(self) -> int:
        """Return how much is in memory."""
        return int(self.present.sum()) * self.page_bytes

    @property
    def far_bytes(self) -> int:
        """Return how much is in swap."""
        return int(self.swapped.sum()) * self.page_bytes
