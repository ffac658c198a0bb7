"""Columns for scalers, rebuilt from what a gateway counts.

The gateway's own dispatcher sees every request; its status has counts by class and instance. The
rows made here agree with these counts: as many requests wait in each class, the oldest for as long
as it does, the others evenly between. Lengths of prompts are not in the status: they are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import BATCH, INTERACTIVE, DeadlineClass
from steward.model.serving.snapshot import ClassProgress, ModelServer, ServingSnapshot
from steward.model.serving.view import (
    DRAINING,
    OFF,
    QUEUED,
    ROLES,
    RUNNING,
    SERVING,
    STARTING,
    InstanceColumns,
    RequestColumns,
    ServingView,
)

__all__ = ["MOST_ROWS", "view_of"]

MOST_ROWS = 20_000  # of requests that wait in one class: more change no decision
_STATES = {"serving": SERVING, "starting": STARTING, "draining": DRAINING}
_CLASSES = {each.name: each for each in (INTERACTIVE, BATCH)}


def view_of(
    snapshot: ServingSnapshot,
    types: Sequence[InstanceType],
    *,
    t_s: float,
    sought: Mapping[str, str],
) -> tuple[ServingView, tuple[str, ...]]:
    """Return a snapshot in columns, and the names of its rows of instances.

    `sought` are instances that are being started and that the gateway does not have yet, with
    their types. Instances of types that nobody configured get a type of their own.
    """
    coming = [
        ModelServer(name=name, model="", type=type_, state="starting")
        for name, type_ in sorted(sought.items())
        if snapshot.server(name) is None
    ]
    servers = [*snapshot.servers, *coming]
    known = {each.name: each for each in types}
    for each in servers:
        known.setdefault(each.type, _stand_in_type(each))
    all_types = tuple(known.values())
    models = tuple(dict.fromkeys(each.model for each in all_types))
    classes = tuple(map(_class_of, range(len(snapshot.classes)), snapshot.classes))
    requests, queue = _requests(snapshot, classes, t_s)
    view = ServingView(
        t_s=t_s,
        queue=queue,
        requests=requests,
        instances=_instances(servers, all_types, models),
        types=all_types,
        models=models,
        classes=classes,
        tenants=(),
    )
    return view, tuple(each.name for each in servers)


def _stand_in_type(server: ModelServer) -> InstanceType:
    """Return a type for an instance of which nothing but its model is known."""
    return InstanceType(name=server.type, model=server.model, step_times=H200_LLAMA_8B.step_times)


def _class_of(rank: int, progress: ClassProgress) -> DeadlineClass:
    known = _CLASSES.get(progress.name)
    return known or DeadlineClass(name=progress.name, rank=rank, ttft_s=progress.deadline_s)


def _instances(
    servers: Sequence[ModelServer], types: Sequence[InstanceType], models: Sequence[str]
) -> InstanceColumns:
    code = {each.name: index for index, each in enumerate(types)}
    rows = [types[code[each.type]] for each in servers]
    limits = [each.limit or kind.max_sequences for each, kind in zip(servers, rows, strict=True)]
    flying = [each.in_flight for each in servers]
    state = [_STATES.get(each.state, OFF) for each in servers]
    room = [
        max(0, limit - used) if now == SERVING else 0
        for limit, used, now in zip(limits, flying, state, strict=True)
    ]
    return InstanceColumns(
        type=_ints(code[each.type] for each in servers),
        model=_ints(models.index(each.model) for each in rows),
        state=_ints(state),
        running=_ints(each.running for each in servers),
        waiting=_ints(each.waiting for each in servers),
        limit=_ints(limits),
        room=_ints(room),
        kv_tokens=_ints(0 for _ in servers),
        role=_ints(ROLES.index(each.role) if each.role in ROLES else 0 for each in servers),
    )


def _requests(
    snapshot: ServingSnapshot, classes: Sequence[DeadlineClass], t_s: float
) -> tuple[RequestColumns, NDArray[np.int64]]:
    waiting = [min(each.queued, MOST_ROWS) for each in snapshot.classes]
    places = [row for row, each in enumerate(snapshot.servers) for _ in range(each.in_flight)]
    flying = [code for code, each in enumerate(snapshot.classes) for _ in range(each.in_flight)]
    flying = (flying + [0] * len(places))[: len(places)]  # counts may be of different moments
    arrivals = [
        np.linspace(t_s - each.oldest_wait_s, t_s, count, endpoint=False)
        for each, count in zip(snapshot.classes, waiting, strict=True)
    ]
    queued_code = np.repeat(np.arange(len(waiting)), waiting)
    code = np.concatenate([queued_code, flying]).astype(np.int64)
    arrival_s = np.concatenate([*arrivals, np.full(len(places), t_s)])
    urgent_s = np.array([*(each.urgent_s for each in classes), np.inf])
    count, queued = len(arrival_s), len(queued_code)
    sent = np.arange(count) >= queued
    requests = RequestColumns(
        arrival_s=arrival_s,
        deadline_s=arrival_s + urgent_s[code],
        prompt_tokens=np.zeros(count, np.int64),
        deadline_class=code,
        tenant=np.full(count, -1),
        model=np.zeros(count, np.int64),
        state=np.where(sent, RUNNING, QUEUED),
        generated_tokens=np.zeros(count, np.int64),
        instance=np.concatenate([np.full(queued, -1), places]).astype(np.int64),
        sent_s=np.where(sent, t_s, np.nan),
        first_token_s=np.full(count, np.nan),
        finish_s=np.full(count, np.nan),
    )
    return requests, np.argsort(arrival_s[:queued], kind="stable")


def _ints(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)
