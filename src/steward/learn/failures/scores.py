"""How good forecasts of failures are, one panel after the other, on the last part of a history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.failures.forecasts import FailureForecasts, unit_rates
from steward.learn.failures.history import FailureHistory
from steward.learn.failures.panels import DAY_S, panels

__all__ = ["ForecastScore", "Interval", "auc", "score"]

Floats = NDArray[np.float64]
Interval = tuple[float, float]
TRAIN_SHARE = 2 / 3
DRAWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastScore:
    """Forecasts beside each unit's own rate. Intervals: 95 %, by drawing units anew."""

    auc: float
    auc_interval: Interval
    brier: float
    baseline_auc: float
    baseline_auc_interval: Interval
    baseline_brier: float
    auc_gain_interval: Interval
    brier_gain_share: float  # how much smaller the Brier score is, as a share of the baseline's
    brier_gain_interval: Interval
    forecasts: int
    failures: int
    panels: int
    expected_failures: float  # the sum of the forecasts
    scored_from_s: float
    basis: str


def score(
    history: FailureHistory,
    *,
    horizon_s: float = 30 * DAY_S,
    step_s: float | None = None,
    seed: int = 0,
) -> ForecastScore:
    """Forecast the last third of the time, each moment from what was known before it."""
    step_s = step_s or horizon_s
    from_s = history.from_s + TRAIN_SHARE * (history.to_s - history.from_s)
    model = FailureForecasts(horizon_s=horizon_s, seed=seed)
    chances, rates, failed, units = [], [], [], []
    for panel in panels(history, step_s=step_s, horizon_s=horizon_s):
        if panel.t_s >= from_s:
            chances.append(model.predict(panel))
            rates.append(unit_rates(panel, horizon_s=horizon_s))
            failed.append(panel.failed)
            units.append(panel.units)
        model.learn(panel)
    if not failed or not any(each.any() for each in failed) or all(each.all() for each in failed):
        raise StewardError(
            "no failure lies in the last third of the time, so nothing can be scored",
            where=history.basis,
            hint="a longer history, or a longer --horizon",
        )
    return _scored(
        (np.concatenate(chances), np.concatenate(rates)),
        np.concatenate(failed),
        np.concatenate(units),
        panels=len(failed),
        from_s=from_s,
        basis=history.basis,
        seed=seed,
    )


def _scored(  # noqa: PLR0913 - one value each of the answer
    forecasts: tuple[Floats, Floats],
    failed: NDArray[np.bool_],
    units: NDArray[np.int64],
    *,
    panels: int,
    from_s: float,
    basis: str,
    seed: int,
) -> ForecastScore:
    ours, theirs = forecasts
    errors = [(each - failed) ** 2 for each in forecasts]
    drawn = list(_drawn(forecasts, failed, units, errors, seed))
    table = np.array(drawn)
    brier, baseline_brier = (float(each.mean()) for each in errors)
    return ForecastScore(
        auc=auc(ours, failed),
        auc_interval=_interval(table[:, 0]),
        brier=brier,
        baseline_auc=auc(theirs, failed),
        baseline_auc_interval=_interval(table[:, 1]),
        baseline_brier=baseline_brier,
        auc_gain_interval=_interval(table[:, 0] - table[:, 1]),
        brier_gain_share=1 - brier / baseline_brier,
        brier_gain_interval=_interval(1 - table[:, 2] / table[:, 3]),
        forecasts=len(failed),
        failures=int(failed.sum()),
        panels=panels,
        expected_failures=float(ours.sum()),
        scored_from_s=from_s,
        basis=basis,
    )


def auc(chances: Floats, failed: NDArray[np.bool_], weights: Floats | None = None) -> float:
    """Return how probable it is that one that failed had a higher chance; ties count half."""
    order = np.argsort(chances, kind="stable")
    return _auc(_ties(chances[order]), failed[order], None if weights is None else weights[order])


def _ties(ordered: Floats) -> NDArray[np.int64]:
    """Return the number of each group of equal values."""
    return np.concatenate([[0], np.cumsum(np.diff(ordered) > 0)]).astype(np.int64)


def _auc(ties: NDArray[np.int64], failed: NDArray[np.bool_], weights: Floats | None) -> float:
    weights = np.ones(len(ties)) if weights is None else weights
    groups = int(ties[-1]) + 1
    bad = np.bincount(ties, weights * failed, groups)
    good = np.bincount(ties, weights * ~failed, groups)
    below = np.concatenate([[0.0], np.cumsum(good)[:-1]])
    pairs = float(bad.sum() * good.sum())
    return float((bad * (below + good / 2)).sum()) / pairs if pairs else float("nan")


def _drawn(
    forecasts: tuple[Floats, Floats],
    failed: NDArray[np.bool_],
    units: NDArray[np.int64],
    errors: list[Floats],
    seed: int,
) -> Iterator[tuple[float, float, float, float]]:
    """Yield both AUCs and Brier scores with units drawn anew: panels of one unit are alike."""
    rng = np.random.default_rng(seed)
    count = int(units.max()) + 1
    orders = [np.argsort(each, kind="stable") for each in forecasts]
    ties = [_ties(each[order]) for each, order in zip(forecasts, orders, strict=True)]
    for _ in range(DRAWS):
        weight = rng.poisson(1.0, count).astype(np.float64)[units]
        aucs = [
            _auc(tie, failed[order], weight[order]) for tie, order in zip(ties, orders, strict=True)
        ]
        briers = [float((weight * each).sum() / weight.sum()) for each in errors]
        yield aucs[0], aucs[1], briers[0], briers[1]


def _interval(values: Floats) -> Interval:
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)
