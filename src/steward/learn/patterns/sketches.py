"""How the values of a metric are distributed, in bounded memory, the same for any partition.

Exact while there are at most `limit` different values. Beyond it, the low bits of the values'
float32 form are dropped, one at a time, until at most `limit` buckets are left. A part never needs
more bits dropped than the whole, so the result depends on the values alone, not on the order of
merging: any partition gives the same bytes. Each bucket knows its least and greatest true value,
so that ties (many windows of exactly 0 or 100 %) stay visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIMIT", "Sketch", "merge_all", "merge_sketches", "sketch_of"]

LIMIT = 4096  # buckets
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Buckets in rising order: how many values, the least and the greatest of them."""

    counts: NDArray[np.int64]
    least: Floats
    greatest: Floats
    shift: int = 0  # bits dropped
    limit: int = LIMIT

    @property
    def total(self) -> int:
        """How many values there were."""
        return int(self.counts.sum())

    def quantile(self, share: float) -> float:
        """Return a value that `share` of all are at or below; NaN if there are none."""
        if not len(self.counts):
            return float("nan")
        running = np.cumsum(self.counts)
        place = int(np.searchsorted(running, share * running[-1], side="left"))
        place = min(place, len(running) - 1)
        return float(self.least[place]) if share < 0.5 else float(self.greatest[place])

    @property
    def same(self) -> bool:
        """Whether there is one value at most."""
        return not len(self.counts) or bool(self.least[0] == self.greatest[-1])

    def as_record(self) -> dict[str, Any]:
        """Return the figures of a report."""
        names = {"min": 0.0, "q05": 0.05, "q50": 0.5, "q95": 0.95, "max": 1.0}
        return {name: self.quantile(share) for name, share in names.items()}


def sketch_of(values: Floats, *, limit: int = LIMIT) -> Sketch:
    """Return the sketch of some values; NaN is no value."""
    known = np.sort(values[~np.isnan(values)].astype(np.float32)) + np.float32(0.0)  # no -0
    first = np.flatnonzero(np.concatenate([[True], known[1:] != known[:-1]])[: len(known)])
    distinct = known[first]
    counts = np.diff(np.append(first, len(known))).astype(np.int64)
    empty = Sketch(counts=counts, least=distinct, greatest=distinct, limit=limit)
    return _collapsed(empty)


def merge_sketches(one: Sketch, other: Sketch) -> Sketch:
    """Return the sketch of the values of both."""
    limit = min(one.limit, other.limit)
    least = np.concatenate([one.least, other.least])
    order = np.argsort(least, kind="stable")
    united = Sketch(
        counts=np.concatenate([one.counts, other.counts])[order],
        least=least[order],
        greatest=np.concatenate([one.greatest, other.greatest])[order],
        shift=max(one.shift, other.shift),
        limit=limit,
    )
    return _collapsed(_joined(united))


def merge_all(sketches: list[Sketch]) -> Sketch:
    """Return the sketch of the values of all."""
    return reduce(merge_sketches, sketches)


def _collapsed(sketch: Sketch) -> Sketch:
    shift = sketch.shift
    keys = _keys(sketch.least)
    while len(keys) > sketch.limit and shift < 31:
        distinct = 1 + np.count_nonzero(np.diff(keys >> np.uint32(shift)))
        if distinct <= sketch.limit:
            break
        shift += 1
    dropped = Sketch(
        counts=sketch.counts,
        least=sketch.least,
        greatest=sketch.greatest,
        shift=shift,
        limit=sketch.limit,
    )
    return sketch if shift == sketch.shift else _joined(dropped)


def _joined(sketch: Sketch) -> Sketch:
    """Join neighbours that are one bucket; they are in rising order."""
    if not len(sketch.counts):
        return sketch
    keys = _keys(sketch.least) >> np.uint32(sketch.shift)
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return Sketch(
        counts=np.add.reduceat(sketch.counts, first),
        least=np.minimum.reduceat(sketch.least, first),
        greatest=np.maximum.reduceat(sketch.greatest, first),
        shift=sketch.shift,
        limit=sketch.limit,
    )


def _keys(values: Floats) -> NDArray[np.uint32]:
    """Return integers in the order of the values."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    sign = np.uint32(0x80000000)
    return np.where(bits & sign, ~bits, bits | sign)
