"""Plans for pods that are no Job's: open our scheduling gate, evict."""

from __future__ import annotations

from steward.act.kubernetes.kube_plan import KubePlan, began_s, begun, done, failed, mark_of
from steward.clients.kubernetes.annotations import HOLD, SAVES, decision_note, save_time_s
from steward.clients.kubernetes.changes import evict, ungate
from steward.clients.kubernetes.objects import Pod
from steward.model.decision import Decision

__all__ = ["preempt", "start", "unfit_for_eviction"]


def start(pod: Pod, decision: Decision, t_s: float, *, within_s: float) -> KubePlan:
    """Let the scheduler see a pod that waits behind our gate."""
    label = _label(pod)
    if pod.phase != "Pending" or pod.leaving:
        ran = pod.phase == "Running" and not pod.leaving
        return (done if ran else failed)(f"{label} is {pod.phase.lower()}")
    did = decision_note(pod.annotations)
    if did is not None and did.id == decision.id:
        waits = f"{label} is not scheduled yet: {pod.message or pod.reason or 'not looked at'}"
        return begun(waits) if t_s - began_s(decision, did, t_s) < within_s else failed(waits)
    if HOLD not in pod.gates:
        why = f"it waits for {', '.join(pod.gates)}" if pod.gates else "it waits for room"
        return failed(f"{label} has no gate {HOLD}: {why}, which a start does not change")
    return begun(f"{label} may be scheduled", ungate(pod, mark_of(decision, t_s)))


def preempt(pod: Pod, *, unsaved: bool, within_s: float | None = None) -> KubePlan:
    """Evict a pod. Its controller makes another one, which is another pod.

    `within_s`: the longest call-back of its pool.
    """
    label = _label(pod)
    if pod.leaving:
        return begun(f"{label} ends: it has {pod.grace_s:.0f} s to save")
    if pod.phase != "Running":
        return failed(f"{label} is {pod.phase.lower()}, not running")
    if why := unfit_for_eviction(pod, unsaved=unsaved):
        return failed(f"{label} {why}")
    grace_s = pod.grace_s if within_s is None else min(pod.grace_s, within_s)
    if (save_time_s(pod.annotations) or 0.0) > grace_s:
        return failed(f"{label} needs longer to save than its pool's call-back of {grace_s:.0f} s")
    text = f"{label} is evicted, and has {grace_s:.0f} s to save"
    return begun(text, evict(pod, within_s=within_s))


def unfit_for_eviction(pod: Pod, *, unsaved: bool) -> str:
    """Return why a pod is not evicted, or an empty text."""
    save_s = save_time_s(pod.annotations)
    faults = {
        "has no controller: nothing would make it anew": not pod.controlled,
        f"belongs to {pod.owner_kind} {pod.owner_name}, which is on every node": (
            pod.owner_kind in ("DaemonSet", "Node")
        ),
        f"is in namespace {pod.namespace}, whose {pod.left_alone} leaves that to people": (
            bool(pod.left_alone)
        ),
        f"belongs to Job {pod.owner_name}, which counts an eviction as a failure: it has no "
        "podFailurePolicy that ignores DisruptionTarget, or cannot be read": pod.counted,
        f"has not said that it can save (annotation {SAVES})": save_s is None and not unsaved,
        f"needs {save_s or 0:.0f} s to save, and its grace period is {pod.grace_s:.0f} s": (
            (save_s or 0.0) > pod.grace_s
        ),
    }
    return next((text for text, holds in faults.items() if holds), "")


def _label(pod: Pod) -> str:
    return f"pod {pod.namespace}/{pod.name}"
