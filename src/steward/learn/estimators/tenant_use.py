"""How much has each tenant used lately?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steward.model.forecast import USED_GPU_S, About, ForecastColumn
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["TenantUse"]


class TenantUse:
    """Adds up what tenants' jobs hold; what is `half_life_s` old counts half."""

    def __init__(self, *, half_life_s: float = 7 * 86_400.0) -> None:
        self.name = "tenant-use"
        self.half_life_s = half_life_s
        self._used: dict[str, float] = {}
        self._t_s = np.inf  # nothing was seen before

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        elapsed_s = max(view.t_s - self._t_s, 0.0)
        fade = 2.0 ** (-elapsed_s / self.half_life_s)
        held = zip(view.tenants.ids.tolist(), view.tenants.held.tolist(), strict=True)
        self._used = {
            tenant: self._used.get(tenant, 0.0) * fade + gpus * elapsed_s for tenant, gpus in held
        }
        self._t_s = view.t_s

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        used = np.array([self._used.get(tenant, 0.0) for tenant in view.tenants.ids], np.float64)
        return (
            ForecastColumn(
                about=About.TENANTS,
                quantity=USED_GPU_S,
                low=used,
                mid=used,
                high=used,
                basis=f"{self.name}, half-life {self.half_life_s / 86_400.0:g} days",
            ),
        )
