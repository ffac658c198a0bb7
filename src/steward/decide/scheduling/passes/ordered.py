"""One order over all jobs: walk it and give GPUs to whoever fits."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.scheduling.passes.book import Book, sort_running

__all__ = ["Ties", "Walk", "fill", "fits", "reorder"]


class Walk(IntEnum):
    """What happens at a job that does not fit."""

    STRICT = 0  # everybody behind it waits too
    FIT = 1  # it is skipped
    EASY = 2  # it gets the earliest possible date; others may pass if they do not delay it
    CONSERVATIVE = 3  # every job gets a date that nobody may delay


class Ties(IntEnum):
    """Who goes first when a running and a waiting job rank equal."""

    WAITING = 0  # the one that was there; a newcomer comes last
    RUNNING = 1  # the one that runs; one that just fell to this rank comes last


@njit
def fits(book: Book, free: np.ndarray, job: int) -> int:
    """Return the preferred type with room for a job, among equals the one with most; or -1."""
    best = -1
    if book.unplaceable[job] == 1:
        return best
    prefer = book.prefer
    for kind in range(len(free)):
        allowed = (book.types[job] >> kind) & 1
        if not allowed or free[kind] < book.need[job]:
            continue
        if (
            best < 0
            or prefer[kind] < prefer[best]
            or (prefer[kind] == prefer[best] and free[kind] > free[best])
        ):
            best = kind
    return best


@njit
def fill(book: Book, walk: int) -> None:
    """Start waiting jobs of queue 0 in their order; nobody is stopped."""
    free = book.free.copy()
    start_n = 0
    for i in range(book.first[0], book.first[0] + book.length[0]):
        if not free.any():
            break
        job = book.waiting[i]
        kind = fits(book, free, job)
        if kind >= 0:
            free[kind] -= book.need[job]
            book.start[start_n] = job
            start_n += 1
        elif walk != Walk.FIT:
            break
    book.answer_n[0], book.answer_n[1] = start_n, 0


@njit
def _running_first(book: Book, runs: int, waits: int, ties: int) -> bool:
    if book.key[runs] != book.key[waits]:
        return bool(book.key[runs] < book.key[waits])
    if ties == Ties.WAITING:
        return bool(book.late[waits] == 1)
    return bool(book.late[runs] == 0)


@njit
def reorder(book: Book, ties: int) -> None:
    """Walk running and waiting jobs together; who is not reached, or does not fit, stops."""
    sort_running(book, by_start=False)
    free = book.capacity.copy()
    r, r_end = 0, book.running_n[0]
    w, w_end = book.first[0], book.first[0] + book.length[0]
    start_n = stop_n = walked_n = 0
    while (r < r_end or w < w_end) and free.any():
        if w >= w_end or (
            r < r_end and _running_first(book, book.running[r], book.waiting[w], ties)
        ):
            job = book.running[r]
            r += 1
            kind = book.held_type[job]
            if free[kind] < book.need[job]:
                book.stop[stop_n] = job
                stop_n += 1
                continue
        else:
            job = book.waiting[w]
            w += 1
            kind = fits(book, free, job)
            if kind < 0:
                continue
            book.start[start_n] = job
            start_n += 1
        free[kind] -= book.need[job]
        book.walked[walked_n] = job
        walked_n += 1
    while r < r_end:  # nothing is left for those behind
        book.stop[stop_n] = book.running[r]
        r += 1
        stop_n += 1
    book.answer_n[0], book.answer_n[1], book.answer_n[2] = start_n, stop_n, walked_n
