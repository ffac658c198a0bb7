"""Replay jobs that may wait for greener hours: what forecasts save, and what knowing would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.planning.hours import greenest_start, mean_while_running
from steward.errors import StewardError
from steward.learn.estimators.grid_carbon import GridCarbon
from steward.model.planning.carbon import CarbonSeries

__all__ = ["Greener", "RegionSaving", "replay_greener"]

Floats = NDArray[np.float64]

_WEEK_H = 7 * 24
_DRAWS = 500
_MUCH = 0.02  # more carbon than this against starting at once counts as worse


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSaving:
    """What waiting saved in one region, against starting each job at once; shares of its carbon."""

    region: str
    jobs: int
    grams_now: float  # per kWh, mean
    saved_share: float
    oracle_share: float  # with the hours known in advance
    low_share: float  # 95 % interval of what was saved, by weeks
    high_share: float
    worse_jobs_share: float  # of jobs that emit over 2 % more than at once
    worst_job_share: float  # how much more the worst of them does
    worst_week_share: float  # how much more all jobs of the worst week do; negative: less
    waited_h: float
    filled_hours: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Greener:
    """All regions together: each has the same number of jobs of the same energy."""

    saved_share: float
    oracle_share: float
    worst_share: float  # how much more the worst region emits than at once; negative: less
    of_oracle_share: float
    best_region_share: float  # what the region with the least carbon on average saves, at once
    regions: tuple[RegionSaving, ...]
    left_out: tuple[str, ...]  # regions with too short a history


def replay_greener(
    series: Sequence[CarbonSeries],
    *,
    run_s: float,
    slack_h: int,
    from_s: float | None = None,
) -> Greener:
    """Let a job come every hour and start once no later hour is forecast to be better.

    Forecasts begin once there is enough history, by default with the second half of each series.
    """
    hours = int(np.ceil(run_s / 3600.0)) + slack_h
    carbon = GridCarbon(ahead_h=hours)
    found, left_out = [], []
    for each in series:
        saving = _region(each, carbon, run_s, slack_h, from_s)
        if saving is None:
            left_out.append(each.region)
        else:
            found.append(saving)
    if not found:
        raise StewardError(
            "no region has enough history",
            where=", ".join(left_out[:5]) or "carbon",
            hint=f"{carbon.least_history_h + 2 * hours} hours without a long gap are needed",
        )
    now = np.array([each.grams_now for each in found])
    saved, oracle = _mean(found, "saved_share", now), _mean(found, "oracle_share", now)
    return Greener(
        saved_share=saved,
        oracle_share=oracle,
        worst_share=max(-each.saved_share for each in found),
        of_oracle_share=saved / oracle if oracle > 0 else 1.0,
        best_region_share=_less(float(now.min()), float(now.mean())),
        regions=tuple(found),
        left_out=tuple(left_out),
    )


def _mean(found: Sequence[RegionSaving], name: str, now: Floats) -> float:
    """Return the share of all regions' carbon that is saved."""
    left = np.array([1.0 - getattr(each, name) for each in found])
    return _less(float((left * now).sum()), float(now.sum()))


def _less(part: float, whole: float) -> float:
    """Return the share of the whole that is not in the part; where there is none, none of it."""
    return 1.0 - part / whole if whole > 0.0 else 0.0


def _region(
    series: CarbonSeries, carbon: GridCarbon, run_s: float, slack_h: int, from_s: float | None
) -> RegionSaving | None:
    total, hours = len(series.grams), carbon.ahead_h
    asked = total // 2 if from_s is None else int((from_s - series.begin_s) // 3600.0)
    first = max(carbon.least_history_h, asked)
    last = total - 2 * hours  # the last job that may wait and end before the series does
    if last <= first:
        return None
    forecasts = carbon.forecasts(series, first, last + slack_h)
    truth = mean_while_running(series.grams[first:], run_s)
    begins = np.array(
        [_begin(forecasts, job, run_s, slack_h) for job in range(last - first)], np.int64
    )
    jobs = np.arange(last - first)
    now, got = truth[jobs], truth[begins]
    windows = np.lib.stride_tricks.sliding_window_view(truth, slack_h + 1)
    best = windows[: len(jobs)].min(axis=1)
    week = jobs // _WEEK_H
    now_weeks = np.bincount(week, now).astype(np.float64)
    got_weeks = np.bincount(week, got).astype(np.float64)
    low, high = _interval(now_weeks, got_weeks)
    more = (got - now) / np.maximum(now, 1e-9)
    return RegionSaving(
        region=series.region,
        jobs=len(jobs),
        grams_now=float(now.mean()),
        saved_share=_less(float(got.sum()), float(now.sum())),
        oracle_share=_less(float(best.sum()), float(now.sum())),
        low_share=low,
        high_share=high,
        worse_jobs_share=float(np.mean(more > _MUCH)),
        worst_job_share=float(more.max()),
        worst_week_share=float(np.max((got_weeks - now_weeks) / np.maximum(now_weeks, 1e-9))),
        waited_h=float(np.mean(begins - jobs)),
        filled_hours=series.filled,
    )


def _begin(forecasts: Floats, job: int, run_s: float, slack_h: int) -> int:
    """Return the hour in which a job begins that may wait and looks at each hour's forecast."""
    for hour in range(job, job + slack_h):
        wait, _ = greenest_start(forecasts[hour], run_s, slack_h=job + slack_h - hour)
        if wait == 0:
            return hour
    return job + slack_h


def _interval(now: Floats, got: Floats) -> tuple[float, float]:
    """Return a 95 % interval of the share saved; weeks are drawn, as hours share their weather."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(now), (_DRAWS, len(now)))
    whole = now[drawn].sum(axis=1)
    shares = (whole - got[drawn].sum(axis=1)) / np.maximum(whole, 1e-9)
    low, high = np.quantile(shares, (0.025, 0.975)).tolist()
    return low, high
