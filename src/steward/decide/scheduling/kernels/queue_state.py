"""What a pass sees: jobs in order, what is free, and room for its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to

__all__ = ["QueueState", "by_reference", "empty_queue_state", "enter", "leave", "sort_running"]

Array = NDArray[Any]


class QueueState(NamedTuple):
    """Arrays only, so that compiled code can pass it on. Rows are jobs, tenants or GPU types.

    Waiting jobs stand in one slice of `waiting` per queue (`first[q]` .. `first[q] + length[q]`),
    sorted by `(key, seq)`. Running jobs stand in `running`, in the order of the last walk.
    """

    need: Array  # GPUs that the job asks for, in the engine's unit
    types: Array  # bit i: may run on type i
    tenant: Array
    queue_of: Array  # which slice the job waits in
    key: Array  # rank: smaller goes first
    seq: Array  # order among equal keys, while waiting
    late: Array  # 1: arrived, or changed its key while running, at this very instant
    runs: Array  # 1: holds GPUs
    held_type: Array  # the type it holds; -1 while waiting
    since_s: Array  # when it last started
    queued_s: Array  # when it last came into the queue
    limit_s: Array  # longest time that it may run, as its user said
    stop_cost_s: Array  # what saving and restoring take
    saved_s: Array  # when it saved last; -infinity: not known
    unplaceable: Array  # 1: there is room, but not in one place; until the next look
    waiting: Array
    first: Array
    length: Array
    running: Array
    running_n: Array  # one number
    walked: Array  # who should run, in the order of the walk
    free: Array  # by type
    capacity: Array  # by type
    prefer: Array  # by type: the least is filled first, then the one with the most room
    held: Array  # by tenant
    quota: Array  # by tenant
    grain: Array  # one number: what jobs ask for is a multiple of it
    weight: Array  # by tenant
    use: Array  # by tenant: decayed use so far
    start: Array  # the answer
    stop: Array  # the answer, those that are worth most last stopped first
    answer_n: Array  # how many to start, to stop, and in `walked`


QueueStateRef, QueueStateRefType = reference_to(
    "QueueStateRef", QueueState._fields, module=__name__
)


@njit
def by_reference(queue: QueueState) -> Any:  # noqa: ANN401 - has the fields of a QueueState
    """Return the same queue as a record that compiled functions pass on by reference."""
    return QueueStateRef(
        queue.need,
        queue.types,
        queue.tenant,
        queue.queue_of,
        queue.key,
        queue.seq,
        queue.late,
        queue.runs,
        queue.held_type,
        queue.since_s,
        queue.queued_s,
        queue.limit_s,
        queue.stop_cost_s,
        queue.saved_s,
        queue.unplaceable,
        queue.waiting,
        queue.first,
        queue.length,
        queue.running,
        queue.running_n,
        queue.walked,
        queue.free,
        queue.capacity,
        queue.prefer,
        queue.held,
        queue.quota,
        queue.grain,
        queue.weight,
        queue.use,
        queue.start,
        queue.stop,
        queue.answer_n,
    )


def empty_queue_state(
    *, jobs: int, queues: Array, tenants: int, types: int, most_running: int
) -> QueueState:
    """Make room for `jobs`; `queues` says how many of them may wait in each queue."""
    ints, floats = np.int64, np.float64
    first = np.concatenate(([0], np.cumsum(queues))).astype(ints)
    return QueueState(
        need=np.zeros(jobs, ints),
        types=np.full(jobs, -1, ints),
        tenant=np.zeros(jobs, ints),
        queue_of=np.zeros(jobs, ints),
        key=np.zeros(jobs, floats),
        seq=np.zeros(jobs, floats),
        late=np.zeros(jobs, np.int8),
        runs=np.zeros(jobs, np.int8),
        held_type=np.full(jobs, -1, ints),
        since_s=np.zeros(jobs, floats),
        queued_s=np.zeros(jobs, floats),
        limit_s=np.full(jobs, np.inf),
        stop_cost_s=np.zeros(jobs, floats),
        saved_s=np.full(jobs, -np.inf),
        unplaceable=np.zeros(jobs, np.int8),
        waiting=np.zeros(int(first[-1]), ints),
        first=first[:-1],
        length=np.zeros(len(queues), ints),
        running=np.zeros(most_running, ints),
        running_n=np.zeros(1, ints),
        walked=np.zeros(3 * most_running, ints),
        free=np.zeros(types, ints),
        capacity=np.zeros(types, ints),
        prefer=np.zeros(types, floats),
        held=np.zeros(tenants, ints),
        quota=np.zeros(tenants, ints),
        grain=np.ones(1, ints),
        weight=np.ones(tenants, floats),
        use=np.zeros(tenants, floats),
        start=np.zeros(max(jobs, 1), ints),
        stop=np.zeros(most_running, ints),
        answer_n=np.zeros(3, ints),
    )


@njit
def place_in_order(queue: QueueState, job: int) -> int:
    """Find where a job belongs in its queue: after all that are not behind it."""
    q = queue.queue_of[job]
    low = queue.first[q]
    high = low + queue.length[q]
    key, seq = queue.key[job], queue.seq[job]
    while low < high:
        mid = (low + high) // 2
        other = queue.waiting[mid]
        if queue.key[other] < key or (queue.key[other] == key and queue.seq[other] <= seq):
            low = mid + 1
        else:
            high = mid
    return int(low)


@njit
def enter(queue: QueueState, job: int) -> None:
    """Put a job into its queue, by `(key, seq)`."""
    q = queue.queue_of[job]
    at = place_in_order(queue, job)
    end = queue.first[q] + queue.length[q]
    for i in range(end, at, -1):
        queue.waiting[i] = queue.waiting[i - 1]
    queue.waiting[at] = job
    queue.length[q] += 1


@njit
def leave(queue: QueueState, job: int) -> None:
    """Take a job out of its queue."""
    q = queue.queue_of[job]
    at = place_in_order(queue, job) - 1
    while queue.waiting[at] != job:  # equal (key, seq) only when two entered as one
        at -= 1
    for i in range(at, queue.first[q] + queue.length[q] - 1):
        queue.waiting[i] = queue.waiting[i + 1]
    queue.length[q] -= 1


@njit
def _loses_more(queue: QueueState, job: int, other: int) -> bool:
    """Return whether a job loses more than another for each GPU, if it is stopped now.

    By what the stop costs it, then by what it has done since its last save, or since it began: that
    is lost if the save fails. Among equals, the first.
    """
    if queue.stop_cost_s[job] != queue.stop_cost_s[other]:
        return bool(queue.stop_cost_s[job] > queue.stop_cost_s[other])
    kept_s = max(queue.since_s[job], queue.saved_s[job])
    other_s = max(queue.since_s[other], queue.saved_s[other])
    return bool(kept_s < other_s or (kept_s == other_s and job < other))


@njit
def sort_running(queue: QueueState, by_loss: bool) -> None:  # noqa: FBT001 - compiled code
    """Sort running jobs by key.

    Among equals: who loses most by a stop (`by_loss`), or as they stand, where those that just
    changed their key come last, by arrival.
    """
    jobs, key, late = queue.running, queue.key, queue.late  # this loop is hot
    for i in range(1, queue.running_n[0]):
        job = jobs[i]
        at = i - 1
        while at >= 0:
            other = jobs[at]
            if key[other] < key[job]:
                break
            if key[other] == key[job]:
                if by_loss:
                    first = _loses_more(queue, other, job)
                else:
                    first = late[other] < late[job] or (
                        late[other] == late[job] and (late[job] == 0 or other < job)
                    )
                if first:
                    break
            jobs[at + 1] = other
            at -= 1
        jobs[at + 1] = job
