"""Passing jobs that wait for room, without moving their dates. Dates rest on time limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.scheduling.kernels.ordered import fits
from steward.decide.scheduling.kernels.queue_state import QueueState, sort_running

__all__ = ["backfill_around_all", "backfill_around_first"]

Array = NDArray[Any]


@njit
def _sort_by_date(queue: QueueState, now_s: float) -> None:
    """Sort running jobs by when they end at the latest; who is overdue ends any moment."""
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        queue.key[job] = max(queue.since_s[job] + queue.limit_s[job], now_s + 1.0)
    sort_running(queue, by_loss=False)


@njit
def _widest(queue: QueueState, job: int) -> int:
    """Return the type with most GPUs that a job may run on, or -1."""
    best = -1
    for kind in range(len(queue.capacity)):
        allowed = (queue.types[job] >> kind) & 1
        if allowed and (best < 0 or queue.capacity[kind] > queue.capacity[best]):
            best = kind
    return best


@njit
def _date_of(queue: QueueState, head: int, kind: int) -> tuple[float, int]:
    """Return when a job fits at the latest, and how many GPUs are to spare then."""
    room = queue.free[kind] if kind >= 0 else 0
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        if queue.held_type[job] == kind:
            room += queue.need[job]
            if room >= queue.need[head]:
                return queue.key[job], room - queue.need[head]
    return np.inf, 0


@njit
def backfill_around_first(queue: QueueState, now_s: float) -> None:
    """Give the first waiting job a date; start others that do not move it (EASY).

    The first does not fit now: it was tried before.
    """
    queue.answer_n[0], queue.answer_n[1] = 0, 0
    if queue.length[0] == 0:
        return
    _sort_by_date(queue, now_s)
    head = queue.waiting[queue.first[0]]
    kind_of_head = _widest(queue, head)
    date_s, spare = _date_of(queue, head, kind_of_head)
    free = queue.free.copy()
    start_n = 0
    for i in range(queue.first[0] + 1, queue.first[0] + queue.length[0]):
        if not free.any():
            break
        job = queue.waiting[i]
        kind = fits(queue, free, job)
        if kind < 0:
            continue
        if kind == kind_of_head and now_s + queue.limit_s[job] > date_s:
            if queue.need[job] > spare:
                continue
            spare -= queue.need[job]
        free[kind] -= queue.need[job]
        queue.start[start_n] = job
        start_n += 1
    queue.answer_n[0] = start_n


@njit
def _profile(queue: QueueState, kind: int, time_s: Array, room: Array) -> int:
    """Write how many GPUs of a type are free from when on; return in how many steps."""
    room[0], n = queue.free[kind], 1
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        if queue.held_type[job] != kind:
            continue
        if queue.key[job] > time_s[n - 1]:
            time_s[n], room[n] = queue.key[job], room[n - 1]
            n += 1
        room[n - 1] += queue.need[job]
    return n


@njit
def _split(time_s: Array, room: Array, n: int, at_s: float) -> int:
    """Make sure that a step of the profile begins at this time; return how many there are."""
    i = np.searchsorted(time_s[:n], at_s)
    if i < n and time_s[i] == at_s:
        return n
    for k in range(n, i, -1):
        time_s[k], room[k] = time_s[k - 1], room[k - 1]
    time_s[i], room[i] = at_s, room[i - 1]
    return n + 1


@njit
def _earliest(time_s: Array, room: Array, n: int, need: int, limit_s: float) -> int:
    """Return the first step with room for `limit_s`; `n`: there is none."""
    i = 0
    while i < n:
        k = i
        while k < n and room[k] >= need and time_s[k] < time_s[i] + limit_s:
            k += 1
        if k == n or time_s[k] >= time_s[i] + limit_s:
            return i
        i = k + 1
    return n


@njit
def backfill_around_all(queue: QueueState, now_s: float, depth: int) -> None:
    """Give the first `depth` jobs dates that nobody after them may move; start those of now."""
    _sort_by_date(queue, now_s)
    start_n = 0
    looked = min(queue.length[0], depth)
    for kind in range(len(queue.capacity)):
        time_s = np.empty(queue.running_n[0] + 2 * looked + 2)
        room = np.empty(len(time_s), np.int64)
        time_s[0] = now_s
        n = _profile(queue, kind, time_s, room)
        for i in range(queue.first[0], queue.first[0] + looked):
            job = queue.waiting[i]
            need, limit_s = queue.need[job], queue.limit_s[job]
            if _widest(queue, job) != kind or need > queue.capacity[kind]:
                continue
            at = _earliest(time_s, room, n, need, limit_s)
            if at == n:
                continue
            begin_s = time_s[at]
            n = _split(time_s, room, n, begin_s + limit_s)
            while at < n and time_s[at] < begin_s + limit_s:
                room[at] -= need
                at += 1
            if begin_s == now_s and queue.unplaceable[job] == 0:
                queue.start[start_n] = job
                start_n += 1
    queue.answer_n[0], queue.answer_n[1] = start_n, 0
