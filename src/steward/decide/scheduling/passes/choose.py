"""One look at a book by the pass that a policy names. Lab and live loop come in here."""

from __future__ import annotations

from steward.compiled import njit
from steward.decide.scheduling.passes.book import Book
from steward.decide.scheduling.passes.commons import share_commons
from steward.decide.scheduling.passes.ordered import fill, reorder
from steward.decide.scheduling.passes.tenants import (
    serve_by_borrowing,
    serve_by_share,
    serve_within_quota,
)
from steward.decide.scheduling.ranking import Sharing

__all__ = ["choose"]


@njit
def choose(book: Book, sharing: int, walk: int, ties: int, preempts: int, now_s: float) -> int:
    """Let the policy's pass write its answer; return how many it has put into an order."""
    if sharing == Sharing.COMMONS:
        share_commons(book)
    elif sharing == Sharing.STATIC:
        serve_within_quota(book)
    elif sharing == Sharing.BORROW:
        serve_by_borrowing(book)
    elif sharing in (Sharing.FAIR_TREE, Sharing.DOMINANT):
        serve_by_share(book, now_s, int(sharing == Sharing.FAIR_TREE))
    elif preempts:
        reorder(book, ties)
        return int(book.answer_n[2])
    else:
        fill(book, walk)
    return 0
