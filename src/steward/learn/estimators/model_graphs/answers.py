"""Answer a question about a model: by its trace with torch, by the closed form without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from steward.errors import StewardError, unknown_name
from steward.learn.estimators.model_graphs.calibration import (
    CAPACITY_BYTES,
    Calibration,
    calibration_of,
)
from steward.learn.estimators.model_graphs.closed_form import closed_form, transformer
from steward.learn.estimators.model_graphs.configs import known_config, read_config
from steward.learn.estimators.model_graphs.op_times import step_seconds, step_work
from steward.learn.estimators.model_graphs.pool import TraceWorker, torch_is_installed
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion

__all__ = ["ModelEstimate", "Range", "estimate_model", "new_worker"]

_RESERVED_SHARE = 1.1  # median of reserved over allocated on the measured rows
_CLOSED_FORM_RANGE = (0.6, 1.6)
_CLOSED_FORM_TIME = (0.4, 2.5)
_CLOSED_FORM_FLOPS = {True: 400e12, False: 45e12}
_CLOSED_FORM_BYTES_S = 2.5e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A value with its limits, and why they are as wide as they are."""

    low: float
    likely: float
    high: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEstimate:
    """What one step of a model needs; what is not known is none."""

    model: str
    gpu: str
    tier: str
    parameters: int
    allocated_bytes: Range
    reserved_bytes: Range
    device_bytes: Range
    step_s: Range | None
    energy_j_per_step: Range | None
    fits: bool
    largest_batch: int | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    tier: str
    parameters: int
    allocated_bytes: float
    reserved_bytes: float
    memory_limits: tuple[float, float]
    because: str
    step_s: float | None
    time_limits: tuple[float, float]
    host_share: float
    notes: tuple[str, ...] = ()


def estimate_model(
    question: ModelQuestion, worker: TraceWorker | None = None, *, find_batch: bool = True
) -> ModelEstimate:
    """Return memory, time and energy of one step. Without torch the closed form answers."""
    if question.gpu not in CAPACITY_BYTES:
        raise unknown_name("GPU type", question.gpu, CAPACITY_BYTES, where=question.model)
    measured = calibration_of(question.gpu)
    known = measured or calibration_of("h200")
    if known is None:
        raise StewardError(
            "the calibration of the H200 is missing",
            where="calibration.json",
            hint="install steward again",
        )
    found = _found(question, worker, known)
    if measured is None:
        text = f"nothing was measured on {question.gpu}: time and energy are unknown"
        found = replace(found, step_s=None, notes=(*found.notes, text))
    estimate = _estimate(question, found, known)
    if not find_batch:
        return estimate
    return replace(estimate, largest_batch=_largest_batch(question, worker, known, estimate))


def _found(question: ModelQuestion, worker: TraceWorker | None, known: Calibration) -> _Found:
    config = _config(question)
    if worker is None:
        note = "torch is not installed: pip install 'steward[torch]' for a trace of the model"
        return _closed(question, config, note)
    try:
        return _traced(question, worker.ask(question), known)
    except StewardError as error:
        if config is None:
            raise
        try:
            return _closed(question, config, f"no trace: {error.problem}")
        except StewardError:
            raise error from None


def _config(question: ModelQuestion) -> Mapping[str, Any] | None:
    path = Path(question.model)
    if path.is_dir() or path.suffix == ".json":
        return read_config(path)
    return known_config(question.model)


def _traced(question: ModelQuestion, trace: Mapping[str, Any], known: Calibration) -> _Found:
    states = OPTIMIZERS[question.opt].states
    work = step_work(trace, states=states, trains=question.trains)
    seconds, host = step_seconds(work, np.array(known.constants))
    return _Found(
        tier="trace",
        parameters=int(trace["parameters"]),
        allocated_bytes=trace["allocated_bytes"],
        reserved_bytes=trace["reserved_bytes"],
        memory_limits=known.memory_ratio(_family(question, trace)),
        because=known.basis,
        step_s=seconds * known.time_bias,
        time_limits=(known.time_low, known.time_high),
        host_share=host,
    )


def _family(question: ModelQuestion, trace: Mapping[str, Any]) -> str:
    convolves = any(str(each[0]).startswith("convolution") for each in trace["operators"])
    return f"{'vision' if convolves else 'lm'} {question.mode}"


def _closed(question: ModelQuestion, config: Mapping[str, Any] | None, note: str) -> _Found:
    if config is None:
        raise StewardError(
            f"'{question.model}' has no configuration that the closed form reads",
            where="model",
            hint=f"{note}; a transformer can be given by its config.json",
        )
    form = closed_form(transformer(config, where=question.model), question)
    seconds = (
        form.flops / _CLOSED_FORM_FLOPS[question.amp] + form.moved_bytes / _CLOSED_FORM_BYTES_S
    )
    return _Found(
        tier="closed form",
        parameters=form.parameters,
        allocated_bytes=form.allocated_bytes,
        reserved_bytes=form.allocated_bytes * _RESERVED_SHARE,
        memory_limits=_CLOSED_FORM_RANGE,
        because="closed form from the configuration alone",
        step_s=seconds,
        time_limits=_CLOSED_FORM_TIME,
        host_share=0.3,
        notes=(note,),
    )


def _estimate(question: ModelQuestion, found: _Found, known: Calibration) -> ModelEstimate:
    low, high = found.memory_limits
    device = found.reserved_bytes + known.context_bytes

    def memory(likely: float) -> Range:
        return Range(low=likely * low, likely=likely, high=likely * high, because=found.because)

    reach = memory(device)
    time = energy = None
    if found.step_s is not None:
        less, more = found.time_limits
        why = f"{found.because}; the host decides {found.host_share:.0%} of the step"
        time = Range(
            low=found.step_s * less, likely=found.step_s, high=found.step_s * more, because=why
        )
        watts = known.power_watts[0] - known.power_watts[1] * found.host_share
        energy = Range(
            low=time.low * watts * 0.7,
            likely=time.likely * watts,
            high=time.high * watts * 1.3,
            because=f"{watts:.0f} W, a line through the measured power over the host's share",
        )
    return ModelEstimate(
        model=question.model,
        gpu=question.gpu,
        tier=found.tier,
        parameters=found.parameters,
        allocated_bytes=memory(found.allocated_bytes),
        reserved_bytes=memory(found.reserved_bytes),
        device_bytes=reach,
        step_s=time,
        energy_j_per_step=energy,
        fits=reach.high <= CAPACITY_BYTES[question.gpu],
        largest_batch=None,
        notes=found.notes,
    )


def _largest_batch(
    question: ModelQuestion,
    worker: TraceWorker | None,
    known: Calibration,
    estimate: ModelEstimate,
) -> int | None:
    """Return the largest batch whose upper limit fits, on the line through two batches."""
    twice = replace(question, batch=2 * question.batch)
    try:
        other = _estimate(twice, _found(twice, worker, known), known)
    except StewardError:
        return None
    room = CAPACITY_BYTES[question.gpu]
    here, there = estimate.device_bytes.high, other.device_bytes.high
    slope = (there - here) / question.batch
    if slope <= 0:
        return None
    return max(0, int(question.batch + (room - here) / slope))


def new_worker() -> TraceWorker | None:
    """Return a worker where torch is installed."""
    return TraceWorker() if torch_is_installed() else None
