"""QLM as its paper has it, to compare with: one throughput for all requests of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.serving.demand import Demand
from steward.decide.serving.model_swaps import planned_swaps
from steward.decide.serving.qlm import planned_order, virtual_queues
from steward.decide.serving.request_groups import Groups, groups_of
from steward.decide.serving.virtual_queues import Plan, Queues, edf_plan, searched_plan
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["QlmPaper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QlmPaper:
    """Request groups by model and class; waits from one constant throughput, without a bound.

    A plan that meets all deadlines is taken, else earliest deadline first. No placement by load or
    cache, no fairness between tenants, no notion of requests that are late already.
    """

    theta_tokens_per_s: float = 4000.0  # of an instance, profiled once
    output_tokens: float = 256.0  # of a request, on average
    name: str = "qlm-paper"

    def dispatch(self, view: ServingView) -> Dispatch:
        if not len(view.queue):
            return Dispatch()
        demand = self._demand(view)
        groups = groups_of(view, demand)
        queues = virtual_queues(view, demand, swaps=len(view.models) > 1)
        plan = self._plan(groups, queues)
        order, assigned = planned_order(demand, groups, queues, plan)
        swaps = planned_swaps(view, groups, queues, plan)
        room = view.instances.room.tolist()
        for row, _ in swaps:
            room[row] = 0
        return Dispatch(routes=_pulled(view, order, room, assigned), swaps=swaps)

    def _demand(self, view: ServingView) -> Demand:
        rows = view.queue
        work_s = np.full(len(rows), self.output_tokens / self.theta_tokens_per_s)
        slack_s = view.requests.deadline_s[rows] - view.t_s
        nothing = np.zeros(len(rows))
        return Demand(
            rows=rows,
            work_s=work_s,
            variance=nothing,
            own_s=nothing,
            slack_s=slack_s,
            hopeless=np.zeros(len(rows), bool),
        )

    def _plan(self, groups: Groups, queues: Queues) -> Plan:
        plan = searched_plan(groups, queues, (0.0, 0.0))
        return plan if plan.penalty < 0.5 else edf_plan(groups, queues, (0.0, 0.0))


def _pulled(
    view: ServingView, order: list[int], room: list[int], assigned: dict[int, int]
) -> tuple[tuple[int, int], ...]:
    """Let each instance with room pull the first of its queue, then the first of any."""
    loaded = view.instances.model.tolist()
    routes = []
    for request in order:
        model = int(view.requests.model[request])
        free = [row for row, more in enumerate(room) if more > 0 and loaded[row] == model]
        if free:
            planned = assigned.get(request, -1)
            chosen = planned if planned in free else free[0]
            routes.append((request, chosen))
            room[chosen] -= 1
    return tuple(routes)
