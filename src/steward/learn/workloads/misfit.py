"""How strange a run is to every kind that is known: the score to abstain by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steward.learn.workloads.members import Scaler
from steward.learn.workloads.signatures import MOST_LOST, points

__all__ = ["Misfit"]

Floats = NDArray[np.float64]

DISTANCE_WEIGHT = 0.05  # distance tells little, and decides where no points are lost


class Misfit:
    """Score runs by the points that the best signature loses, and by their distance to runs seen.

    A kind without a signature loses points as its nearest run is further away than runs of one
    kind usually are from each other.
    """

    def __init__(self, whole: Floats, labels: NDArray[np.str_], kinds: Sequence[str]) -> None:
        places = np.array([list(kinds).index(str(each)) for each in labels])
        self._kinds, self._places = tuple(kinds), places
        self.scaler = Scaler.of(whole, np.arange(len(whole)), places)
        self._seen = self.scaler.apply(whole)
        apart = _distances(self._seen, self._seen)
        np.fill_diagonal(apart, np.inf)
        same = np.where(places[:, None] == places[None, :], apart, np.inf).min(axis=1)
        nearest = apart.min(axis=1)
        usual = same[np.isfinite(same)] if np.isfinite(same).any() else nearest[nearest < np.inf]
        self._usual = max(float(np.median(usual)), 1e-6) if len(usual) else 1.0
        self._calibration = np.sort(self._scores(whole, apart))

    def lost(self, features: Floats) -> Floats:
        """Return the points that each row loses with each kind."""
        return self._lost(features, self._nearest(self._apart(features)))

    def scores(self, whole: Floats) -> Floats:
        """Return a score for each run: the higher, the less any known kind fits."""
        return self._scores(whole, self._apart(whole))

    def p_values(self, scores: Floats) -> Floats:
        """Return the share of the runs learnt from that look at least as strange, conformally.

        Each of these was scored against the others, as a new run is against all of them.
        """
        above = len(self._calibration) - np.searchsorted(self._calibration, scores, side="left")
        return (above + 1.0).astype(np.float64) / (len(self._calibration) + 1.0)

    def _apart(self, features: Floats) -> Floats:
        return _distances(self.scaler.apply(features), self._seen)

    def _nearest(self, apart: Floats) -> Floats:
        """Return how far the nearest run of each kind is."""
        return np.stack(
            [apart[:, self._places == place].min(axis=1) for place in range(len(self._kinds))],
            axis=1,
        )

    def _lost(self, features: Floats, nearest: Floats) -> Floats:
        lost = -points(features, self._kinds)
        beyond = np.minimum(np.maximum(nearest / self._usual - 1.0, 0.0), 2.0) * MOST_LOST
        return np.where(np.isnan(lost), beyond, lost)

    def _scores(self, whole: Floats, apart: Floats) -> Floats:
        nearest = self._nearest(apart)
        closest = np.minimum(nearest.min(axis=1) / self._usual, 5.0)
        found: Floats = self._lost(whole, nearest).min(axis=1) + DISTANCE_WEIGHT * closest
        return found


def _distances(left: Floats, right: Floats) -> Floats:
    """Return root mean square distances between rows."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :]
    product = left @ right.T
    found: Floats = np.sqrt(np.maximum(squares - 2.0 * product, 0.0) / max(left.shape[1], 1))
    return found
