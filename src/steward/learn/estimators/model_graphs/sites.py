"""What measured runs say of a GPU, and of the models that ran on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.calibration import Calibration
from steward.learn.estimators.model_graphs.gpu_types import GpuType, gpu_type
from steward.learn.estimators.model_graphs.op_times import in_seconds, step_seconds, step_work
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion
from steward.learn.estimators.model_graphs.time_fit import MeasuredStep, fit_offsets

__all__ = [
    "STATE_VERSION",
    "MeasuredRun",
    "Site",
    "fit_site",
    "plain_site",
    "state_name",
    "usable",
]

STATE_VERSION = 1
_KNOWN_SPREAD = (0.06, 0.06, 0.2)  # of a GPU type that was measured elsewhere
_UNKNOWN_SPREAD = (0.25, 0.25, 0.3)
_ENOUGH_RUNS = 3
_LEAST_DEVIATION = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One measured configuration with the trace of its model; what was not measured is none."""

    question: ModelQuestion
    trace: Mapping[str, Any]
    step_s: float | None = None
    reserved_bytes: float | None = None
    device_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A GPU as it was measured; residuals are logarithms of truth over prediction, by model."""

    name: str
    like: str
    offsets: tuple[float, float, float]
    timed_runs: int
    context_bytes: float | None
    time_residuals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    memory_residuals: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def deviation(self, known: Calibration, *, measured: bool) -> float:
        """Return the deviation that is left of how fast this GPU is."""
        without, with_runs = known.gpu_spread
        if measured:
            without = with_runs = 0.0 if self.like == known.reference else with_runs
        share = min(1.0, self.timed_runs / _ENOUGH_RUNS)
        left = without + (with_runs - without) * share
        if self.timed_runs > _ENOUGH_RUNS:
            left *= (_ENOUGH_RUNS / self.timed_runs) ** 0.5
        return max(left, _LEAST_DEVIATION) if left else 0.0

    def payload(self) -> dict[str, Any]:
        """Return plain values to save."""
        return {
            "name": self.name,
            "like": self.like,
            "offsets": list(self.offsets),
            "timed_runs": self.timed_runs,
            "context_bytes": self.context_bytes,
            "time_residuals": {name: list(each) for name, each in self.time_residuals.items()},
            "memory_residuals": {name: list(each) for name, each in self.memory_residuals.items()},
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Site:
        """Read what `payload` returned."""
        fields = dict(payload)
        first, second, third = fields["offsets"]
        fields["offsets"] = (float(first), float(second), float(third))
        return cls(**fields)


def state_name(gpu: str) -> str:
    """Return the name that a GPU's state is saved under.

    >>> state_name("NVIDIA A100 (lab 2)")
    'estimate-gpu-nvidia-a100-lab-2'
    """
    plain = "".join(each if each.isalnum() and each.isascii() else " " for each in gpu.lower())
    words = plain.split()
    if not words:
        raise StewardError(
            f"'{gpu}' names no GPU", where="gpu", hint="use letters and digits, such as lab-a100"
        )
    return "-".join(["estimate-gpu", *words])[:100]


def fit_site(runs: Sequence[MeasuredRun], known: Calibration, *, name: str, like: GpuType) -> Site:
    """Fit a GPU's offsets on measured runs, and keep each model's residuals."""
    if not runs:
        raise StewardError(
            "no row can be used", where=name, hint="the reasons are listed with the rows"
        )
    prior, measured = known.offsets(like)
    spread = _KNOWN_SPREAD if measured else _UNKNOWN_SPREAD
    steps = [_step(run, like, known) for run in runs]
    timed = [step for step in steps if step is not None]
    fitted = fit_offsets(timed, known.costs, prior=prior, spread=spread) if timed else prior
    offsets = (float(fitted[0]), float(fitted[1]), float(fitted[2]))
    contexts = [
        run.device_bytes - run.reserved_bytes
        for run in runs
        if run.device_bytes is not None and run.reserved_bytes is not None
    ]
    times: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for run, step in zip(runs, steps, strict=True):
        if step is not None:
            seconds = step_seconds(step.ways, known.costs, offsets).seconds
            times.setdefault(run.question.model, []).append(_log(step.seconds, seconds))
        if run.reserved_bytes is not None:
            residual = _log(run.reserved_bytes, run.trace["reserved_bytes"])
            memory.setdefault(run.question.model, []).append(residual)
    return Site(
        name=name,
        like=like.name,
        offsets=offsets,
        timed_runs=len(timed),
        context_bytes=max(0.0, median(contexts)) if contexts else None,
        time_residuals=times,
        memory_residuals=memory,
    )


def _log(truth: float, predicted: float) -> float:
    return float(np.log(truth / predicted))


def _step(run: MeasuredRun, like: GpuType, known: Calibration) -> MeasuredStep | None:
    if run.step_s is None:
        return None
    question = run.question
    states = OPTIMIZERS[question.opt].states if question.trains else 0
    work = step_work(run.trace, states=states, trains=question.trains)
    return MeasuredStep(in_seconds(work, like.rates), run.step_s / known.time_bias, like.name)


def usable(rows: Iterable[MeasuredRun]) -> list[MeasuredRun]:
    """Return the runs that were measured at all."""
    return [run for run in rows if run.step_s is not None or run.reserved_bytes is not None]


def plain_site(gpu: str, known: Calibration) -> tuple[Site, bool]:
    """Return a GPU that nothing was measured on here, and whether others measured it."""
    like = gpu_type(gpu)
    offsets, measured = known.offsets(like)
    context = known.context_bytes if like.name == known.reference else None
    return (
        Site(name=gpu, like=like.name, offsets=offsets, timed_runs=0, context_bytes=context),
        measured,
    )
