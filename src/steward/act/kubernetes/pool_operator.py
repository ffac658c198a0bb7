"""Says in the status of each ResourcePool how its GPUs are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from steward.act.kubernetes.kept_objects import KeptObjects
from steward.clients.kubernetes import Api, KubeNode, Pod, Reflector
from steward.clients.kubernetes.conditions import condition
from steward.clients.kubernetes.custom_resources import RESOURCE_POOLS, TENANT_SHARES
from steward.clients.kubernetes.faults import ConflictError, MissingError
from steward.clients.kubernetes.objects import node_from, pod_from
from steward.clients.kubernetes.pool_usage import PoolUsage, pool_usages
from steward.clients.kubernetes.resource_pool import ResourcePool, resource_pool_from
from steward.clients.kubernetes.tenant_share import TenantShare, tenant_share_from
from steward.errors import StewardError

__all__ = ["PoolOperator"]


class PoolOperator:
    """Follows pools, nodes, pods and shares. A cluster without the definitions has no pools."""

    def __init__(
        self, api: Api, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._api = api
        self._now = now
        self._pools: KeptObjects[ResourcePool] = KeptObjects(
            Reflector(api, RESOURCE_POOLS, make=resource_pool_from)
        )
        self._shares: KeptObjects[TenantShare] = KeptObjects(
            Reflector(api, TENANT_SHARES, make=tenant_share_from)
        )
        self._nodes: KeptObjects[KubeNode] = KeptObjects(
            Reflector(api, "/api/v1/nodes", make=node_from)
        )
        self._pods: KeptObjects[Pod] = KeptObjects(Reflector(api, "/api/v1/pods", make=pod_from))
        self._stale = True
        self.usages: dict[str, PoolUsage] = {}  # by pool, as of the last turn

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return tuple(
            each.reflector for each in (self._pools, self._shares, self._nodes, self._pods)
        )

    @property
    def ready(self) -> bool:
        """Whether everything was listed, so that the usages are those of the cluster."""
        return all(each.synced for each in self.reflectors)

    @property
    def pods(self) -> Iterable[Pod]:
        """The pods that it knows."""
        return self._pods.objects.values()

    def start(self) -> None:
        """Begin to watch."""
        for each in self.reflectors:
            each.start()

    def stop(self) -> None:
        """Stop watching."""
        for each in self.reflectors:
            each.stop()

    def turn(self, *, leads: bool) -> tuple[StewardError, ...]:
        """Take in what is new, and write what has changed; return what went wrong."""
        changed = [
            bool(each.fold()) for each in (self._pools, self._shares, self._nodes, self._pods)
        ]
        self._stale = self._stale or any(changed)
        problems = tuple(
            each.problem
            for each in self.reflectors
            if each.problem is not None and not isinstance(each.problem, MissingError)
        )
        if not self.ready or not self._stale:
            return problems
        pools = sorted(self._pools.objects.values(), key=lambda each: each.name)
        self.usages = pool_usages(
            pools,
            nodes=self._nodes.objects.values(),
            pods=self._pods.objects.values(),
            shares=self._shares.objects.values(),
        )
        if not leads:
            return problems
        self._stale = False
        return (*problems, *(fault for each in self.usages.values() for fault in self._say(each)))

    def _say(self, usage: PoolUsage) -> tuple[StewardError, ...]:
        pool = usage.pool
        now = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        status = pool_status(usage, now)
        if status == pool.status:
            return ()
        meta = {"resourceVersion": pool.version, "uid": pool.uid}
        try:
            self._api.patch(f"{pool.path}/status", {"metadata": meta, "status": status})
        except (ConflictError, MissingError):
            return ()  # the watch brings what it is now, which is looked at again
        except StewardError as fault:
            self._stale = True
            return (fault,)
        return ()


def pool_status(usage: PoolUsage, now: str) -> dict[str, Any]:
    """Return the status that a pool should have."""
    pool, status = usage.pool, usage.pool.status
    guaranteed = sum(usage.guaranteed.values())
    over = guaranteed > usage.total
    ready = ("True", "NodesFound", f"{usage.nodes} nodes with {usage.total} GPUs")
    if not usage.nodes:
        ready = ("False", "NoNodes", "no node that is ready has these labels")
    elif over:
        why = f"{guaranteed} GPUs are guaranteed, and it has {usage.total}"
        ready = ("False", "GuaranteesExceedPool", why)
    lends = (
        ("LendsIdleGuarantees", f"{usage.lent} GPUs are lent")
        if pool.lends
        else ("LendsNothing", "lendIdleGuarantees is false")
    )
    said = [("Ready", ready[0] == "True", *ready[1:]), ("Lending", pool.lends, *lends)]
    return {
        "gpus": usage.total,
        "guaranteed": guaranteed,
        "used": sum(usage.used.values()),
        "lent": usage.lent,
        "free": usage.free,
        "observedGeneration": pool.generation,
        "conditions": [
            condition(
                status,
                type_,
                holds=holds,
                reason=reason,
                why=why,
                now=now,
                generation=pool.generation,
            )
            for type_, holds, reason, why in said
        ],
    }
