"""Caps the power of GPUs whose job may be slower, at the limit that needs the least energy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isnan

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import CapPower
from steward.model.decision import Decision, Expectation
from steward.model.forecast import (
    POWER_FLOOR_WATTS,
    POWER_LIMIT_CHANGES,
    POWER_LIMITS_TRIED,
    POWER_PROVEN_WATTS,
    POWER_SAVING_SHARE,
    POWER_SLOWDOWN_SHARE,
    About,
    Forecast,
)
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.view import RUNNING, ClusterView

__all__ = ["SaveEnergy"]

Ints = NDArray[np.int64]
ROUND_WATTS = 5.0
SAME_WATTS = 1.0
QUANTITIES = (
    POWER_SLOWDOWN_SHARE,
    POWER_FLOOR_WATTS,
    POWER_SAVING_SHARE,
    POWER_PROVEN_WATTS,
    POWER_LIMITS_TRIED,
    POWER_LIMIT_CHANGES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beliefs:
    """What is believed about one job, and the limit that its GPUs have now."""

    slowdown: Forecast
    floor: Forecast
    saving: Forecast
    proven: Forecast
    tried: Forecast
    changes: Forecast
    now_watts: float
    allowed_share: float

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        return (self.slowdown, self.floor, self.saving, self.proven, self.tried)

    @property
    def floor_watts(self) -> float:
        return ceil(self.floor.mid / ROUND_WATTS) * ROUND_WATTS


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveEnergy:
    """Lowers the power limit of a job's GPUs step by step, as far as its owner allows a slowdown.

    Each limit is measured before the next one is tried, which is at most `step_share` below one
    that is surely within the allowance. After `most_limits` of them, or when the next would change
    little, the best measured one stays. Jobs whose owner allowed no slowdown are never touched.
    """

    step_share: float = 0.2
    most_limits: int = 6
    least_change_share: float = 0.03
    least_saving_share: float = 0.01
    check_after_s: float = 600.0
    name: str = "save-energy"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return one change of the limit for each job that needs one, in the order of jobs."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        jobs = view.jobs
        allowed = (jobs.state == RUNNING) & (jobs.max_slowdown_share > 0) & ~jobs.reserved
        for row in np.flatnonzero(allowed):
            rows = view.allocations.gpu[view.allocations.job == row]
            alone = (view.gpus.users[rows] == 1) & ~view.gpus.reserved[rows]
            known = _beliefs(view, int(row), rows) if bool(alone.all()) else None
            if known is None:
                continue
            watts, why = self._limit(known)
            if watts != known.now_watts:
                yield self._cap(view, int(row), rows, known, watts, why)

    def _limit(self, known: _Beliefs) -> tuple[float, str]:
        """Return the limit that the GPUs should have, and why."""
        now_watts, proven = known.now_watts, known.proven.mid
        slow = f"{max(known.slowdown.mid, 0.0):.1%} slower at {now_watts:.0f} W"
        text = f"it is {slow}, {known.allowed_share:.0%} allowed"
        if known.slowdown.mid > known.allowed_share and proven > now_watts:
            higher = self._higher(known)
            return higher, f"{text}; {higher:.0f} W should be within it"
        lower = self._lower(known)
        if lower < now_watts and proven >= now_watts:
            return lower, f"{text}; {lower:.0f} W should need less energy"
        if abs(proven - now_watts) < SAME_WATTS:
            return now_watts, text
        return proven, f"{text}; {proven:.0f} W needs the least energy of the measured limits"

    def _lower(self, known: _Beliefs) -> float:
        """Return the next limit to try, or the one in force if there is nothing left to try."""
        now_watts = known.now_watts
        sure = ceil(known.floor.high * (1.0 - self.step_share) / ROUND_WATTS) * ROUND_WATTS
        watts = max(known.floor_watts, sure)
        much = now_watts - watts >= self.least_change_share * now_watts
        worth = known.saving.mid >= self.least_saving_share
        return watts if much and worth and known.tried.mid < self.most_limits else now_watts

    def _higher(self, known: _Beliefs) -> float:
        """Return a limit between one that was too low and the best one so far, or the latter."""
        watts, proven = known.floor_watts, known.proven.mid
        room = self.least_change_share * proven
        between = known.now_watts + room <= watts <= proven - room
        return watts if between and known.tried.mid < self.most_limits else proven

    def _cap(
        self, view: ClusterView, row: int, rows: Ints, known: _Beliefs, watts: float, why: str
    ) -> Decision:
        job, tenant = view.job_id(row), int(view.jobs.tenant[row])
        drawn = float(np.nansum(view.gpus.power_watts[rows])) * self.check_after_s
        saving = known.saving
        found = (saving.low, saving.mid, saving.high) if watts < known.now_watts else (0.0,) * 3
        low, mid, high = (drawn * each for each in found)
        before = (view.jobs.began_s[row], known.now_watts, known.changes.mid)
        return Decision(
            id=DecisionId(stable_id("d", self.name, job, *before, watts)),
            t_s=view.t_s,
            policy=self.name,
            action=CapPower(
                job=job,
                gpus=tuple(view.gpu_id(int(each)) for each in rows),
                before_watts=known.now_watts,
                watts=watts,
            ),
            because=f"job {job}: {why}",
            forecasts=known.forecasts,
            expects=Expectation(low=low, mid=mid, high=high),
            check_after_s=self.check_after_s,
            tenant=view.tenant_id(tenant) if tenant >= 0 else TenantId(""),
            subject=job_entity(job),
        )


def _beliefs(view: ClusterView, row: int, rows: Ints) -> _Beliefs | None:
    """Return what is believed about a job, or None while its limit was not measured yet."""
    columns = [view.forecast(About.JOBS, quantity) for quantity in QUANTITIES]
    known = [each.row(row, view.job_id(row)) for each in columns if each is not None]
    if len(known) < len(QUANTITIES) or any(isnan(each.mid) for each in known):
        return None
    slowdown, floor, saving, proven, tried, changes = known
    return _Beliefs(
        slowdown=slowdown,
        floor=floor,
        saving=saving,
        proven=proven,
        tried=tried,
        changes=changes,
        now_watts=float(view.gpus.power_limit_watts[rows].min()),
        allowed_share=float(view.jobs.max_slowdown_share[row]),
    )
