"""Histograms of durations: two buckets per power of two, filled in the kernel, read here.

`bucket_of` in `programs/counters.h` finds the bucket: the place of the highest bit and the bit
after it. Between edges a quantile is interpolated, so it is wrong by a sixth of itself at most and
mostly far less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BUCKETS", "EDGES_S", "quantiles_s"]

_UNIT_BITS = 10  # a unit is 1024 ns; shorter than that is the first bucket
_OCTAVES = 24  # up to 17 s; longer is the last bucket
BUCKETS = 1 + 2 * _OCTAVES


def _edges_s() -> NDArray[np.float64]:
    octaves: NDArray[np.float64] = np.repeat(2.0 ** np.arange(_OCTAVES), 2)
    octaves[1::2] *= 1.5
    octaves[1] = 2.0  # one whole unit has no halves
    edges: NDArray[np.float64] = np.concatenate(([0.0], octaves, [2.0**_OCTAVES]))
    edges *= 2**_UNIT_BITS * 1e-9
    return edges


EDGES_S = _edges_s()


def quantiles_s(counts: NDArray[np.float64], shares: tuple[float, ...]) -> NDArray[np.float64]:
    """Return one row per histogram and one column per share; NaN where nothing was counted.

    >>> bool(EDGES_S[11] < quantiles_s(np.eye(1, BUCKETS, 11), (0.5,))[0, 0] < EDGES_S[12])
    True
    """
    below = np.cumsum(counts, axis=1)
    every = below[:, -1:]
    wanted = every * np.array(shares)
    bucket = (below[:, None, :] < wanted[:, :, None]).sum(axis=2)
    rows = np.arange(len(counts))[:, None]
    inside = counts[rows, bucket]
    before = below[rows, bucket] - inside
    part = (wanted - before) / np.maximum(inside, 1.0)
    low = EDGES_S[bucket]
    found: NDArray[np.float64] = low + part * (EDGES_S[bucket + 1] - low)
    found[every[:, 0] == 0] = np.nan
    return found
