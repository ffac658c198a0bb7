"""Estimator of the recent use of each tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from steward.model.forecast import USED_GPU_S, About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["TenantUse"]


_FORGOTTEN_GPU_S = 1.0  # less than this has faded away


class TenantUse:
    """Sum the GPUs that tenants' jobs hold, decayed with `half_life_s`."""

    def __init__(self, *, half_life_s: float = 7 * 86_400.0) -> None:
        self.name = "tenant-use"
        self.half_life_s = half_life_s
        self._used: dict[str, float] = {}
        self._held: dict[str, float] = {}  # GPUs of each tenant in the view before
        self._t_s = np.inf  # no view before

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        elapsed_s = max(view.t_s - self._t_s, 0.0)
        fade = 2.0 ** (-elapsed_s / self.half_life_s)
        used = {
            tenant: self._used.get(tenant, 0.0) * fade + self._held.get(tenant, 0.0) * elapsed_s
            for tenant in dict.fromkeys((*view.tenants.ids.tolist(), *self._used))
        }
        # who is not in one view may be in the next: its source may have failed
        self._used = {tenant: gpu_s for tenant, gpu_s in used.items() if gpu_s > _FORGOTTEN_GPU_S}
        held = zip(view.tenants.ids.tolist(), view.tenants.held.tolist(), strict=True)
        self._held = dict(held)
        self._t_s = view.t_s

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: use is an estimate of tenants, not of single jobs."""
        return ()

    @property
    def state_version(self) -> int:
        return 2  # 1 did not have what was held

    def save_state(self) -> dict[str, Any]:
        return {
            "used": dict(self._used),
            "held": dict(self._held),
            "t_s": self._t_s if np.isfinite(self._t_s) else None,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        used = {str(tenant): float(gpu_s) for tenant, gpu_s in state["used"].items()}
        self._held = {str(tenant): float(gpus) for tenant, gpus in state["held"].items()}
        self._t_s = np.inf if state["t_s"] is None else float(state["t_s"])
        self._used = used

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
