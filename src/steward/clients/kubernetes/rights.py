"""What this account may do in a cluster: asked of the server, never assumed."""

from __future__ import annotations

from dataclasses import dataclass

from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.calls import ApiCall, KubeRole, calls_of

__all__ = ["KubeRights", "probe_rights"]

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WORDS = {
    KubeRole.JOBS: "starts, preempts and resizes jobs",
    KubeRole.NODES: "drains nodes and brings them back",
    KubeRole.ANSWERS: "reads in logs whether a save succeeded",
}
_ACTING = tuple(_WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeRights:
    """What was allowed and what was not when it was last asked."""

    user: str
    missing: frozenset[ApiCall]

    def may(self, call: ApiCall) -> bool:
        """Return whether a call is allowed, by whichever role."""
        return not any(
            (each.verb, each.resource, each.group) == (call.verb, call.resource, call.group)
            for each in self.missing
        )

    def has(self, role: KubeRole) -> bool:
        """Return whether all calls of a role are allowed that it cannot do without."""
        return not any(each.role is role and each.group not in _OPTIONAL for each in self.missing)

    @property
    def sentence(self) -> str:
        """Say it for people."""
        able = [_WORDS[role] for role in _ACTING if self.has(role)]
        lacks = [
            f"{_WORDS[role]} not: it may not {_listed(role, self.missing)}"
            for role in _ACTING
            if not self.has(role)
        ]
        return f"{self.user} " + "; ".join([", ".join(able) or "may do nothing here", *lacks])


_OPTIONAL = ("kueue.x-k8s.io", DOMAIN)  # not every cluster has these resources


def probe_rights(api: Api, *, namespace: str = "") -> KubeRights:
    """Ask the server about every call that acting needs, in one namespace or in all."""
    calls = calls_of(*_ACTING)
    asked: dict[tuple[str, str, str], bool] = {}
    for call in calls:
        key = (call.verb, call.resource, call.group)
        if key not in asked:
            asked[key] = _allowed(api, call, namespace)
    missing = [each for each in calls if not asked[each.verb, each.resource, each.group]]
    return KubeRights(user=_account(api), missing=frozenset(missing))


def _allowed(api: Api, call: ApiCall, namespace: str) -> bool:
    resource, _, below = call.resource.partition("/")
    about = {"verb": call.verb, "group": call.group, "resource": resource, "subresource": below}
    if namespace and call.resource != "nodes":
        about["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": about},
    }
    status = api.create(REVIEWS, body).get("status")
    return isinstance(status, dict) and status.get("allowed") is True


def _account(api: Api) -> str:
    return f"the account of {api.access.found_in}" if api.access.found_in else "this account"


def _listed(role: KubeRole, missing: frozenset[ApiCall]) -> str:
    return ", ".join(sorted({each.label for each in missing if each.role is role}))
