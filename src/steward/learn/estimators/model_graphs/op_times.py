"""Step time from operators: what the device and the host take, and how one hides the other.

A step is a sum of features times costs. A feature is work by class of operator (over a GPU's peak
rates), kernels, or calls of the host. Kernels queue behind the host: forward, backward and
optimizer each end when both are done, so the step is the longest of four ways through them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steward.learn.estimators.model_graphs.op_classes import CLASSES, op_work

__all__ = [
    "FEATURES",
    "KINDS",
    "START",
    "StepTime",
    "StepWork",
    "in_seconds",
    "step_seconds",
    "step_work",
    "ways_seconds",
]

Floats = npt.NDArray[np.float64]
_COMPUTE, _MEMORY, _HOST, _FIXED = range(4)
KINDS = ("compute", "memory", "host")  # what a GPU or a machine is faster or slower at
_WASTE = tuple(
    f"{name}_{level}"
    for name in ("few_inputs", "few_outputs", "thin_matrix", "wide_kernel")
    for level in ("low", "full")
)
_WORKING = tuple(name for name in CLASSES if name.startswith(("conv", "mm", "bmm", "att")))
_HOST_CALLS = (
    "step",
    "train",
    "forward_call",
    "backward_call",
    "forward_view",
    "backward_view",
    "module",
    "parameter",
    "state",
    "forward_convolution",
    "backward_convolution",
    "cast",
)
FEATURES = (
    *(f"{name}.compute" for name in _WORKING),
    *(f"{name}.memory" for name in CLASSES),
    *_WASTE,
    "optimizer.memory",
    "kernel_s",
    *(f"host.{name}_s" for name in _HOST_CALLS),
)
_INDEX = {name: number for number, name in enumerate(FEATURES)}
_COMPUTE_SHARES = {"conv_kxk": 0.3, "mm_low": 0.6, "mm_full": 0.75, "att_low": 0.3}
_HOST_US = (300.0, 300.0, 6.0, 6.0, 2.0, 2.0, 4.0, 2.0, 1.0, 4.0, 8.0, 1.0)


def _kind_of(name: str) -> int:
    if name.startswith("host."):
        return _HOST
    if name == "kernel_s":
        return _FIXED
    memory = name.endswith(".memory") or name.startswith("wide_kernel")
    return _MEMORY if memory else _COMPUTE


def _start_of(name: str) -> float:
    if name.startswith("host."):
        return float(_HOST_US[_HOST_CALLS.index(name[5:-2])]) * 1e-6
    if name == "kernel_s":
        return 2e-6
    if name.startswith("wide_kernel"):
        return 0.2
    if name in _WASTE:
        return 0.1 if name.startswith("thin") else 0.3
    if name.endswith(".memory"):
        return 1 / 0.7 if name.startswith("optimizer") else 1 / 0.6
    return next((1 / share for key, share in _COMPUTE_SHARES.items() if name.startswith(key)), 5.0)


KIND = np.array([_kind_of(name) for name in FEATURES])
START = np.log([_start_of(name) for name in FEATURES])
_PASSES = 3  # forward, backward, optimizer


@dataclass(frozen=True, slots=True)
class StepWork:
    """Features of one step: by rate (low, TF32, float32, memory, seconds) and by pass."""

    counts: Floats  # rates x passes x features

    def passes(self, count: int) -> StepWork:
        """Return a step that goes forward and backward as many times."""
        if count == 1:
            return self
        return StepWork(self.counts * np.array([count, count, 1])[:, None])


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step, and what the device and the host alone would take."""

    seconds: float
    device_s: float
    host_s: float

    @property
    def host_share(self) -> float:
        """Return how far the host decides, between 0 and 1."""
        return self.host_s / max(self.host_s + self.device_s, 1e-12)


def step_work(trace: Mapping[str, Any], *, states: float, trains: bool) -> StepWork:
    """Turn the operators of a trace into features."""
    counts = np.zeros((5, _PASSES, len(FEATURES)))
    for name, shapes, item, flops, moved, backward, extra, count in trace["operators"]:
        at = int(bool(backward))
        work = op_work(name, shapes, item, flops, moved, bool(backward), extra)
        if f"{work.kind}.compute" in _INDEX:
            counts[work.rate, at, _INDEX[f"{work.kind}.compute"]] += count * work.flops
        counts[3, at, _INDEX[f"{work.kind}.memory"]] += count * work.moved_bytes
        for feature, waste in work.wasted:
            rate = 3 if feature.startswith("wide") else work.rate
            counts[rate, at, _INDEX[feature]] += count * waste
        counts[4, at, _INDEX["kernel_s"]] += count
        _add_calls(counts, name, at, count)
    views = trace.get("views", (0, 0))
    counts[4, 0, _host("step")] = 1
    counts[4, 0, _host("forward_view")] = views[0]
    counts[4, 1, _host("backward_view")] = views[1]
    counts[4, 0, _host("module")] = trace.get("modules", 0)
    if trains:
        tensors = float(trace["parameter_tensors"])
        counts[4, 1, _host("train")] = 1
        counts[4, 2, _host("parameter")] = tensors
        counts[4, 2, _host("state")] = tensors * states
        size = float(trace["parameter_bytes"]) * (3 + 4 * states)
        counts[3, 2, _INDEX["optimizer.memory"]] = size
    return StepWork(counts)


def _host(name: str) -> int:
    return _INDEX[f"host.{name}_s"]


def _add_calls(counts: Floats, name: str, at: int, count: float) -> None:
    way = ("forward", "backward")[at]
    counts[4, at, _host(f"{way}_call")] += count
    if name.startswith("convolution"):
        counts[4, at, _host(f"{way}_convolution")] += count
    if name == "_to_copy" and not at:
        counts[4, at, _host("cast")] += count


def in_seconds(work: StepWork, rates: Sequence[float]) -> Floats:
    """Return four ways through a step, in seconds at a GPU's peak rates, by feature.

    The host alone; host, then the device's optimizer; the forward pass of the host, then the
    device; the device alone.
    """
    low, tf32, full, memory = rates
    scales = 1 / np.array([low, tf32, full, memory, 1.0])
    by_pass = np.einsum("r,rpf->pf", scales, work.counts)
    host = by_pass * (KIND == _HOST)
    device = by_pass - host
    return np.stack(
        [
            host.sum(0),
            host[0] + host[1] + device[2],
            host[0] + device[1] + device[2],
            device.sum(0),
        ]
    )


def step_seconds(
    ways: Floats, costs: Sequence[tuple[Floats, float]], offsets: Sequence[float] = (0.0, 0.0, 0.0)
) -> StepTime:
    """Return the time of a step, as the geometric mean over sets of costs (logarithms).

    `offsets` are logarithms: how much slower at compute, memory and the host than the costs say.
    """
    slower = np.array([*offsets, 0.0])[KIND]
    found = []
    for cost, sharpness in costs:
        each = ways @ np.exp(cost + slower)
        total = float((each**sharpness).sum() ** (1 / sharpness))
        found.append((total, float(each[3]), float(each[0])))
    seconds, device, host = np.exp(np.log(np.maximum(found, 1e-12)).mean(0))
    return StepTime(float(seconds), float(device), float(host))


def ways_seconds(
    ways: Floats,
    more: Floats,
    times: Floats,
    costs: Sequence[tuple[Floats, float]],
    offsets: Sequence[float],
) -> Floats:
    """Return the seconds of many steps, each `ways` and so many times `more`."""
    slower = np.array([*offsets, 0.0])[KIND]
    found = []
    for cost, sharpness in costs:
        factor = np.exp(cost + slower)
        each = np.maximum((ways @ factor)[:, None] + (more @ factor)[:, None] * times, 1e-12)
        found.append(np.log((each**sharpness).sum(0)) / sharpness)
    return np.asarray(np.exp(np.mean(found, 0)))
