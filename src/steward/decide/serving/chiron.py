"""Chiron's routing: interactive requests first, to instances by role; batch fills what is spare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.assignment import idle_swaps
from steward.model.serving.view import (
    ANY_CLASS,
    BATCH_ONLY,
    INTERACTIVE_ONLY,
    LEAVING,
    RUNNING,
    SENT,
    SERVING,
    Dispatch,
    ServingView,
)

__all__ = ["Chiron", "interactive_classes"]

Bools = NDArray[np.bool_]
_MOST_EVICTED = 4  # in one call


def interactive_classes(view: ServingView) -> Bools:
    """Return by class whether somebody reads along: a time to the first token is promised."""
    return np.array([each.ttft_s is not None for each in view.classes], bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chiron:
    """Interactive requests at once, on the fullest instance with room; batch by deadline on others.

    Interactive work prefers its own instances, then mixed ones, where it evicts batch work; batch
    work prefers batch instances, and takes mixed ones while no interactive request waits.
    """

    evicts: bool = True
    name: str = "chiron"

    def dispatch(self, view: ServingView) -> Dispatch:
        rows = view.queue
        chats = interactive_classes(view)[view.requests.deadline_class[rows]]
        room = view.instances.room.tolist()
        routes: list[tuple[int, int]] = []
        for request in rows[chats].tolist():
            _route(view, request, (INTERACTIVE_ONLY, ANY_CLASS), (room, routes))
        evict: tuple[int, ...] = ()
        unserved = rows[chats][~np.isin(rows[chats], [request for request, _ in routes])]
        if len(unserved):
            evict = _batch_in_the_way(view, unserved) if self.evicts else ()
        batch = rows[~chats]
        order = np.argsort(view.requests.deadline_s[batch], kind="stable")
        waiting = set(view.requests.model[unserved].tolist())
        for request in batch[order].tolist():
            mixed = int(view.requests.model[request]) not in waiting
            roles = (BATCH_ONLY, ANY_CLASS) if mixed else (BATCH_ONLY,)
            _route(view, request, roles, (room, routes))
        swaps = idle_swaps(view) if len(view.types) > 1 else ()
        return Dispatch(routes=tuple(routes), evict=evict, swaps=swaps)


def _route(
    view: ServingView,
    request: int,
    roles: tuple[int, ...],
    into: tuple[list[int], list[tuple[int, int]]],
) -> None:
    room, routes = into
    instances = view.instances
    model = view.requests.model[request]
    for role in roles:
        free = [
            row
            for row, more in enumerate(room)
            if more > 0 and instances.role[row] == role and instances.model[row] == model
        ]
        if free:
            chosen = max(free, key=lambda row: _packed(view, row))
            routes.append((request, chosen))
            room[chosen] -= 1
            return


def _packed(view: ServingView, row: int) -> tuple[bool, int, int]:
    """Prefer the fullest instance that is less than half full, else the emptiest one."""
    in_flight = int(view.instances.running[row]) + int(view.instances.waiting[row])
    spare = 2 * in_flight < int(view.instances.limit[row])
    return spare, in_flight if spare else -in_flight, -row


def _batch_in_the_way(view: ServingView, unserved: NDArray[np.int64]) -> tuple[int, ...]:
    """Return batch requests on mixed instances of the models that interactive requests lack."""
    requests, instances = view.requests, view.instances
    if (requests.state == LEAVING).any():
        return ()  # their room is not there yet
    lacking = np.isin(instances.model, requests.model[unserved])
    full = instances.running + instances.waiting >= instances.limit
    here = lacking & full & (instances.role == ANY_CLASS) & (instances.state == SERVING)
    flying = np.flatnonzero((requests.state == SENT) | (requests.state == RUNNING))
    batch = ~interactive_classes(view)[requests.deadline_class[flying]]
    victims = flying[batch & here[requests.instance[flying]]]
    order = np.lexsort((victims, requests.generated_tokens[victims], requests.state[victims]))
    chosen = victims[order][: min(len(unserved), _MOST_EVICTED)]
    return tuple(int(row) for row in chosen)
