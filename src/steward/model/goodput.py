"""Goodput: how fast a training job really learns, by GPUs and batch size (Pollux, OSDI'21).

A step takes (T_grad^gamma + T_sync^gamma)^(1/gamma): gradients are linear in the samples per GPU,
synchronisation grows with the replicas and is dearer between nodes than inside one; gamma says
how much of the two overlaps. Efficiency is what a larger batch loses in learning per sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from steward.model.application import ApplicationProfile, BatchSplit, packed_shape
from steward.model.compiled import njit

__all__ = ["GoodputModel", "StepModel", "alone_s", "best_split", "fit_steps", "goodputs"]

Floats = NDArray[np.float64]

_POINTS = 50  # batch sizes that are tried, in geometric steps
_EPS = 1e-8


class StepModel(NamedTuple):
    """The fitted time of one step."""

    grad_s: float
    grad_s_per_sample: float
    across_s: float  # synchronisation between nodes
    across_s_per_replica: float
    inside_s: float  # synchronisation inside one node
    inside_s_per_replica: float
    gamma: float


class GoodputModel(NamedTuple):
    """What is known about a job on one GPU type: step times, gradient noise, and limits."""

    step: StepModel
    grad_sqr: float
    grad_var: float
    init_batch: float
    max_batch: float
    min_local: float
    max_local: float


def alone_s(
    profile: ApplicationProfile,
    *,
    replicas: int,
    batch: float,
    gpu_type: str | None = None,
    gpus_per_node: int = 4,
) -> float:
    """Return how long a job takes alone on its requested GPUs, at its requested batch size."""
    shape = packed_shape(replicas, gpus_per_node)
    split = profile.split(batch, shape, gpu_type)
    step_s = profile.step_s(split, shape, gpu_type)
    total = split.total(replicas)
    ends = profile.learning.milestones()
    gains = [profile.learning.gain(total, epoch) for epoch in range(profile.learning.epochs)]
    return sum(
        (after - before) / gain * step_s
        for before, after, gain in zip(ends, ends[1:], gains, strict=False)
    )


@njit
def _sync_s(step: StepModel, nodes: float, replicas: float) -> float:
    """Time the slowest link between replicas."""
    more = max(replicas - 2.0, _EPS)
    if nodes > 1:
        return step.across_s + step.across_s_per_replica * more
    if replicas > 1:
        return step.inside_s + step.inside_s_per_replica * more
    return _EPS + _EPS * more


@njit
def _best(model: GoodputModel, nodes: float, replicas: float) -> tuple[float, float, float]:
    """Try batch sizes in geometric steps; return goodput, samples per pass, passes."""
    step = model.step
    sync_s = _sync_s(step, nodes, replicas) ** step.gamma
    first = max(model.init_batch, model.min_local * replicas)
    growth = np.log(model.max_batch / first) / (_POINTS - 1)
    best, best_atomic, best_passes = 0.0, 0.0, 0.0
    last_atomic, last_passes = -1.0, -1.0
    for i in range(_POINTS):
        local = first * np.exp(growth * i) / replicas
        passes = np.ceil(local / model.max_local - _EPS)
        if replicas == 1 and local > model.init_batch + _EPS:
            passes = max(passes, 2.0)
        atomic = np.ceil(local / passes - _EPS)
        if i == 0:
            best_atomic, best_passes = atomic, passes
        if atomic == last_atomic and passes == last_passes:
            continue
        last_atomic, last_passes = atomic, passes
        if atomic < model.min_local or atomic > model.max_local:
            continue
        grad_s = step.grad_s + step.grad_s_per_sample * atomic
        total_s = (passes - 1) * grad_s + (grad_s**step.gamma + sync_s) ** (1 / step.gamma)
        scale = replicas * atomic * passes / model.init_batch
        noise = model.grad_var / scale + model.grad_sqr
        gain = (model.grad_var + model.grad_sqr) / noise if noise > 0 else 1.0
        goodput = model.init_batch * gain / total_s
        if goodput > best:
            best, best_atomic, best_passes = goodput, atomic, passes
    return best, best_atomic, best_passes


@njit
def _fill_goodputs(model: GoodputModel, nodes: float, replicas: Floats, found: Floats) -> None:
    """Write the best goodput for each number of replicas into `found`."""
    for i in range(len(replicas)):
        if replicas[i] > 0:
            found[i] = _best(model, nodes, replicas[i])[0]


def goodputs(model: GoodputModel, replicas: Floats, *, across: bool) -> Floats:
    """Return samples per second, weighed by what they teach, at the best batch size.

    `across`: the replicas stand on several nodes. How many does not matter to the model.
    """
    found = np.zeros(len(replicas))
    _fill_goodputs(model, 2.0 if across else 1.0, replicas, found)
    return found


def best_split(model: GoodputModel, nodes: int, replicas: int) -> BatchSplit:
    """Return how the job should split its best batch on so many GPUs."""
    _, atomic, passes = _best(model, float(nodes), float(replicas))
    return BatchSplit(atomic=int(atomic), passes=int(passes))


@njit
def _misfit(point: Floats, seen: Floats, slope: Floats) -> float:  # noqa: PLR0914, PLR0915
    """Return how far a step model is from what was seen; write the gradient into `slope`.

    Rows of `seen`: nodes, replicas, samples per pass, log of gradient seconds, log of step
    seconds. Errors are root mean squares of logarithms; small gamma and small growth with the
    replicas are preferred.
    """
    n = len(seen)
    gamma = point[6]
    sums = np.zeros(2)
    slopes = np.zeros((2, 7))
    for row in range(n):
        nodes, replicas, atomic = seen[row, 0], seen[row, 1], seen[row, 2]
        grad_s = point[0] + point[1] * atomic
        more = max(replicas - 2.0, _EPS)
        link = 2 if nodes > 1 else (4 if replicas > 1 else -1)
        sync_s = _EPS + _EPS * more if link < 0 else point[link] + point[link + 1] * more
        grad_g, sync_g = grad_s**gamma, sync_s**gamma
        both = grad_g + sync_g
        off = np.log(grad_s) - seen[row, 3]
        sums[0] += off * off
        slopes[0, 0] += off / grad_s
        slopes[0, 1] += off * atomic / grad_s
        off = np.log(both) / gamma - seen[row, 4]
        sums[1] += off * off
        by_grad = off * grad_g / grad_s / both
        slopes[1, 0] += by_grad
        slopes[1, 1] += by_grad * atomic
        if link > 0:
            by_sync = off * sync_g / sync_s / both
            slopes[1, link] += by_sync
            slopes[1, link + 1] += by_sync * more
        mixed = (grad_g * np.log(grad_s) + sync_g * np.log(sync_s)) / both
        slopes[1, 6] += off * (mixed / gamma - np.log(both) / gamma**2)
    total = 1e-3 * (gamma - 1) ** 2
    slope[:] = 0.0
    slope[6] = 2e-3 * (gamma - 1)
    for part in range(2):
        error = np.sqrt(sums[part] / n)
        total += error
        if error > 0:
            slope += slopes[part] / (n * error)
    for link in (2, 4):
        growth = point[link + 1] / point[link]
        total += 1e-2 * growth**2
        slope[link + 1] += 2e-2 * growth / point[link]
        slope[link] -= 2e-2 * growth**2 / point[link]
    return total


def _misfit_and_slope(point: Floats, seen: Floats) -> tuple[float, Floats]:
    slope = np.empty(7)
    return _misfit(point, seen, slope), slope


def fit_steps(seen: Floats) -> StepModel:
    """Fit a step model to measurements: nodes, replicas, samples per pass, gradient s, step s.

    What was not seen yet (several nodes, several replicas, …) is taken to cost nothing, so that
    a job is given the chance to show it.
    """
    nodes, replicas, atomic = seen[:, 0], seen[:, 1], seen[:, 2]
    point = np.array([1e-1, 1e-2] * 3 + [1.0 + 1e-3])
    low = np.array([_EPS] * 6 + [1.0])
    high = np.array([np.inf] * 6 + [10.0])
    frozen = []
    if not (nodes > 1).any():
        frozen += [2, 3]
    if not ((nodes == 1) & (replicas > 1)).any():
        frozen += [4, 5]
    if not (replicas > 2).any():
        frozen += [3, 5]
    point[frozen] = high[frozen] = low[frozen]
    if len(np.unique(atomic)) == 1:  # half of the time is taken to be independent of the samples
        point[0] = low[0] = high[0] = seen[:, 3].mean() / 2
    logs = np.column_stack((seen[:, :3], np.log(seen[:, 3:])))
    found = minimize(
        _misfit_and_slope,
        point,
        args=(logs,),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(low, high, keep_feasible=True),
        tol=1e-5,
    ).x
    if not (nodes > 1).any():  # between nodes it is at least as slow as inside one
        found[2] = max(found[2], found[4] * 1.1)
        found[3] = max(found[3], found[5] * 1.1)
    return StepModel(*found.tolist())
