"""What every wire format is decoded into: series known by their bytes, and samples in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["WireLimits", "WireSamples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """How much one message may hold. Senders of good will stay far below."""

    body_bytes: int = 32 * 2**20  # after unpacking
    samples: int = 250_000
    series: int = 100_000
    labels: int = 64  # of one series
    label_bytes: int = 4096  # of one series, names and values together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WireSamples:
    """One message. Series `i` is named by the bytes `buffer[starts[i]:ends[i]]`.

    A value that is missing is NaN. `skipped` counts values that were decoded but are not kept.
    """

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    series: NDArray[np.int64]  # of each sample
    t_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    skipped: Mapping[str, int] = field(default_factory=dict)

    def key(self, series: int) -> bytes:
        """Return the bytes that name a series."""
        return self.buffer[self.starts[series] : self.ends[series]].tobytes()
