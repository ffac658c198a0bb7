"""When a job will end: its plan's range, what it has survived, and the progress that it reports.

The logarithm of its run time is normal before it runs. Each report of progress is one more
observation of it, trusted the more the more work lies behind it; that it still runs excludes every
shorter run time. A report that no steady job could have made is not believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from steward.model.planning.followed import Mark
from steward.model.planning.plan import Range

__all__ = ["RunPosterior", "run_posterior"]

Floats = NDArray[np.float64]

Z95 = 1.6449  # nine of ten cases
_GRID = 400
_WIDE = 6.0  # standard deviations that the grid covers
_LEAST_SPREAD = 0.02
_EARLY_SPREAD = 0.5  # of what the first percent of the work says of all of it
_LEAST_SHARE = 0.01  # of the work, before which a report says nothing
_SLOWEST = 0.02  # of the pace so far: what has stopped is taken to be so slow
_FEWEST_REPORTS = 3  # after which a silence says something
_SILENT_TIMES, _SILENT_S = 5.0, 60.0  # of the usual time between two reports


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPosterior:
    """How long all the work takes there, and how much of that is left."""

    total_s: Range
    left_s: Range
    outside: bool  # it will hardly end within the range that was planned
    basis: str
    _logs: Floats
    _weights: Floats

    def chance_within(self, left_s: float, elapsed_s: float) -> float:
        """Return the chance that what is left takes at most so long."""
        if elapsed_s + left_s <= 0:
            return 0.0
        within = self._logs <= log(elapsed_s + left_s)
        return float(self._weights[within].sum())


def run_posterior(
    planned_s: Range,
    *,
    elapsed_s: float,
    marks: Sequence[Mark] = (),
    began_s: float = 0.0,
    from_share: float = 0.0,
) -> RunPosterior:
    """Return what is believed after `elapsed_s` of running from `from_share` of the work on.

    `planned_s` is the run time of all the work; times of marks count as `began_s` does.
    """
    share_left = max(1.0 - from_share, 1e-6)
    low, mid, high = (
        max(each * share_left, 1e-3) for each in (planned_s.low, planned_s.mid, planned_s.high)
    )
    spread = max((log(high) - log(low)) / (2 * Z95), _LEAST_SPREAD)
    observed = _observed(marks, began_s, from_share, elapsed_s)
    centre, width, basis = log(mid), spread, "its plan"
    if observed is not None:
        seen, error = observed
        weight, own = error**-2, spread**-2
        centre = (own * log(mid) + weight * seen) / (own + weight)
        # A plan that the progress contradicts says little: what it is off by counts as doubt.
        doubt = max(abs(seen - log(mid)) - 2 * spread, 0.0)
        if doubt > 0:
            centre, width = seen, error
        else:
            width = 1.0 / sqrt(own + weight)
        basis = "its plan and its progress" if doubt == 0 else "its progress: its plan was wrong"
    logs, weights = _survived(centre, width, elapsed_s)
    total = _range(logs, weights)
    outside = bool(total.mid > high or (observed is not None and total.mid < low))
    left = Range(
        low=max(total.low - elapsed_s, 0.0),
        mid=max(total.mid - elapsed_s, 0.0),
        high=max(total.high - elapsed_s, 0.0),
    )
    return RunPosterior(
        total_s=total, left_s=left, outside=outside, basis=basis, _logs=logs, _weights=weights
    )


def _survived(centre: float, width: float, elapsed_s: float) -> tuple[Floats, Floats]:
    """Return logarithms of run times longer than this, and how likely each is."""
    lowest = centre - _WIDE * width
    shortest = log(elapsed_s) if elapsed_s > 0 else lowest
    # A job that outlives all that was believed: its next hours are as unsure as its past is long.
    begin = max(lowest, shortest)
    end = max(centre + _WIDE * width, begin + max(_WIDE * width, log(2.0)))
    edges = np.linspace(begin, end, _GRID + 1)
    weights = np.diff(ndtr((edges - centre) / width))
    if weights.sum() < 1e-12:
        weights = np.exp(-np.arange(_GRID) * (edges[1] - edges[0]) / max(width, log(2.0) / 2))
    logs = (edges[1:] + edges[:-1]) / 2
    return logs, weights / weights.sum()


def _range(logs: Floats, weights: Floats) -> Range:
    reached = np.cumsum(weights)
    low, mid, high = (
        exp(float(logs[min(int(np.searchsorted(reached, chance)), len(logs) - 1)]))
        for chance in (0.05, 0.5, 0.95)
    )
    return Range(low=low, mid=mid, high=high)


def _observed(
    marks: Sequence[Mark], began_s: float, from_share: float, elapsed_s: float
) -> tuple[float, float] | None:
    """Return the logarithm of the run time that progress stands for, and its standard error.

    What contradicts itself says little: the error is at least what the report before half of the
    time, and the pace since then, are off from the last one.
    """
    sound = _up_to_now(_sound(marks, began_s, from_share), began_s + elapsed_s)
    if not sound:
        return None
    last = sound[-1]
    done = _done(last, from_share)
    if done < _LEAST_SHARE:
        return None
    seen = log((last.t_s - began_s) / done)
    error = max(_EARLY_SPREAD * sqrt(_LEAST_SHARE / done) * (1.0 - done), _LEAST_SPREAD)
    half_s = (last.t_s + began_s) / 2
    early = [mark for mark in sound if mark.t_s <= half_s and _done(mark, from_share) > 0]
    if early:
        error = max(error, _contradiction(early[-1], last, began_s, from_share))
    return seen, error


def _contradiction(first: Mark, last: Mark, began_s: float, from_share: float) -> float:
    """Return by how much two reports differ, as the logarithm of the run time they stand for."""
    done = _done(last, from_share)
    since = done - _done(first, from_share)
    overall = log((last.t_s - began_s) / done)
    before = log((first.t_s - began_s) / _done(first, from_share))
    pace_s = (last.t_s - first.t_s) / max(since, _SLOWEST * done)
    ends = log((last.t_s - began_s) + (1.0 - done) * pace_s)
    # Near its end an early mistake no longer matters, but for a job that hardly gets on: that one
    # is not as near as it says.
    steady = min((last.t_s - began_s) / done / pace_s, 1.0)
    faded = abs(before - overall) * (1.0 - done) ** (0.5 * steady)
    return max(float(faded), abs(ends - overall))


def _up_to_now(sound: list[Mark], now_s: float) -> list[Mark]:
    """Return reports with one of now, no further, where the job has long been silent."""
    if len(sound) < _FEWEST_REPORTS:
        return sound
    gaps = sorted(after.t_s - one.t_s for one, after in pairwise(sound))
    silent_s = now_s - sound[-1].t_s
    if silent_s <= max(_SILENT_TIMES * gaps[len(gaps) // 2], _SILENT_S):
        return sound
    return [*sound, Mark(t_s=now_s, done_share=sound[-1].done_share)]


def _done(mark: Mark, from_share: float) -> float:
    return (mark.done_share - from_share) / max(1.0 - from_share, 1e-6)


def _sound(marks: Sequence[Mark], began_s: float, from_share: float) -> list[Mark]:
    """Return reports that a job could have made: later, further, and not done while it runs on."""
    found: list[Mark] = []
    for mark in marks:
        before = found[-1] if found else Mark(t_s=began_s, done_share=from_share)
        fits = mark.t_s > before.t_s and before.done_share <= mark.done_share < 1.0
        if fits:
            found.append(mark)
    return found
