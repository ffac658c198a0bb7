"""Plans for nodes: cordon and uncordon, never over somebody else's cordon."""

from __future__ import annotations

from collections.abc import Sequence

from steward.act.kubernetes.kube_plan import KubePlan, begun, done, failed, mark_of
from steward.act.kubernetes.pod_plans import unfit_for_eviction
from steward.clients.kubernetes.annotations import DecisionNote, decision_note
from steward.clients.kubernetes.api import MANAGER
from steward.clients.kubernetes.changes import evict, patch_node
from steward.clients.kubernetes.objects import KubeNode, Pod
from steward.model.decision import Decision

__all__ = ["drain", "undrain"]


def drain(node: KubeNode, decision: Decision, t_s: float, *, pods: Sequence[Pod]) -> KubePlan:
    """Start nothing new on a node; evict those of `pods` that can save and be made anew."""
    ours = _our_mark(node)
    if node.cordoned and (ours is None or ours.id != decision.id):
        return failed(f"node {node.name} is cordoned already, {_whose(node)}: left as it is")
    if node.cordoned:
        return _emptied(node, pods)
    if ours is not None and ours.id == decision.id:
        return failed(f"node {node.name} was uncordoned by another after it was drained")
    change = patch_node(node, unschedulable=True, mark=mark_of(decision, t_s))
    movable = [pod for pod in pods if _movable(pod)]
    report, rest = (begun, "") if movable else (done, _staying(pods))
    return report(f"node {node.name} takes no new pods{rest}", change)


def undrain(node: KubeNode) -> KubePlan:
    """Let pods start on a node again, if steward cordoned it."""
    if not node.cordoned:
        return done(f"node {node.name} is not cordoned")
    if _our_mark(node) is None:
        return failed(f"node {node.name} was cordoned {_whose(node)}: that person brings it back")
    change = patch_node(node, unschedulable=False, mark=None)
    return done(f"node {node.name} takes pods again", change)


def _emptied(node: KubeNode, pods: Sequence[Pod]) -> KubePlan:
    movable = [pod for pod in pods if _movable(pod)]
    leaving = sum(pod.leaving for pod in pods)
    if not movable and not leaving:
        return done(f"node {node.name} is cordoned{_staying(pods)}")
    changes = [evict(pod) for pod in movable]
    text = f"node {node.name} is cordoned; {len(movable)} pods are evicted, {leaving} end"
    return begun(text, *changes)


def _staying(pods: Sequence[Pod]) -> str:
    """Say how many are not evicted, and why the first of them is not."""
    if not pods:
        return ""
    why = unfit_for_eviction(pods[0], unsaved=False)
    return f", {len(pods)} pods run to their end (pod {pods[0].name} {why})".replace(" )", ")")


def _movable(pod: Pod) -> bool:
    return not pod.leaving and not unfit_for_eviction(pod, unsaved=False)


def _our_mark(node: KubeNode) -> DecisionNote | None:
    """Return the decision on a node, where its cordon (if any) is steward's."""
    if node.cordoned and node.cordoned_by != {MANAGER}:
        return None
    return decision_note(node.annotations)


def _whose(node: KubeNode) -> str:
    others = ", ".join(sorted(node.cordoned_by)) or "by an unknown account"
    did = decision_note(node.annotations)
    if node.cordoned_by == {MANAGER} and did is not None:
        return f"by decision {did.id} ({did.why})"
    return f"by {others}" if node.cordoned_by else others
