"""How far run times of ended jobs were from what was planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from steward.model.planning.plan import Range

__all__ = ["Calibration", "RunError", "calibrated"]

Z95 = 1.6449  # nine of ten cases
FEWEST_SPREAD = 0.05
PRIOR = 2.0  # a correction counts as if there were so many runs more, without an error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """One job that has completed: what all of its work took, against what was planned."""

    job: str
    name: str
    gpu_model: str
    t_s: float
    planned_s: Range
    took_s: float

    @property
    def log_ratio(self) -> float:
        return log(max(self.took_s, 1e-3) / max(self.planned_s.mid, 1e-3))

    @property
    def outside(self) -> bool:
        """Whether it ended outside its range: one of ten does."""
        return not self.planned_s.low <= self.took_s <= self.planned_s.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """By how much plans of one application on one kind of GPU are corrected from now on."""

    name: str
    gpu_model: str
    factor: float
    spread: float  # of the logarithm, that remains
    jobs: tuple[str, ...]  # that it is from

    @classmethod
    def of(cls, errors: Sequence[RunError]) -> Calibration:
        """Return the correction of errors of one application on one kind of GPU."""
        logs = [each.log_ratio for each in errors]
        mean = sum(logs) / (len(logs) + PRIOR)
        scatter = sum((each - mean) ** 2 for each in logs) / max(len(logs) - 1, 1)
        return cls(
            name=errors[0].name,
            gpu_model=errors[0].gpu_model,
            factor=exp(mean),
            spread=max(scatter**0.5, FEWEST_SPREAD),
            jobs=tuple(each.job for each in errors),
        )


def calibrated(planned_s: Range, calibration: Calibration | None) -> Range:
    """Return a run time corrected by what earlier ones were off; never narrower by it."""
    if calibration is None:
        return planned_s
    mid = planned_s.mid * calibration.factor
    reach = exp(Z95 * calibration.spread)
    low = min(planned_s.low / planned_s.mid, 1 / reach)
    high = max(planned_s.high / planned_s.mid, reach)
    return Range(low=mid * low, mid=mid, high=mid * high)
