"""llm-d's workload variant autoscaler, by its documented thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.serving.scaling.replicas import Pool, pools, scaled_to
from steward.model.serving.view import SERVING, Scaling, ServingView

__all__ = ["Wva"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wva:
    """llm-d WVA's thresholds on KV cache and queue: one instance more or less at a time.

    An instance is saturated at `kv_share` of its cache or `queue_length` waiting requests; one
    more is started when those that are not have less spare than the triggers on average, one goes
    when the others would still have more. The gateway's queue counts as spread over all.
    """

    kv_share: float = 0.8
    queue_length: float = 5.0
    spare_kv: float = 0.1
    spare_queue: float = 3.0
    fewest: int = 1
    every_s: float = 30.0
    name: str = "wva"

    def scale(self, view: ServingView) -> Scaling:
        return scaled_to(view, {pool.model: self._wanted(view, pool) for pool in pools(view)})

    def _wanted(self, view: ServingView, pool: Pool) -> int:
        had = len(pool)
        serving = pool.rows[view.instances.state[pool.rows] == SERVING]
        if not len(serving):
            return max(had, self.fewest)
        if self._spare(view, pool, serving, len(serving)) < 0:
            return had + 1 if len(serving) == had else had  # what starts already comes first
        if had > self.fewest and self._spare(view, pool, serving, len(serving) - 1) > 0:
            return had - 1
        return had

    def _spare(self, view: ServingView, pool: Pool, rows: object, count: int) -> float:
        """Return by how much the scarcer of both is above its trigger, if `count` shared it."""
        if count < 1:
            return -1.0
        instances, chosen = view.instances, np.asarray(rows)
        capacity = np.array([view.types[kind].kv_tokens for kind in instances.type[chosen]])
        share = len(chosen) / count
        kv = instances.kv_tokens[chosen] / capacity * share
        queued = (instances.waiting[chosen] + len(pool.waiting) / len(chosen)) * share
        free = (kv < self.kv_share) & (queued < self.queue_length)
        if not free.any():
            return -1.0
        kv_left = float((self.kv_share - kv[free]).mean()) - self.spare_kv
        queue_left = float((self.queue_length - queued[free]).mean()) - self.spare_queue
        return min(kv_left, queue_left)
