"""Which instances load another model: by the plan, by demand, or because nobody needs theirs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.assignment import idle_swaps
from steward.decide.serving.demand import Demand, nominal_work_s, serving_type
from steward.decide.serving.request_groups import Groups
from steward.decide.serving.virtual_queues import Plan, Queues
from steward.model.serving.view import SERVING, STARTING, SWAPPING, ServingView

__all__ = ["loadable", "planned_swaps", "rebalanced"]

Floats = NDArray[np.float64]
Swaps = tuple[tuple[int, int], ...]

WINDOW_S = 60.0  # over which demand is looked at
_SPARE = 0.8  # how busy those that stay may be when one of them is given away
PATIENCE_S = 600.0  # after which a model that nobody serves is given an instance in any case


def loadable(view: ServingView, row: int, model: int) -> int:
    """Return the type that makes an instance serve a model, -1 if none has as many GPUs."""
    now = view.types[int(view.instances.type[row])]
    kinds = [
        kind
        for kind, each in enumerate(view.types)
        if each.model == view.models[model] and each.gpus == now.gpus
    ]
    return min(kinds, key=lambda kind: view.types[kind].swap_from_s(now), default=-1)


def planned_swaps(view: ServingView, groups: Groups, queues: Queues, plan: Plan) -> Swaps:
    """Return the swaps that a plan begins with."""
    swaps = []
    for place, row in enumerate(queues.row.tolist()):
        if plan.count[place] and view.instances.state[row] == SERVING:
            model = int(groups.model[plan.group[place, 0]])
            if model != queues.model[place]:
                swaps.append((row, loadable(view, row, model)))
    return tuple(swaps)


def rebalanced(view: ServingView, demand: Demand) -> Swaps:
    """Return a swap towards the model that lacks most, from one that can spare an instance.

    What waits is not all that counts: a model whose requests must begin within less than a swap
    takes can only be served in time if the instance is there before they come.
    """
    idle = idle_swaps(view)
    if idle:
        return idle
    instances = view.instances
    if np.isin(instances.state, (STARTING, SWAPPING)).any():
        return ()  # look again once it serves
    count = np.bincount(instances.model[instances.state == SERVING], minlength=len(view.models))
    load = _load(view, demand)
    lacking = load / np.maximum(count, 0.5)
    needy = int(np.argmax(lacking))
    forsaken = count[needy] == 0 and _longest_wait_s(view, needy) > PATIENCE_S
    if lacking[needy] <= 1.0 and not forsaken:
        return ()
    spare = count - load / _SPARE
    spare[needy] = -np.inf
    spare[count == 0] = -np.inf
    giver = int(np.argmax(spare))
    if spare[giver] < 1.0 and not (forsaken and count[giver] > 0):
        return ()
    in_flight = instances.running + instances.waiting
    rows = np.flatnonzero((instances.state == SERVING) & (instances.model == giver)).tolist()
    row = min(rows, key=lambda each: int(in_flight[each]))
    kind = loadable(view, row, needy)
    return ((row, kind),) if kind >= 0 else ()


def _load(view: ServingView, demand: Demand) -> Floats:
    """Return how many instances each model kept busy lately, with what waits beyond that."""
    arrival_s = view.requests.arrival_s
    window_s = min(WINDOW_S, max(view.t_s - float(arrival_s[0]), 1.0))
    begin, end = np.searchsorted(arrival_s, (view.t_s - window_s, view.t_s), side="right")
    lately = np.arange(begin, end)
    found = np.zeros(len(view.models))
    for model in range(len(view.models)):
        rows = lately[view.requests.model[lately] == model]
        kind = serving_type(view, model)
        mine = view.requests.model[demand.rows] == model
        waiting_s = float(demand.work_s[mine & (demand.slack_s < 4 * WINDOW_S)].sum())
        coming_s = float(nominal_work_s(view, kind, rows).sum())
        found[model] = max(coming_s / window_s, waiting_s / WINDOW_S)
    return found


def _longest_wait_s(view: ServingView, model: int) -> float:
    rows = view.queue[view.requests.model[view.queue] == model]
    return float(view.t_s - view.requests.arrival_s[rows].min(initial=view.t_s))
