"""How fast each kind of job runs on each type of GPU: alone, spread out, and two on the same GPUs.

Measured steps per second. NaN is "never measured"; 0 is "does not fit".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ThroughputTable", "throughputs_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Key = tuple[str, int]  # a model and how many GPUs it runs on


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThroughputTable:
    """Rates by kind (a model on so many GPUs) and GPU type, as dense arrays."""

    name: str
    kinds: tuple[Key, ...]
    types: tuple[str, ...]
    reference: str  # the type on which a trace's durations hold
    solo: Floats  # (kinds, types), all GPUs in one server
    spread: Floats  # (kinds, types), GPUs in several servers
    pairs: Floats  # (types, kinds, kinds): the first job's rate beside the second

    def kind_of(self, models: Sequence[str], gpus: Floats) -> Ints:
        """Return each job's row of the table; -1 where its model was never measured.

        A size that was not measured counts as the largest smaller one that was.
        """
        sizes: dict[str, list[tuple[int, int]]] = {}
        for i, (model, size) in enumerate(self.kinds):
            sizes.setdefault(model, []).append((size, i))
        rows = [
            max(((size, i) for size, i in sizes.get(model, ()) if size <= wanted), default=(0, -1))
            for model, wanted in zip(models, gpus, strict=True)
        ]
        return np.array([i for _, i in rows], np.int64)

    def columns_of(self, types: Sequence[str]) -> Ints:
        """Return the table's column for each type name, whatever its case; -1 where none is."""
        place = {name.lower(): j for j, name in enumerate(self.types)}
        return np.array([place.get(name.lower(), -1) for name in types], np.int64)


def throughputs_of(
    name: str,
    *,
    solo: Sequence[tuple[str, str, int, float, bool]],
    pairs: Sequence[tuple[str, Key, Key, float, float]] = (),
    reference: str = "",
) -> ThroughputTable:
    """Build a table from rows: (type, model, GPUs, steps/s, in one server), and pairs of kinds.

    A pair row is (type, kind, other kind, steps/s, other's steps/s); it counts both ways round.

    >>> throughputs_of("t", solo=[("v100", "lm", 1, 4.0, True)]).solo
    array([[4.]])
    """
    kinds = tuple(dict.fromkeys((model, gpus) for _, model, gpus, _, _ in solo))
    types = tuple(dict.fromkeys(kind for kind, *_ in solo))
    row, column = {k: i for i, k in enumerate(kinds)}, {t: j for j, t in enumerate(types)}
    shape = (len(kinds), len(types))
    alone, apart = np.full(shape, np.nan), np.full(shape, np.nan)
    for kind, model, gpus, rate, together in solo:
        (alone if together else apart)[row[model, gpus], column[kind]] = rate
    beside = np.full((len(types), len(kinds), len(kinds)), np.nan)
    for kind, one, other, rate, other_rate in pairs:
        beside[column[kind], row[one], row[other]] = rate
        beside[column[kind], row[other], row[one]] = other_rate
    return ThroughputTable(
        name=name,
        kinds=kinds,
        types=types,
        reference=reference or types[0],
        solo=alone,
        spread=apart,
        pairs=beside,
    )
