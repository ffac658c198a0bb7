"""Plans for a save without a stop: ask pods by an annotation, read the answer in their logs.

How far it is can be read from the pods: the request in the annotation has the decision's id.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from steward.act.kubernetes.kube_plan import SKEW_S, KubePlan, begun, done, failed
from steward.clients.kubernetes.calls import PATCH_PODS
from steward.clients.kubernetes.changes import KubeChange
from steward.clients.kubernetes.objects import Pod
from steward.clients.kubernetes_jobs.request_file import SAVE_REQUESTED
from steward.model.decision import Decision

__all__ = ["SavePods", "plan_save"]

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePods:
    """The pods of one job. `alone`: each answers for itself, else one for all."""

    label: str
    running: tuple[Pod, ...]
    can_be_asked: bool  # they have the file that the request is copied into
    alone: bool = False


def plan_save(
    pods: SavePods,
    decision: Decision,
    t_s: float,
    *,
    within_s: float,
    read: Callable[[Pod, float], Answer | None] | None,
) -> KubePlan:
    """Ask all pods once, then wait for their answers. `read` is None where logs may not be read."""
    if why := _unfit(pods):
        return failed(f"{pods.label} {why}")
    asked = {pod.uid: s for pod in pods.running if (s := _asked_s(pod, decision, t_s)) is not None}
    fresh = [pod for pod in pods.running if pod.uid not in asked]
    if fresh:
        text = f"{len(fresh)} pods of {pods.label} are asked to save: within about a minute"
        return begun(text, *(_request(pod, decision, t_s) for pod in fresh))
    since_s = min(asked.values())
    if read is None:
        return done(f"{pods.label} was asked to save; steward may not read its answer (pods/log)")
    answers = {pod.name: found for pod in pods.running if (found := read(pod, since_s)) is not None}
    return _answered(pods, answers, waited_s=t_s - since_s, within_s=within_s)


def _unfit(pods: SavePods) -> str:
    if not pods.running:
        return "has no running pod that could save"
    if not pods.can_be_asked:
        return "cannot be asked to save: it has no file for that (`steward jobs submit --saves`)"
    return ""


def _answered(
    pods: SavePods, answers: Mapping[str, Answer], *, waited_s: float, within_s: float
) -> KubePlan:
    for name, answer in sorted(answers.items()):
        if answer.get("result") != "saved":
            reason = answer.get("why") or answer.get("result")
            return failed(f"pod {name} could not save: {reason}; it goes on")
    if len(answers) >= (len(pods.running) if pods.alone else 1):
        steps = ", ".join(sorted({str(each.get("step")) for each in answers.values()}))
        return done(f"{pods.label} has saved at step {steps}")
    if waited_s > within_s:
        known = f"{len(answers)} of {len(pods.running)} pods have answered"
        return failed(f"{pods.label} has not saved within {within_s:.0f} s ({known}); it may still")
    return begun(f"{pods.label} was asked to save {waited_s:.0f} s ago")


def _asked_s(pod: Pod, decision: Decision, t_s: float) -> float | None:
    """Return when a pod was asked by this decision; a time that cannot be true is not believed."""
    try:
        found = json.loads(pod.annotations.get(SAVE_REQUESTED, ""))
        if found["id"] != decision.id:
            return None
        asked_s = float(found["t_s"])
    except (ValueError, TypeError, KeyError):
        return None
    possible = decision.t_s - SKEW_S <= asked_s <= t_s + SKEW_S
    return min(asked_s, t_s) if possible else decision.t_s


def _request(pod: Pod, decision: Decision, t_s: float) -> KubeChange:
    # Not by version: the kubelet writes the status of a pod at any time.
    record = {"id": decision.id, "do": "save", "reason": decision.because[:200], "t_s": t_s}
    value = json.dumps(record)
    body = {"metadata": {"uid": pod.uid, "annotations": {SAVE_REQUESTED: value}}}
    note = shlex.quote(f"{SAVE_REQUESTED}={value}")
    return KubeChange(
        call=PATCH_PODS,
        path=f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
        body=body,
        typed=f"kubectl -n {pod.namespace} annotate --overwrite pod {pod.name} {note}",
    )
