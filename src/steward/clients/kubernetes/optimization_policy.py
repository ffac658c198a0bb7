"""An `OptimizationPolicy`: what steward may do with the jobs of a namespace without a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.conditions import condition
from steward.clients.kubernetes.custom_resources import OPTIMIZATION_POLICIES
from steward.clients.kubernetes.objects import map_in
from steward.clients.kubernetes.off_hours import OffHours, off_hours_from
from steward.model.identity import TenantId
from steward.model.site import Autonomy, TenantCeiling

__all__ = ["OptimizationPolicy", "acknowledge", "ceilings_of", "optimization_policy_from"]

EFFECTIVE = "InEffect"
OFF_HOURS = "OffHours"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationPolicy:
    """One policy of one namespace. `off_ceiling` holds instead of `ceiling` in its off-hours."""

    uid: str
    name: str
    namespace: str
    ceiling: TenantCeiling
    off_hours: OffHours | None = None
    off_ceiling: TenantCeiling = field(default_factory=TenantCeiling)
    version: str = ""
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        root, _, plural = OPTIMIZATION_POLICIES.rpartition("/")
        return f"{root}/namespaces/{self.namespace}/{plural}/{self.name}"

    def is_off_hours(self, t_s: float) -> bool:
        """Return whether it is off-hours at an instant."""
        return self.off_hours is not None and self.off_hours.hold(t_s)

    def ceiling_at(self, t_s: float) -> TenantCeiling:
        """Return what holds at an instant."""
        return self.off_ceiling if self.is_off_hours(t_s) else self.ceiling


def optimization_policy_from(raw: Mapping[str, Any]) -> OptimizationPolicy | None:
    """Read a policy; None when it is not one."""
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    if not meta.get("uid") or not meta.get("namespace"):
        return None
    name, off = str(meta.get("name") or ""), map_in(spec, "offHours")
    source = f"OptimizationPolicy {name}"
    return OptimizationPolicy(
        uid=str(meta["uid"]),
        name=name,
        namespace=str(meta["namespace"]),
        ceiling=_ceiling(spec, source),
        off_hours=off_hours_from(off) if off else None,
        off_ceiling=_ceiling({**spec, **off}, f"{source} (off-hours)"),
        version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0),
        status=map_in(raw, "status"),
    )


def _ceiling(spec: Mapping[str, Any], source: str) -> TenantCeiling:
    """Read what may be done; an autonomy that is not known (of another version) is strict."""
    known = {each.value: each for each in Autonomy}
    said = spec.get("autonomy", Autonomy.AUTO.value)
    actions, times = spec.get("actions"), spec.get("disturbancesPerJobPerDay")
    return TenantCeiling(
        autonomy=known.get(str(said), Autonomy.OBSERVE),
        actions=frozenset(map(str, actions)) if isinstance(actions, list) else None,
        disturbed_per_job_per_day=None if times is None else int(times),
        source=source,
    )


def ceilings_of(
    policies: Iterable[OptimizationPolicy], t_s: float
) -> dict[TenantId, TenantCeiling]:
    """Return what holds in each namespace: of several policies, the strictest of each part."""
    found: dict[TenantId, TenantCeiling] = {}
    for each in sorted(policies, key=lambda policy: (policy.namespace, policy.name)):
        tenant, ceiling = TenantId(each.namespace), each.ceiling_at(t_s)
        known = found.get(tenant)
        found[tenant] = known.with_stricter(ceiling) if known else ceiling
    return found


def acknowledge(api: Api, policy: OptimizationPolicy, t_s: float) -> bool:
    """Write into the status what of a policy is in effect; return whether that was needed."""
    now = _text(datetime.fromtimestamp(t_s, UTC))
    said = [
        (
            EFFECTIVE,
            True,
            "GuardHasIt",
            f"since generation {policy.generation}: {policy.ceiling.text}",
        )
    ]
    if policy.off_hours is not None:
        said.append(_off_hours(policy, policy.off_hours, t_s))
    status = {
        "observedGeneration": policy.generation,
        "conditions": [
            condition(
                policy.status,
                type_,
                holds=holds,
                reason=reason,
                why=why,
                now=now,
                generation=policy.generation,
            )
            for type_, holds, reason, why in said
        ],
    }
    if status == policy.status:
        return False
    meta = {"resourceVersion": policy.version, "uid": policy.uid}
    api.patch(f"{policy.path}/status", {"metadata": meta, "status": status})
    return True


def _off_hours(
    policy: OptimizationPolicy, off_hours: OffHours, t_s: float
) -> tuple[str, bool, str, str]:
    """Return the condition that tells whether it is off-hours, and until when."""
    until = off_hours.until(t_s)
    if off_hours.fault:
        return OFF_HOURS, False, "UnknownTimeZone", f"{off_hours.fault}: they never begin"
    if until is not None:
        return OFF_HOURS, True, "InWindow", f"until {_text(until)}: {policy.off_ceiling.text}"
    begins = off_hours.begins(t_s)
    why = f"they begin at {_text(begins)}" if begins else "they have no window"
    return OFF_HOURS, False, "OutsideWindow", why


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
