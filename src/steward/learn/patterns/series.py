"""Series of one entity on a common time axis: the input of change and anomaly detection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["EntitySeries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySeries:
    """One row per moment, one column per metric. NaN is absent."""

    entity: str
    metrics: tuple[str, ...]
    t_s: NDArray[np.float64]  # never falls
    values: NDArray[np.float64]  # moments x metrics

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.t_s), len(self.metrics)):
            problem = f"values of {self.values.shape} for {len(self.metrics)} metrics"
            raise StewardError(problem, where=self.entity, hint="one row per moment")
        if np.any(np.diff(self.t_s) < 0):
            raise StewardError("time goes back", where=self.entity, hint="sort the rows by time")

    def __len__(self) -> int:
        return len(self.t_s)

    @property
    def step_s(self) -> float:
        """Median time between two moments; 1 if there are fewer than two."""
        return float(np.median(np.diff(self.t_s))) if len(self) > 1 else 1.0
