"""When units failed, when they were in service, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["FailureHistory", "Floats", "Ints"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Events and stays as columns; units and places are numbers.

    A stay is a time in service at one place. `unit_places[name][unit]` never changes,
    `stay_places[name][stay]` does with each stay; -1 is unknown.
    """

    units: tuple[str, ...]
    event_s: Floats  # ordered
    event_unit: Ints
    stay_unit: Ints
    stay_from_s: Floats
    stay_to_s: Floats
    unit_places: Mapping[str, Ints]
    stay_places: Mapping[str, Ints]
    basis: str  # how units and exposure were found, in words
    kinds: tuple[str, ...] = ("failure",)
    event_kind: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # empty: all the first

    @property
    def from_s(self) -> float:
        """Return when the record of failures begins."""
        return float(self.event_s[0])

    @property
    def to_s(self) -> float:
        """Return when it ends: later than that nothing is known."""
        return float(max(self.event_s[-1], self.stay_to_s.max()))

    def exposure_s(self, from_s: float, to_s: float) -> Floats:
        """Return how long each unit was in service between two times."""
        inside = np.minimum(self.stay_to_s, to_s) - np.maximum(self.stay_from_s, from_s)
        spent_s = np.bincount(self.stay_unit, np.clip(inside, 0.0, None), len(self.units))
        return spent_s.astype(np.float64)  # without a stay the counts would be whole numbers

    def of_kind(self, kind: str) -> Ints:
        """Return the places of all events of a kind."""
        if not len(self.event_kind):
            return np.arange(len(self.event_s)) if kind in self.kinds else np.zeros(0, np.int64)
        return np.flatnonzero(self.event_kind == self.kinds.index(kind))

    def in_service(self, t_s: float) -> Ints:
        """Return the units that are in service at a time."""
        here = (self.stay_from_s <= t_s) & (self.stay_to_s > t_s)
        return np.unique(self.stay_unit[here])
