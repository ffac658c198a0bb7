"""How long a training will take: a line through small runs, its level set by real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from steward.errors import StewardError

__all__ = ["TimeModel"]

REMEMBERED = 3  # real runs that set the level


@dataclass(slots=True)
class TimeModel:
    """Seconds to begin, seconds per step, and the ratio of real runs to that."""

    begin_s: float
    step_s: float
    _ratios: list[float] = field(default_factory=list)

    @classmethod
    def fitted(cls, runs: Sequence[tuple[int, float]]) -> TimeModel:
        """Return a model from small runs: their steps, and how long they took."""
        steps, seconds = np.array([each[0] for each in runs]), [each[1] for each in runs]
        if len(set(steps.tolist())) < 2:
            problem = "a line needs small runs of two lengths"
            raise StewardError(problem, where="time model", hint="run with fewer and more --steps")
        step_s, begin_s = np.polyfit(steps, seconds, 1)
        return cls(max(float(begin_s), 0.0), max(float(step_s), 0.0))

    def predict(self, steps: int) -> float:
        """Return how long a training of so many steps takes."""
        level = median(self._ratios[-REMEMBERED:]) if self._ratios else 1.0
        return level * (self.begin_s + self.step_s * steps)

    def learn(self, steps: int, seconds: float) -> None:
        """Set the level by a run that has ended."""
        self._ratios.append(seconds / max(self.begin_s + self.step_s * steps, 1e-9))
