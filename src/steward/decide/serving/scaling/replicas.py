"""What scalers share: the instances of each model, and the step from a wanted number to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.view import DRAINING, OFF, SERVING, Scaling, ServingView

__all__ = ["Pool", "arrived", "pools", "scaled_to"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """The instances of one model that serve, or will."""

    model: int
    type: int  # position of the type that a new instance has
    rows: Ints
    waiting: Ints  # rows of requests in the gateway's queue

    def __len__(self) -> int:
        return len(self.rows)


def pools(view: ServingView) -> tuple[Pool, ...]:
    """Return a pool per model, in the order of the models; an empty one where none is on."""
    instances = view.instances
    kept = (instances.state != OFF) & (instances.state != DRAINING)
    queue_models = view.requests.model[view.queue]
    found = []
    for code, model in enumerate(view.models):
        kinds = [place for place, each in enumerate(view.types) if each.model == model]
        rows = np.flatnonzero(kept & (instances.model == code))
        kind = int(instances.type[rows[-1]]) if len(rows) else kinds[0]
        if view.types[kind].model != model:  # the last one is about to load this model
            kind = kinds[0]
        found.append(
            Pool(model=code, type=kind, rows=rows, waiting=view.queue[queue_models == code])
        )
    return tuple(found)


def arrived(view: ServingView, window_s: float, model: int) -> Ints:
    """Return the requests for a model that arrived in the last `window_s`, by arrival."""
    arrival_s = view.requests.arrival_s
    begin, end = np.searchsorted(arrival_s, (view.t_s - window_s, view.t_s), side="right")
    rows = np.arange(begin, end)
    found: Ints = rows[view.requests.model[rows] == model]
    return found


def scaled_to(view: ServingView, wanted: Mapping[int, int], **more: object) -> Scaling:
    """Start and drain until each model (by code) has the wanted number of instances.

    New ones take what places are free, a model after the other. What goes away first is what
    serves nobody yet, then what has the fewest requests in flight.
    """
    free = int((view.instances.state == OFF).sum())
    start: list[int] = []
    drain: list[int] = []
    for pool in pools(view):
        target = wanted.get(pool.model, len(pool))
        lacking = min(target - len(pool), free)
        if lacking > 0:
            start += [pool.type] * lacking
            free -= lacking
        elif lacking < 0:
            drain += _emptiest(view, pool.rows)[: len(pool) - target]
    return Scaling(start=tuple(start), drain=tuple(drain), **more)  # type: ignore[arg-type]


def _emptiest(view: ServingView, rows: Ints) -> list[int]:
    instances = view.instances
    in_flight = instances.running + instances.waiting
    serving = instances.state == SERVING
    return sorted(rows.tolist(), key=lambda row: (bool(serving[row]), int(in_flight[row]), -row))
