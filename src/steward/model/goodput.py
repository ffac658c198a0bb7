"""Goodput: how fast a training job really learns, by GPUs and batch size (Pollux, OSDI'21).

A step takes (T_grad^gamma + T_sync^gamma)^(1/gamma): gradients are linear in the samples per GPU,
synchronisation grows with the replicas and is dearer between nodes than inside one; gamma says
how much of the two overlaps. Efficiency is what a larger batch loses in learning per sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.application import ApplicationProfile, BatchSplit, packed_shape

__all__ = ["GoodputModel", "StepModel", "alone_s", "best_split", "fit_steps", "goodputs"]

Floats = NDArray[np.float64]

_POINTS = 50  # batch sizes that are tried, in geometric steps
_EPS = 1e-8
_FIT_TOLERANCE = 1e-5
_MOST_STEPS = 100


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
def _errors(point: Floats, seen: Floats, off: Floats, slopes: Floats) -> None:
    """Compare a step model with what was seen: errors of logarithms, and what moves them.

    Rows of `seen`: nodes, replicas, samples per pass, log of gradient seconds, log of step
    seconds. Writes the two errors of each row into `off`, the root of their mean squares into
    its last row, and their slopes by the logarithms of the parameters (gamma: by itself) into
    `slopes`.
    """
    n = len(seen)
    gamma = point[6]
    grad_squares, step_squares = 0.0, 0.0
    slopes[:] = 0.0
    for row in range(n):
        nodes, replicas, atomic = seen[row, 0], seen[row, 1], seen[row, 2]
        more = max(replicas - 2.0, _EPS)
        link = 2 if nodes > 1 else (4 if replicas > 1 else -1)
        grad_s = point[0] + point[1] * atomic
        sync_s = _EPS + _EPS * more if link < 0 else point[link] + point[link + 1] * more
        grad_g, sync_g = grad_s**gamma, sync_s**gamma
        both = grad_g + sync_g
        grad_off = np.log(grad_s) - seen[row, 3]
        step_off = np.log(both) / gamma - seen[row, 4]
        off[row, 0], off[row, 1] = grad_off, step_off
        grad_squares += grad_off * grad_off
        step_squares += step_off * step_off
        constant = point[0] / grad_s
        slopes[row, 0, 0], slopes[row, 0, 1] = constant, 1.0 - constant
        slopes[row, 1, 0] = constant * grad_g / both
        slopes[row, 1, 1] = (1.0 - constant) * grad_g / both
        if link > 0:
            slopes[row, 1, link] = point[link] / sync_s * sync_g / both
            slopes[row, 1, link + 1] = point[link + 1] * more / sync_s * sync_g / both
        mixed = (grad_g * np.log(grad_s) + sync_g * np.log(sync_s)) / both
        slopes[row, 1, 6] = mixed / gamma - np.log(both) / gamma**2
    off[n, 0], off[n, 1] = np.sqrt(grad_squares / n), np.sqrt(step_squares / n)


@njit
def _misfit(point: Floats, off: Floats) -> float:
    """Return what is minimised: both errors; small gamma and small growth are preferred."""
    growth = (point[3] / point[2]) ** 2 + (point[5] / point[4]) ** 2
    n = len(off) - 1
    return float(off[n, 0] + off[n, 1] + 1e-3 * (point[6] - 1) ** 2 + 1e-2 * growth)


@njit
def _normal(point: Floats, off: Floats, slopes: Floats, matrix: Floats) -> None:
    """Write the normal equations of the weighted squares into `matrix`; column 7 is the slope.

    A sum of root mean squares is minimised by squares whose weights are renewed each time.
    """
    n = len(off) - 1
    matrix[:] = 0.0
    for part in range(2):
        weight = 1.0 / (n * max(off[n, part], _FIT_TOLERANCE))
        for row in range(n):
            for i in range(7):
                by = weight * slopes[row, part, i]
                matrix[i, 7] += by * off[row, part]
                for j in range(7):
                    matrix[i, j] += by * slopes[row, part, j]
    matrix[6, 6] += 2e-3
    matrix[6, 7] += 2e-3 * (point[6] - 1)
    for link in range(2, 6, 2):
        growth = 2e-2 * (point[link + 1] / point[link]) ** 2
        matrix[link, 7] -= growth
        matrix[link + 1, 7] += growth
        matrix[link, link] += growth
        matrix[link + 1, link + 1] += growth
        matrix[link, link + 1] -= growth
        matrix[link + 1, link] -= growth


@njit
def _damp(
    matrix: Floats, damping: float, point: Floats, low: Floats, high: Floats, work: Floats
) -> None:
    """Write the damped equations into `work`, without the parameters shut in at a bound."""
    work[:] = matrix
    for i in range(7):
        work[i, i] += damping * (matrix[i, i] + 1e-9)
        slope = matrix[i, 7]
        if (point[i] <= low[i] and slope >= 0) or (point[i] >= high[i] and slope <= 0):
            for j in range(7):
                work[i, j] = work[j, i] = 0.0
            work[i, i], work[i, 7] = 1.0, 0.0


@njit
def _solve(work: Floats, step: Floats) -> None:
    """Solve by elimination into `step`; a positive symmetric matrix needs no pivots."""
    for i in range(7):
        for k in range(i + 1, 7):
            share = work[k, i] / work[i, i]
            for j in range(i, 8):
                work[k, j] -= share * work[i, j]
    for i in range(6, -1, -1):
        rest = work[i, 7]
        for j in range(i + 1, 7):
            rest -= work[i, j] * step[j]
        step[i] = rest / work[i, i]


@njit
def _move(point: Floats, step: Floats, low: Floats, high: Floats, there: Floats) -> None:
    """Go back a step in logarithms (gamma: plainly), at most a factor of e^2, within bounds."""
    for i in range(7):
        length = min(max(step[i], -2.0), 2.0)
        goal = point[i] * np.exp(-length) if i < 6 else point[i] - length
        there[i] = min(max(goal, low[i]), high[i])


@njit
def _descend(point: Floats, low: Floats, high: Floats, seen: Floats) -> None:
    """Move `point` to the least misfit within bounds: damped Gauss-Newton in logarithms."""
    off, slopes = np.empty((len(seen) + 1, 2)), np.empty((len(seen), 2, 7))
    matrix, work = np.empty((7, 8)), np.empty((7, 8))
    step, there = np.empty(7), np.empty(7)
    _errors(point, seen, off, slopes)
    value = _misfit(point, off)
    damping = 1e-2
    for _ in range(_MOST_STEPS):
        _normal(point, off, slopes, matrix)
        gained = -1.0
        while gained < 0 and damping < 1e6:
            _damp(matrix, damping, point, low, high, work)
            _solve(work, step)
            _move(point, step, low, high, there)
            _errors(there, seen, off, slopes)
            gained = value - _misfit(there, off)
            damping = damping / 5 if gained >= 0 else damping * 4
        if gained < 0:
            return
        point[:] = there
        value -= gained
        if gained < _FIT_TOLERANCE * max(value, _FIT_TOLERANCE):
            return


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
    _descend(point, low, high, logs)
    if not (nodes > 1).any():  # between nodes it is at least as slow as inside one
        point[2] = max(point[2], point[4] * 1.1)
        point[3] = max(point[3], point[5] * 1.1)
    return StepModel(*point.tolist())
