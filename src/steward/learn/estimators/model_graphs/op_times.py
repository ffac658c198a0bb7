"""Step time from operators: a roofline per class of operator, or the host that launches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CLASSES", "CONSTANTS", "START", "StepWork", "step_seconds", "step_work"]

CLASSES = (
    "matmul_low",
    "matmul_full",
    "conv_low",
    "conv_full",
    "conv_narrow",
    "attention_low",
    "attention_full",
    "norm",
    "memory",
)
_MATMULS = frozenset({"mm", "addmm", "bmm", "baddbmm", "linear"})
_TFLOPS = {"low": 990e12, "full": 67e12, "tf32": 495e12}
_BYTES_S = 4.8e12
_SMALL = 1e-12
CONSTANTS = (
    *(f"{name}.peak_share" for name in CLASSES),
    *(f"{name}.bandwidth_share" for name in CLASSES),
    "kernel_s",
    "host_forward_s",
    "host_backward_s",
    "host_tensor_s",
    "host_step_s",
)
_SHARES = {"matmul_low": 0.6, "matmul_full": 0.7, "conv_low": 0.15, "conv_full": 0.2}
START = np.log(
    np.array(
        [_SHARES.get(name, 0.3) for name in CLASSES]
        + [0.55] * len(CLASSES)
        + [2e-6, 12e-6, 12e-6, 2e-6, 5e-4]
    )
)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepWork:
    """The operators of one step as columns, and what the optimizer does."""

    kind: npt.NDArray[np.int64]
    ideal_compute_s: Floats
    ideal_memory_s: Floats
    count: Floats
    forward_calls: float
    backward_calls: float
    optimizer_bytes: float
    optimizer_tensors: float


def step_work(trace: Mapping[str, Any], *, states: int, trains: bool) -> StepWork:
    """Turn the operators of a trace into columns."""
    rows = trace["operators"]
    kinds, compute, memory, counts = [], [], [], []
    calls = [0.0, 0.0]
    for name, _shapes, item, flops, moved, backward, extra, count in rows:
        kind = _kind(name, item, extra)
        peak = _TFLOPS["low" if item < 4 else "tf32" if kind.startswith("conv") else "full"]
        kinds.append(CLASSES.index(kind))
        compute.append(flops / peak)
        memory.append(moved / _BYTES_S)
        counts.append(float(count))
        calls[bool(backward)] += count
    size = float(trace["parameter_bytes"]) if trains else 0.0
    return StepWork(
        np.array(kinds, np.int64),
        np.array(compute),
        np.array(memory),
        np.array(counts),
        calls[0],
        calls[1],
        size * (3 + 4 * states),
        float(trace["parameter_tensors"]) * (1 + states) if trains else 0.0,
    )


def _kind(name: str, item: int, extra: Sequence[int]) -> str:
    level = "low" if item < 4 else "full"
    if name.startswith("convolution"):
        return "conv_narrow" if extra and extra[2] > 1 else f"conv_{level}"
    if name in _MATMULS:
        return f"matmul_{level}"
    if "attention" in name:
        return f"attention_{level}"
    return "norm" if "norm" in name else "memory"


def step_seconds(work: StepWork, constants: Floats) -> tuple[float, float]:
    """Return the seconds of one step, and the share of it that the host decides."""
    values = np.exp(constants)
    classes = len(CLASSES)
    compute = work.ideal_compute_s / values[work.kind]
    memory = work.ideal_memory_s / values[classes + work.kind]
    kernel, forward, backward, tensor, base = values[2 * classes :]
    device = float(np.sum(work.count * (np.maximum(compute, memory) + kernel)))
    device += work.optimizer_bytes / (_BYTES_S * float(values[2 * classes - 1]))
    host = float(
        base
        + forward * work.forward_calls
        + backward * work.backward_calls
        + tensor * work.optimizer_tensors
    )
    both = (device**4 + host**4) ** 0.25
    return both, host / (host + device + _SMALL)
