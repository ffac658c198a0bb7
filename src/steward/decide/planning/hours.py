"""When to start by forecasts of each hour: those with the least carbon that a slack allows.

Replays ask it (`sim.greener`); plans, which start between hours, use `hourly_rates.best_start`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.planning.carbon import HOUR_S

__all__ = ["greenest_start", "hours_of_run", "mean_while_running"]

Floats = NDArray[np.float64]


def hours_of_run(run_s: float) -> Floats:
    """Return how much of each hour a run that begins with an hour takes.

    >>> hours_of_run(9000.0).tolist()
    [1.0, 1.0, 0.5]
    """
    if not 0.0 < run_s < np.inf:
        raise StewardError(f"a run of {run_s} s", where="hours", hint="it is above 0 and finite")
    whole, rest = divmod(run_s, HOUR_S)
    return np.append(np.ones(int(whole)), [rest / HOUR_S] if rest else [])


def mean_while_running(by_hour: Floats, run_s: float) -> Floats:
    """Return the mean over a run for each hour that it can begin in and end by the last one."""
    parts = hours_of_run(run_s)
    if len(parts) > len(by_hour):
        return np.zeros(0)
    means: Floats = np.convolve(by_hour, parts[::-1], mode="valid") / parts.sum()
    return means


def greenest_start(by_hour: Floats, run_s: float, *, slack_h: int) -> tuple[int, float]:
    """Return after how many hours to begin, at most `slack_h`, and the mean while running then.

    `by_hour` begins with the present hour; the earliest start of equals is taken. Asked again each
    hour with newer forecasts, a job starts in the hour in which the answer is 0.
    """
    means = mean_while_running(by_hour, run_s)[: max(slack_h, 0) + 1]
    if not len(means):
        raise StewardError(
            f"{len(by_hour)} hours are known and the run takes {run_s / HOUR_S:.1f} h",
            where="hours",
            hint="forecast at least as many hours as the run takes",
        )
    best = int(np.argmin(means))
    return best, float(means[best])
