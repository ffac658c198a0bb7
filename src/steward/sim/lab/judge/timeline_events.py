"""A replay as one list of events in time, for compiled code to walk along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.replay import Replay

__all__ = [
    "CAPACITY",
    "LEAVE",
    "READY",
    "START",
    "STOP",
    "EventTape",
    "event_tape",
    "horizon",
    "quotas",
    "ready_s",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STOP, LEAVE, CAPACITY, READY, START = range(5)  # the order within one instant


class EventTape(NamedTuple):
    """Events and what they point to. Codes of jobs are rows of the trace."""

    t_s: Floats
    kind: Ints
    job: Ints  # -1 for changes of capacity
    gpus: Floats  # what starts or stops; the change of capacity
    tenant: Ints  # of each job; those without a name share the last one
    size: Ints  # of each job, into `sizes`
    sizes: Floats  # what jobs ask for, ascending
    quota: Floats  # of each tenant, the nameless last


def event_tape(replay: Replay) -> EventTape:
    """Lay all events of a replay out in time, completions first within one instant."""
    trace, segments = replay.trace, replay.segments
    from_s, to_s = horizon(replay)
    real = segments.stop_s > segments.start_s
    rows, held = segments.job[real], segments.gpus[real]
    ready = ready_s(replay)
    present = np.flatnonzero(ready < np.inf)
    leave = np.where(np.isnan(replay.end_s), to_s, replay.end_s)[present]
    when, delta = _capacity(replay, from_s)
    parts = (
        (STOP, segments.stop_s[real], rows, held),
        (LEAVE, leave, present, np.zeros(len(present))),
        (CAPACITY, when, np.full(len(when), -1), delta),
        (READY, ready[present], present, np.zeros(len(present))),
        (START, segments.start_s[real], rows, held),
    )
    t_s = np.concatenate([part[1] for part in parts])
    order = np.argsort(t_s, kind="stable")
    sizes, size = np.unique(trace.gpus, return_inverse=True)
    quota = quotas(replay)
    return EventTape(
        t_s=t_s[order],
        kind=np.concatenate([np.full(len(part[1]), part[0]) for part in parts])[order],
        job=np.concatenate([part[2] for part in parts]).astype(np.int64)[order],
        gpus=np.concatenate([part[3] for part in parts])[order],
        tenant=np.where(trace.tenant < 0, len(quota) - 1, trace.tenant),
        size=size.reshape(-1).astype(np.int64),
        sizes=sizes,
        quota=quota,
    )


def horizon(replay: Replay) -> tuple[float, float]:
    """Return the first submission and the last end of anything."""
    trace, segments = replay.trace, replay.segments
    if not len(trace):
        return 0.0, 0.0
    ends = replay.end_s[~np.isnan(replay.end_s)]
    last = [float(trace.submit_s[-1]), float(ends.max(initial=0.0))]
    return float(trace.submit_s[0]), max(*last, float(segments.stop_s.max(initial=0.0)))


def ready_s(replay: Replay) -> Floats:
    """Return when each job could first run: submitted, and all that it depends on has ended."""
    ready = replay.trace.submit_s.copy()
    after = replay.trace.after
    if len(after):
        ends = np.where(np.isnan(replay.end_s), np.inf, replay.end_s)
        np.maximum.at(ready, after[:, 0], ends[after[:, 1]])
    return ready


def quotas(replay: Replay) -> Floats:
    """Return the guarantee of each tenant, and last what is left for jobs that name none."""
    named = len(replay.trace.tenants)
    if len(replay.quota) > named:
        return np.array(replay.quota[: named + 1], np.float64)
    nameless = bool((replay.trace.tenant < 0).any())
    rest = max(0.0, replay.machines.total_gpus - float(replay.quota.sum())) if nameless else 0.0
    return np.append(np.asarray(replay.quota, np.float64), rest)


def _capacity(replay: Replay, from_s: float) -> tuple[Floats, Floats]:
    """Return when GPUs come and go, and how many; what is there at first comes at the start."""
    machines = replay.machines
    up = machines.up.copy()
    when, delta = [from_s], [float(machines.gpus[up].sum())]
    for change in sorted(machines.changes, key=lambda each: each.t_s):
        if bool(up[change.node]) is not change.up:
            up[change.node] = change.up
            when.append(max(from_s, change.t_s))
            delta.append(float(machines.gpus[change.node]) * (1 if change.up else -1))
    return np.array(when), np.array(delta)
