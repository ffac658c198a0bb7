"""SkyServe: requests a second over a target for each replica, with delays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steward.decide.serving.scaling.replicas import Pool, arrived, pools, scaled_to
from steward.model.serving.view import Scaling, ServingView

__all__ = ["Qps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qps:
    """SkyServe's rule: requests a second in the last minute over `target_qps`, with delays.

    More instances once they were wanted for `up_s`, fewer once they were wanted for `down_s`. What
    was wanted at an earlier time follows from the arrivals known today.
    """

    target_qps: float = 10.0
    window_s: float = 60.0
    up_s: float = 300.0
    down_s: float = 1200.0
    fewest: int = 1
    every_s: float = 20.0
    name: str = "qps"

    def scale(self, view: ServingView) -> Scaling:
        return scaled_to(view, {pool.model: self._wanted(view, pool) for pool in pools(view)})

    def _wanted(self, view: ServingView, pool: Pool) -> int:
        rows = arrived(view, self.down_s + self.window_s, pool.model)
        arrival_s = view.requests.arrival_s[rows]
        ends_s = view.t_s - np.arange(0.0, self.down_s + self.every_s, self.every_s)
        ends_s = ends_s[ends_s >= 0]
        spans = np.searchsorted(arrival_s, (ends_s - self.window_s, ends_s), side="right")
        rates = (spans[1] - spans[0]) / self.window_s
        wanted = np.array([math.ceil(rate / self.target_qps) for rate in rates])
        had = len(pool)
        lately = wanted[: int(self.up_s // self.every_s) + 1]
        if len(lately) and lately.min() > had:
            return max(self.fewest, int(lately[0]))
        if len(wanted) * self.every_s > self.down_s and wanted.max(initial=0) < had:
            return max(self.fewest, int(wanted[0]))
        return had
