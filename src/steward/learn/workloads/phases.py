"""Recognise on line which phase of its run each GPU is in, from what a view shows of any job.

A filter keeps a probability of each phase for each GPU: what is measured now is weighed with what
was likely before, and phases last, so that one odd sample changes little. Expected ranges are
those of the mechanics (compiling keeps a core busy and reads little, a checkpoint writes), in the
units of `signatures`; what is not measured counts for nothing. All GPUs are updated at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.forecast import PHASES

__all__ = ["PhaseFilter", "PhaseSignals"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TYPICAL_S = 60.0  # a phase is left for another at such a rate
MOST_LOST = 6.0
SETTLED_S = 30.0  # of computing, before another power means another phase
BUSY_SHARE = 0.05  # of its time: from here, a GPU computes
USUAL_FADE_S = 120.0  # memory of how busy a GPU usually is
FAR = 99.0
_MB = 1e6
_GIB = float(2**30)

# Ranges of: busy share; log2 of cores, MB/s read and written; log2 of GiB held.
_UNITS: Mapping[str, float] = {
    "busy": 0.02, "cores": 0.4, "read": 1.2, "written": 1.2, "held": 1.0, "unusual": 0.12
}  # fmt: skip
_EXPECTED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "start": {"busy": (0, 0.05), "cores": (-1.6, FAR), "written": (-FAR, 2), "held": (-FAR, -0.4)},
    "compile": {
        "busy": (0, 0.3), "cores": (-0.9, FAR), "read": (-FAR, 2.2), "written": (-FAR, 2.5),
        "held": (-0.4, FAR),
    },
    "load": {"busy": (0, 0.3), "read": (2.3, FAR), "written": (-FAR, 2.5)},
    "train": {"busy": (0.08, 1), "unusual": (0, 0.3), "written": (-FAR, 4)},
    "evaluate": {"busy": (0.08, 1), "unusual": (0.35, FAR), "written": (-FAR, 4)},
    "checkpoint": {"busy": (0, 0.7), "written": (4, FAR)},
    "idle": {"busy": (0, 0.05), "cores": (-FAR, -1.7), "read": (-FAR, 2.3), "written": (-FAR, 2.3)},
}  # fmt: skip
_LOG_PRIOR = np.log(np.array([0.05, 0.1, 0.1, 0.4, 0.03, 0.07, 0.25]))
_COMPUTED = np.array([-4.0, 0, -0.5, 0, 0, 0, 0])  # points once a GPU has computed for its job
_FRESH = np.array([0, -1.0, 0, 0, -3.0, -2.0, -1.0])  # points before that


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSignals:
    """What is measured of each GPU and of the job that holds it; NaN is unknown."""

    busy_share: Floats
    cores: Floats
    read_bytes_per_s: Floats
    write_bytes_per_s: Floats
    held_bytes: Floats  # GPU memory
    power_watts: Floats


class PhaseFilter:
    """Probabilities of `PHASES` for each of `size` GPUs."""

    def __init__(self, size: int) -> None:
        self.log_belief = np.tile(_LOG_PRIOR, (size, 1))
        self.computed = np.zeros(size, dtype=bool)
        self.usual_watts = np.full(size, np.nan)
        self.busy_s = np.zeros(size)  # for how long it has been seen to compute

    def forget(self, rows: Bools) -> None:
        """Start anew where a GPU came to another job."""
        self.log_belief[rows] = _LOG_PRIOR
        self.computed[rows] = False
        self.usual_watts[rows] = np.nan
        self.busy_s[rows] = 0.0

    def update(self, seen: PhaseSignals, elapsed_s: float) -> Floats:
        """Take in what was measured `elapsed_s` after the last time; return probabilities."""
        busy = np.nan_to_num(seen.busy_share) >= BUSY_SHARE
        points = self._points(seen)
        points += np.where(self.computed[:, None], _COMPUTED, _FRESH)
        self._follow_usual(seen.power_watts, busy, elapsed_s)
        self.computed |= busy
        stay = np.exp(-max(elapsed_s, 0.0) / TYPICAL_S)
        moved = stay * np.exp(self.log_belief) + (1.0 - stay) * np.exp(_LOG_PRIOR)
        scores = np.log(moved) + points
        scores -= scores.max(axis=1, keepdims=True)
        belief = np.exp(scores)
        belief = np.maximum(belief / belief.sum(axis=1, keepdims=True), 1e-6)
        self.log_belief = np.log(belief / belief.sum(axis=1, keepdims=True))
        found: Floats = np.exp(self.log_belief)
        return found

    def _points(self, seen: PhaseSignals) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            values = {
                "busy": seen.busy_share,
                "cores": np.log2(np.maximum(seen.cores, 0.0) + 0.05),
                "read": np.log2(np.maximum(seen.read_bytes_per_s, 0.0) / _MB + 0.1),
                "written": np.log2(np.maximum(seen.write_bytes_per_s, 0.0) / _MB + 0.1),
                "held": np.log2(np.maximum(seen.held_bytes, 0.0) / _GIB + 0.01),
                "unusual": np.abs(seen.power_watts / self.usual_watts - 1.0),
            }
        values["unusual"][self.busy_s < SETTLED_S] = 0.0  # nothing is usual yet
        found = np.zeros((len(seen.busy_share), len(PHASES)))
        for place, phase in enumerate(PHASES):
            for name, (low, high) in _EXPECTED[phase].items():
                value = values[name]
                outside = np.fmax(np.fmax(low - value, value - high), 0.0) / _UNITS[name]
                found[:, place] -= np.minimum(0.5 * np.nan_to_num(outside) ** 2, MOST_LOST)
        return found

    def _follow_usual(self, watts: Floats, busy: Bools, elapsed_s: float) -> None:
        """Follow the power that a GPU usually draws: its mean, later with older values faded."""
        known = busy & ~np.isnan(watts)
        self.busy_s[known] += max(elapsed_s, 1.0)
        share = max(elapsed_s, 1.0) / np.clip(self.busy_s[known], 1.0, USUAL_FADE_S)
        before = np.where(np.isnan(self.usual_watts[known]), 0.0, self.usual_watts[known])
        self.usual_watts[known] = before + np.minimum(share, 1.0) * (watts[known] - before)
