"""Models of an application's log run time: laws that carry on beyond the runs, and refinements.

A law extrapolates (a power law, a sum of work terms). A refinement learns what a law leaves over,
and is near nothing far away from the runs. Each keeps its state as numbers and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.applications.features import FeatureRows
from steward.learn.estimators.applications.kernel import KernelFit
from steward.learn.estimators.applications.trees import TreeSum

__all__ = ["ENOUGH_FULL", "POOL", "LogModel", "pool", "restored_model"]

Floats = NDArray[np.float64]
ENOUGH_FULL = 12  # full-scale runs, for products of features, and to be judged on them alone
ENOUGH_FOR_TREES = 40  # runs
LEAST_LOG_S = -14.0  # a microsecond


class LogModel(Protocol):
    """Learns logarithms of times (or bytes) from features."""

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self: ...

    def predict(self, rows: FeatureRows) -> Floats: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> Self: ...


class PowerLaw:
    """Ridge regression on the features, or on them with their squares and products.

    The penalty is the one with the least error when each run is left out in turn.
    """

    def __init__(self, degree: int) -> None:
        self._degree = degree

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        columns = self._columns(rows)
        self._mean, self._deviation = columns.mean(axis=0), columns.std(axis=0)
        share = weight / weight.sum()
        root = np.sqrt(share)[:, None]
        a = self._standard(columns)
        self._center = share @ a
        self._level = float(share @ y)
        u, s, v = np.linalg.svd((a - self._center) * root, full_matrices=False)
        target = (y - self._level) * root[:, 0]
        inner = u.T @ target
        best = np.inf
        for penalty in np.logspace(-7.0, 1.0, 17):
            kept = s**2 / (s**2 + penalty)
            left = target - u @ (kept * inner)
            freedom = np.maximum(1.0 - (u**2) @ kept - share, 1e-3)
            error = float(np.sum((left / freedom) ** 2))
            if error < best:
                best, self._slope = error, v.T @ (s / (s**2 + penalty) * inner)
        return self

    def predict(self, rows: FeatureRows) -> Floats:
        a = self._standard(self._columns(rows)) - self._center
        found: Floats = self._level + a @ self._slope
        return found

    def _columns(self, rows: FeatureRows) -> Floats:
        x, full = rows.x, rows.full[:, None]
        if self._degree == 1:
            return np.hstack([x, full])
        i, j = np.triu_indices(x.shape[1])
        return np.hstack([x, full, x[:, i] * x[:, j]])

    def _standard(self, columns: Floats) -> Floats:
        moves = self._deviation > 1e-9
        scaled = (columns - self._mean) / np.where(moves, self._deviation, 1.0)
        found: Floats = np.where(moves, scaled, 0.0)
        return found

    def state(self) -> dict[str, Any]:
        return {
            "mean": self._mean, "deviation": self._deviation, "center": self._center,
            "slope": self._slope, "level": self._level,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._mean, self._deviation = state["mean"], state["deviation"]
        self._center, self._slope = state["center"], state["slope"]
        self._level = float(state["level"])
        return self


class WorkSum:
    """Time as a sum of work terms, each at a cost of its own that is not below 0.

    Fitted on the logarithm by Gauss-Newton steps with robust weights. Each combination of levels
    (machine, solver, …) has costs of its own, drawn towards those of all runs.
    """

    drawn = 0.5  # how much, against the runs of a cell
    steps = 12
    near = 0.05  # log errors below this count by their square, larger ones by their size

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        self._all = self._solved(rows.work, y, weight, None)
        cells = range(int(rows.cell.max()) + 1)
        self._costs = np.array([self._all] * len(cells))
        for cell in cells:
            mine = rows.cell == cell
            if len(cells) > 1 and mine.any():
                self._costs[cell] = self._solved(rows.work[mine], y[mine], weight[mine], self._all)
        return self

    def _solved(self, work: Floats, y: Floats, weight: Floats, prior: Floats | None) -> Floats:
        from scipy.optimize import nnls  # noqa: PLC0415 - heavy

        root = np.sqrt(weight)
        costs = prior
        if costs is None:
            scaled = work / np.exp(y)[:, None]
            costs = np.asarray(nnls(scaled * root[:, None], root)[0])
        scale = np.maximum(costs, 1e-3 * costs.max()) + 1e-300
        for step in range(self.steps):
            sums = np.maximum(work @ costs, np.exp(LEAST_LOG_S))
            left = y - np.log(sums)
            slope = work / sums[:, None]
            robust = root / np.sqrt(np.maximum(np.abs(left), self.near))
            a = slope * robust[:, None]
            b = (left + slope @ costs) * robust
            if prior is not None:
                a = np.vstack([a, self.drawn * np.diag(1.0 / scale)])
                b = np.concatenate([b, self.drawn * prior / scale])
            found = np.asarray(nnls(a, b)[0])
            costs = found if step < 3 else 0.5 * (costs + found)
        return costs

    def predict(self, rows: FeatureRows) -> Floats:
        known = (rows.cell >= 0) & (rows.cell < len(self._costs))
        costs = np.where(known[:, None], self._costs[np.where(known, rows.cell, 0)], self._all)
        sums = np.sum(rows.work * costs, axis=1)
        found: Floats = np.log(np.maximum(sums, np.exp(LEAST_LOG_S)))
        return found

    def state(self) -> dict[str, Any]:
        return {"all": self._all, "costs": self._costs}

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._all, self._costs = state["all"], state["costs"]
        return self


class WorkLaw:
    """Time as a sum of work terms, each times factors of the run's features.

    log time = log of the sum over terms: work x exp(cost + features x (shared + the term's own)).
    Features move all terms alike sooner than one alone: that is how much each part is drawn to 0.
    """

    cost_spread = 3.0  # prior deviations, in log time
    shared_spread = 0.7
    own_spread = 0.3
    step_spread = 0.2  # between downsized runs and full scale
    near = 2.0  # errors beyond so many deviations count by their size, not their square

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        from scipy.optimize import minimize  # noqa: PLC0415 - heavy

        log_work, z = np.log(rows.work), self._factors(rows)
        terms, width = log_work.shape[1], z.shape[1]
        spread = np.concatenate(
            [
                np.full(terms, self.cost_spread),
                self._spreads(width, self.shared_spread),
                np.tile(self._spreads(width, self.own_spread), terms),
            ]
        )
        start = np.zeros(len(spread))
        level = float(np.median(y)) - np.log(terms)
        noise = 0.3
        for _ in range(3):
            found = minimize(
                self._loss, start, args=(log_work, z, y - level, weight, spread, noise),
                jac=True, method="L-BFGS-B", options={"maxiter": 150},
            )  # fmt: skip
            start = found.x
            left = y - level - self._sums(start, log_work, z)[0]
            noise = float(np.clip(np.median(np.abs(left)) / 0.6745, 0.03, 0.5))
        self._at, self._level = start, level
        return self

    def _loss(  # noqa: PLR0913, PLR0917 - what the minimiser hands on
        self, at: Floats, log_work: Floats, z: Floats, y: Floats, weight: Floats, spread: Floats,
        noise: float,
    ) -> tuple[float, Floats]:  # fmt: skip
        total, share = self._sums(at, log_work, z)
        left = (y - total) / noise
        soft = np.sqrt(1.0 + (left / self.near) ** 2)
        value = float(np.sum(weight * self.near**2 * (soft - 1.0)))
        value += 0.5 * float(np.sum((at / spread) ** 2))
        pull = -(weight * left / soft / noise)[:, None] * share
        slope = np.concatenate([pull.sum(axis=0), z.T @ pull.sum(axis=1), (pull.T @ z).ravel()])
        return value, slope + at / spread**2

    @staticmethod
    def _sums(at: Floats, log_work: Floats, z: Floats) -> tuple[Floats, Floats]:
        """Return log of the sums, and what share each term has of them."""
        terms, width = log_work.shape[1], z.shape[1]
        shared = z @ at[terms : terms + width]
        own = z @ at[terms + width :].reshape(terms, width).T
        parts = log_work + at[:terms] + shared[:, None] + own
        most = parts.max(axis=1, keepdims=True)
        raised = np.exp(parts - most)
        total = raised.sum(axis=1, keepdims=True)
        found: Floats = (most + np.log(total))[:, 0]
        return found, raised / total

    def _spreads(self, width: int, spread: float) -> Floats:
        found = np.full(width, spread)
        found[-1] = min(spread, self.step_spread)
        return found

    @staticmethod
    def _factors(rows: FeatureRows) -> Floats:
        return np.hstack([rows.x, rows.full[:, None]])

    def predict(self, rows: FeatureRows) -> Floats:
        total, _ = self._sums(self._at, np.log(rows.work), self._factors(rows))
        found: Floats = total + self._level
        return found

    def state(self) -> dict[str, Any]:
        return {"at": self._at, "level": self._level}

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._at, self._level = state["at"], float(state["level"])
        return self


class Boosted:
    """Boosted trees, each a small step towards the absolute error's minimum."""

    trees = 120

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415 - heavy

        offset = float(np.median(y))
        made = GradientBoostingRegressor(
            loss="absolute_error", init="zero", n_estimators=self.trees, learning_rate=0.1,
            max_depth=None, max_leaf_nodes=12, min_samples_leaf=max(1, min(5, len(y) // 10)),
            subsample=0.7, random_state=0,
        )  # fmt: skip
        made.fit(_tree_columns(rows), y - offset, sample_weight=weight)
        trees = [each.tree_ for each in made.estimators_[:, 0]]
        self._sum = TreeSum.of_trees(trees, weight=made.learning_rate, offset=offset)
        return self

    def predict(self, rows: FeatureRows) -> Floats:
        return self._sum.predict(_tree_columns(rows))

    def state(self) -> dict[str, Any]:
        return self._sum.state()

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._sum = TreeSum(state)
        return self


class Forest(Boosted):
    """Randomised trees that pass through the runs, averaged."""

    trees = 60

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 - heavy

        made = ExtraTreesRegressor(self.trees, random_state=0, n_jobs=1)
        made.fit(_tree_columns(rows), y, sample_weight=weight)
        trees = [each.tree_ for each in made.estimators_]
        self._sum = TreeSum.of_trees(trees, weight=1.0 / self.trees)
        return self


class Refined:
    """A law, and a model of what it leaves over."""

    def __init__(self, law: LogModel, rest: LogModel) -> None:
        self._law, self._rest = law, rest

    def fit(self, rows: FeatureRows, y: Floats, weight: Floats) -> Self:
        self._law.fit(rows, y, weight)
        self._rest.fit(rows, y - self._law.predict(rows), weight)
        return self

    def predict(self, rows: FeatureRows) -> Floats:
        return self._law.predict(rows) + self._rest.predict(rows)

    def state(self) -> dict[str, Any]:
        return {"law": self._law.state(), "rest": self._rest.state()}

    def restore(self, state: Mapping[str, Any]) -> Self:
        self._law.restore(state["law"])
        self._rest.restore(state["rest"])
        return self


POOL: Mapping[str, Callable[[], LogModel]] = {
    "work terms": WorkSum,
    "work terms with factors": WorkLaw,
    "work terms with factors and a Gaussian process": lambda: Refined(WorkLaw(), KernelFit()),
    "work terms with factors and a forest": lambda: Refined(WorkLaw(), Forest()),
    "power law": lambda: PowerLaw(1),
    "power law with products": lambda: PowerLaw(2),
    "work terms and a power law": lambda: Refined(WorkSum(), PowerLaw(1)),
    "work terms and boosted trees": lambda: Refined(WorkSum(), Boosted()),
    "work terms and a forest": lambda: Refined(WorkSum(), Forest()),
    "work terms and a Gaussian process": lambda: Refined(WorkSum(), KernelFit()),
    "power law with products and boosted trees": lambda: Refined(PowerLaw(2), Boosted()),
}


def pool(*, runs: int, full_runs: int) -> list[str]:
    """Return the models worth trying: products of features go astray where little is known."""
    return [
        name
        for name in POOL
        if (full_runs >= ENOUGH_FULL or "products" not in name)
        and (runs >= ENOUGH_FOR_TREES or not name.endswith(("trees", "forest")))
    ]


def restored_model(name: str, state: Mapping[str, Any]) -> LogModel:
    """Return a model of the pool as it was saved."""
    return POOL[name]().restore(state)


def _tree_columns(rows: FeatureRows) -> Floats:
    return np.hstack([rows.x, np.log(rows.work)])
