"""How often a job should save, and what share of its time is then useful (ETTR).

A renewal argument, without approximation: between two interruptions a job restarts, then works and
saves in turns; what was saved last counts. So the useful share is the mean of saved work over the
mean length of such a cycle, whatever the distribution of lives. For exponential lives the best
interval has a closed form by Lambert's W; others, and rates that are not known exactly, are
searched. Young's and Daly's formulas, which approximate it, are beside it as rivals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, gamma, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.outcome import Interval

__all__ = [
    "CheckpointAdvice",
    "JobLife",
    "SaveCosts",
    "best_interval",
    "best_interval_s",
    "daly_s",
    "expected_wall_s",
    "useful_share",
    "young_s",
]

Floats = NDArray[np.float64]
_POINTS = 48  # of a rate that is not known exactly
_GRID = 80
_FEWEST_S = 1.0
_MOST_TERMS = 200_000
_GOLDEN = (sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCosts:
    """What saving and coming back costs a job.

    `save_s` is how long training stands still for a save, `durable_s` how much longer it takes in
    the background until the save counts, `restart_s` from the start of a process to its first new
    step, `down_s` until there is a place to start.
    """

    save_s: float
    restart_s: float = 0.0
    down_s: float = 0.0
    durable_s: float = 0.0

    def __post_init__(self) -> None:
        given = (self.save_s, self.restart_s, self.down_s, self.durable_s)
        if not all(0 <= each < inf for each in given):
            raise StewardError(
                f"costs of {', '.join(f'{each:g}' for each in given)} s are not possible",
                where="costs of saving",
                hint="0 or more seconds each",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLife:
    """How long a job runs until something interrupts it: Weibull; shape 1 is a constant rate."""

    mean_s: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        if not (self.mean_s > 0 and 0.2 <= self.shape <= 10):
            raise StewardError(
                f"a life of {self.mean_s:g} s with shape {self.shape:g} is not possible",
                where="life of a job",
                hint="a mean above 0, a shape of 0.2 to 10",
            )

    def lasting(self, t_s: Floats) -> Floats:
        """Return the chance of living longer than each time."""
        scale_s = self.mean_s / gamma(1 + 1 / self.shape)
        return np.asarray(np.exp(-((t_s / scale_s) ** self.shape)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdvice:
    """The best interval, what it gives, and what the usual formulas would give."""

    every_s: float
    useful: Interval  # over what the rate may be
    mean_life_s: float
    life_s: Interval
    young_s: float
    young_useful: float
    daly_s: float
    daly_useful: float
    flat: tuple[float, float]  # intervals that lose at most a tenth of a per cent


def useful_share(every_s: float, costs: SaveCosts, life: JobLife) -> float:
    """Return the share of time that is kept work, with `every_s` of work between saves."""
    step_s = every_s + costs.save_s
    first_s = costs.restart_s + costs.durable_s
    if not step_s > 0:
        return 0.0
    if life.shape == 1.0:
        rate = 1 / life.mean_s
        saves = exp(-rate * first_s) / expm1(rate * step_s) if rate * step_s < 700 else 0.0
    else:
        saves = _expected_saves(first_s, step_s, life)
    return every_s * saves / (life.mean_s + costs.down_s)


def best_interval_s(costs: SaveCosts, life: JobLife) -> float:
    """Return the time of work between saves that keeps most.

    >>> round(best_interval_s(SaveCosts(save_s=60.0), JobLife(mean_s=36_000.0)))
    2058
    """
    if life.shape == 1.0:
        return _closed_s(costs.save_s, life.mean_s)
    return _searched(lambda every_s: useful_share(every_s, costs, life), costs, life.mean_s)


def best_interval(
    costs: SaveCosts, *, failures: int, gpu_hours: float, gpus: int, shape: float = 1.0
) -> CheckpointAdvice:
    """Return the interval for a job of so many GPUs, by failures seen in so many GPU-hours.

    The rate is not known exactly: the interval that is best on average over what it may be
    (a gamma posterior with Jeffreys' prior) is taken, not the best for its middle.
    """
    if failures < 0 or not gpu_hours > 0 or gpus < 1:
        raise StewardError(
            f"{failures} failures in {gpu_hours:g} GPU-hours on {gpus} GPUs give no rate",
            where="failures",
            hint="0 or more failures, more than 0 GPU-hours, 1 GPU or more",
        )
    lives = [
        JobLife(mean_s=3600.0 * gpu_hours / (each * gpus), shape=shape)
        for each in _posterior(failures)
    ]
    middle = JobLife(mean_s=3600.0 * gpu_hours / ((failures + 0.5) * gpus), shape=shape)

    def mean(every_s: float) -> float:
        return sum(useful_share(every_s, costs, each) for each in lives) / len(lives)

    every_s = _searched(mean, costs, middle.mean_s)
    shares = sorted(useful_share(every_s, costs, each) for each in lives)
    means = sorted(each.mean_s for each in lives)
    young, daly = young_s(costs.save_s, middle.mean_s), daly_s(costs.save_s, middle.mean_s)
    return CheckpointAdvice(
        every_s=every_s,
        useful=Interval(low=shares[1], mid=mean(every_s), high=shares[-2]),
        mean_life_s=middle.mean_s,
        life_s=Interval(low=means[1], mid=middle.mean_s, high=means[-2]),
        young_s=young,
        young_useful=mean(young),
        daly_s=daly,
        daly_useful=mean(daly),
        flat=_flat(mean, every_s),
    )


def expected_wall_s(work_s: float, every_s: float, costs: SaveCosts, life: JobLife) -> float:
    """Return how long a job with an end takes; its last part is not saved. Constant rates only.

    Parts are equal, as many as `every_s` makes of it, rounded up.
    """
    if life.shape != 1.0:
        problem = "the end of a job is known in closed form for a constant rate only"
        raise StewardError(problem, where="shape", hint="take the useful share instead")
    parts = max(1, int(np.ceil(work_s / every_s - 1e-9)))
    one_s = work_s / parts
    rate = 1 / life.mean_s
    after = exp(rate * costs.restart_s) * (life.mean_s + costs.down_s)
    # What is lost by interruptions, per part: it begins anew after each of them.
    lasting = [one_s + costs.save_s] * (parts - 1) + [one_s]
    return sum(expm1(rate * each) * after for each in lasting)


def young_s(save_s: float, mean_s: float) -> float:
    """Return Young's interval (1974)."""
    return max(_FEWEST_S, sqrt(2 * save_s * mean_s))


def daly_s(save_s: float, mean_s: float) -> float:
    """Return Daly's interval of higher order (2006)."""
    if save_s >= 2 * mean_s:
        return mean_s
    part = save_s / (2 * mean_s)
    return max(_FEWEST_S, sqrt(2 * save_s * mean_s) * (1 + sqrt(part) / 3 + part / 9) - save_s)


def _closed_s(save_s: float, mean_s: float) -> float:
    """Solve (x - 1) e^(x - 1) = -e^(-save / mean - 1) for the interval x, in mean lives."""
    from scipy.special import lambertw  # noqa: PLC0415 - heavy

    x = 1 + float(lambertw(-exp(-save_s / mean_s - 1)).real)
    return max(_FEWEST_S, x * mean_s)


def _expected_saves(first_s: float, step_s: float, life: JobLife) -> float:
    """Return how many saves are complete before an interruption, on average."""
    scale_s = life.mean_s / gamma(1 + 1 / life.shape)
    longest_s = scale_s * 40.0 ** (1 / life.shape)  # beyond it are e^-40 of the lives
    count = int(longest_s / step_s) + 1
    if count <= _MOST_TERMS:
        ends_s = first_s + step_s * np.arange(1, count + 1, dtype=np.float64)
        return float(life.lasting(ends_s).sum())
    # So many saves are nearly an integral; half a term corrects its end.
    edges = np.asarray(np.linspace(first_s, longest_s, _MOST_TERMS), np.float64)
    area = float(np.trapezoid(life.lasting(edges), edges))
    return area / step_s - 0.5 * float(life.lasting(np.array([first_s]))[0])


def _searched(kept: Callable[[float], float], costs: SaveCosts, mean_s: float) -> float:
    """Return the interval with the most kept: the best of a grid, then golden section."""
    low_s = max(_FEWEST_S, min(costs.save_s, mean_s) / 100)
    grid = np.geomspace(low_s, max(20 * mean_s, 2 * low_s), _GRID)
    best = int(np.argmax([kept(float(each)) for each in grid]))
    low, high = log(grid[max(0, best - 1)]), log(grid[min(_GRID - 1, best + 1)])
    for _ in range(40):
        span = _GOLDEN * (high - low)
        if kept(exp(high - span)) >= kept(exp(low + span)):
            high = low + span
        else:
            low = high - span
    return exp((low + high) / 2)


def _flat(kept: Callable[[float], float], every_s: float) -> tuple[float, float]:
    """Return the range of intervals that lose at most a tenth of a per cent."""
    least = kept(every_s) * 0.999
    found = []
    for factor in (0.98, 1.02):
        at_s = every_s
        while kept(at_s * factor) >= least and _FEWEST_S < at_s * factor < 1e9:
            at_s *= factor
        found.append(at_s)
    return found[0], found[1]


@lru_cache
def _posterior(failures: int) -> tuple[float, ...]:
    """Return equally likely numbers of failures that the same exposure may have on average."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - heavy

    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    return tuple(gammaincinv(failures + 0.5, chances).tolist())
