"""How fast instances get through steps and work, learnt on line from what passes through them.

The step-time model of a type is what is believed at first: its factors for the fixed cost of
steps, for prompts and for decoding begin at 1 and follow the time that stretches of steps took.
While a batch is full, the time that passes is compared with the work that was done in it, per
length class of the prompts: what is left of it over the step times is learnt as a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSES", "TypeThroughput"]

Floats = NDArray[np.float64]
CLASSES = 20  # of prompts: one per octave
_PARTS = 3  # fixed cost of steps, prompts, decoding
_LEAST, _MOST = 0.02, 50.0  # a factor is not believed beyond
_FADE = 1.0 - 1.0 / 150.0  # of stretches, for the factors
_STRENGTH = 0.05  # of the factor that all parts have in common, beside each one's own
_FIRST = 0.2  # stretches that the model as it was given counts as
_FIRST_DOUBT, _LEAST_DOUBT = 0.2, 0.02  # how far the throughput may be off, as a share
_FIRST_FULL_DOUBT, _LEAST_FULL_DOUBT = 0.5, 0.05  # how far the work of a full batch may be off
_SLOW, _QUICK = 25.0, 20.0  # full stretches that means are about
_RATIOS = 60.0
_RATIO_STRENGTH = 3.0  # stretches that a ratio of 1 counts as


class TypeThroughput:
    """What was learnt of one instance type."""

    def __init__(self) -> None:
        self.factors = np.ones(_PARTS)
        self.stretches = 0
        self.full = 0  # stretches with a full batch
        self.left_share = 0.5  # of the work of what runs in a full batch, on average
        self.batch = np.zeros(2)  # sequences, and tokens held, of a full batch
        self.step_s = 0.0  # of a step of a full batch, prompts included; 0: not measured
        self.ratios = np.ones(CLASSES)
        self._ratio_counts = np.zeros(CLASSES)  # stretches, fading, as are the next
        self._took_s = np.zeros(CLASSES)
        self._worked_s = np.zeros(CLASSES)
        self._gram = np.zeros((_PARTS, _PARTS))
        self._moment = np.zeros(_PARTS)

    @property
    def doubt(self) -> float:
        """Return how far the throughput may be off, as a share."""
        return float(np.hypot(_FIRST_DOUBT / np.sqrt(1.0 + self.stretches), _LEAST_DOUBT))

    @property
    def full_doubt(self) -> float:
        """Return how far the work that a full batch has left may be off, as a share."""
        return float(np.hypot(_FIRST_FULL_DOUBT / np.sqrt(1.0 + self.full), _LEAST_FULL_DOUBT))

    def add_steps(self, parts_s: Floats, took_s: float) -> None:
        """Take in a stretch of steps: what the model says of its parts, and how long it took."""
        share = parts_s / took_s
        self._gram = self._gram * _FADE + np.outer(share, share)
        self._moment = self._moment * _FADE + share
        self.stretches += 1
        common = (self._moment.sum() + _FIRST) / (self._gram.sum() + _FIRST)
        ridge = np.diag(_STRENGTH * (1.0 + np.diag(self._gram)))
        wanted = self._moment + ridge @ np.full(_PARTS, common)
        self.factors = np.clip(np.linalg.solve(self._gram + ridge, wanted), _LEAST, _MOST)

    def add_full(self, batch: Floats, *, left_share: float, step_s: float) -> None:
        """Take in a stretch in which the batch was full: its means."""
        self.full += 1
        quick = 1.0 / min(self.full, _QUICK)
        self.left_share += (left_share - self.left_share) / min(self.full, _SLOW)
        self.batch = self.batch + quick * (batch - self.batch)
        self.step_s += quick * (step_s - self.step_s)

    def add_work(self, prompt_class: int, work_s: float, took_s: float) -> None:
        """Take in how long the work of a stretch with a full batch took."""
        # Sums, not a mean of ratios: a stretch that ends within a long prompt has done less than
        # is counted, the next one more, and a mean of their ratios is too high.
        keep = 1.0 - 1.0 / _RATIOS
        for sums, value in (
            (self._ratio_counts, 1.0),
            (self._took_s, took_s),
            (self._worked_s, work_s),
        ):
            sums[prompt_class] = keep * sums[prompt_class] + value
        took = self._took_s[prompt_class]
        usual = _RATIO_STRENGTH * took / self._ratio_counts[prompt_class]
        self.ratios[prompt_class] = (took + usual) / (self._worked_s[prompt_class] + usual)

    def ratio(self) -> Floats:
        """Return time per work by length class; a class never seen takes the usual one."""
        seen = self._ratio_counts
        logs = np.log(self.ratios)
        usual = float(seen @ logs) / (float(seen.sum()) + 3.0)
        found: Floats = np.exp((seen * logs + 3.0 * usual) / (seen + 3.0))
        return found

    def save(self) -> dict[str, Any]:
        """Return the state as JSON values and arrays."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return {**arrays, **{name: getattr(self, name) for name in _NUMBERS}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; raise ValueError if it had other parts."""
        arrays = {name: np.array(state[name], np.float64) for name in _ARRAYS}
        if any(each.shape != getattr(self, name).shape for name, each in arrays.items()):
            raise ValueError("it had other parts or classes")
        for name, each in arrays.items():
            setattr(self, name, each)
        self.stretches, self.full = int(state["stretches"]), int(state["full"])
        self.left_share, self.step_s = float(state["left_share"]), float(state["step_s"])


_ARRAYS = (
    "factors",
    "batch",
    "ratios",
    "_ratio_counts",
    "_took_s",
    "_worked_s",
    "_gram",
    "_moment",
)
_NUMBERS = ("stretches", "full", "left_share", "step_s")
