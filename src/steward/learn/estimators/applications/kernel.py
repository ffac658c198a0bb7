"""A Gaussian process: it refines a law, and measures how much is known where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.applications.features import FeatureRows

__all__ = ["KernelFit"]

Floats = NDArray[np.float64]
MOST_FITTED = 150  # runs, for the lengths
MOST_KEPT = 800  # runs, for predictions


class KernelFit:
    """Squared-exponential with a length per feature, by maximum likelihood; 0 far from the runs.

    Of many runs some are kept: the heaviest first, then evenly.
    """

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        kept = _some(weight, MOST_KEPT)
        fitted = _some(weight, MOST_FITTED)
        self._length, self._amplitude, self._noise = _likely(rows.x[fitted], y[fitted])
        self._x = rows.x[kept]
        k = self._kernel(self._x, self._x) + self._noise * np.eye(len(kept))
        self._alpha = np.linalg.solve(k, y[kept])
        return self

    def predict(self, rows: FeatureRows) -> Floats:
        found: Floats = self._kernel(rows.x, self._x) @ self._alpha
        return found

    def _kernel(self, a: Floats, b: Floats) -> Floats:
        return self._amplitude * _similarity(a, b, self._length)

    def state(self) -> dict[str, Any]:
        return {
            "length": self._length, "amplitude": self._amplitude, "noise": self._noise,
            "x": self._x, "alpha": self._alpha,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._length, self._x, self._alpha = state["length"], state["x"], state["alpha"]
        self._amplitude, self._noise = float(state["amplitude"]), float(state["noise"])
        return self


def _similarity(a: Floats, b: Floats, length: Floats) -> Floats:
    a, b = a / length, b / length
    apart = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2.0 * a @ b.T
    found: Floats = np.exp(-0.5 * np.maximum(apart, 0.0))
    return found


def _some(weight: Floats, most: int) -> NDArray[np.int64]:
    """Return indices of the heaviest rows, and of the others as many, evenly, as there is room."""
    if len(weight) <= most:
        return np.arange(len(weight))
    heavy = np.flatnonzero(weight > weight.min())
    rest = np.flatnonzero(weight == weight.min())
    heavy = heavy[np.linspace(0, len(heavy) - 1, min(len(heavy), most // 2)).astype(np.int64)]
    rest = rest[np.linspace(0, len(rest) - 1, most - len(heavy)).astype(np.int64)]
    return np.unique(np.concatenate([heavy, rest]))


def _likely(x: Floats, y: Floats) -> tuple[Floats, float, float]:
    """Return lengths, amplitude and noise with the greatest likelihood, from one start."""
    from scipy.optimize import minimize  # noqa: PLC0415 - heavy

    d, spread = x.shape[1], max(float(np.mean(y**2)), 1e-8)
    square = [(x[:, i, None] - x[:, i]) ** 2 for i in range(d)]

    def cost(at: Floats) -> tuple[float, Floats]:
        length, amplitude, noise = np.exp(at[:d]), np.exp(at[d]), np.exp(at[d + 1])
        similar = amplitude * _similarity(x, x, length)
        k = similar + (noise + 1e-9 * spread) * np.eye(len(y))
        try:
            root = np.linalg.cholesky(k)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(d + 2)
        inverse = np.linalg.inv(root)
        inverse = inverse.T @ inverse
        alpha = inverse @ y
        value = 0.5 * float(y @ alpha) + float(np.sum(np.log(np.diag(root))))
        outer = np.outer(alpha, alpha) - inverse
        weighted = outer * similar
        slope = [-0.5 * np.sum(weighted * each) / length[i] ** 2 for i, each in enumerate(square)]
        slope += [-0.5 * np.sum(weighted), -0.5 * noise * np.trace(outer)]
        # a weak pull of the lengths towards 2 keeps features that do not matter from drifting
        value += float(0.05 * np.sum((at[:d] - np.log(2.0)) ** 2))
        return value, np.array(slope) + np.r_[0.1 * (at[:d] - np.log(2.0)), 0.0, 0.0]

    start = np.r_[np.full(d, np.log(2.0)), np.log(0.7 * spread), np.log(0.1 * spread)]
    bounds = [(np.log(0.1), np.log(100.0))] * d
    bounds += [(np.log(1e-3 * spread), np.log(1e2 * spread))]
    bounds += [(np.log(1e-5 * spread), np.log(2.0 * spread))]
    found = minimize(
        cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}
    )
    return np.exp(found.x[:d]), float(np.exp(found.x[d])), float(np.exp(found.x[d + 1]))
