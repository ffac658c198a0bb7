"""What each kind of decision saved: GPU time, money, energy, carbon by the hour; a projection."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from steward.model.outcome import HOUR_S, JOULES_PER_KWH, Interval, Outcome
from steward.model.planning.carbon import CarbonSeries
from steward.model.site import Assumptions
from steward.model.yardstick import ENERGY, GPU_TIME, WAITING, YARDSTICKS

__all__ = ["DAY_S", "KindAccount", "Projection", "SavingsLedger"]

DAY_S = 86400.0
YEAR_DAYS = 365.0
LEAST_DAYS = 7  # below that, one quiet weekend would be a year's forecast
GRAMS_PER_KG = 1000.0
# 97.5 % points of Student's t for 6, 9, 13, 20, 30 and more degrees of freedom
_T_POINTS = ((6, 2.447), (9, 2.262), (13, 2.160), (20, 2.086), (30, 2.042), (10**9, 1.960))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindAccount:
    """What decisions of one kind brought, by their outcomes.

    Energy is what idle GPUs no longer burnt for nothing, and what the same work took less.
    `hourly_share` is the part of the energy whose carbon is that of its own hours.
    """

    kind: str
    decisions: int
    outcomes: int
    gpu_hours: Interval
    freed_gpu_hours: Interval  # that model servers did not hold
    waiting_hours: Interval
    cost: Interval
    energy_kwh: Interval
    co2_kg: Interval
    hourly_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What a year would bring if every day were like those measured. It is no measurement."""

    days: int
    gpu_hours: Interval
    cost: Interval
    energy_kwh: Interval
    co2_kg: Interval


@dataclass(slots=True)
class _Sum:
    """A sum with the squares of its half-widths: errors of outcomes are independent."""

    mid: float = 0.0
    below: float = 0.0
    above: float = 0.0

    def add(self, value: Interval, factor: float = 1.0) -> None:
        self.mid += value.mid * factor
        self.below += ((value.mid - value.low) * factor) ** 2
        self.above += ((value.high - value.mid) * factor) ** 2

    @property
    def interval(self) -> Interval:
        return Interval(
            low=self.mid - sqrt(self.below), mid=self.mid, high=self.mid + sqrt(self.above)
        )


@dataclass(slots=True)
class _Kind:
    decisions: int = 0
    outcomes: int = 0
    hourly_kwh: float = 0.0
    all_kwh: float = 0.0
    gpu_hours: _Sum = field(default_factory=_Sum)
    freed: _Sum = field(default_factory=_Sum)
    waiting: _Sum = field(default_factory=_Sum)
    energy: _Sum = field(default_factory=_Sum)
    carbon: _Sum = field(default_factory=_Sum)


class SavingsLedger:
    """Adds outcomes up by the kind of their decision and by day. Memory grows with days only."""

    def __init__(self, assumptions: Assumptions, carbon: CarbonSeries | None = None) -> None:
        self.assumptions = assumptions
        self.carbon = carbon
        self._kinds: dict[str, _Kind] = {}
        # GPU-hours, kWh and kg of each day
        self._days: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def add(self, kind: str, outcome: Outcome, *, first: bool) -> None:
        """Add an outcome; `first` says that its decision has none before."""
        account = self._kinds.setdefault(kind, _Kind())
        account.decisions += first
        account.outcomes += 1
        gained, saves = outcome.gained, YARDSTICKS[outcome.yardstick].saves
        day = self._days[int(outcome.to_s // DAY_S)]
        if saves:
            account.gpu_hours.add(gained, 1 / HOUR_S)
            day[0] += gained.mid / HOUR_S
        elif outcome.yardstick == GPU_TIME:
            account.freed.add(gained, 1 / HOUR_S)
        elif outcome.yardstick == WAITING:
            account.waiting.add(gained, 1 / HOUR_S)
        if saves or outcome.yardstick == ENERGY:
            kwh = self._kwh_factor(outcome)
            grams, hourly = self._grams(outcome)
            account.energy.add(gained, kwh)
            account.carbon.add(gained, kwh * grams / GRAMS_PER_KG)
            account.all_kwh += abs(gained.mid * kwh)
            account.hourly_kwh += abs(gained.mid * kwh) * hourly
            day[1] += gained.mid * kwh
            day[2] += gained.mid * kwh * grams / GRAMS_PER_KG

    def kinds(self) -> tuple[KindAccount, ...]:
        """Return what each kind brought, the one that saved most GPU time first."""
        found = [self._account(kind, each) for kind, each in self._kinds.items()]
        return tuple(sorted(found, key=lambda each: (-each.gpu_hours.mid, each.kind)))

    def projection(self) -> Projection | None:
        """Return what a year of such days would bring; None while too few were measured.

        The first and the last day are left out: they were not measured whole.
        """
        if not self._days:
            return None
        first, last = min(self._days), max(self._days)
        days = range(first + 1, last)
        if len(days) < LEAST_DAYS:
            return None
        table = np.array([self._days.get(day, (0.0, 0.0, 0.0)) for day in days])
        mean = table.mean(axis=0)
        point = next(point for free, point in _T_POINTS if len(days) - 1 <= free)
        half = point * table.std(axis=0, ddof=1) / sqrt(len(days))
        gpu_hours, energy, carbon = (
            Interval(low=float(mid - by), mid=float(mid), high=float(mid + by)).times(YEAR_DAYS)
            for mid, by in zip(mean, half, strict=True)
        )
        return Projection(
            days=len(days),
            gpu_hours=gpu_hours,
            cost=gpu_hours.times(self.assumptions.price_per_gpu_hour),
            energy_kwh=energy,
            co2_kg=carbon,
        )

    def _account(self, kind: str, each: _Kind) -> KindAccount:
        gpu_hours = each.gpu_hours.interval
        return KindAccount(
            kind=kind,
            decisions=each.decisions,
            outcomes=each.outcomes,
            gpu_hours=gpu_hours,
            freed_gpu_hours=each.freed.interval,
            waiting_hours=each.waiting.interval,
            cost=gpu_hours.times(self.assumptions.price_per_gpu_hour),
            energy_kwh=each.energy.interval,
            co2_kg=each.carbon.interval,
            hourly_share=each.hourly_kwh / each.all_kwh if each.all_kwh else 0.0,
        )

    def _kwh_factor(self, outcome: Outcome) -> float:
        """Return kWh at the meter of the building for one unit of the outcome."""
        assumed = self.assumptions
        if outcome.yardstick == ENERGY:
            return assumed.power_usage_effectiveness / JOULES_PER_KWH
        watts = outcome.idle_watts + assumed.host_watts_per_gpu
        return watts * assumed.power_usage_effectiveness / JOULES_PER_KWH

    def _grams(self, outcome: Outcome) -> tuple[float, float]:
        """Return grams per kWh over an outcome's time, and which part of that a file has."""
        assumed = self.assumptions.co2_kg_per_kwh * GRAMS_PER_KG
        series = self.carbon
        if series is None or outcome.to_s <= outcome.from_s:
            return assumed, 0.0
        first = int((outcome.from_s - series.begin_s) // HOUR_S)
        edges = np.arange(first, int((outcome.to_s - series.begin_s) // HOUR_S) + 2) * HOUR_S
        clipped = np.clip(edges + series.begin_s, outcome.from_s, outcome.to_s)
        lasts = np.diff(clipped)
        hours = np.arange(first, first + len(lasts))
        known = (hours >= 0) & (hours < len(series.grams))
        grams = np.where(known, series.grams[np.clip(hours, 0, len(series.grams) - 1)], assumed)
        whole = lasts.sum()
        return float((grams * lasts).sum() / whole), float(lasts[known].sum() / whole)
