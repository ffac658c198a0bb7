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
    free_of: Mapping[str, int] = field(default_factory=dict)  # by resource, on nodes that take pods
    used: Mapping[str, int] = field(default_factory=dict)  # by namespace
    leaving: Mapping[str, int] = field(default_factory=dict)  # by namespace: of it, pods that end
    returning: Mapping[str, int] = field(default_factory=dict)  # by resource: free when they ended
    # By namespace and uid of their owner, by resource: pods that stay, on nodes that take pods.
    owned: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    guaranteed: Mapping[str, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return sum(self.free_of.values())

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

    def has_room(self, devices: Mapping[str, int]) -> bool:
        """Return whether what a job asks for is free, of each resource of the pool."""
        names = [name for name in self.pool.resource_names if devices.get(name, 0)]
        return all(devices[name] <= self.free_of.get(name, 0) for name in names)

    def with_more(self, namespace: str, devices: Mapping[str, int]) -> PoolUsage:
        """Return the usage after a job of a namespace was started."""
        ours = {name: devices[name] for name in self.pool.resource_names if name in devices}
        used = {**self.used, namespace: self.used.get(namespace, 0) + sum(ours.values())}
        free = {
            name: self.free_of.get(name, 0) - ours.get(name, 0) for name in {*self.free_of, *ours}
        }
        return replace(self, used=used, free_of=free)

    def borrows(self, namespace: str, gpus: int) -> int:
        """Return how many GPUs would be lent for a job of a namespace."""
        used = {**self.used, namespace: self.used.get(namespace, 0) + gpus}
        return replace(self, used=used).lent - self.lent


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
    pods_on: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node and pod.phase in _LIVE:
            pods_on.setdefault(pod.node, []).append(pod)
    counts = {name: _Counts() for name in found}
    for node in nodes:
        pool = pool_of(node.labels, pools)
        if pool is not None and node.ready is True:
            counts[pool.name].add(node, pods_on.get(node.name, ()), pool)
    return {name: counts[name].put_into(each) for name, each in found.items()}


class _Counts:
    """What is on the nodes of one pool."""

    def __init__(self) -> None:
        self._nodes = self._total = 0
        self._free: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._leaving: Counter[str] = Counter()
        self._returning: Counter[str] = Counter()
        self._owned: dict[tuple[str, str], Counter[str]] = {}

    def add(self, node: KubeNode, pods: Iterable[Pod], pool: ResourcePool) -> None:
        self._nodes += 1
        self._total += pool.count(node.devices)
        here: Counter[str] = Counter()
        for pod in pods:
            ours = {name: pod.devices.get(name, 0) for name in pool.resource_names}
            here.update(ours)
            self._used[pod.namespace] += sum(ours.values())
            if pod.leaving:
                self._leaving[pod.namespace] += sum(ours.values())
            if node.cordoned:
                continue  # what ends there is not free for others
            if pod.leaving:
                self._returning.update(ours)
            else:
                owner = (pod.namespace, pod.owner_uid)
                self._owned.setdefault(owner, Counter()).update(ours)
        if not node.cordoned:
            for name in pool.resource_names:
                self._free[name] += max(0, node.devices.get(name, 0) - here[name])

    def put_into(self, usage: PoolUsage) -> PoolUsage:
        return replace(
            usage,
            nodes=self._nodes,
            total=self._total,
            free_of=dict(+self._free),
            used=dict(+self._used),
            leaving=dict(+self._leaving),
            returning=dict(+self._returning),
            owned={owner: dict(+each) for owner, each in self._owned.items()},
        )


def _guarantees(
    pool: ResourcePool, pools: Sequence[ResourcePool], shares: Iterable[TenantShare]
) -> dict[str, int]:
    """Return what is guaranteed in a pool; a share that names none is of the only pool there is."""
    found: dict[str, int] = {}
    for share in sorted(shares, key=lambda each: each.name):
        if share.pool == pool.name or (not share.pool and len(pools) == 1):
            found.setdefault(share.namespace, share.guaranteed_gpus)
    return found
