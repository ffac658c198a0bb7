"""As few instances as still meet the deadlines, with the time that a new one needs to start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.demand import Demand, demand_of, nominal_work_s
from steward.decide.serving.scaling.local_limits import local_limits
from steward.decide.serving.scaling.replicas import Pool, arrived, pools, scaled_to
from steward.model.serving.view import SERVING, Scaling, ServingView

__all__ = ["Slack"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """Instances by slack: those that recent arrivals needed, and those that save waiting requests.

    Requests whose deadline comes before a new instance could serve need capacity that is there:
    as much as the last `memory_s` would have needed. All others need an instance only if it
    starts in time and fewer are late with it. A model that had no work for `idle_s`, and no
    request within `memory_s` that a start would make late, goes down to `fewest`.
    """

    memory_s: float = 600.0
    idle_s: float = 60.0
    busy_share: float = 0.85  # of an instance's throughput that is planned with
    missed_share: float = 0.002  # of recent requests that may have been late
    gain: float = 0.2
    fewest: int = 0
    every_s: float = 5.0
    name: str = "slack"

    def scale(self, view: ServingView) -> Scaling:
        wanted = {pool.model: self._wanted(view, pool) for pool in pools(view)}
        return scaled_to(view, wanted, limits=local_limits(view, self.gain))

    def _wanted(self, view: ServingView, pool: Pool) -> int:
        standing, load = self._standing(view, pool)
        demand = demand_of(view, pool.waiting)
        most = len(pool) + int((view.instances.state == 0).sum())
        there = int((view.instances.state[pool.rows] == SERVING).sum())
        wanted = max(standing, self._rescue(view, pool, demand, (there, most, load)))
        if wanted >= len(pool):
            return min(wanted, most)
        if not len(pool.waiting) and not self._busy(view, pool):
            return max(wanted, self.fewest)
        fewer = max(wanted, self.fewest, 1)
        while fewer < len(pool) and self._late(demand, fewer - load, 1.5) > 0:
            fewer += 1
        return fewer

    def _standing(self, view: ServingView, pool: Pool) -> tuple[int, float]:
        """Return how many instances recent urgent requests needed, and what they keep busy."""
        rows = arrived(view, self.memory_s, pool.model)
        urgent = _urgent(view, self._lead_s(view, pool))[view.requests.deadline_class[rows]]
        rows = rows[urgent]
        if not len(rows):
            return 0, 0.0
        arrival_s = view.requests.arrival_s[rows]
        work_s = nominal_work_s(view, pool.type, rows) / self.busy_share
        promised_s = view.requests.deadline_s[rows] - arrival_s
        span_s = max(min(self.memory_s, view.t_s), self.every_s)
        most = len(pool) + int((view.instances.state == 0).sum())
        count = max(1, math.floor(float(work_s.sum()) / span_s))
        while count < most and _missed(arrival_s, work_s / count, promised_s) > self.missed_share:
            count += 1
        recent = work_s[arrival_s > view.t_s - self.idle_s]
        return count, float(recent.sum()) / min(self.idle_s, span_s)

    def _rescue(
        self, view: ServingView, pool: Pool, demand: Demand, known: tuple[int, int, float]
    ) -> int:
        """Return how many instances let the fewest waiting requests be late, and no more."""
        there, most, load = known
        start_s = view.types[pool.type].start_s
        coming = len(pool) - there
        best, least = len(pool), math.inf
        for count in range(len(pool), most + 1):
            late = _late_with(demand, (there - load, count - there), start_s)
            if late < least - 0.5:
                best, least = count, late
            if late == 0:
                break
        return best if coming >= 0 else len(pool)

    def _late(self, demand: Demand, servers: float, margin: float) -> int:
        if not len(demand.rows):
            return 0
        return int(_late_with(demand, (servers, 0), 0.0, margin))

    def _lead_s(self, view: ServingView, pool: Pool) -> float:
        return view.types[pool.type].start_s + self.every_s

    def _busy(self, view: ServingView, pool: Pool) -> bool:
        """Return whether a model has work, or had some within `idle_s`."""
        requests, instances = view.requests, view.instances
        if (instances.running[pool.rows] + instances.waiting[pool.rows]).any():
            return True
        mine = requests.model == pool.model
        return bool((requests.finish_s[mine] > view.t_s - self.idle_s).any())


def _urgent(view: ServingView, lead_s: float) -> Bools:
    """Return by class whether a new instance would come too late for a request that arrives."""
    return np.array([each.urgent_s < 2.0 * lead_s for each in view.classes], bool)


def _missed(arrival_s: Floats, work_s: Floats, promised_s: Floats) -> float:
    """Return the share of requests that one server of a fluid queue begins too late."""
    ahead_s = np.cumsum(work_s) - work_s
    idle = arrival_s - ahead_s
    wait_s = np.maximum.accumulate(idle) - idle
    return float((wait_s > 0.5 * promised_s).mean())


def _late_with(
    demand: Demand, servers: tuple[float, float], start_s: float, margin: float = 1.0
) -> float:
    """Return how many requests begin too late, by slack, if more servers join at `start_s`."""
    now, more = max(servers[0], 0.0), servers[1]
    order = np.argsort(demand.slack_s, kind="stable")
    slack_s = demand.slack_s[order]
    work_s = demand.work_s[order]
    ahead_s = np.cumsum(work_s) - work_s
    sd_s = np.sqrt(np.cumsum(demand.variance[order]) - demand.variance[order])
    upper_s = margin * (ahead_s * (1.0 + demand.share) + demand.sds * sd_s)
    if now + more <= 0:
        return float(len(slack_s))
    at_s = upper_s / now if now > 0 else np.full(len(slack_s), np.inf)
    later_s = start_s + (upper_s - now * start_s) / (now + more)
    begin_s = np.where(at_s <= start_s, at_s, np.maximum(later_s, start_s))
    return float(((begin_s > slack_s) & (slack_s >= 0)).sum())
