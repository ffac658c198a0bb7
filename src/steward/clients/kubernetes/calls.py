"""Every kind of request that steward makes, in one table.

The roles in `deploy/kubernetes` are written from it, `steward doctor` probes it, and a test
compares it with what the API double has seen. A request that is not in it is a request without a
right. What people do with their own rights by `steward jobs` is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from steward.clients.kubernetes.annotations import DOMAIN

__all__ = [
    "CALLS",
    "EVICT",
    "PATCH_JOBS",
    "PATCH_NODES",
    "PATCH_PODS",
    "READ_LOGS",
    "ApiCall",
    "KubeRole",
    "calls_of",
]


class KubeRole(Enum):
    """What a site can allow or leave out."""

    OBSERVE = "observe"
    JOBS = "jobs"
    NODES = "nodes"
    ANSWERS = "answers"
    OPERATOR = "operator"
    SERVING = "serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One verb on one resource, and the role that includes it."""

    role: KubeRole
    verb: str
    resource: str  # with its subresource: pods/eviction
    group: str = ""

    @property
    def label(self) -> str:
        """Name it as Kubernetes' own refusals do."""
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def _looks(
    role: KubeRole, group: str, *resources: str, verbs: Iterable[str]
) -> tuple[ApiCall, ...]:
    return tuple(
        ApiCall(role=role, verb=verb, resource=each, group=group)
        for each in resources
        for verb in verbs
    )


_KUEUE = "kueue.x-k8s.io"
PATCH_JOBS = ApiCall(role=KubeRole.JOBS, verb="patch", resource="jobs", group="batch")
PATCH_PODS = ApiCall(role=KubeRole.JOBS, verb="patch", resource="pods")
READ_LOGS = ApiCall(role=KubeRole.ANSWERS, verb="get", resource="pods/log")
EVICT = ApiCall(role=KubeRole.JOBS, verb="create", resource="pods/eviction")
PATCH_NODES = ApiCall(role=KubeRole.NODES, verb="patch", resource="nodes")

CALLS: tuple[ApiCall, ...] = (
    *_looks(KubeRole.OBSERVE, "", "pods", "nodes", "events", verbs=("list", "watch")),
    *_looks(KubeRole.OBSERVE, "batch", "jobs", verbs=("list", "watch")),
    *_looks(KubeRole.OBSERVE, DOMAIN, "tenantshares", verbs=("list", "watch")),
    *_looks(KubeRole.OBSERVE, DOMAIN, "resourcepools", verbs=("list", "watch")),
    *_looks(KubeRole.OBSERVE, DOMAIN, "optimizationpolicies", verbs=("list", "watch")),
    *_looks(KubeRole.JOBS, "batch", "jobs", verbs=("get", "list")),
    *_looks(KubeRole.JOBS, "", "pods", verbs=("get", "list")),
    *_looks(KubeRole.JOBS, _KUEUE, "workloadpriorityclasses", verbs=("list",)),
    *_looks(KubeRole.JOBS, DOMAIN, "resourcepools", verbs=("list",)),
    *_looks(KubeRole.JOBS, DOMAIN, "optimizationpolicies/status", verbs=("patch",)),
    PATCH_JOBS,
    PATCH_PODS,
    EVICT,
    *_looks(KubeRole.NODES, "", "nodes", verbs=("get",)),
    *_looks(KubeRole.NODES, "", "pods", verbs=("list",)),
    *_looks(KubeRole.NODES, "batch", "jobs", verbs=("get", "list")),
    *_looks(KubeRole.NODES, DOMAIN, "optimizationpolicies", verbs=("list",)),
    PATCH_NODES,
    READ_LOGS,
    ApiCall(role=KubeRole.NODES, verb="create", resource="pods/eviction"),
    *_looks(KubeRole.OPERATOR, DOMAIN, "trainingjobs", verbs=("get", "list", "watch")),
    *_looks(KubeRole.OPERATOR, DOMAIN, "trainingjobs/status", verbs=("patch",)),
    *_looks(KubeRole.OPERATOR, "batch", "jobs", verbs=("get", "list", "watch", "create")),
    *_looks(KubeRole.OPERATOR, "", "pods", "nodes", verbs=("list", "watch")),
    *_looks(KubeRole.OPERATOR, DOMAIN, "resourcepools", "tenantshares", verbs=("list", "watch")),
    *_looks(KubeRole.OPERATOR, DOMAIN, "resourcepools/status", verbs=("patch",)),
    *_looks(KubeRole.OPERATOR, _KUEUE, "workloads", "admissionchecks", verbs=("list", "watch")),
    *_looks(
        KubeRole.OPERATOR, _KUEUE, "workloads/status", "admissionchecks/status", verbs=("patch",)
    ),
    *_looks(KubeRole.OPERATOR, "", "events", verbs=("create",)),
    *_looks(KubeRole.SERVING, "apps", "deployments/scale", verbs=("get", "patch")),
    *_looks(KubeRole.SERVING, "", "pods", verbs=("list", "patch")),
    *_looks(KubeRole.OPERATOR, "coordination.k8s.io", "leases", verbs=("get", "create", "patch")),
)


def calls_of(*roles: KubeRole) -> tuple[ApiCall, ...]:
    """Return what these roles include, in the order of the table."""
    return tuple(each for each in CALLS if each.role in roles)
