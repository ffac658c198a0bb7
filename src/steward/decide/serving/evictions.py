"""Which requests leave an instance so that others, which would be late, can begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.demand import Demand, demand_of
from steward.model.serving.view import LEAVING, RUNNING, SENT, SERVING, ServingView

__all__ = ["evictions", "may_evict"]

Ints = NDArray[np.int64]

_MOST = 4  # in one call: what they leave is seen in the next
_TIMES = 4.0  # a victim has so many times the slack of the one that it makes way for


def may_evict(view: ServingView) -> bool:
    """Return whether it is known when instances begin what they have: nothing is evicted else."""
    forecasts = view.forecasts
    return forecasts is not None and len(forecasts.backlog_s) == len(view.instances)


def evictions(view: ServingView, demand: Demand) -> tuple[int, ...]:
    """Return requests in flight that make way for waiting ones which else begin too late.

    A victim waits inside its server, or runs, and is expected to meet its deadline still when it
    begins again: those that wait go first, then those that have computed least.
    """
    found: list[int] = []
    for model in np.unique(view.requests.model[demand.rows]).tolist():
        found += _of_model(view, demand, model)
    return tuple(found)


def _of_model(view: ServingView, demand: Demand, model: int) -> list[int]:
    instances = view.instances
    here = (instances.model == model) & (instances.state == SERVING)
    if not here.any() or (instances.room[here] > 0).any():
        return []
    wait_s = _shortest_wait_s(view, here)
    mine = (view.requests.model[demand.rows] == model) & (demand.slack_s >= 0)
    urgent = np.sort(demand.slack_s[mine & (demand.slack_s < wait_s)])[:_MOST]
    if not len(urgent) or (view.requests.state == LEAVING).any():
        return []
    victims = _victims(view, here, least_s=_TIMES * max(float(urgent[-1]), wait_s))
    return victims[: len(urgent)]


def _shortest_wait_s(view: ServingView, here: NDArray[np.bool_]) -> float:
    """Return by when one of the instances is expected to begin another request.

    By the mean, not the bound: what is evicted is computed twice, and who waits is less late.
    """
    forecasts = view.forecasts
    if forecasts is None or not may_evict(view):
        return 0.0
    return max(0.0, float(forecasts.backlog_s[here].min()))


def _victims(view: ServingView, here: NDArray[np.bool_], *, least_s: float) -> list[int]:
    requests = view.requests
    flying = np.flatnonzero((requests.state == SENT) | (requests.state == RUNNING))
    flying = flying[here[requests.instance[flying]]]
    slack_s = demand_of(view, flying).slack_s
    spared = flying[slack_s > least_s]
    done = requests.generated_tokens[spared] + requests.prompt_tokens[spared]
    order = np.lexsort((spared, done, requests.state[spared]))  # SENT before RUNNING
    return [int(row) for row in spared[order]]
