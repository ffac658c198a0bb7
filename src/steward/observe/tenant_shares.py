"""Tenants of a cluster: its namespaces, with the shares that people have given them."""

from __future__ import annotations

from collections.abc import Iterable

from steward.clients.kubernetes.tenant_share import TenantShare
from steward.model.identity import TenantId
from steward.model.job import Tenant

__all__ = ["tenants_of"]


def tenants_of(namespaces: Iterable[str], shares: Iterable[TenantShare]) -> tuple[Tenant, ...]:
    """Return a tenant for each namespace; of two shares for one, the first by name counts."""
    given: dict[str, TenantShare] = {}
    for share in sorted(shares, key=_name):
        given.setdefault(share.namespace, share)
    return tuple(
        Tenant(
            id=TenantId(name),
            weight=given[name].weight if name in given else 1.0,
            guaranteed_gpus=given[name].guaranteed_gpus if name in given else 0,
        )
        for name in sorted({*namespaces, *given})
    )


def _name(share: TenantShare) -> str:
    return share.name
