"""Queues by tenant, served by rules of share: quotas, borrowing, decayed use, dominant share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.scheduling.passes.book import Book
from steward.decide.scheduling.passes.ordered import fits

__all__ = ["serve_by_borrowing", "serve_by_share", "serve_within_quota"]

Array = NDArray[Any]

_OLD_S = 7 * 86_400.0  # an age that counts in full, as Slurm's PriorityMaxAge
_LOOK_PAST = 100  # jobs of one tenant that may be passed over in one look, as Slurm's backfill does


@njit
def serve_within_quota(book: Book) -> None:
    """Start what fits into each tenant's own quota, in order; idle quota stays idle."""
    free = book.free.copy()
    start_n = 0
    for tenant in range(len(book.length)):
        held = book.held[tenant]
        looked = min(book.length[tenant], start_n + _LOOK_PAST)
        for i in range(book.first[tenant], book.first[tenant] + looked):
            if held >= book.quota[tenant]:
                break
            job = book.waiting[i]
            kind = fits(book, free, job)
            if kind >= 0 and held + book.need[job] <= book.quota[tenant]:
                free[kind] -= book.need[job]
                held += book.need[job]
                book.start[start_n] = job
                start_n += 1
    book.answer_n[0], book.answer_n[1] = start_n, 0


@njit
def serve_by_share(book: Book, now_s: float, by_use: int) -> None:
    """Serve whoever has had least for its weight; who does not fit is passed over.

    `by_use` 1: decayed use so far, with age as a second factor (Slurm's multifactor with its
    usual weights); 0: what it holds now (dominant share; GPUs are the scarce resource).
    """
    tenants = len(book.length)
    free, held = book.free.copy(), book.held.copy()
    at = book.first.copy()
    start_n = 0
    use, weight = book.use / (book.use.sum() + 1e-9), book.weight / book.weight.sum()
    fair = 10.0 * 2.0 ** -(use / weight)
    while free.any():
        best, best_score = -1, np.inf
        for tenant in range(tenants):
            i = at[tenant] - book.first[tenant]
            if i >= book.length[tenant] or i >= start_n + _LOOK_PAST:
                continue
            score = held[tenant] / book.weight[tenant]
            if by_use:  # Slurm's sum of a fair-share and an age factor, with weights 10 to 1
                age = min((now_s - book.since_s[book.waiting[at[tenant]]]) / _OLD_S, 1.0)
                score = -(fair[tenant] + age)
            if score < best_score:
                best, best_score = tenant, score
        if best < 0:
            break
        job = book.waiting[at[best]]
        at[best] += 1
        kind = fits(book, free, job)
        if kind >= 0:
            free[kind] -= book.need[job]
            held[best] += book.need[job]
            book.start[start_n] = job
            start_n += 1
    book.answer_n[0], book.answer_n[1] = start_n, 0


@njit
def _reclaim(book: Book, held: Array, short: int, owner: int, stop_n: int) -> int:
    """List the youngest jobs of tenants above quota until `short` is covered.

    Returns how many are listed then; -1: those above their quota do not hold enough.
    """
    found = 0
    n = stop_n
    taken = held.copy()
    while found < short:
        youngest = -1
        for i in range(book.running_n[0]):
            job = book.running[i]
            tenant = book.tenant[job]
            if tenant == owner or book.late[job] == 2 or taken[tenant] <= book.quota[tenant]:
                continue
            if youngest < 0 or book.since_s[job] > book.since_s[youngest]:
                youngest = job
        if youngest < 0:
            for i in range(stop_n, n):
                book.late[book.stop[i]] = 0
            return -1
        book.late[youngest] = 2  # listed
        book.stop[n] = youngest
        n += 1
        found += book.need[youngest]
        taken[book.tenant[youngest]] -= book.need[youngest]
    held[:] = taken
    return n


@njit
def _first_in_line(book: Book, at: Array, held: Array, start_n: int, lend: bool) -> int:  # noqa: FBT001 - compiled code has no keywords
    """Return the tenant whose head is next: within quota before borrowing, then by arrival."""
    best, best_borrows = -1, True
    for tenant in range(len(book.length)):
        i = at[tenant] - book.first[tenant]
        if i >= book.length[tenant] or i >= start_n + _LOOK_PAST:
            continue
        job = book.waiting[at[tenant]]
        borrows = held[tenant] + book.need[job] > book.quota[tenant]
        if borrows and not lend:
            continue
        if best >= 0 and borrows == best_borrows:
            if book.seq[job] > book.seq[book.waiting[at[best]]]:
                continue
        elif best >= 0 and borrows:
            continue
        best, best_borrows = tenant, borrows
    return best


@njit
def serve_by_borrowing(book: Book) -> None:
    """Serve heads of queues, within quota first, then by arrival; lend and reclaim.

    A job within its tenant's quota may stop the youngest of those who borrow.
    """
    free, held = book.free.copy(), book.held.copy()
    at = book.first.copy()
    start_n = stop_n = 0
    while True:
        tenant = _first_in_line(book, at, held, start_n, bool(free.any()))
        if tenant < 0:
            break
        job = book.waiting[at[tenant]]
        at[tenant] += 1
        kind = fits(book, free, job)
        if kind < 0 and held[tenant] + book.need[job] <= book.quota[tenant]:
            short = book.need[job] - free.max()
            listed = _reclaim(book, held, short, tenant, stop_n)
            for i in range(stop_n, listed):
                free[book.held_type[book.stop[i]]] += book.need[book.stop[i]]
            stop_n = max(listed, stop_n)
            kind = fits(book, free, job)
        if kind >= 0:
            free[kind] -= book.need[job]
            held[tenant] += book.need[job]
            book.start[start_n] = job
            start_n += 1
    for i in range(stop_n):
        book.late[book.stop[i]] = 0
    book.answer_n[0], book.answer_n[1] = start_n, stop_n
