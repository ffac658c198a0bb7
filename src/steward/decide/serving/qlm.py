"""Deadlines met by plan: request groups on virtual queues, with forecasts of how long they wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.cheapest_place import Sent, cheapest, rooms, sent_so_far
from steward.decide.serving.demand import Demand, demand_of
from steward.decide.serving.evictions import evictions, may_evict
from steward.decide.serving.model_swaps import loadable, planned_swaps, rebalanced
from steward.decide.serving.request_groups import Groups, fair_tags, groups_of
from steward.decide.serving.virtual_queues import Plan, Queues, searched_plan
from steward.model.serving.view import (
    DRAINING,
    OFF,
    SERVING,
    STARTING,
    SWAPPING,
    Dispatch,
    ServingView,
)

__all__ = ["Qlm", "fits", "late_order", "planned_order", "virtual_queues"]

_MOST_REFUSED = 64  # requests for which no instance has room: then nobody else is looked at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qlm:
    """By slack while all deadlines can be met, else by a searched plan of request groups.

    Requests that can no longer be in time go last, and are still served. Running work with much
    slack makes way for what would be late; instances load the models that the plan needs.
    """

    answer_sds: float = 1.0  # by which answers may be longer than expected
    evicts: bool = True
    swaps: bool = True
    name: str = "qlm"

    def dispatch(self, view: ServingView) -> Dispatch:
        sent = sent_so_far(view)
        room = rooms(view, sent)
        rows = view.queue
        if not len(rows) or not (any(room) or self._may_make_room(view)):
            return Dispatch()
        if len(view.models) == 1 and len(rows) <= sum(room):
            order = np.argsort(view.requests.deadline_s[rows], kind="stable")
            return Dispatch(routes=_routes(view, rows[order].tolist(), (room, sent)))
        demand = demand_of(view, rows, sds=self.answer_sds)
        if len(view.models) == 1 and not any(room):
            return Dispatch(evict=evictions(view, demand))
        queues = virtual_queues(view, demand, swaps=False)
        if fits(view, demand, queues):
            order = np.argsort(demand.slack_s, kind="stable")
            return Dispatch(routes=_routes(view, rows[order].tolist(), (room, sent)))
        return self._by_plan(view, demand, (room, sent))

    def _may_make_room(self, view: ServingView) -> bool:
        return (self.evicts and may_evict(view)) or (self.swaps and len(view.models) > 1)

    def _by_plan(self, view: ServingView, demand: Demand, free: tuple[list[int], Sent]) -> Dispatch:
        room = free[0]
        swaps: tuple[tuple[int, int], ...] = ()
        if self.swaps and len(view.models) > 1:
            swaps = self._swaps(view, demand)
            for row, _ in swaps:
                room[row] = 0
        routes: tuple[tuple[int, int], ...] = ()
        if any(room):
            queues = virtual_queues(view, demand, swaps=False)
            savable = demand.at(np.flatnonzero(demand.slack_s >= 0))
            groups = groups_of(view, savable)
            plan = searched_plan(groups, queues, (demand.share, demand.sds))
            order, assigned = planned_order(savable, groups, queues, plan)
            order += late_order(view, demand)
            routes = _routes(view, order, free, None if view.prefixes is not None else assigned)
        evict = evictions(view, demand) if self.evicts else ()
        return Dispatch(routes=routes, swaps=swaps, evict=evict)

    def _swaps(self, view: ServingView, demand: Demand) -> tuple[tuple[int, int], ...]:
        """Return swaps that save at least a request from being late, or that demand asks for."""
        bound = (demand.share, demand.sds)
        groups = groups_of(view, demand.at(np.flatnonzero(demand.slack_s >= 0)))
        if not len(groups):
            return rebalanced(view, demand)
        without = searched_plan(groups, virtual_queues(view, demand, swaps=False), bound)
        queues = virtual_queues(view, demand, swaps=True)
        plan = searched_plan(groups, queues, bound)
        if plan.penalty < without.penalty - max(1.0, 0.02 * len(demand.rows)):
            return planned_swaps(view, groups, queues, plan) or rebalanced(view, demand)
        return rebalanced(view, demand)


def fits(view: ServingView, demand: Demand, queues: Queues) -> bool:
    """Return whether each request begins in time if all are served by slack, with the bound.

    Those that are late already do not count: no order helps them.
    """
    models = view.requests.model[demand.rows]
    for model in np.unique(models).tolist():
        mine = models == model
        serving = queues.model == model
        if not serving.any():
            return False
        order = np.argsort(demand.slack_s[mine], kind="stable")
        slack_s = demand.slack_s[mine][order]
        work_s, variance = demand.work_s[mine][order], demand.variance[mine][order]
        count = int(serving.sum())
        ahead_s = np.cumsum(work_s) - work_s + float(queues.backlog_s[serving].sum())
        spread = np.cumsum(variance) - variance + float(queues.variance[serving].sum())
        upper_s = ahead_s / count * (1 + demand.share) + demand.sds * np.sqrt(spread) / count
        if ((upper_s > slack_s) & (slack_s >= 0)).any():
            return False
    return True


def virtual_queues(view: ServingView, demand: Demand, *, swaps: bool) -> Queues:
    """Return a queue for each instance that takes requests, or will once it started or swapped."""
    instances = view.instances
    rows = np.flatnonzero((instances.state != OFF) & (instances.state != DRAINING))
    backlog_s, variance = _backlogs(view, demand, rows)
    model = instances.model[rows]
    swap_s = np.full((len(rows), len(view.models)), np.inf)
    if swaps:
        for place, row in enumerate(rows.tolist()):
            if instances.state[row] == SERVING:
                swap_s[place] = _swap_costs(view, row)
    return Queues(
        row=rows,
        model=model.astype(np.int64),
        backlog_s=backlog_s,
        variance=variance,
        swap_s=swap_s,
    )


def _backlogs(view: ServingView, demand: Demand, rows: Ints) -> tuple[Floats, Floats]:
    forecasts, instances = view.forecasts, view.instances
    if forecasts is not None and len(forecasts.backlog_s) == len(instances):
        known = forecasts.backlog_s[rows]
        usable = np.isfinite(known)
        return np.where(usable, known, 0.0), np.where(usable, forecasts.backlog_sd_s[rows] ** 2, 0)
    each_s = float(demand.work_s.mean()) if len(demand.rows) else 0.0
    backlog_s = np.zeros(len(rows))
    for place, row in enumerate(rows.tolist()):
        kind, state = view.types[int(instances.type[row])], instances.state[row]
        if state == STARTING:
            backlog_s[place] = kind.start_s
        elif state == SWAPPING:
            backlog_s[place] = kind.swap_s
        elif instances.room[row] == 0:
            backlog_s[place] = each_s
        backlog_s[place] += each_s * int(instances.waiting[row])
    return backlog_s, np.zeros(len(rows))


def _swap_costs(view: ServingView, row: int) -> Floats:
    """Return how long an instance needs to serve each model: it first ends what it has."""
    requests, kind = view.requests, int(view.instances.type[row])
    flying = np.flatnonzero(requests.instance == row)
    drain_s = 0.0
    if len(flying) and view.forecasts is not None:
        drain_s = float(np.nan_to_num(view.forecasts.run_s[kind, flying]).max())
    costs = np.full(len(view.models), np.inf)
    reachable = {model: loadable(view, row, model) for model in range(len(view.models))}
    for model, to in reachable.items():
        costs[model] = drain_s + view.types[to].swap_from_s(view.types[kind]) if to >= 0 else np.inf
    return costs


def planned_order(
    demand: Demand, groups: Groups, queues: Queues, plan: Plan
) -> tuple[list[int], dict[int, int]]:
    """Return requests by when the plan begins them, and the instance of each.

    What no queue holds comes at the end, by slack.
    """
    begins, members, places = [], [], []
    work_s = groups.work_s
    for place in range(len(queues)):
        chosen = plan.group[place, : plan.count[place]].tolist()
        spans = [np.arange(groups.begin[g], groups.begin[g + 1]) for g in chosen]
        span = np.concatenate(spans) if spans else np.zeros(0, np.int64)
        begins.append(queues.backlog_s[place] + np.cumsum(work_s[span]) - work_s[span])
        members.append(groups.member[span])
        places.append(np.full(len(span), queues.row[place]))
    if not begins:
        return demand.rows[np.argsort(demand.slack_s, kind="stable")].tolist(), {}
    member, row = np.concatenate(members), np.concatenate(places)
    order = np.argsort(np.concatenate(begins), kind="stable")
    requests = demand.rows[member[order]].tolist()
    left = np.setdiff1d(np.arange(len(demand.rows)), member)
    left = left[np.argsort(demand.slack_s[left], kind="stable")]
    assigned = dict(zip(requests, row[order].tolist(), strict=True))
    return [*requests, *demand.rows[left].tolist()], assigned


def late_order(view: ServingView, demand: Demand) -> list[int]:
    """Return the requests that are expected to be late whatever is done.

    First those that a short answer may still save, least work first; then the hopeless by arrival,
    or by their tenants' counters.
    """
    late = demand.at(np.flatnonzero(demand.slack_s < 0))
    tags = fair_tags(view, late)
    inner = np.arange(len(late.rows)) if tags is None else tags
    inner = np.where(late.hopeless, inner, late.work_s)
    ordered: list[int] = late.rows[np.lexsort((inner, late.hopeless))].tolist()
    return ordered


def _routes(
    view: ServingView,
    order: list[int],
    into: tuple[list[int], Sent],
    assigned: dict[int, int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Send requests in their order: to the planned instance, else where it costs least."""
    model_of, loaded = view.requests.model, view.instances.model.tolist()
    room, sent = into
    refused = 0
    prompts = view.requests.prompt_tokens
    routes = []
    left = sum(room)
    for request in order:
        if not left or refused > _MOST_REFUSED:
            break
        model = int(model_of[request])
        tokens = int(prompts[request])
        free = [
            row
            for row, more in enumerate(room)
            if more > 0 and loaded[row] == model and sent.bears(row, tokens)
        ]
        if not free:
            refused += 1
            continue
        planned = -1 if assigned is None else assigned.get(request, -1)
        chosen = planned if planned in free else cheapest(view, request, free, sent)
        sent.add(chosen, tokens)
        routes.append((request, chosen))
        room[chosen] -= 1
        left -= 1
    return tuple(routes)
