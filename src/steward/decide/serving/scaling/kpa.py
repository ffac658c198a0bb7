"""Knative's pod autoscaler: concurrency over a target, with a stable and a panic window."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.scaling.replicas import Pool, pools, scaled_to
from steward.model.serving.view import REFUSED, Scaling, ServingView

__all__ = ["Kpa"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpa:
    """Knative's rule: mean concurrency over 60 s (6 s in a panic) over a target for each instance.

    A panic begins when the short window wants `panic_share` times what is there; nothing is
    drained within `stable_s` of one. Panics and windows follow from the requests' own times.
    """

    target: float = 100.0  # Knative's default for requests in flight
    utilisation: float = 0.7
    stable_s: float = 60.0
    panic_s: float = 6.0
    panic_share: float = 2.0
    fewest: int = 1
    every_s: float = 2.0
    name: str = "kpa"

    def scale(self, view: ServingView) -> Scaling:
        return scaled_to(view, {pool.model: self._wanted(view, pool) for pool in pools(view)})

    def _wanted(self, view: ServingView, pool: Pool) -> int:
        begin_s, end_s = _presence(view, pool.model)
        had = max(len(pool), 1)
        stable = self._replicas(_concurrency(begin_s, end_s, view.t_s, self.stable_s))
        looks = view.t_s - np.arange(0.0, self.stable_s, self.panic_s)
        bursts = [
            self._replicas(_concurrency(begin_s, end_s, float(t_s), self.panic_s))
            for t_s in looks[looks >= 0]
        ]
        if max(bursts, default=0) >= self.panic_share * had:
            return max(had, stable, bursts[0])
        return max(self.fewest, stable)

    def _replicas(self, concurrency: float) -> int:
        return math.ceil(concurrency / (self.target * self.utilisation) - 1e-9)


def _presence(view: ServingView, model: int) -> tuple[Floats, Floats]:
    """Return from when until when each request of a model was there; infinite while it is."""
    requests = view.requests
    count = int(np.searchsorted(requests.arrival_s, view.t_s, side="right"))
    mine = (requests.model[:count] == model) & (requests.state[:count] != REFUSED)
    end_s = np.nan_to_num(requests.finish_s[:count], nan=np.inf)
    return requests.arrival_s[:count][mine], end_s[mine]


def _concurrency(begin_s: Floats, end_s: Floats, t_s: float, window_s: float) -> float:
    """Return how many requests were there on average in the window before `t_s`."""
    begin = max(0.0, t_s - window_s)
    shared_s = np.minimum(end_s, t_s) - np.maximum(begin_s, begin)
    return float(np.maximum(shared_s, 0.0).sum()) / max(t_s - begin, 1e-9)
