"""Miner of tenants that keep leaving their GPUs idle."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from steward.model.finding import Pattern
from steward.model.forecast import UNEXPLAINED_S, About
from steward.model.identity import stable_id
from steward.model.view import ClusterView

__all__ = ["IdleHabits"]


class IdleHabits:
    """Count, once per `every_s`, the GPUs each tenant holds and those it has left idle.

    More frequent counts would count the same idle spell many times over and make the
    range look narrower than it is.
    """

    def __init__(
        self, *, every_s: float = 600.0, idle_after_s: float = 300.0, fewest: int = 30
    ) -> None:
        self.name = "idle-habits"
        self.every_s = every_s
        self.idle_after_s = idle_after_s
        self.fewest = fewest
        self._next_s = -np.inf
        self._counts: dict[str, tuple[int, int]] = {}  # tenant: idle, held

    def mine(self, view: ClusterView) -> tuple[Pattern, ...]:
        idle_s = view.forecast(About.GPUS, UNEXPLAINED_S)
        if idle_s is not None and view.t_s >= self._next_s:
            self._next_s = view.t_s + self.every_s
            self._count(view, idle_s.mid >= self.idle_after_s)
        return tuple(
            self._pattern(view.t_s, tenant, hits, cases)
            for tenant, (hits, cases) in sorted(self._counts.items())
            if cases >= self.fewest
        )

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {"counts": {tenant: [*each] for tenant, each in self._counts.items()}}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._counts = {
            str(tenant): (int(idle), int(held)) for tenant, (idle, held) in state["counts"].items()
        }

    def _count(self, view: ClusterView, idle: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        for row in range(len(view.tenants)):
            held = view.gpus.tenant == row
            tenant = view.tenant_id(row)
            hits, cases = self._counts.get(tenant, (0, 0))
            self._counts[tenant] = (hits + int(np.sum(held & idle)), cases + int(np.sum(held)))

    def _pattern(self, t_s: float, tenant: str, hits: int, cases: int) -> Pattern:
        low, high = wilson(hits, cases)
        share = hits / cases
        return Pattern(
            id=stable_id("p", self.name, tenant, round(share * 20)),
            t_s=t_s,
            miner=self.name,
            statement=f"{tenant} leaves {share:.0%} of the GPUs that it holds idle",
            hits=hits,
            cases=cases,
            low_share=low,
            high_share=high,
        )


def wilson(hits: int, cases: int, z: float = 1.96) -> tuple[float, float]:
    """Return the range in which a share lies with 95 % confidence; right for small counts too.

    >>> low, high = wilson(5, 10)
    >>> round(low, 2), round(high, 2)
    (0.24, 0.76)
    """
    share = hits / cases
    centre = share + z * z / (2 * cases)
    half = z * sqrt(share * (1 - share) / cases + z * z / (4 * cases * cases))
    return (
        max(0.0, min(share, (centre - half) / (1 + z * z / cases))),  # guard against rounding
        min(1.0, max(share, (centre + half) / (1 + z * z / cases))),
    )
