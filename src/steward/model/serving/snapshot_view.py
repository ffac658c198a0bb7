"""Columns for scalers, from what a gateway counts.

The gateway's own dispatcher sees every request; its status has counts by class and instance. The
rows made here agree with these counts (`arrival_log.py`). Lengths of prompts are not in the status:
each has `prompt_tokens`, as a site says, and the answers of a class the same mean length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.arrival_log import ArrivalLog, LoggedRequest
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import BATCH, INTERACTIVE, DeadlineClass
from steward.model.serving.snapshot import ClassProgress, ModelServer, ServingSnapshot
from steward.model.serving.view import (
    DONE,
    DRAINING,
    OFF,
    QUEUED,
    ROLES,
    RUNNING,
    SERVING,
    STARTING,
    InstanceColumns,
    InstanceRates,
    RequestColumns,
    ServingView,
)

__all__ = ["Place", "view_of"]

# One that is down is no free place, and has no room: it counts as draining.
_STATES = {
    "serving": SERVING,
    "starting": STARTING,
    "draining": DRAINING,
    "down": DRAINING,
    "off": OFF,
    "asleep": OFF,
    "swapping": STARTING,
}
_CLASSES = {each.name: each for each in (INTERACTIVE, BATCH)}
_ROW = np.dtype(
    [("arrival_s", float), ("finish_s", float), ("code", int), ("state", int), ("at", int)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An instance that the gateway does not have: on its way, or one more that may be started."""

    type: str
    name: str = ""  # "" is one that may be started

    @property
    def server(self) -> ModelServer:
        """Return it as if the gateway had it."""
        return ModelServer(
            name=self.name, model="", type=self.type, state="starting" if self.name else "off"
        )


def view_of(  # noqa: PLR0913 - what a gateway says, and what it does not
    snapshot: ServingSnapshot,
    types: Sequence[InstanceType],
    *,
    t_s: float,
    places: Sequence[Place] = (),
    log: ArrivalLog | None = None,
    before: ServingSnapshot | None = None,
    prompt_tokens: int = 512,
) -> tuple[ServingView, tuple[str, ...]]:
    """Return a snapshot in columns, and the names of its rows of instances.

    Rows of places that may be started have no name. Instances of types that nobody configured get a
    type of their own.
    """
    if log is None:
        log = ArrivalLog()
        log.take(snapshot)
    servers = [*snapshot.servers, *(each.server for each in places)]
    known = {each.name: each for each in types}
    for each in servers:
        known.setdefault(each.type, _stand_in_type(each))
    all_types = tuple(known.values())
    models = tuple(dict.fromkeys(each.model for each in all_types))
    classes = tuple(map(_class_of, range(len(snapshot.classes)), snapshot.classes))
    requests, queue = _requests(snapshot, classes, log, prompt_tokens)
    view = ServingView(
        t_s=t_s,
        queue=queue,
        requests=requests,
        instances=_instances(servers, all_types, models),
        types=all_types,
        models=models,
        classes=classes,
        tenants=(),
        rates=_rates(servers, snapshot, before),
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
    state = [_STATES.get(each.state, DRAINING) for each in servers]
    room = [
        max(0, limit - each.in_flight) if now == SERVING else 0
        for each, limit, now in zip(servers, limits, state, strict=True)
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


def _rates(
    servers: Sequence[ModelServer], snapshot: ServingSnapshot, before: ServingSnapshot | None
) -> InstanceRates | None:
    """Return tokens a second, and by how many requests run the time between their tokens."""
    if before is None:
        return None
    rate = np.array([each.tokens_per_s for each in servers], np.float64)
    running = np.array([each.running for each in servers], np.float64)
    earlier: Mapping[str, float] = {each.name: each.tokens_per_s for each in before.servers}
    return InstanceRates(
        window_s=snapshot.seen_s - before.seen_s,
        itl_s=np.where(rate > 0, running / np.maximum(rate, 1e-9), np.nan),
        tokens_per_s=rate,
        tokens_per_s_before=np.array([earlier.get(each.name, 0.0) for each in servers]),
    )


def _requests(
    snapshot: ServingSnapshot,
    classes: Sequence[DeadlineClass],
    log: ArrivalLog,
    prompt_tokens: int,
) -> tuple[RequestColumns, NDArray[np.int64]]:
    found = [
        row
        for code, each in enumerate(snapshot.classes)
        for row in _rows_of(code, each, log.of(each.name))
    ]
    table = np.sort(np.array(found, _ROW), order="arrival_s", kind="stable")
    _seat(table, snapshot.servers)
    urgent_s = np.array([*(each.urgent_s for each in classes), np.inf])
    state, count = table["state"], len(table)
    tokens = np.where(state == DONE, int(log.mean_tokens), 0)
    begun_s = np.where(state == QUEUED, np.nan, table["arrival_s"])
    requests = RequestColumns(
        arrival_s=table["arrival_s"],
        deadline_s=table["arrival_s"] + urgent_s[table["code"]],
        prompt_tokens=np.full(count, prompt_tokens),
        deadline_class=table["code"],
        tenant=np.full(count, -1),
        model=np.zeros(count, np.int64),
        state=state,
        generated_tokens=tokens.astype(np.int64),
        instance=table["at"],
        sent_s=begun_s,
        first_token_s=begun_s.copy(),
        finish_s=np.where(np.isfinite(table["finish_s"]), table["finish_s"], np.nan),
    )
    return requests, np.flatnonzero(state == QUEUED)


def _rows_of(
    code: int, progress: ClassProgress, logged: Sequence[LoggedRequest]
) -> list[tuple[float, float, int, int, int]]:
    """Return rows by arrival: what is done came first, what waits came last."""
    waits = len(logged) - progress.queued
    runs = waits - progress.in_flight
    return [
        (
            each.arrival_s,
            each.finish_s if at < runs else float("inf"),
            code,
            DONE if at < runs else RUNNING if at < waits else QUEUED,
            -1,
        )
        for at, each in enumerate(logged)
    ]


def _seat(table: NDArray[np.void], servers: Sequence[ModelServer]) -> None:
    """Say where requests run, as many at each instance as it has; the first have none left over."""
    seats = [row for row, each in enumerate(servers) for _ in range(each.in_flight)]
    running = np.flatnonzero(table["state"] == RUNNING)
    count = min(len(seats), len(running))
    table["at"][running[:count]] = seats[:count]


def _ints(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)
