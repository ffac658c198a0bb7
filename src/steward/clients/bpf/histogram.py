"""Histograms of durations: two buckets per power of two, filled in the kernel, read here.

A bucket is found without a division: the place of the highest bit and the bit after it. Between
edges a quantile is interpolated, so it is wrong by a sixth of itself at most and mostly far less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.assembler import Code, Register

__all__ = ["BUCKETS", "EDGES_S", "count_into", "quantiles_s"]

R2, R3, R4 = Register.R2, Register.R3, Register.R4

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


def count_into(code: Code, *, record: Register, offset: int, ns: Register, one: Register) -> None:
    """Add one to the bucket of `ns`, in a histogram at `offset` of `record`. Uses R2, R3, R4."""
    found = code.fresh("bucket")
    code.move(R2, ns)
    code.compute(R2, ">>", _UNIT_BITS)
    code.move(R3, 0)
    code.jump_if(R2, "==", 0, found)
    fits = code.fresh("fits")
    code.jump_if(R2, "<", 1 << _OCTAVES, fits)
    code.move(R2, (1 << _OCTAVES) - 1)
    code.label(fits)
    code.move(R4, R2)
    for bits in (16, 8, 4, 2, 1):
        low = code.fresh("low")
        code.jump_if(R4, "<", 1 << bits, low)
        code.compute(R4, ">>", bits)
        code.compute(R3, "+", bits)
        code.label(low)
    _half(code)
    code.label(found)
    code.jump_if(R3, ">", BUCKETS - 1, f"{found}.end")  # never; the verifier wants to see it
    code.compute(R3, "<<", 3)
    code.compute(R3, "+", record)
    code.add_to(R3, offset, one)
    code.label(f"{found}.end")


def _half(code: Code) -> None:
    """Turn the value in R2 and its highest bit's place in R3 into the number of a bucket, in R3."""
    whole = code.fresh("whole")
    code.move(R4, 0)
    code.jump_if(R3, "==", 0, whole)
    code.compute(R3, "-", 1)
    code.move(R4, R2)
    code.compute(R4, ">>", R3)
    code.compute(R4, "&", 1)
    code.compute(R3, "+", 1)
    code.label(whole)
    code.compute(R3, "<<", 1)
    code.compute(R3, "+", R4)
    code.compute(R3, "+", 1)


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
