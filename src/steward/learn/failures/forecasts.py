"""The probability that a unit fails within a time, from what is known of it and its places.

A logistic regression on rates and boosted trees; how much each counts is chosen on the newest part
of what is learnt from. What was forecast lately is compared with what came, and corrected by it:
rates of failures change with software, heat and age.
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
CORRECT_S = 180 * DAY_S  # forecasts that corrections are made from
_CORRECTION_PRIOR = 3.0  # failures; few that were forecast wrongly prove little
_VALIDATION = 0.2
_PER_FAILURE = 15  # units without a failure that are learnt from, for each one with
_FEWEST_GOOD = 20_000
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the trees
_TREES_COST = 3.0  # log loss that trees have to save: with few failures they learn chance
_SMALLEST = 1e-7


class FailureForecasts:
    """Learns from panels in the order of their times; forecasts for the newest one."""

    def __init__(self, *, horizon_s: float, seed: int = 0) -> None:
        self.horizon_s = horizon_s
        self.share = 0.5  # of the trees
        self._seed = seed
        self._panels: list[Panel] = []
        self._forecasts: list[tuple[float, Floats]] = []  # panel's time, uncorrected logits
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
        raw = self._logits(panel.features)
        self._forecasts.append((panel.t_s, raw))
        return np.asarray(expit(raw + self._correction(panel.t_s)))

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
                self._train(older)
                self.share = self._best_share(newest)
        self._train(past)

    def _train(self, past: Sequence[Panel]) -> None:
        newest_s = past[-1].t_s
        features = np.concatenate([each.features for each in past])
        failed = np.concatenate([each.failed for each in past])
        ages_s = np.concatenate([np.full(len(each.units), newest_s - each.t_s) for each in past])
        weights = 0.5 ** (ages_s / HALF_LIFE_S)
        rows, row_weights = self._sample(failed, weights)
        inside, outcome = features[rows], failed[rows]
        self._linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=300))
        self._linear.fit(inside, outcome, logisticregression__sample_weight=row_weights)
        self._trees = HistGradientBoostingClassifier(
            max_iter=120,
            learning_rate=0.05,
            max_leaf_nodes=6,
            min_samples_leaf=100,
            l2_regularization=10.0,
            early_stopping=False,
            random_state=self._seed,
        ).fit(inside, outcome, sample_weight=row_weights)

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

    def _best_share(self, newest: Sequence[Panel]) -> float:
        features = np.concatenate([each.features for each in newest])
        failed = np.concatenate([each.failed for each in newest])
        linear, trees = self._both(features)

        def loss(share: float) -> float:
            chance = expit(share * trees + (1 - share) * linear)
            chance = np.clip(chance, _SMALLEST, 1 - _SMALLEST)
            fit = float(np.where(failed, np.log(chance), np.log1p(-chance)).sum())
            return _TREES_COST * share - fit

        return min(_SHARES, key=loss)

    def _both(self, features: NDArray[np.float32]) -> tuple[Floats, Floats]:
        found = [
            logit(np.clip(model.predict_proba(features)[:, 1], _SMALLEST, 1 - _SMALLEST))
            for model in (self._linear, self._trees)
        ]
        return found[0], found[1]

    def _logits(self, features: NDArray[np.float32]) -> Floats:
        linear, trees = self._both(features)
        return np.asarray(self.share * trees + (1 - self.share) * linear)

    def _correction(self, t_s: float) -> float:
        """Return what to add to logits so that as many fail as did lately."""
        failed = {
            each.t_s: each.failed
            for each in self._panels
            if t_s - CORRECT_S <= each.t_s <= t_s - self.horizon_s
        }
        pairs = [(raw, failed[at_s]) for at_s, raw in self._forecasts if at_s in failed]
        if not pairs:
            return 0.0
        raw = np.concatenate([each for each, _ in pairs])
        seen = float(sum(each.sum() for _, each in pairs))
        shift = 0.0
        for _ in range(50):  # Newton's steps, each at most 1: it converges from anywhere
            chance = expit(raw + shift)
            slope = float((chance * (1 - chance)).sum()) + _CORRECTION_PRIOR
            step = (seen - float(chance.sum()) - _CORRECTION_PRIOR * shift) / slope
            shift += float(np.clip(step, -1.0, 1.0))
            if abs(step) < 1e-6:
                break
        return shift


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
