"""One look at a queue by the pass that a policy names. Lab and live loop come in here."""

from __future__ import annotations

from steward.compiled import njit
from steward.decide.scheduling.kernels.commons import share_commons
from steward.decide.scheduling.kernels.ordered import fill, reorder
from steward.decide.scheduling.kernels.queue_state import QueueState
from steward.decide.scheduling.kernels.tenants import (
    serve_by_borrowing,
    serve_by_share,
    serve_within_quota,
)
from steward.decide.scheduling.ranking import Sharing

__all__ = ["choose"]


@njit
def choose(
    queue: QueueState, sharing: int, walk: int, ties: int, preempts: int, now_s: float
) -> int:
    """Let the policy's pass write its answer; return how many it has put into an order."""
    if sharing == Sharing.COMMONS:
        share_commons(queue)
    elif sharing == Sharing.STATIC:
        serve_within_quota(queue)
    elif sharing == Sharing.BORROW:
        serve_by_borrowing(queue)
    elif sharing in (Sharing.FAIR_TREE, Sharing.DOMINANT):
        serve_by_share(queue, now_s, int(sharing == Sharing.FAIR_TREE))
    elif preempts:
        reorder(queue, ties)
        return int(queue.answer_n[2])
    else:
        fill(queue, walk)
    return 0
