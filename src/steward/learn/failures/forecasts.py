"""The probability that a unit fails within a time, from what is known of it and its places.

Which units: three models, each unit's own rate, a logistic regression on all rates, and boosted
trees; how much each counts, and whether any does, is chosen on the newest part of what is learnt
from. How many: the level of all units together changes with software, heat and age, so it is
forecast by itself, from the counts of the past with a memory that has proven best so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from steward.learn.failures.panels import Panel

__all__ = ["FailureForecasts", "unit_rates"]

Floats = NDArray[np.float64]
DAY_S = 86_400.0
HALF_LIFE_S = 730 * DAY_S  # of what is learnt from: older panels count less
REFIT_S = 180 * DAY_S
_VALIDATION = 0.3
_MEMORIES_S = tuple(days * DAY_S for days in (20, 45, 90, 180, 365, 100_000))  # of the level
_TRUST = 0.1  # in the likelihoods of memories: counts come in bursts, not independently
_PER_FAILURE = 15  # units without a failure that are learnt from, for each one with
_FEWEST_GOOD = 20_000
# How much each counts, and the log loss that it has to save: with few failures all learn chance.
# What is less than 1 in all counts for no difference between units.
_MIXES = tuple(
    (own / 4, linear / 4, trees / 4)
    for linear in range(5)
    for trees in range(5 - linear)
    for own in range(5 - linear - trees)
)
_COSTS = (0.0, 1.0, 3.0)
_FREEDOMS = (0.001, 0.03, 1.0)
_SMALLEST = 1e-7


class FailureForecasts:
    """Learns from panels in the order of their times; forecasts for the newest one."""

    def __init__(self, *, horizon_s: float, seed: int = 0) -> None:
        self.horizon_s = horizon_s
        self.mix = (1.0, 0.0, 0.0)
        self.freedom = 0.03  # of the weights of rates
        self._seed = seed
        self._panels: list[Panel] = []
        self._linear: Any = None
        self._trees: Any = None
        self._fitted_s = -np.inf

    def predict(self, panel: Panel) -> Floats:
        """Return a probability for each unit of a panel, by panels that are over before it."""
        past = [each for each in self._panels if each.t_s + self.horizon_s <= panel.t_s]
        if not any(each.failed.any() for each in past):
            rate = sum(each.counts.sum() for each in past[-1:]) + 1.0
            exposure_s = sum(each.exposure_s.sum() for each in past[-1:]) + self.horizon_s
            return np.full(len(panel.units), -np.expm1(-rate * self.horizon_s / exposure_s))
        if self._linear is None or panel.t_s - self._fitted_s >= REFIT_S:
            self._fit(past)
            self._fitted_s = panel.t_s
        raw = self._logits(panel)
        return np.asarray(expit(raw + _shift(raw, expected_failures(panel, past))))

    def learn(self, panel: Panel) -> None:
        """Keep a panel. Its outcome is used only by forecasts made after its horizon."""
        self._panels.append(panel)

    def _fit(self, past: Sequence[Panel]) -> None:
        cut = max(1, round(len(past) * (1 - _VALIDATION)))
        newest = past[cut:]
        if any(each.failed.any() for each in past[:cut]) and newest:
            # What overlaps the first of the newest would have been learnt from already.
            older = [each for each in past[:cut] if each.t_s + self.horizon_s <= newest[0].t_s]
            if any(each.failed.any() for each in older):
                self._choose(older, newest)
        self._train(past)

    def _choose(self, older: Sequence[Panel], newest: Sequence[Panel]) -> None:
        """Choose how strongly rates are shrunk, and how much trees count, on the newest part."""
        features = np.concatenate([each.features for each in newest])
        failed = np.concatenate([each.failed for each in newest])
        self._train(older)
        own = np.concatenate([self._own(each) for each in newest])
        trees = _logits(self._trees, features)
        starts = np.concatenate([[0], np.cumsum([len(each.units) for each in newest])[:-1]])
        counts = np.array([each.failed.sum() + 0.5 for each in newest])
        sizes = np.array([len(each.units) for each in newest])
        found = []
        for freedom in _FREEDOMS:
            linear = _logits(self._fit_linear(older, freedom), features)
            for mix in _MIXES:
                mixed = mix[0] * own + mix[1] * linear + mix[2] * trees
                # Which units is the question here: how many failed is given, panel by panel.
                sums = np.add.reduceat(np.exp(mixed), starts)
                loss = _log_loss(mixed + np.repeat(np.log(counts / sums), sizes), failed)
                cost = sum(share * each for share, each in zip(mix, _COSTS, strict=True))
                found.append((loss + cost, freedom, mix))
        _, self.freedom, self.mix = min(found)

    def _train(self, past: Sequence[Panel]) -> None:
        features, failed, weights = self._rows(past)
        self._linear = self._fit_linear(past, self.freedom)
        self._trees = HistGradientBoostingClassifier(
            max_iter=120,
            learning_rate=0.05,
            max_leaf_nodes=6,
            min_samples_leaf=100,
            l2_regularization=10.0,
            early_stopping=False,
            random_state=self._seed,
        ).fit(features, failed, sample_weight=weights)

    def _fit_linear(self, past: Sequence[Panel], freedom: float) -> Any:  # noqa: ANN401 - sklearn's
        features, failed, weights = self._rows(past)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=freedom, max_iter=300))
        return model.fit(features, failed, logisticregression__sample_weight=weights)

    def _rows(self, past: Sequence[Panel]) -> tuple[Any, Any, Floats]:
        """Return features, outcomes and weights of what is learnt from."""
        newest_s = past[-1].t_s
        features = np.concatenate([each.features for each in past])
        failed = np.concatenate([each.failed for each in past])
        ages_s = np.concatenate([np.full(len(each.units), newest_s - each.t_s) for each in past])
        rows, weights = self._sample(failed, 0.5 ** (ages_s / HALF_LIFE_S))
        return features[rows], failed[rows], weights

    def _sample(self, failed: NDArray[np.bool_], weights: Floats) -> tuple[Any, Floats]:
        """Keep all failures and some of the many others, which then count for all of them."""
        bad, good = np.flatnonzero(failed), np.flatnonzero(~failed)
        most = max(_FEWEST_GOOD, _PER_FAILURE * len(bad))
        if len(good) <= most:
            return np.arange(len(failed)), weights
        chosen = np.random.default_rng(self._seed).choice(
            good, most, replace=False, p=weights[good] / weights[good].sum()
        )
        each = weights[good].sum() / most
        return np.concatenate([bad, chosen]), np.concatenate([weights[bad], np.full(most, each)])

    def _own(self, panel: Panel) -> Floats:
        return _logit(unit_rates(panel, horizon_s=self.horizon_s))

    def _logits(self, panel: Panel) -> Floats:
        own, linear, trees = self.mix
        found = np.zeros(len(panel.units))
        if own:
            found += own * self._own(panel)
        if linear:
            found += linear * _logits(self._linear, panel.features)
        if trees:
            found += trees * _logits(self._trees, panel.features)
        return found


def expected_failures(panel: Panel, past: Sequence[Panel]) -> float:
    """Return how many of a panel's units will fail, by the panels that are over.

    Each memory forecast all of those in turn, from the ones before it; memories count by how
    likely they made what came.
    """
    times = np.array([each.t_s for each in past])
    failed = np.array([float(each.failed.sum()) for each in past])
    units = np.array([float(len(each.units)) for each in past])
    pooled = (failed.sum() + 0.5) / max(1.0, units.sum())
    merits, rates = np.zeros(len(_MEMORIES_S)), np.zeros(len(_MEMORIES_S))
    for place, memory_s in enumerate(_MEMORIES_S):
        # Row i: what panel i is forecast from, each counting by how long ago it was.
        ages = np.append(times, panel.t_s)[:, None] - times[None]
        weights = np.where(ages > 0, 0.5 ** (ages / memory_s), 0.0)
        forecast = (weights @ failed + 0.5) / (weights @ units + 0.5 / pooled)
        means = forecast[:-1] * units
        merits[place] = _TRUST * float((failed * np.log(means) - means)[1:].sum())
        rates[place] = forecast[-1]
    chances = np.exp(merits - merits.max())
    return float(len(panel.units) * (chances @ rates) / chances.sum())


def _shift(raw: Floats, expected: float) -> float:
    """Return what to add to logits so that about so many fail."""
    shift = float(np.log(expected / np.exp(raw).sum()))
    for _ in range(50):  # Newton's steps, each at most 1: it converges from anywhere
        chance = expit(raw + shift)
        slope = max(float((chance * (1 - chance)).sum()), 1e-9)
        step = (expected - float(chance.sum())) / slope
        shift += float(np.clip(step, -1.0, 1.0))
        if abs(step) < 1e-4:
            break
    return shift


def _logit(chance: Floats) -> Floats:
    return np.asarray(logit(np.clip(chance, _SMALLEST, 1 - _SMALLEST)))


def _logits(model: Any, features: NDArray[np.float32]) -> Floats:  # noqa: ANN401 - sklearn's
    return _logit(model.predict_proba(features)[:, 1])


def _log_loss(logits: Floats, failed: NDArray[np.bool_]) -> float:
    return float(np.logaddexp(0.0, np.where(failed, -logits, logits)).sum())


def unit_rates(panel: Panel, *, horizon_s: float) -> Floats:
    """Return the chance of a failure by each unit's own rate so far: what forecasts have to beat.

    Rates are drawn towards the mean of all units by a gamma prior of the moments of their counts.
    """
    exposure = panel.exposure_s
    total = max(float(exposure.sum()), 1.0)
    mean = (float(panel.counts.sum()) + 0.5) / total
    excess = float(((panel.counts - mean * exposure) ** 2 - panel.counts).sum())
    spread = max(excess / max(float((exposure**2).sum()), 1.0), 1e-4 * mean**2)
    shape, rate = mean**2 / spread, mean / spread
    return np.asarray(-np.expm1(-horizon_s * (shape + panel.counts) / (rate + exposure)))
