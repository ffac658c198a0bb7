"""How much carbon a kilowatt-hour stands for, hour by hour, and what was forecast of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["HOUR_S", "CarbonSeries", "IssuedForecasts"]

Floats = NDArray[np.float64]

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IssuedForecasts:
    """Forecasts of others: of each, the hour in which it was issued and what it says from there.

    Hours count from the beginning of the series that they belong to; NaN is not forecast.
    """

    issued_h: NDArray[np.int64]  # ascending
    grams: Floats  # (forecasts, hours ahead)

    def __post_init__(self) -> None:
        if len(self.issued_h) != len(self.grams) or np.any(np.diff(self.issued_h) <= 0):
            raise StewardError(
                f"{len(self.issued_h)} hours of issue, {len(self.grams)} forecasts",
                where="carbon forecasts",
                hint="each is issued in another hour, in ascending order",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CarbonSeries:
    """Grams of CO2 per kWh of one region, an hour after the other without a gap."""

    region: str
    begin_s: float  # UTC, of the first hour
    grams: Floats
    filled: int = 0  # hours that were missing and lie on a line between their neighbours
    forecasts: IssuedForecasts | None = None

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.grams)) or np.any(self.grams < 0):
            raise StewardError(
                "an intensity is negative or no number",
                where=f"region {self.region}",
                hint="grams per kWh are 0 or more",
            )

    @property
    def end_s(self) -> float:
        return self.begin_s + HOUR_S * len(self.grams)
