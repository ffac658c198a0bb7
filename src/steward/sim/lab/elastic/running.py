"""One elastic job on its way: what it has done, what it was seen to do, how it splits its batch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from steward.decide.scheduling.elastic.interface import Placement
from steward.model.application import ApplicationProfile, BatchSplit
from steward.model.goodput import GoodputModel, StepModel, best_split, fit_steps

__all__ = ["RunningJob"]

Seen = dict[tuple[int, int, int], tuple[float, float]]  # nodes, replicas, samples: grad s, step s


@dataclass(slots=True, kw_only=True)
class RunningJob:
    """The state of one job; the engine calls `place` and `advance`."""

    row: int
    profile: ApplicationProfile
    submit_s: float
    replicas: int  # requested
    batch: float  # requested
    fixed_batch: bool
    restart_s: float
    placement: Placement = ()
    shape: tuple[int, ...] = ()
    gpu_type: str = ""
    split: BatchSplit = field(default_factory=lambda: BatchSplit(atomic=0, passes=1))
    restart_left_s: float = 0.0
    restarts: int = -1  # the first start is none
    lost_s: float = 0.0
    attained_gpu_s: float = 0.0
    epoch: int = 0
    progress: float = 0.0
    gradient: tuple[float, float] | None = None
    seen: dict[str, Seen] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)  # most replicas it had, by GPU type
    fitted: dict[str, tuple[int, StepModel]] = field(default_factory=dict)
    ends: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.ends = self.profile.learning.milestones()

    @property
    def finished_share(self) -> float:
        """How much of the training is done, 0..1."""
        return self.progress / self.ends[-1]

    def place(self, placement: Placement, gpu_type: str) -> None:
        """Move to other GPUs, or to none; every start costs the time to save and load."""
        self.placement = placement
        self.shape = tuple(len(list(same)) for _, same in itertools.groupby(placement))
        if placement:
            self.gpu_type = gpu_type
            self.restart_left_s = self.restart_s
            self.restarts += 1
            self._choose_split()

    def advance(self, seconds: float) -> float | None:
        """Run for so long. Returns after how many seconds the training ended, if it did."""
        delay = min(self.restart_left_s, seconds)
        self.restart_left_s -= delay
        self.lost_s += delay
        passed = delay
        gpus = len(self.placement)
        while passed < seconds:
            goodput = self._goodput()
            left = seconds - passed
            target = self.ends[self.epoch + 1]
            if self.progress + goodput * left < target:
                self.progress += goodput * left
                passed = seconds
            else:
                # Epochs end on whole seconds, as in the simulators that this one agrees with.
                passed += min(round((target - self.progress) / goodput), left)
                self.progress = target
                self.epoch += 1
                if self.epoch == len(self.ends) - 1:
                    self.attained_gpu_s += passed * gpus
                    return passed
            if not self.fixed_batch:
                self._choose_split()
        self.attained_gpu_s += seconds * gpus
        return None

    def _goodput(self) -> float:
        """Return progress per second now, and take note of what this step showed."""
        total = self.split.total(len(self.placement))
        if not self.fixed_batch:
            self._observe(total)
        step_s = self.profile.step_s(self.split, self.shape, self.gpu_type)
        return self.profile.learning.gain(total, self.epoch) / step_s

    def _observe(self, total: int) -> None:
        self.gradient = self.profile.learning.gradient(total, self.epoch)
        seen = self.seen.setdefault(self.gpu_type, {})
        key = (len(self.shape), len(self.placement), self.split.atomic)
        if key not in seen:
            self.tried[self.gpu_type] = max(self.tried.get(self.gpu_type, 0), key[1])
            step_s, sync_s = self.profile.on(self.gpu_type).pass_s(self.shape, self.split.atomic)
            seen[key] = (step_s - sync_s, step_s)

    def _choose_split(self) -> None:
        """Return the requested batch size, or the one estimated to train fastest."""
        times = self.profile.on(self.gpu_type)
        gpus = len(self.placement)
        model = None if self.fixed_batch else self.model(self.gpu_type)
        if model is None:
            start = max(self.profile.init_batch, times.min_local * gpus)
            batch = self.batch if self.fixed_batch else start
            self.split = self.profile.split(batch, self.shape, self.gpu_type)
            return
        model = model._replace(max_local=float(times.local_limit(self.shape)))
        best = best_split(model, len(self.shape), gpus)
        most = int(self.profile.max_batch / (gpus * best.passes))
        self.split = BatchSplit(atomic=min(best.atomic, most), passes=best.passes)

    def model(self, gpu_type: str) -> GoodputModel | None:
        """Return what the job has learnt about its speed on a GPU type; None: nothing yet."""
        seen = self.seen.get(gpu_type)
        if not seen or self.gradient is None:
            return None
        known = self.fitted.get(gpu_type)
        if known is None or known[0] != len(seen):
            rows = np.array([(*key, *value) for key, value in seen.items()])
            known = (len(seen), fit_steps(rows))
            self.fitted[gpu_type] = known
        times = self.profile.on(gpu_type)
        return GoodputModel(
            step=known[1],
            grad_sqr=self.gradient[0],
            grad_var=self.gradient[1],
            init_batch=float(self.profile.init_batch),
            max_batch=float(self.profile.max_batch),
            min_local=float(times.min_local),
            max_local=float(times.max_local),
        )
