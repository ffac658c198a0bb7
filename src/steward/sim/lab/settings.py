"""What a replay assumes beside its trace, machines and policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.errors import unknown_name
from steward.model.machines import Machines
from steward.model.trace import Trace

__all__ = ["LabSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """Assumptions that all policies of a comparison share."""

    placement: str = "count"
    seed: int = 0
    checkpoint_s: float = 0.0  # one stop costs so much run time, where the trace says nothing
    saves_every_s: float = 1800.0  # what a job loses when its machine fails
    quota: Mapping[str, float] | None = None  # GPUs by tenant; None: by its GPU-time in the trace
    guaranteed_share: float = 0.5  # of that GPU-time, where no quota was given: the rest is common
    forecast_error: float = 0.0  # spread of a log-normal factor on what oracles and limits know
    locality_slowdown: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # times as long: node, rack, …
    type_speed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    every_level: bool = False  # call policies at each level of service, even where it cannot matter
    profiles: Path | None = None  # folder with measured speeds, for those who can use them
    policy_options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def entitlement_of(self, trace: Trace, machines: Machines) -> NDArray[np.float64]:
        """Return the GPUs that belong to each tenant; jobs without one share the last row."""
        names = (*trace.tenants, "")
        code = np.where(trace.tenant < 0, len(names) - 1, trace.tenant)
        used = np.bincount(code, trace.duration_s * trace.gpus, minlength=len(names))
        if self.quota is None:
            return machines.total_gpus * used / max(float(used.sum()), 1e-9)
        for tenant in self.quota:
            if tenant not in names:
                raise unknown_name("tenant", tenant, trace.tenants, where="quota")
        return np.array([float(self.quota.get(name, 0.0)) for name in names])

    def weights_of(self, trace: Trace, machines: Machines) -> NDArray[np.float64]:
        """Return each tenant's weight: its entitlement; with given quotas at least one GPU."""
        least = 1e-9 if self.quota is None else 1.0
        return np.maximum(self.entitlement_of(trace, machines), least)

    def quota_of(self, trace: Trace, machines: Machines) -> NDArray[np.float64]:
        """Return the GPUs guaranteed to each tenant: what the site said, or a part of its share."""
        entitled = self.entitlement_of(trace, machines)
        one_tenant = np.count_nonzero(entitled) <= 1
        share = 1.0 if self.quota is not None or one_tenant else self.guaranteed_share
        return entitled * share
