"""Classifiers of windows that an ensemble is chosen from: each gives log-probabilities by kind.

A member sees standardised windows; those of `ON_RUNS` learn from one row per run, since windows of
one run are nearly copies, which a forest takes for evidence. It is fitted and used inside one
process only: what is stored of a classifier is the features that it learnt from (`classifier.py`),
never a fitted object.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEMBERS", "ON_RUNS", "Scaler", "log_softmax"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Member = Callable[[Floats, Ints, int], Callable[[Floats], Floats]]

LEAST_PROBABILITY = 0.02  # no single window rules a kind out
CLIP = 3.0  # standard deviations: what lies further out is as far
MARGIN_SCALE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaler:
    """Standardise features; those that differ much among runs of one kind weigh less."""

    mean: Floats
    deviation: Floats
    weight: Floats

    @classmethod
    def of(cls, windows: Floats, run: Ints, kind_of_run: Ints) -> Self:
        """Return the scaler of windows, where `run` and `kind_of_run` point to runs and kinds."""
        known = ~np.isnan(windows)
        count = np.maximum(known.sum(axis=0), 1)
        filled = np.where(known, windows, 0.0)
        mean = filled.sum(axis=0) / count
        spread = np.where(known, windows - mean, 0.0)
        deviation = np.sqrt((spread**2).sum(axis=0) / count) + 0.02
        scaled = np.clip(spread / deviation, -CLIP, CLIP)
        rows = np.array([scaled[run == each].mean(axis=0) for each in range(len(kind_of_run))])
        within = [
            rows[kind_of_run == kind].var(axis=0, ddof=1)
            for kind in np.unique(kind_of_run)
            if (kind_of_run == kind).sum() > 1
        ]
        weight = (np.mean(within, axis=0) + 0.03) ** -0.5 if within else np.ones(windows.shape[1])
        weight /= np.sqrt((weight**2).mean())
        return cls(mean=mean, deviation=deviation, weight=weight)

    def apply(self, windows: Floats) -> Floats:
        """Return standardised windows; what was not measured lies at the mean."""
        scaled = np.clip((windows - self.mean) / self.deviation, -CLIP, CLIP)
        found: Floats = np.nan_to_num(scaled) * self.weight
        return found


def log_softmax(scores: Floats) -> Floats:
    """Return normalised log-probabilities along the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


def _support_vectors(rows: Floats, labels: Ints, kinds: int) -> Callable[[Floats], Floats]:
    from sklearn.svm import SVC  # noqa: PLC0415 - heavy

    made = SVC(C=10.0, gamma=1.0 / rows.shape[1], decision_function_shape="ovr")
    made.fit(rows, labels)

    def log_probabilities(new: Floats) -> Floats:
        margins = made.decision_function(new)
        if margins.ndim == 1:
            margins = np.column_stack((-margins, margins))
        return _spread(made.classes_, np.exp(log_softmax(MARGIN_SCALE * margins)), kinds)

    return log_probabilities


def _discriminants(rows: Floats, labels: Ints, kinds: int) -> Callable[[Floats], Floats]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: PLC0415 - heavy

    there, count = np.unique(labels, return_counts=True)
    lone = np.isin(labels, there[count == 1])  # a spread needs two rows
    rows, labels = np.concatenate([rows, rows[lone]]), np.concatenate([labels, labels[lone]])
    made = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=0.3, priors=np.full(len(there), 1.0 / len(there))
    )
    return _fitted(made, rows, labels, kinds)


def _forest(rows: Floats, labels: Ints, kinds: int) -> Callable[[Floats], Floats]:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 - heavy

    made = RandomForestClassifier(
        200, max_features=0.3, class_weight="balanced", random_state=0, n_jobs=1
    )
    return _fitted(made, rows, labels, kinds)


def _boosting(rows: Floats, labels: Ints, kinds: int) -> Callable[[Floats], Floats]:
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - heavy

    made = HistGradientBoostingClassifier(
        max_iter=25, max_leaf_nodes=6, learning_rate=0.15, min_samples_leaf=4, random_state=0,
        early_stopping=False, max_bins=63,
    )  # fmt: skip
    return _fitted(made, rows, labels, kinds)


def _fitted(made: Any, rows: Floats, labels: Ints, kinds: int) -> Callable[[Floats], Floats]:  # noqa: ANN401 - scikit-learn's own
    with warnings.catch_warnings():  # one run of each kind is meant
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        made.fit(rows, labels)
    return lambda new: _spread(made.classes_, made.predict_proba(new), kinds)


def _spread(classes: Ints, probabilities: Floats, kinds: int) -> Floats:
    """Return log-probabilities in a column per kind, floored, also of kinds never seen."""
    found = np.zeros((len(probabilities), kinds))
    found[:, classes] = probabilities
    return np.log(found + LEAST_PROBABILITY)


MEMBERS: Mapping[str, Member] = {
    "support vectors": _support_vectors,
    "discriminants": _discriminants,
    "random forest": _forest,
    "forest of runs": _forest,
    "gradient boosting": _boosting,
}
ON_RUNS = frozenset({"forest of runs"})
