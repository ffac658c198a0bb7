"""An `OptimizationPolicy`: what steward may do with the jobs of a namespace without a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.conditions import condition
from steward.clients.kubernetes.custom_resources import OPTIMIZATION_POLICIES
from steward.clients.kubernetes.objects import map_in
from steward.model.identity import TenantId
from steward.model.site import Autonomy, TenantCeiling

__all__ = ["OptimizationPolicy", "acknowledge", "ceilings_of", "optimization_policy_from"]

EFFECTIVE = "InEffect"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationPolicy:
    """One policy of one namespace."""

    uid: str
    name: str
    namespace: str
    ceiling: TenantCeiling
    version: str = ""
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        root, _, plural = OPTIMIZATION_POLICIES.rpartition("/")
        return f"{root}/namespaces/{self.namespace}/{plural}/{self.name}"


def optimization_policy_from(raw: Mapping[str, Any]) -> OptimizationPolicy | None:
    """Read a policy; None when it is not one.

    An autonomy that is not known (of a newer version) is the strictest.
    """
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    if not meta.get("uid") or not meta.get("namespace"):
        return None
    name, said = str(meta.get("name") or ""), spec.get("autonomy", Autonomy.AUTO.value)
    known = {each.value: each for each in Autonomy}
    actions, times = spec.get("actions"), spec.get("disturbancesPerJobPerDay")
    return OptimizationPolicy(
        uid=str(meta["uid"]),
        name=name,
        namespace=str(meta["namespace"]),
        ceiling=TenantCeiling(
            autonomy=known.get(str(said), Autonomy.OBSERVE),
            actions=frozenset(map(str, actions)) if isinstance(actions, list) else None,
            disturbed_per_job_per_day=None if times is None else int(times),
            source=f"OptimizationPolicy {name}",
        ),
        version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0),
        status=map_in(raw, "status"),
    )


def ceilings_of(policies: Iterable[OptimizationPolicy]) -> dict[TenantId, TenantCeiling]:
    """Return what holds in each namespace: of several policies, the strictest of each part."""
    found: dict[TenantId, TenantCeiling] = {}
    for each in sorted(policies, key=lambda policy: (policy.namespace, policy.name)):
        tenant = TenantId(each.namespace)
        known = found.get(tenant)
        found[tenant] = known.with_stricter(each.ceiling) if known else each.ceiling
    return found


def acknowledge(api: Api, policy: OptimizationPolicy, now: str) -> bool:
    """Write into the status that a policy is in effect; return whether that was needed."""
    status = {
        "observedGeneration": policy.generation,
        "conditions": [
            condition(
                policy.status,
                EFFECTIVE,
                holds=True,
                reason="GuardHasIt",
                why=f"since generation {policy.generation}: {policy.ceiling.text}",
                now=now,
                generation=policy.generation,
            )
        ],
    }
    if status == policy.status:
        return False
    meta = {"resourceVersion": policy.version, "uid": policy.uid}
    api.patch(f"{policy.path}/status", {"metadata": meta, "status": status})
    return True
