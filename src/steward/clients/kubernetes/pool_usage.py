"""How the GPUs of a pool are used: what is guaranteed to whom, what is lent, what is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steward.clients.kubernetes.objects import KubeNode, Pod
from steward.clients.kubernetes.resource_pool import ResourcePool, pool_of
from steward.clients.kubernetes.tenant_share import TenantShare

__all__ = ["PoolUsage", "pool_usages"]

_LIVE = ("Running", "Pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUsage:
    """One pool at one moment. Namespaces are its tenants.

    What a namespace uses beyond its guarantee comes first from GPUs that are guaranteed to nobody,
    then from guarantees that others do not use: those are lent.
    """

    pool: ResourcePool
    nodes: int = 0
    total: int = 0
    free: int = 0
    leaving: int = 0  # used by pods that end: free soon
    used: Mapping[str, int] = field(default_factory=dict)  # by namespace
    guaranteed: Mapping[str, int] = field(default_factory=dict)

    @property
    def unguaranteed(self) -> int:
        return max(0, self.total - sum(self.guaranteed.values()))

    @property
    def lent(self) -> int:
        """Return how many GPUs are used that are guaranteed to somebody else."""
        beyond = sum(
            max(0, used - self.guaranteed.get(name, 0)) for name, used in self.used.items()
        )
        return max(0, beyond - self.unguaranteed)

    def with_more(self, namespace: str, gpus: int) -> PoolUsage:
        """Return the usage after a job of a namespace was started."""
        used = {**self.used, namespace: self.used.get(namespace, 0) + gpus}
        return replace(self, used=used, free=self.free - gpus)

    def borrows(self, namespace: str, gpus: int) -> int:
        """Return how many GPUs would be lent for a job of a namespace."""
        return self.with_more(namespace, gpus).lent - self.lent


def pool_usages(
    pools: Sequence[ResourcePool],
    *,
    nodes: Iterable[KubeNode],
    pods: Iterable[Pod],
    shares: Iterable[TenantShare],
) -> dict[str, PoolUsage]:
    """Return the usage of each pool, by its name. A node is in one pool at most."""
    found: dict[str, PoolUsage] = {
        pool.name: PoolUsage(pool=pool, guaranteed=_guarantees(pool, pools, shares))
        for pool in pools
    }
    used_on: dict[str, Counter[str]] = {}
    pods_on: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node and pod.phase in _LIVE:
            pods_on.setdefault(pod.node, []).append(pod)
    for node in nodes:
        pool = pool_of(node.labels, pools)
        if pool is None or node.ready is not True:
            continue
        has, before = pool.count(node.devices), found[pool.name]
        here: Counter[str] = Counter()
        leaving = 0
        for pod in pods_on.get(node.name, ()):
            here[pod.namespace] += pool.count(pod.devices)
            leaving += pool.count(pod.devices) if pod.leaving else 0
        used_on.setdefault(pool.name, Counter()).update(here)
        room = 0 if node.cordoned else max(0, has - here.total())
        found[pool.name] = replace(
            before,
            nodes=before.nodes + 1,
            total=before.total + has,
            free=before.free + room,
            leaving=before.leaving + leaving,
        )
    return {
        name: replace(each, used=dict(+used_on.get(name, Counter())))
        for name, each in found.items()
    }


def _guarantees(
    pool: ResourcePool, pools: Sequence[ResourcePool], shares: Iterable[TenantShare]
) -> dict[str, int]:
    """Return what is guaranteed in a pool; a share that names none is of the only pool there is."""
    found: dict[str, int] = {}
    for share in sorted(shares, key=lambda each: each.name):
        if share.pool == pool.name or (not share.pool and len(pools) == 1):
            found.setdefault(share.namespace, share.guaranteed_gpus)
    return found
