"""Clusters of runs that fit no known kind, each with a name that lasts from fit to fit.

HDBSCAN groups runs in the standardised features. After each fit, clusters are matched to those of
before by what they share of the runs that both know, then by how near their centres are: a
behaviour keeps its name while runs come and go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from steward.learn.workloads.members import Scaler

if TYPE_CHECKING:
    from steward.learn.workloads.classifier import KindClassifier
    from steward.learn.workloads.ensemble import Rows

__all__ = ["Behaviours"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 3  # runs that make a behaviour
MOST_RUNS = 5000  # remembered for matching: the newest
NEAR = 1.0  # centres within one typical deviation of each other may be the same behaviour


class Behaviours:
    """Group runs of unknown behaviour. Names are `behaviour-1`, `behaviour-2`, …, never reused."""

    def __init__(self, scaler: Scaler) -> None:
        self._scaler = scaler
        self._named = 0
        self._centres: dict[str, Floats] = {}
        self._last: dict[str, str] = {}  # run: the behaviour that it was last put into

    @classmethod
    def of_classifier(cls, classifier: KindClassifier) -> Self:
        """Return an empty grouping in the metric that a classifier learnt."""
        return cls(classifier.whole_scaler)

    def assign(self, rows: Rows) -> list[str]:
        """Return the name of the behaviour of each run; empty for one that is like no other."""
        scaled = self._scaler.apply(rows.whole)
        clusters = _clusters(scaled)
        names = self._names(scaled, clusters, rows.runs)
        found = ["" if cluster < 0 else names[int(cluster)] for cluster in clusters]
        for run, name in zip(rows.runs, found, strict=True):
            self._last.pop(run, None)
            if name:
                self._last[run] = name
        while len(self._last) > MOST_RUNS:
            del self._last[next(iter(self._last))]
        return found

    def save_state(self) -> dict[str, Any]:
        """Return names, centres and the runs behind them."""
        return {
            "named": self._named,
            "names": list(self._centres),
            "centres": np.array(list(self._centres.values())),
            "last": dict(self._last),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: clusters of the next fit get their old names."""
        names = [str(each) for each in state["names"]]
        centres = np.asarray(state["centres"], dtype=np.float64)
        if len(names) != len(centres):
            raise ValueError("columns differ in length")
        self._named = int(state["named"])
        self._centres = dict(zip(names, centres, strict=True))
        self._last = {str(run): str(name) for run, name in state["last"].items()}

    def _names(self, scaled: Floats, clusters: Ints, runs: Sequence[str]) -> list[str]:
        """Name the clusters of a fit, keeping the names of those that were there before."""
        count = int(clusters.max(initial=-1)) + 1
        centres = [scaled[clusters == each].mean(axis=0) for each in range(count)]
        old = list(self._centres)
        likeness = np.zeros((count, len(old)))
        for row in range(count):
            members = [self._last.get(runs[int(i)], "") for i in np.flatnonzero(clusters == row)]
            for column, name in enumerate(old):
                apart = float(np.sqrt(((centres[row] - self._centres[name]) ** 2).mean()))
                shared = members.count(name) / len(members)
                likeness[row, column] = shared + max(0.0, 1.0 - apart / NEAR)
        names = [""] * count
        for row, column in zip(*linear_sum_assignment(-likeness), strict=True):
            if likeness[row, column] > 0.25:
                names[int(row)] = old[int(column)]
        for row in range(count):
            if not names[row]:
                self._named += 1
                names[row] = f"behaviour-{self._named}"
            self._centres[names[row]] = centres[row]
        return names


def _clusters(scaled: Floats) -> Ints:
    """Return the cluster of each row, from 0; -1 is like no other."""
    if len(scaled) < FEWEST:
        return np.full(len(scaled), -1)
    from sklearn.cluster import HDBSCAN  # noqa: PLC0415 - heavy

    made = HDBSCAN(min_cluster_size=FEWEST, min_samples=2, allow_single_cluster=False, copy=True)
    found: Ints = made.fit_predict(scaled).astype(np.int64)
    return found
