"""What was measured about one application: its step times by placement, and how it learns.

A placement is GPUs per node, e.g. (4, 2). A step is one update of the weights; a replica may
split its part of the batch into several passes of `atomic` samples (gradient accumulation).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator

from steward.errors import StewardError

__all__ = ["ApplicationProfile", "BatchSplit", "Learning", "StepTimes", "packed_shape"]

Floats = NDArray[np.float64]
Shape = tuple[int, ...]

_EPS = 1e-8  # a batch that divides evenly must not be rounded up by an error of the last digit
_MOST_NODES = 16  # no application was measured on more


def packed_shape(replicas: int, gpus_per_node: int) -> Shape:
    """Return the shape that fills one node after the other.

    >>> packed_shape(6, 4)
    (4, 2)
    """
    full, rest = divmod(replicas, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSplit:
    """How a batch is computed: `passes` passes of `atomic` samples on each replica."""

    atomic: int
    passes: int

    def total(self, replicas: int) -> int:
        """Return the samples of one step."""
        return replicas * self.atomic * self.passes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """Seconds per pass, and the part of it that is synchronisation, on one GPU type."""

    by_shape: Mapping[Shape, Floats]  # rows: samples per GPU, step, sync; sorted by samples
    by_count: Floats  # rows: nodes, replicas, samples per GPU, step, sync
    max_local: int  # samples that fit into one GPU
    memo: dict[object, tuple[float, float]] = field(default_factory=dict, repr=False)
    hull: list[LinearNDInterpolator] = field(default_factory=list, repr=False)

    min_local: int = field(init=False)  # the fewest samples per GPU that were measured
    most_replicas: int = field(init=False)  # that were measured
    samples_per_s: float = field(init=False)  # of one GPU at its largest batch

    def __post_init__(self) -> None:
        alone = self.by_shape[(1,)]
        counted = [*self.by_count[:, 1], *(sum(shape) for shape in self.by_shape)]
        fewest = min(rows[0, 0] for rows in self.by_shape.values())
        object.__setattr__(self, "min_local", int(fewest))
        object.__setattr__(self, "most_replicas", int(max(counted)))
        object.__setattr__(self, "samples_per_s", float(alone[:, 0].max() / alone[:, 1].max()))

    def local_limit(self, shape: Shape) -> int:
        """Return how many samples per GPU were measured at most in this placement."""
        rows = self.by_shape.get(_canonical(shape))
        if rows is not None:
            return min(self.max_local, int(rows[-1, 0]))
        nodes, replicas = len(shape), sum(shape)
        wider = (self.by_count[:, 0] >= nodes) & (self.by_count[:, 1] >= replicas)
        measured = self.by_count[wider, 2]
        return min(self.max_local, int(measured.max())) if len(measured) else self.max_local

    def pass_s(self, shape: Shape, atomic: int) -> tuple[float, float]:
        """Return seconds of one pass and its synchronisation, between what was measured."""
        key = (shape, atomic)
        known = self.memo.get(key)
        if known is None:
            rows = self.by_shape.get(_canonical(shape))
            known = self._across(shape, atomic) if rows is None else _along(rows, atomic)
            self.memo[key] = known
        return known

    def _across(self, shape: Shape, atomic: int) -> tuple[float, float]:
        """Interpolate between nodes, replicas and samples where the shape was not measured."""
        if not self.hull:
            grid = np.vstack((self._means(), self.by_count))
            self.hull.append(LinearNDInterpolator(grid[:, :3], grid[:, 3:]))
        point = (min(len(shape), _MOST_NODES), sum(shape), atomic)
        step_s, sync_s = self.hull[0](point).reshape(2).tolist()
        return (step_s, sync_s) if not math.isnan(step_s) else self._nearest(point)

    def _nearest(self, point: tuple[int, int, int]) -> tuple[float, float]:
        """Return the measurement nearest in replicas, then nodes, then samples."""
        grid = np.vstack((self._means(), self.by_count))
        away = np.abs(grid[:, :3] - point)
        row = grid[np.lexsort((away[:, 2], away[:, 0], away[:, 1]))[0]]
        return float(row[3]), float(row[4])

    def _means(self) -> Floats:
        """Average the placements that have as many nodes and replicas."""
        groups: dict[tuple[int, int, float], list[Floats]] = {}
        for shape, rows in self.by_shape.items():
            for row in rows:
                groups.setdefault((len(shape), sum(shape), row[0]), []).append(row[1:])
        return np.array([(*key, *np.mean(groups[key], axis=0)) for key in sorted(groups)])


def _canonical(shape: Shape) -> Shape:
    """Take the smallest rotation: a ring of nodes is the same from whichever it is told."""
    return min(shape[i:] + shape[:i] for i in range(len(shape)))


def _along(rows: Floats, atomic: int) -> tuple[float, float]:
    """Interpolate between the measured numbers of samples; hold the ends."""
    x = rows[:, 0]
    samples = min(max(float(atomic), x[0]), x[-1])
    if len(x) == 1:
        return float(rows[0, 1]), float(rows[0, 2])
    high = min(max(int(np.searchsorted(x, samples)), 1), len(x) - 1)
    low = high - 1
    share = samples - x[low]
    slope = (rows[high, 1:] - rows[low, 1:]) / (x[high] - x[low])
    step_s, sync_s = (slope * share + rows[low, 1:]).tolist()
    return step_s, sync_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learning:
    """What an epoch takes at each batch size that was tried. Arrays are (batch, epoch)."""

    batches: tuple[int, ...]
    progress: Floats  # steps of the smallest batch that the epoch was worth, so far
    steps: Floats  # so far
    grad_sqr: Floats
    grad_var: Floats
    memo: dict[tuple[float, int], tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def epochs(self) -> int:
        """Epochs to the end of training."""
        return int(self.progress.shape[1])

    def milestones(self) -> tuple[float, ...]:
        """Return the progress at which each epoch ends, from 0."""
        return (0.0, *self.progress.min(axis=0).tolist())

    def gradient(self, batch: float, epoch: int) -> tuple[float, float]:
        """Return the gradient's square and variance in an epoch at this batch size."""
        known = self.memo.get((batch, epoch))
        if known is None:
            low, high, share = self._between(batch)
            known = (
                _blend(self.grad_sqr[low, epoch], self.grad_sqr[high, epoch], share),
                _blend(self.grad_var[low, epoch], self.grad_var[high, epoch], share),
            )
            self.memo[batch, epoch] = known
        return known

    def gain(self, batch: float, epoch: int) -> float:
        """Return how many steps of the smallest batch one step of this batch is worth."""
        sqr, var = self.gradient(batch, epoch)
        return (var + sqr) / (var / (batch / self.batches[0]) + sqr)

    def steps_after(self, batch: float, epoch: int) -> float:
        """Return the steps taken when this epoch ends."""
        low, high, share = self._between(batch)
        return _blend(self.steps[low, epoch], self.steps[high, epoch], share)

    def _between(self, batch: float) -> tuple[int, int, tuple[float, float]]:
        """Return the tried batches on both sides and the distances to them."""
        tried = self.batches
        high = int(np.searchsorted(tried, batch))
        high = min(high, len(tried) - 1)
        low = high if tried[high] <= batch else max(high - 1, 0)
        return low, high, (batch - tried[low], tried[high] - batch)


def _blend(low: float, high: float, distance: tuple[float, float]) -> float:
    below, above = distance
    if below <= 0 or above <= 0:  # on a batch that was tried, or outside all of them
        return float(low) if above > 0 else float(high)
    return float((below * high + above * low) / (below + above))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApplicationProfile:
    """One application on every GPU type where it was measured."""

    name: str
    learning: Learning
    step_times: Mapping[str, StepTimes]  # by GPU type
    restart_s: float = 30.0  # to save, move and load it
    slowdown: float = 1.0  # of real runs against the measured step times
    most_replicas: int = 64

    @property
    def init_batch(self) -> int:
        """The batch size whose learning is the yardstick."""
        return self.learning.batches[0]

    @property
    def max_batch(self) -> int:
        """The largest batch size that still learns."""
        return self.learning.batches[-1]

    def on(self, gpu_type: str | None) -> StepTimes:
        """Return the step times on a GPU type (None: the first that was measured)."""
        if gpu_type is None:
            return next(iter(self.step_times.values()))
        if gpu_type not in self.step_times:
            problem = f"'{self.name}' was never measured on '{gpu_type}'"
            known = ", ".join(self.step_times)
            raise StewardError(problem, where="profile", hint=f"measured: {known}")
        return self.step_times[gpu_type]

    def split(self, batch: float, shape: Shape, gpu_type: str | None = None) -> BatchSplit:
        """Split a batch over the GPUs of a placement, in as few passes as memory allows."""
        replicas = sum(shape)
        local = math.ceil(batch / replicas - _EPS)
        passes = math.ceil(local / self.on(gpu_type).local_limit(shape) - _EPS)
        if replicas == 1 and batch > self.init_batch:
            passes = max(2, passes)  # one pass alone cannot show how noisy the gradient is
        atomic = math.ceil(local / passes - _EPS)
        return BatchSplit(
            atomic=min(atomic, int(self.max_batch / (replicas * passes))), passes=passes
        )

    def step_s(self, split: BatchSplit, shape: Shape, gpu_type: str | None = None) -> float:
        """Return the seconds of one step, all passes."""
        step_s, sync_s = self.on(gpu_type).pass_s(shape, split.atomic)
        return (step_s + (step_s - sync_s) * (split.passes - 1)) * self.slowdown
