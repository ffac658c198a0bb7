"""What a pass sees: jobs in order, what is free, and room for its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to

__all__ = ["Book", "by_reference", "empty_book", "enter", "leave", "sort_running"]

Array = NDArray[Any]


class Book(NamedTuple):
    """Arrays only, so that compiled code can pass it on. Rows are jobs, tenants or GPU types.

    Waiting jobs stand in one slice of `waiting` per queue (`first[q]` .. `first[q] + length[q]`),
    sorted by `(key, seq)`. Running jobs stand in `running`, in the order of the last walk.
    """

    need: Array  # GPUs that the job asks for, in the engine's unit
    types: Array  # bit i: may run on type i
    tenant: Array
    queue: Array  # which slice the job waits in
    key: Array  # rank: smaller goes first
    seq: Array  # order among equal keys, while waiting
    late: Array  # 1: arrived, or changed its key while running, at this very instant
    runs: Array  # 1: holds GPUs
    held_type: Array  # the type it holds; -1 while waiting
    since_s: Array  # when it last started
    limit_s: Array  # longest time that it may run, as its user said
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


BookRef, BookRefType = reference_to("BookRef", Book._fields, module=__name__)


@njit
def by_reference(book: Book) -> Any:  # noqa: ANN401 - has the fields of a Book
    """Return the same book as a record that compiled functions pass on by reference."""
    return BookRef(
        book.need,
        book.types,
        book.tenant,
        book.queue,
        book.key,
        book.seq,
        book.late,
        book.runs,
        book.held_type,
        book.since_s,
        book.limit_s,
        book.unplaceable,
        book.waiting,
        book.first,
        book.length,
        book.running,
        book.running_n,
        book.walked,
        book.free,
        book.capacity,
        book.prefer,
        book.held,
        book.quota,
        book.grain,
        book.weight,
        book.use,
        book.start,
        book.stop,
        book.answer_n,
    )


def empty_book(*, jobs: int, queues: Array, tenants: int, types: int, most_running: int) -> Book:
    """Make room for `jobs`; `queues` says how many of them may wait in each queue."""
    ints, floats = np.int64, np.float64
    first = np.concatenate(([0], np.cumsum(queues))).astype(ints)
    return Book(
        need=np.zeros(jobs, ints),
        types=np.full(jobs, -1, ints),
        tenant=np.zeros(jobs, ints),
        queue=np.zeros(jobs, ints),
        key=np.zeros(jobs, floats),
        seq=np.zeros(jobs, floats),
        late=np.zeros(jobs, np.int8),
        runs=np.zeros(jobs, np.int8),
        held_type=np.full(jobs, -1, ints),
        since_s=np.zeros(jobs, floats),
        limit_s=np.full(jobs, np.inf),
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
def place_in_order(book: Book, job: int) -> int:
    """Find where a job belongs in its queue: after all that are not behind it."""
    q = book.queue[job]
    low = book.first[q]
    high = low + book.length[q]
    key, seq = book.key[job], book.seq[job]
    while low < high:
        mid = (low + high) // 2
        other = book.waiting[mid]
        if book.key[other] < key or (book.key[other] == key and book.seq[other] <= seq):
            low = mid + 1
        else:
            high = mid
    return int(low)


@njit
def enter(book: Book, job: int) -> None:
    """Put a job into its queue, by `(key, seq)`."""
    q = book.queue[job]
    at = place_in_order(book, job)
    end = book.first[q] + book.length[q]
    for i in range(end, at, -1):
        book.waiting[i] = book.waiting[i - 1]
    book.waiting[at] = job
    book.length[q] += 1


@njit
def leave(book: Book, job: int) -> None:
    """Take a job out of its queue."""
    q = book.queue[job]
    at = place_in_order(book, job) - 1
    while book.waiting[at] != job:  # equal (key, seq) only when two entered as one
        at -= 1
    for i in range(at, book.first[q] + book.length[q] - 1):
        book.waiting[i] = book.waiting[i + 1]
    book.length[q] -= 1


@njit
def sort_running(book: Book, by_start: bool) -> None:  # noqa: FBT001 - compiled code
    """Sort running jobs by key.

    Among equals: who began first (`by_start`), or as they stand, where those that just changed
    their key come last, by arrival.
    """
    jobs, key, late, since = book.running, book.key, book.late, book.since_s  # this loop is hot
    for i in range(1, book.running_n[0]):
        job = jobs[i]
        at = i - 1
        while at >= 0:
            other = jobs[at]
            if key[other] < key[job]:
                break
            if key[other] == key[job]:
                if by_start:
                    first = since[other] < since[job] or (
                        since[other] == since[job] and other < job
                    )
                else:
                    first = late[other] < late[job] or (
                        late[other] == late[job] and (late[job] == 0 or other < job)
                    )
                if first:
                    break
            jobs[at + 1] = other
            at -= 1
        jobs[at + 1] = job
