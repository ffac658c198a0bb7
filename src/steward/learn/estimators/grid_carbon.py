"""Estimator of the carbon intensity of the next hours, from earlier hours and forecasts of others.

For each hour ahead and each hour of the day a ridge regression on what the same hour was on earlier
days, on the last hours and on the means of the last days; fitted anew each week on at most 600 days
before. Where
forecasts of others are there, a second, small regression weighs both by how right they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.planning.carbon import CarbonSeries, IssuedForecasts

__all__ = ["AHEAD_H", "HISTORY_H", "GridCarbon"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY_H = 24
AHEAD_H = 48  # hours that are forecast
HISTORY_H = 29 * DAY_H  # that features look back
_TRAIN_H = 600 * DAY_H
_LEAST_TRAIN_H = 14 * DAY_H
_REFIT_H = 7 * DAY_H
_BLEND_H = 60 * DAY_H  # that weighing forecasts of others looks back
_LEAST_BLEND_H = 3 * DAY_H
_RIDGE = 1.0  # in hours of evidence, for intensities around 1
_HOURS_ALIKE = 1.0  # how far hours of the day count as like the asked one
_BLEND_RIDGE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCarbon:
    """Forecast `ahead_h` hours from any hour of a series; an hour is known once it is over."""

    ahead_h: int = AHEAD_H
    name: str = "grid-carbon"

    @property
    def least_history_h(self) -> int:
        """Return how many hours have to be known before the first forecast."""
        return HISTORY_H + _LEAST_TRAIN_H + self.ahead_h

    def forecasts(self, series: CarbonSeries, first_h: int, last_h: int) -> Floats:
        """Return what is forecast at the begin of each hour from `first_h` to before `last_h`.

        Nothing of a forecast knows an hour that was not over when it was made. Shape: (hours,
        hours ahead).
        """
        if first_h < self.least_history_h or last_h > len(series.grams):
            raise StewardError(
                f"{first_h} hours are known before the first forecast",
                where=f"region {series.region}",
                hint=f"{self.least_history_h} hours of history are needed",
            )
        own = self._own(series.grams, first_h, last_h)
        if series.forecasts is None:
            return own
        return self._blended(series, series.forecasts, own, first_h)

    def next_hours(self, series: CarbonSeries) -> Floats:
        """Return the forecast of the hours after the last one of a series."""
        longer = np.append(series.grams, series.grams[-1])
        grown = CarbonSeries(
            region=series.region,
            begin_s=series.begin_s,
            grams=longer,
            forecasts=series.forecasts,
        )
        ahead: Floats = self.forecasts(grown, len(series.grams), len(longer))[0]
        return ahead

    def _own(self, grams: Floats, first_h: int, last_h: int) -> Floats:
        begin_h = max(HISTORY_H, first_h - _TRAIN_H)
        scale = float(np.mean(grams[:first_h])) or 1.0
        known = grams / scale
        found = np.empty((last_h - first_h, self.ahead_h))
        for ahead in range(self.ahead_h):
            features = _features(known, np.arange(begin_h, last_h), ahead)
            for at in range(first_h, last_h, _REFIT_H):
                asked = np.arange(at, min(at + _REFIT_H, last_h))
                # The last hours before `at` are left out: what they forecast is not over yet.
                end = at - self.ahead_h
                days = (end - max(at - _TRAIN_H, begin_h)) // DAY_H
                rows = np.arange(end - days * DAY_H, end)
                fit = _fit_by_hour(features[rows - begin_h], known[rows + ahead], asked - rows[0])
                answers = np.einsum("hf,hf->h", features[asked - begin_h], fit)
                found[asked - first_h, ahead] = answers
        return np.maximum(found, 0.0) * scale

    def _blended(
        self, series: CarbonSeries, issued: IssuedForecasts, own: Floats, first_h: int
    ) -> Floats:
        """Weigh our forecasts and those of others, day by day, by how right they were before."""
        hours = first_h + np.arange(len(own))
        theirs = _as_of(issued, hours, self.ahead_h)
        scale = float(np.mean(series.grams[:first_h])) or 1.0
        off = _last_errors(series.grams, issued, hours)
        inputs = np.stack([own, theirs, np.repeat(off[:, None], self.ahead_h, axis=1)], axis=2)
        inputs = np.concatenate([inputs / scale, np.ones((*own.shape, 1))], axis=2)
        found = own.copy()
        for at in range(0, len(own), DAY_H):
            rows = np.arange(max(0, at - _BLEND_H), at - self.ahead_h)
            if len(rows) < _LEAST_BLEND_H:
                continue
            for ahead in range(self.ahead_h):
                truth = series.grams[hours[rows] + ahead] / scale
                weights = _shrunk_to_own(inputs[rows, ahead], truth)
                found[at : at + DAY_H, ahead] = inputs[at : at + DAY_H, ahead] @ weights * scale
        return np.maximum(np.where(np.isfinite(found), found, own), 0.0)


def _fit_by_hour(inputs: Floats, truth: Floats, asked: Ints) -> Floats:
    """Return slopes for each asked hour (counted from the first row), of ridge regressions.

    Each hour of the day has its own, in which hours near it count too, by a bell; they are drawn to
    the regression on all hours. Rows are whole days.
    """
    size = inputs.shape[1]
    by_hour = inputs.reshape(-1, DAY_H, size).transpose(1, 2, 0)  # hour, feature, day
    grams = by_hour @ by_hour.transpose(0, 2, 1)
    sums = (by_hour @ truth.reshape(-1, DAY_H).T[:, :, None])[:, :, 0]
    pull = _RIDGE * np.eye(size)
    free = pull.copy()
    free[-1, -1] = 1e-6  # the constant
    of_all = np.linalg.solve(grams.sum(axis=0) + free, sums.sum(axis=0))
    hours, place = np.unique(asked % DAY_H, return_inverse=True)
    apart = np.abs(hours[:, None] - np.arange(DAY_H))
    near = np.exp(-0.5 * (np.minimum(apart, DAY_H - apart) / _HOURS_ALIKE) ** 2)
    left = np.tensordot(near, grams, axes=1) + pull
    right = near @ sums + pull @ of_all
    slopes: Floats = np.linalg.solve(left, right[:, :, None])[:, :, 0]
    return slopes[place]


def _shrunk_to_own(inputs: Floats, truth: Floats) -> Floats:
    """Return weights of (ours, theirs, their last error, one); little evidence leaves it ours."""
    ours = np.array([1.0, 0.0, 0.0, 0.0])
    usable = np.isfinite(inputs).all(axis=1)
    inputs, truth = inputs[usable], truth[usable]
    gram = inputs.T @ inputs + _BLEND_RIDGE * np.eye(len(ours))
    weights: Floats = ours + np.linalg.solve(gram, inputs.T @ (truth - inputs @ ours))
    return weights


def _features(x: Floats, at: Ints, ahead: int) -> Floats:
    """Return (hours, features) for the hour `ahead` of each; all are of hours before `at`."""
    target = at + ahead
    sums = np.append(0.0, np.cumsum(x))

    def days_before(days: int) -> Floats:
        """Return the same hour of the day, so many days before, or as many more as it takes."""
        hour = target - DAY_H * max(days, 1 + ahead // DAY_H)
        found: Floats = x[hour]
        return found

    def usual(days: range) -> Floats:
        mean: Floats = np.mean([days_before(day) for day in days], axis=0)
        return mean

    def mean(newest_h: int, oldest_h: int) -> Floats:
        means: Floats = (sums[at - newest_h] - sums[at - oldest_h]) / (oldest_h - newest_h)
        return means

    near = target - DAY_H * (1 + (ahead + 1) // DAY_H)  # the hour after it is over, too
    return np.stack(
        [
            *(days_before(days) for days in (1, 2, 3, 7, 14)),
            usual(range(2, 15)),
            usual(range(2, 28)),
            (x[near - 1] + x[near + 1]) / 2.0,
            ((target // DAY_H) % 7 >= 5) * 1.0,
            ((target // DAY_H) % 7 == 0) * 1.0,
            *(x[at - back] for back in (1, 2, 3, 6, 12, 24, 25)),
            *(mean(*span) for span in ((0, 24), (24, 48), (0, 168), (0, 28 * DAY_H))),
            np.mean([x[at - 1 - DAY_H * day] for day in range(1, 15)], axis=0),
            np.ones(len(at)),
        ],
        axis=1,
    )


def _as_of(issued: IssuedForecasts, hours: Ints, ahead_h: int) -> Floats:
    """Return what the newest forecast of others said in each hour; NaN where there was none."""
    newest = np.searchsorted(issued.issued_h, hours, side="right") - 1
    row = np.maximum(newest, 0)
    offset = (hours - issued.issued_h[row])[:, None] + np.arange(ahead_h)
    width = issued.grams.shape[1]
    there = (newest >= 0)[:, None] & (offset >= 0) & (offset < width)
    return np.where(there, issued.grams[row[:, None], np.clip(offset, 0, width - 1)], np.nan)


def _last_errors(grams: Floats, issued: IssuedForecasts, hours: Ints) -> Floats:
    """Return how far the newest forecast of the hour before each one was off."""
    said = _as_of(issued, hours - 1, 1)[:, 0]
    return grams[hours - 1] - said
