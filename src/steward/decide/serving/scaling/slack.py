"""As few instances as still meet the deadlines, with the time that a new one needs to start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.demand import Demand, demand_of, nominal_work_s
from steward.decide.serving.scaling.local_limits import local_limits
from steward.decide.serving.scaling.replicas import Pool, arrived, pools, scaled_to
from steward.model.serving.view import OFF, SERVING, Scaling, ServingView

__all__ = ["Slack"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_FAR_S = 1e6
_START_COST = 1.5  # of an instance: the time of its start, and half of that until it has drained


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """As many instances as waiting requests need in time, and a burst like earlier ones would.

    Urgent requests, whose deadline comes before a new instance could serve, need capacity that is
    there: for their present rate and for how fast it has grown within the time that a start takes,
    but no more than the last `memory_s` needed, unless a jump is under way. For all others
    instances are added if the requests that are in time for it are worth the GPU time of starting
    them, and go once deadlines could be met without them by far: work that can wait is done in few
    and long rounds. A model without work for `idle_s` goes down to what urgent ones need.
    """

    memory_s: float = 1800.0
    idle_s: float = 60.0
    rate_s: float = 30.0  # over which a rate is taken
    jump_s: float = 10.0  # and over which a jump is seen, if it is more than chance
    busy_share: float = 0.85  # of an instance's throughput that is planned with
    growth_share: float = 0.99  # of all earlier moments whose growth is provided for
    answer_sds: float = 2.0  # by which answers may be longer than expected
    margin: float = 1.2  # on waits, before an instance is added
    margin_fewer: float = 3.0  # and before one is drained
    worth: float = 40.0  # of a request in time: so often the work of serving one
    gain: float = 0.2  # of the limits of requests in flight
    fewest: int = 0
    every_s: float = 5.0
    name: str = "slack"

    def scale(self, view: ServingView) -> Scaling:
        wanted = {pool.model: self._wanted(view, pool) for pool in pools(view)}
        return scaled_to(view, wanted, limits=local_limits(view, self.gain))

    def _wanted(self, view: ServingView, pool: Pool) -> int:
        standing, load = self._standing(view, pool)
        standing = max(standing, self.fewest)
        demand = demand_of(view, pool.waiting, sds=self.answer_sds)
        most = len(pool) + int((view.instances.state == OFF).sum())
        wanted = min(most, max(standing, self._rescue(view, pool, demand, (most, load))))
        if view.t_s < self.idle_s:
            return max(wanted, len(pool))  # what comes is not known yet
        if wanted > len(pool) or (not len(pool.waiting) and not self._busy(view, pool)):
            return wanted if len(pool.waiting) else min(standing, most)
        fewer = max(standing, min(len(pool), 1))
        while fewer < len(pool) and _late(demand, _steady(fewer - load), self.margin_fewer) > 0:
            fewer += 1
        return fewer

    def _standing(self, view: ServingView, pool: Pool) -> tuple[int, float]:
        """Return how many instances urgent requests need, and how many these keep busy now."""
        lead_s = view.types[pool.type].start_s + self.every_s
        rows = arrived(view, self.memory_s, pool.model)
        rows = rows[_urgent(view, lead_s)[view.requests.deadline_class[rows]]]
        if not len(rows):
            return 0, 0.0
        work_s = nominal_work_s(view, pool.type, rows)
        rates = self._rates(view, view.requests.arrival_s[rows], work_s)
        steps = max(1, round(lead_s / self.every_s))
        growth = rates[steps:] - rates[:-steps]
        more = float(np.quantile(growth, self.growth_share)) if len(growth) else 0.0
        last = work_s[view.requests.arrival_s[rows] > view.t_s - self.jump_s]
        jump = float(last.sum() - np.sqrt((last**2).sum())) / self.jump_s
        needed = max(min(float(rates[-1]) + max(more, 0.0), float(rates.max())), jump)
        return math.ceil(needed / self.busy_share - 1e-9), max(float(rates[-1]), jump)

    def _rates(self, view: ServingView, arrival_s: Floats, work_s: Floats) -> Floats:
        """Return how many instances were kept busy by what arrived, over time up to now."""
        begin_s = max(0.0, view.t_s - self.memory_s)
        ends_s = view.t_s - np.arange(0.0, view.t_s - begin_s, self.every_s)[::-1]
        total = np.concatenate(([0.0], np.cumsum(work_s)))
        last = np.searchsorted(arrival_s, ends_s, side="right")
        first = np.searchsorted(arrival_s, ends_s - self.rate_s, side="right")
        spans_s = np.minimum(self.rate_s, np.maximum(ends_s, self.every_s))
        rates: Floats = (total[last] - total[first]) / spans_s
        return rates if len(rates) else np.zeros(1)

    def _rescue(
        self, view: ServingView, pool: Pool, demand: Demand, known: tuple[int, float]
    ) -> int:
        """Return how many instances cost least: their starts, and requests late without them."""
        most, load = known
        if not len(demand.rows):
            return 0
        there = int((view.instances.state[pool.rows] == SERVING).sum())
        start_s = view.types[pool.type].start_s
        coming_s = _coming_s(view, pool, start_s)
        late_s = self.worth * float(demand.work_s.mean())
        best, least = len(pool), math.inf
        for count in range(max(len(pool), 1), most + 1):
            new = (start_s, count - len(pool))
            joins = ((0.0, there - load), (coming_s, len(pool) - there), new)
            late = _late(demand, joins, self.margin)
            cost_s = late * late_s + _START_COST * start_s * (count - len(pool))
            if cost_s < least:
                best, least = count, cost_s
            if late == 0:
                break
        return best

    def _busy(self, view: ServingView, pool: Pool) -> bool:
        """Return whether a model has work, or had some within `idle_s`."""
        requests, instances = view.requests, view.instances
        if (instances.running[pool.rows] + instances.waiting[pool.rows]).any():
            return True
        mine = requests.model == pool.model
        return bool((requests.finish_s[mine] > view.t_s - self.idle_s).any())


def _urgent(view: ServingView, lead_s: float) -> Bools:
    """Return by class whether a new instance would come too late for a request that arrives."""
    return np.array([each.urgent_s <= lead_s for each in view.classes], bool)


def _coming_s(view: ServingView, pool: Pool, start_s: float) -> float:
    """Return when those that start now will serve: half of the time, where nothing is known."""
    forecasts = view.forecasts
    starting = pool.rows[view.instances.state[pool.rows] != SERVING]
    if forecasts is not None and len(forecasts.backlog_s) == len(view.instances):
        known = forecasts.backlog_s[starting]
        known = known[np.isfinite(known)]
        if len(known):
            return float(np.clip(known.mean(), 0.0, start_s))
    return 0.5 * start_s


def _steady(servers: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, servers),)


def _late(demand: Demand, joins: tuple[tuple[float, float], ...], margin: float) -> int:
    """Return how many requests begin too late, served by slack by servers that join over time."""
    order = np.argsort(demand.slack_s, kind="stable")
    slack_s, work_s = demand.slack_s[order], demand.work_s[order]
    ahead_s = np.cumsum(work_s) - work_s
    variance = np.cumsum(demand.variance[order]) - demand.variance[order]
    upper_s = margin * (ahead_s * (1.0 + demand.share) + demand.sds * np.sqrt(variance))
    times = [*(at_s for at_s, _ in joins), _FAR_S]
    served, rate = [0.0], 0.0
    for place, (at_s, servers) in enumerate(joins):
        rate += servers
        served.append(served[-1] + max(rate, 1e-6) * (times[place + 1] - at_s))
    begin_s = np.interp(upper_s, served, times)
    return int(((begin_s > slack_s) & (slack_s >= 0)).sum())
