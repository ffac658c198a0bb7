"""What dispatchers share: the first of a queue by some key, places for them, and model swaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.view import SERVING, Dispatch, ServingView

__all__ = ["idle_swaps", "in_flight", "placed", "servable"]

Place = Callable[[ServingView, int, Sequence[int]], int]  # request, instances with room: which
Keys = NDArray[np.float64]


def in_flight(view: ServingView, request: int, choices: Sequence[int]) -> int:
    """Return the instance with the fewest requests in flight; the first of several."""
    del request
    running, waiting = view.instances.running, view.instances.waiting
    return min(choices, key=lambda row: int(running[row]) + int(waiting[row]))


def placed(
    view: ServingView,
    place: Place = in_flight,
    *,
    key: Callable[[NDArray[np.int64]], Keys] | None = None,
) -> Dispatch:
    """Send the first requests by `key` (by arrival without one) to where `place` says.

    A request whose model has no room anywhere does not hold up those of other models.
    """
    room = view.instances.room.tolist()
    rows = servable(view, room)
    count = min(len(rows), sum(room))
    first = rows[:count] if key is None else rows[_smallest(key(rows), count)]
    routes = _routes(view, first.tolist(), room, place)
    swaps = idle_swaps(view) if len(view.types) > 1 else ()
    return Dispatch(routes=routes, swaps=swaps)


def servable(view: ServingView, room: Sequence[int]) -> NDArray[np.int64]:
    """Return the waiting requests whose model has room on some instance, by arrival."""
    if len(view.models) == 1:
        return view.queue
    has_room = np.zeros(len(view.models), bool)
    has_room[view.instances.model[np.flatnonzero(room)]] = True
    waiting: NDArray[np.int64] = view.queue[has_room[view.requests.model[view.queue]]]
    return waiting


def _smallest(keys: Keys, count: int) -> NDArray[np.int64]:
    """Return the places of the `count` smallest keys in their order, ties by place."""
    if count == 1:
        return np.array([int(np.argmin(keys))])
    if count < len(keys):
        among = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
        return among[np.argsort(keys[among], kind="stable")[:count]]
    return np.argsort(keys, kind="stable")


def _routes(
    view: ServingView, requests: Sequence[int], room: list[int], place: Place
) -> tuple[tuple[int, int], ...]:
    models = view.instances.model.tolist() if len(view.models) > 1 else [0] * len(room)
    routes = []
    sent = [0] * len(room)
    for request in requests:
        model = int(view.requests.model[request]) if len(view.models) > 1 else 0
        # those with the fewest sent in this very call: the columns do not count these yet
        free = [row for row, left in enumerate(room) if left > 0 and models[row] == model]
        if not free:
            continue
        least = min(sent[row] for row in free)
        chosen = place(view, request, [row for row in free if sent[row] == least])
        routes.append((request, chosen))
        room[chosen] -= 1
        sent[chosen] += 1
    return tuple(routes)


def idle_swaps(view: ServingView) -> tuple[tuple[int, int], ...]:
    """Give idle instances whose model nobody waits for to waiting models that have none."""
    instances = view.instances
    wanted = np.unique(view.requests.model[view.queue])
    there = set(instances.model[instances.state != 0].tolist())
    lacking = [model for model in wanted.tolist() if model not in there]
    busy = (instances.running + instances.waiting > 0) | (instances.state != SERVING)
    idle = np.flatnonzero(~busy & ~np.isin(instances.model, wanted)).tolist()
    swaps = []
    for row, model in zip(idle, lacking, strict=False):
        gpus = view.types[int(instances.type[row])].gpus
        for code, each in enumerate(view.types):
            if each.model == view.models[model] and each.gpus == gpus:
                swaps.append((row, code))
                break
    return tuple(swaps)
