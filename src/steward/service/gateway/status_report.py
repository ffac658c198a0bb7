"""Puts the gateway's status together: for the dashboard, the command line, and Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from steward.model.serving.requests import DeadlineClass
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.status import (
    BatchCounts,
    ClassStatus,
    GatewayStatus,
    InstanceStatus,
)
from steward.service.gateway.upstream import ROLES, Upstream

__all__ = ["NO_BATCHES", "status_of"]

NO_BATCHES = BatchCounts(open=0, waiting=0, done=0, failed=0)
_ROLE_NAMES = {code: name for name, code in ROLES.items()}


def status_of(
    queue: CallQueue, *, wall_s: Callable[[], float], batches: BatchCounts = NO_BATCHES
) -> GatewayStatus:
    """Return the status of this moment."""
    oldest = _oldest_waits(queue)
    return GatewayStatus(
        t_s=wall_s(),
        policy=queue.dispatcher.name,
        estimator=queue.waits.history.status(queue.waits.name()),
        classes=[
            _class_status(queue, code, each, oldest.get(code, 0.0))
            for code, each in enumerate(queue.view.classes)
        ],
        instances=[_instance(each) for each in queue.instances.all],
        waits=list(queue.waits.history.records),
        events=list(queue.tallies.events),
        batches=batches,
    )


def _oldest_waits(queue: CallQueue) -> dict[int, float]:
    now_s = queue.now_s()
    oldest: dict[int, float] = {}
    for ticket in queue.tickets.values():
        if ticket.upstream is None:
            waited_s = now_s - ticket.entered_s
            oldest[ticket.code] = max(oldest.get(ticket.code, 0.0), waited_s)
    return oldest


def _class_status(
    queue: CallQueue, code: int, promised: DeadlineClass, oldest_s: float
) -> ClassStatus:
    tally = queue.tallies.of_class(promised.name)
    newest = queue.waits.board.newest(code)
    free = not queue.queued and queue.instances.has_room(queue.now_s())
    nothing = 0.0 if free else None
    judged = tally.met + tally.missed
    return ClassStatus(
        name=promised.name,
        queued=tally.queued,
        in_flight=tally.in_flight,
        done=tally.done,
        met=tally.met,
        missed=tally.missed,
        attainment=tally.met / judged if judged else None,
        oldest_wait_s=oldest_s,
        expected_wait_s=nothing if newest is None else newest.expected_s,
        bound_wait_s=nothing if newest is None else newest.bound_s,
        deadline_s=None if promised.urgent_s == float("inf") else promised.urgent_s,
    )


def _instance(upstream: Upstream) -> InstanceStatus:
    return InstanceStatus(
        name=upstream.name,
        url=upstream.settings.url,
        model=", ".join(upstream.models),
        type=upstream.settings.type or f"{upstream.kind.name} ({upstream.settings.gpus} GPU)",
        state=upstream.shown_state,
        role=_ROLE_NAMES[upstream.role],
        running=upstream.in_flight - upstream.waiting,
        waiting=upstream.waiting,
        limit=upstream.limit,
        tokens_per_s=round(upstream.tokens_per_s, 3),
        kv_share=upstream.load.kv_share,
        breaker=upstream.breaker.state,
        errors=upstream.errors,
        draining=upstream.draining,
    )
