"""Changes as values: what is sent to the server, which right it needs, and how a person types it.

Every patch carries the version of what was looked at: the server refuses it where anybody has
changed the object since.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from steward.clients.kubernetes.annotations import DECISION, DRAINED, HOLD, DecisionNote
from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.batch_job import BatchJob
from steward.clients.kubernetes.calls import EVICT, PATCH_JOBS, PATCH_NODES, PATCH_PODS, ApiCall
from steward.clients.kubernetes.objects import KubeNode, Pod

__all__ = ["KubeChange", "evict", "patch_job", "patch_node", "shown", "ungate"]

_LOOKED_AT = ("resourceVersion", "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeChange:
    """One request. `typed` is the same for a person.

    `by_hand` is what a person would type instead of steward: without its note on the object, by
    which it would take the change for its own, and for whichever version there is.
    """

    call: ApiCall
    path: str
    body: Mapping[str, Any]
    typed: str
    by_hand: str = ""

    def send(self, api: Api) -> None:
        """Make the request."""
        send = api.create if self.call.verb == "create" else api.patch
        send(self.path, self.body)


def patch_job(
    job: BatchJob,
    mark: DecisionNote,
    *,
    spec: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    unhold: bool = False,
) -> KubeChange:
    """Change a Job and note the decision on it, in one."""
    notes: dict[str, str | None] = {DECISION: mark.text, **({HOLD: None} if unhold else {})}
    meta: dict[str, Any] = {"annotations": notes, **({"labels": labels} if labels else {})}
    body = _body(job.version, job.uid, meta, spec)
    typed = f"kubectl -n {job.namespace} patch job {job.name}"
    return _patch(PATCH_JOBS, job.path, body, typed)


def ungate(pod: Pod, mark: DecisionNote) -> KubeChange:
    """Remove our scheduling gate from a pod, and note the decision on it."""
    gates = [{"name": each} for each in pod.gates if each != HOLD]
    meta = {"annotations": {DECISION: mark.text}}
    body = _body(pod.version, pod.uid, meta, {"schedulingGates": gates})
    typed = f"kubectl -n {pod.namespace} patch pod {pod.name}"
    return _patch(PATCH_PODS, _pod_path(pod), body, typed)


def evict(pod: Pod, *, within_s: float | None = None) -> KubeChange:
    """Evict a pod: budgets are respected, and it has its grace period, `within_s` at most."""
    shorter = within_s is not None and within_s < pod.grace_s
    grace = {"gracePeriodSeconds": int(within_s)} if shorter and within_s is not None else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}, **grace},
    }
    path = f"{_pod_path(pod)}/eviction"
    return KubeChange(
        call=EVICT,
        path=path,
        body=body,
        typed=f"echo {shlex.quote(json.dumps(body))} | kubectl create --raw {path} -f -",
    )


def patch_node(node: KubeNode, *, unschedulable: bool, mark: DecisionNote | None) -> KubeChange:
    """Cordon and taint a node with the decision noted on it, or take both off without one.

    A cordon alone does not keep out pods that tolerate it, as those of every DaemonSet do, nor
    says who set it to those who read taints. Taints of others stay as they are.
    """
    meta = {"annotations": {DECISION: mark.text if mark else None}}
    taints = [dict(each) for each in node.taints if each.get("key") != DRAINED]
    if unschedulable:
        taints.append({"key": DRAINED, "value": "true", "effect": "NoSchedule"})
    spec = {"unschedulable": unschedulable or None, "taints": taints or None}
    body = _body(node.version, node.uid, meta, spec)
    typed = f"kubectl patch node {node.name}"
    change = _patch(PATCH_NODES, f"/api/v1/nodes/{node.name}", body, typed)
    by_hand = f"kubectl {'' if unschedulable else 'un'}cordon {node.name}"
    if not unschedulable and any(each.get("key") == DRAINED for each in node.taints):
        by_hand += f" && kubectl taint nodes {node.name} {DRAINED}-"
    return replace(change, by_hand=by_hand)


def shown(changes: Iterable[KubeChange]) -> str:
    """Return what a person would type for the same."""
    return "; ".join(each.typed for each in changes)


def _body(
    version: str, uid: str, meta: Mapping[str, Any], spec: Mapping[str, Any] | None
) -> dict[str, Any]:
    # The uid is compared by the server, too: an object that was made anew is another one.
    own = {"resourceVersion": version, "uid": uid}
    return {"metadata": {**own, **meta}, **({"spec": spec} if spec else {})}


def _patch(call: ApiCall, path: str, body: Mapping[str, Any], typed: str) -> KubeChange:
    full, bare = (
        f"{typed} --type=merge -p {shlex.quote(json.dumps(each))}" for each in (body, _bare(body))
    )
    return KubeChange(call=call, path=path, body=body, typed=full, by_hand=bare)


def _bare(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a patch without the version that was looked at and without steward's note."""
    meta = {key: each for key, each in body["metadata"].items() if key not in _LOOKED_AT}
    notes = {key: each for key, each in meta.pop("annotations", {}).items() if key != DECISION}
    meta |= {"annotations": notes} if notes else {}
    rest = {key: each for key, each in body.items() if key != "metadata"}
    return {**({"metadata": meta} if meta else {}), **rest}


def _pod_path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
