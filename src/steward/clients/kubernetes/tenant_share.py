"""A `TenantShare`: what part of the cluster the jobs of a namespace are entitled to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.kubernetes.objects import map_in

__all__ = ["TenantShare", "tenant_share_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShare:
    """One share, named by whoever made it."""

    uid: str
    name: str
    namespace: str  # whose share it is
    weight: float
    guaranteed_gpus: int
    pool: str = ""  # in which it is guaranteed; empty: the only one


def tenant_share_from(raw: Mapping[str, Any]) -> TenantShare | None:
    """Read a share; None when it is not one, or its weight means nothing."""
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    weight = spec.get("weight")
    found = TenantShare(
        uid=str(meta.get("uid") or ""),
        name=str(meta.get("name") or ""),
        namespace=str(spec.get("namespace") or ""),
        weight=1.0 if weight is None else float(weight),
        guaranteed_gpus=int(spec.get("guaranteedGpus") or 0),
        pool=str(spec.get("pool") or ""),
    )
    valid = found.uid and found.namespace and found.weight > 0 and found.guaranteed_gpus >= 0
    return found if valid else None
