"""What was measured: costs of operators, and how far answers were off on what they did not see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from steward.learn.estimators.model_graphs.gpu_types import GpuType
from steward.learn.estimators.model_graphs.op_times import FEATURES

__all__ = [
    "Calibration",
    "Spread",
    "calibration",
    "costs_of",
    "costs_record",
    "from_record",
    "widened",
]

Floats = npt.NDArray[np.float64]
_Z = 1.645  # from a standard deviation to the 5 % and 95 % quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviations of logarithms of truth over prediction."""

    between_models: float
    within_model: float

    def after(self, residuals: Sequence[float]) -> tuple[float, float]:
        """Return the shift and the deviation that are left after runs of the same model."""
        between, within = self.between_models**2, self.within_model**2
        count = len(residuals)
        trust = between / (between + within / count) if count else 0.0
        shift = trust * sum(residuals) / count if count else 0.0
        return shift, (within + between * (1 - trust)) ** 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Everything that was fitted; limits are of truth over prediction, on unseen models."""

    reference: str
    costs: tuple[tuple[Floats, float], ...]
    time_bias: float
    time_limits: tuple[tuple[float, float, float], ...]  # up to this host share: low, high
    time_spread: Spread
    gpu_offsets: Mapping[str, tuple[float, float, float]]
    vendor_offsets: Mapping[str, tuple[float, float, float]]
    gpu_spread: tuple[float, float]  # deviation of an unseen GPU: without runs, with three
    context_bytes: float
    memory_limits: Mapping[str, Mapping[str, tuple[float, float]]]  # by quantity and family
    memory_spread: Spread
    power_shares: tuple[float, float]  # of the data sheet's watts: at host share 0, and its slope
    basis: str

    def offsets(self, gpu: GpuType) -> tuple[tuple[float, float, float], bool]:
        """Return how a GPU differs from its data sheet, and whether it was measured."""
        stem = gpu.name.partition("-")[0]
        for name in (gpu.name, *sorted(each for each in self.gpu_offsets if each.startswith(stem))):
            if name in self.gpu_offsets:
                return self.gpu_offsets[name], name == gpu.name
        if gpu.name == self.reference:
            return (0.0, 0.0, 0.0), True
        return self.vendor_offsets.get(gpu.vendor, (0.0, 0.0, 0.0)), False

    def time_range(self, host_share: float) -> tuple[float, float]:
        """Return the limits of time for a step that the host decides this far."""
        for share, low, high in self.time_limits:
            if host_share <= share:
                return low, high
        return self.time_limits[-1][1:]

    def memory_range(self, quantity: str, family: str) -> tuple[float, float]:
        """Return the limits of `reserved` or `device` memory for a family of models."""
        limits = self.memory_limits[quantity]
        return limits.get(family, limits["any"])


def widened(limits: tuple[float, float], deviation: float) -> tuple[float, float]:
    """Return limits with an independent deviation (of logarithms) added.

    >>> low, high = widened((0.5, 2.0), 0.0)
    >>> round(low, 6), round(high, 6)
    (0.5, 2.0)
    """
    more = (_Z * deviation) ** 2
    low, high = (log(each) for each in limits)
    return exp(-((low**2 + more) ** 0.5)), exp((high**2 + more) ** 0.5)


def costs_of(records: Sequence[Mapping[str, Any]]) -> tuple[tuple[Floats, float], ...]:
    """Read sets of costs as `costs_record` writes them."""
    found = []
    for each in records:
        values = np.log([each["costs"][name] for name in FEATURES])
        found.append((values, float(each["sharpness"])))
    return tuple(found)


def costs_record(costs: Sequence[tuple[Floats, float]]) -> list[dict[str, Any]]:
    """Return sets of costs as plain values."""
    return [
        {
            "sharpness": sharpness,
            "costs": {
                name: float(f"{value:.5g}")
                for name, value in zip(FEATURES, np.exp(values), strict=True)
            },
        }
        for values, sharpness in costs
    ]


def from_record(record: Mapping[str, Any]) -> Calibration:
    """Read a calibration as `benchmarks/estimate_calibrate.py` writes it."""
    fields = {name: value for name, value in record.items() if name != "version"}
    fields["costs"] = costs_of(fields["costs"])
    for name in ("time_spread", "memory_spread"):
        fields[name] = Spread(**fields[name])
    for name in ("gpu_offsets", "vendor_offsets"):
        fields[name] = {each: tuple(value) for each, value in fields[name].items()}
    fields["time_limits"] = tuple(tuple(each) for each in fields["time_limits"])
    fields["gpu_spread"] = tuple(fields["gpu_spread"])
    fields["power_shares"] = tuple(fields["power_shares"])
    fields["memory_limits"] = {
        quantity: {family: tuple(each) for family, each in limits.items()}
        for quantity, limits in fields["memory_limits"].items()
    }
    return Calibration(**fields)


@cache
def calibration() -> Calibration:
    """Return what comes with steward."""
    text = (files(__package__) / "calibration.json").read_text(encoding="utf-8")
    return from_record(json.loads(text))
