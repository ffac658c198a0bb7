"""What was measured on a GPU type: constants of the time model, and how far answers were off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from steward.learn.estimators.model_graphs.op_times import CONSTANTS

__all__ = ["CAPACITY_BYTES", "Calibration", "calibration_of"]

CAPACITY_BYTES = {
    "h200": 143771 << 20,
    "h100": 81559 << 20,
    "a100-80": 81920 << 20,
    "a100-40": 40960 << 20,
    "l4": 23034 << 20,
    "t4": 15360 << 20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Figures of one GPU type, each from models whose answer they did not see."""

    gpu: str
    context_bytes: float
    constants: tuple[float, ...]  # logarithms, in the order of `op_times.CONSTANTS`
    memory_low: Mapping[str, float]  # truth over prediction, by family
    memory_q95: Mapping[str, float]
    time_low: float
    time_high: float
    time_bias: float
    power_watts: tuple[float, float]  # at a host share of 0, and what a share of 1 takes away
    basis: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Calibration:
        """Read a calibration as `benchmarks/estimate_calibrate.py` writes it."""
        fields = dict(record)
        constants: Mapping[str, float] = fields.pop("constants")
        fields["constants"] = tuple(float(np.log(constants[name])) for name in CONSTANTS)
        fields["power_watts"] = tuple(fields["power_watts"])
        return cls(**fields)

    def memory_ratio(self, family: str) -> tuple[float, float]:
        """Return the limits of truth over prediction for a family of models."""
        widest = family if family in self.memory_q95 else "any"
        return self.memory_low[widest], self.memory_q95[widest]


@cache
def calibration_of(gpu: str) -> Calibration | None:
    """Return what was measured on a GPU type, or none."""
    found: Sequence[Mapping[str, Any]] = json.loads(
        (files(__package__) / "calibration.json").read_text(encoding="utf-8")
    )
    return next((Calibration.from_record(each) for each in found if each["gpu"] == gpu), None)
