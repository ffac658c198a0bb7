"""Answer a question about a model: by its trace with torch, by the closed form without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs import jax_graph, onnx_graph
from steward.learn.estimators.model_graphs.calibration import Calibration, calibration, widened
from steward.learn.estimators.model_graphs.closed_form import (
    closed_form,
    closed_trace,
    parameters_only,
    transformer,
)
from steward.learn.estimators.model_graphs.configs import known_config, read_config
from steward.learn.estimators.model_graphs.deep_stacks import trace_of
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.op_times import in_seconds, step_seconds, step_work
from steward.learn.estimators.model_graphs.parallel import RankNeeds, rank_needs
from steward.learn.estimators.model_graphs.pool import TraceWorker, torch_is_installed
from steward.learn.estimators.model_graphs.question import (
    OPTIMIZERS,
    ModelQuestion,
    ParallelPlan,
)
from steward.learn.estimators.model_graphs.sites import Site, plain_site

__all__ = ["EstimatedRange", "ModelEstimate", "estimate_model", "graph_of", "new_worker"]

_RESERVED_SHARE = 1.1  # median of reserved over allocated on the measured rows
_UNCERTAIN = {  # by tier: low and high of memory, and of time, beside what was measured
    "trace": ((1.0, 1.0), (1.0, 1.0)),
    "graph": ((0.5, 1.6), (0.3, 2.0)),
    "closed form": ((0.65, 1.5), (0.4, 2.5)),
    "general form": ((0.4, 2.5), (0.25, 4.0)),
    "parameters only": ((1.0, 8.0), (0.1, 20.0)),
}
_PARALLEL_DEVIATION = 0.15  # nothing was fitted on several GPUs
_OTHER_CONTEXT_BYTES = (250e6, 600e6, 1.5e9)  # of a GPU whose context was not measured
_WATTS_RANGE = (0.7, 1.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedRange:
    """A value with its limits, and why they are as wide as they are."""

    low: float
    likely: float
    high: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEstimate:
    """What one step of a model needs on each GPU; what is not known is none."""

    model: str
    gpu: str
    tier: str
    parameters: int
    allocated_bytes: EstimatedRange
    reserved_bytes: EstimatedRange
    device_bytes: EstimatedRange
    step_s: EstimatedRange | None
    energy_j_per_step: EstimatedRange | None
    fits: bool
    largest_batch: int | None
    gpus: int = 1
    communication_s: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    tier: str
    trace: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where it runs: the calibration, the GPU as measured, and over how many."""

    known: Calibration
    site: Site
    measured: bool
    plan: ParallelPlan


def estimate_model(
    question: ModelQuestion,
    worker: TraceWorker | None = None,
    *,
    find_batch: bool = True,
    site: Site | None = None,
    plan: ParallelPlan | None = None,
) -> ModelEstimate:
    """Return memory, time and energy of one step. Without torch the closed form answers.

    `site` is a GPU as measured runs describe it; without it data sheets and what others measured.
    """
    known = calibration()
    if site is None:
        site, measured = plain_site(question.gpu, known)
    else:
        measured = known.offsets(gpu_type(site.like))[1]
    place = _Place(known=known, site=site, measured=measured, plan=plan or ParallelPlan())
    estimate = _estimate(question, _found(question, worker), place)
    if not find_batch:
        return estimate
    return replace(estimate, largest_batch=_largest_batch(question, worker, place, estimate))


def graph_of(question: ModelQuestion, worker: TraceWorker | None) -> Mapping[str, Any]:
    """Return the trace of a model, or what its closed form says in the same terms."""
    return _found(question, worker).trace


def _found(question: ModelQuestion, worker: TraceWorker | None) -> _Found:
    if question.model.endswith(".onnx"):
        return _Found(tier="graph", trace=onnx_graph.graph(question), notes=onnx_graph.NOTES)
    if question.model.startswith("jax:"):
        return _Found(tier="graph", trace=jax_graph.graph(question), notes=jax_graph.NOTES)
    config = _config(question)
    if worker is None:
        note = "torch is not installed: pip install 'steward[torch]' for a trace of the model"
        return _closed(question, config, note)
    try:
        return _Found(tier="trace", trace=trace_of(question, config, worker))
    except StewardError as error:
        note = f"no trace: {error.problem}"
        if config is not None:
            try:
                return _closed(question, config, note)
            except StewardError:
                raise error from None
        if worker.built is None:
            raise
        return _parameters_only(question, worker.built, note)


def _config(question: ModelQuestion) -> Mapping[str, Any] | None:
    path = Path(question.model)
    if path.is_dir() or path.suffix == ".json":
        return read_config(path)
    return known_config(question.model)


def _closed(question: ModelQuestion, config: Mapping[str, Any] | None, note: str) -> _Found:
    if config is None:
        raise StewardError(
            f"'{question.model}' has no configuration that the closed form reads",
            where="model",
            hint=f"{note}; a transformer can be given by its config.json",
        )
    shape = transformer(config, where=question.model)
    form = closed_form(shape, question)
    notes = [note]
    if shape.assumed:
        text = f"models of type {shape.declared} have no closed form of their own: read as llama's"
        notes.append(text)
    if shape.unknown_keys:
        notes.append(f"keys without effect on this answer: {', '.join(shape.unknown_keys)}")
    return _Found(
        tier="general form" if shape.assumed else "closed form",
        trace=closed_trace(shape, form, question, reserved_share=_RESERVED_SHARE),
        notes=tuple(notes),
    )


def _parameters_only(question: ModelQuestion, built: Mapping[str, Any], note: str) -> _Found:
    text = "only parameters, gradients and optimizer states are counted; activations are unknown"
    return _Found(
        tier="parameters only", trace=parameters_only(question, built), notes=(note, text)
    )


def _estimate(question: ModelQuestion, found: _Found, place: _Place) -> ModelEstimate:
    trace = found.trace
    memory_limits, time_limits = _UNCERTAIN[found.tier]
    allocated, reserved = float(trace["allocated_bytes"]), float(trace["reserved_bytes"])
    notes, deviation, needs = list(found.notes), 0.0, None
    if place.plan.gpus > 1:
        needs = rank_needs(trace, question, place.plan, gpu_type(place.site.like).link_bytes_s)
        reserved *= needs.allocated_bytes / allocated
        allocated, deviation = needs.allocated_bytes, _PARALLEL_DEVIATION
        notes.append("memory and time over several GPUs are counted, not measured")
    shift, left = _memory_residual(question, place)
    scale = exp(shift)
    family = _family(question, trace)
    ranges = {}
    for quantity in ("reserved", "device"):
        base = place.known.memory_range(quantity, family)
        low, high = _narrowed(base, left)
        low, high = widened((min(low, 1.0), max(high, 1.0)), deviation)
        ranges[quantity] = (low * memory_limits[0], high * memory_limits[1])
    because = place.known.basis if found.tier == "trace" else f"{found.tier}, not measured"
    reserved *= scale
    reach = _device(reserved, ranges, place, needs, because)
    likely_s = _time(question, found, place, needs, time_limits)
    like = gpu_type(place.site.like)
    return ModelEstimate(
        model=question.model,
        gpu=question.gpu,
        tier=found.tier,
        parameters=int(trace["parameters"]),
        allocated_bytes=_range(allocated, ranges["reserved"], because),
        reserved_bytes=_range(reserved, ranges["reserved"], because),
        device_bytes=reach,
        step_s=likely_s[0],
        energy_j_per_step=likely_s[1],
        fits=reach.high <= like.memory_bytes,
        largest_batch=None,
        gpus=place.plan.gpus,
        communication_s=needs.communication_s if needs else 0.0,
        notes=(*notes, *_place_notes(place)),
    )


def _range(likely: float, limits: tuple[float, float], because: str) -> EstimatedRange:
    return EstimatedRange(
        low=likely * limits[0], likely=likely, high=likely * limits[1], because=because
    )


def _place_notes(place: _Place) -> list[str]:
    site, known = place.site, place.known
    if site.timed_runs:
        return [f"{site.timed_runs} measured runs on {site.name} refine its speed"]
    if site.like == known.reference:
        return []
    if place.measured:
        return [f"{site.like}: speed from NeuSight's float32 transformers; other work is wider"]
    return [f"nothing was measured on {site.like}: time is from its data sheet"]


def _memory_residual(question: ModelQuestion, place: _Place) -> tuple[float, float | None]:
    """Return a shift, and how far limits narrow, from runs of the same model."""
    runs = place.site.memory_residuals.get(question.model, ())
    if not runs:
        return 0.0, None
    spread = place.known.memory_spread
    shift, left = spread.after(runs)
    return shift, left / (spread.between_models**2 + spread.within_model**2) ** 0.5


def _narrowed(limits: tuple[float, float], share: float | None) -> tuple[float, float]:
    if share is None:
        return limits
    return exp(log(limits[0]) * share), exp(log(limits[1]) * share)


def _device(
    reserved: float,
    ranges: Mapping[str, tuple[float, float]],
    place: _Place,
    needs: RankNeeds | None,
    because: str,
) -> EstimatedRange:
    more = needs.context_bytes if needs else 0.0
    if place.site.context_bytes is not None:
        likely = reserved + place.site.context_bytes + more
        return _range(likely, ranges["device"], because)
    low, likely, high = (each + more for each in _OTHER_CONTEXT_BYTES)
    limits = ranges["reserved"]
    return EstimatedRange(
        low=reserved * limits[0] + low,
        likely=reserved + likely,
        high=reserved * limits[1] + high,
        because=f"{because}; the context's size on {place.site.like} was not measured",
    )


def _family(question: ModelQuestion, trace: Mapping[str, Any]) -> str:
    convolves = any(str(each[0]).startswith("convolution") for each in trace["operators"])
    return f"{'vision' if convolves else 'lm'} {question.mode}"


def _time(
    question: ModelQuestion,
    found: _Found,
    place: _Place,
    needs: RankNeeds | None,
    uncertain: tuple[float, float],
) -> tuple[EstimatedRange, EstimatedRange]:
    known, site = place.known, place.site
    like = gpu_type(site.like)
    states = OPTIMIZERS[question.opt].states if question.trains else 0
    work = step_work(found.trace, states=states, trains=question.trains)
    ways = in_seconds(work.passes(question.accumulate), like.rates)
    parts = needs.time_share if needs else 1.0
    step = step_seconds(ways, known.costs, _split(site.offsets, parts))
    limits = known.time_range(step.host_share)
    shift = 0.0
    runs = site.time_residuals.get(question.model, ())
    if runs:
        spread = known.time_spread
        shift, left = spread.after(runs)
        full = (spread.between_models**2 + spread.within_model**2) ** 0.5
        limits = _narrowed(limits, left / full)
    limits = widened(limits, site.deviation(known, measured=place.measured))
    limits = limits[0] * uncertain[0], limits[1] * uncertain[1]
    seconds = step.seconds * known.time_bias * exp(shift)
    if needs is not None:
        seconds = seconds / (1 - needs.bubble_share) + needs.communication_s
        limits = widened(limits, _PARALLEL_DEVIATION)
    because = f"the host decides {step.host_share:.0%} of the step"
    if site.timed_runs:
        because += f"; {site.timed_runs} measured runs"
    time = _range(seconds, limits, f"{known.basis}; {because}")
    base, slope = known.power_shares
    watts = like.power_watts * max(0.15, base - slope * step.host_share) * place.plan.gpus
    energy = EstimatedRange(
        low=time.low * watts * _WATTS_RANGE[0],
        likely=seconds * watts,
        high=time.high * watts * _WATTS_RANGE[1],
        because=f"{watts:.0f} W, a line through the power measured on the H200",
    )
    return time, energy


def _split(offsets: tuple[float, float, float], share: float) -> tuple[float, float, float]:
    """Return offsets of a device that does only a share of the work."""
    return offsets[0] + log(share), offsets[1] + log(share), offsets[2]


def _largest_batch(
    question: ModelQuestion,
    worker: TraceWorker | None,
    place: _Place,
    estimate: ModelEstimate,
) -> int | None:
    """Return the largest batch whose upper limit fits, on the line through two batches."""
    twice = replace(question, batch=2 * question.batch)
    try:
        other = _estimate(twice, _found(twice, worker), place)
    except StewardError:
        return None
    room = gpu_type(place.site.like).memory_bytes
    here, there = estimate.device_bytes.high, other.device_bytes.high
    slope = (there - here) / question.batch
    if slope <= 0:
        return None
    return max(0, int(question.batch + (room - here) / slope))


def new_worker() -> TraceWorker | None:
    """Return a worker where torch is installed."""
    return TraceWorker() if torch_is_installed() else None
