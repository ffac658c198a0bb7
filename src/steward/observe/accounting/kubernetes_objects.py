"""Jobs and states of nodes from `kubectl get pods,nodes,events -A -o json`.

A pod with GPUs is a run; several pods of one job are several, each on its node. Nodes tell when
they became what they are; their past is in events, which clusters keep for an hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any

from steward.clients.logs.stamps import iso_s
from steward.model.faults import JobEnd, JobSpan, NodeSpell, NodeUse

__all__ = ["is_objects", "read_objects"]

_GPU = "nvidia.com/gpu"
_REASONS = {
    "OOMKilled": JobEnd.MEMORY,
    "DeadlineExceeded": JobEnd.LIMIT,
    "Evicted": JobEnd.STOPPED,
    "Preempting": JobEnd.STOPPED,
    "NodeLost": JobEnd.NODE,
    "NodeShutdown": JobEnd.NODE,
    "Terminated": JobEnd.NODE,
}
_NODE_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
Object = Mapping[str, Any]
Found = tuple[list[JobSpan], list[NodeSpell], dict[str, int]]


def is_objects(value: object) -> bool:
    """Return whether a JSON value is a list of Kubernetes's objects, or one."""
    return isinstance(value, dict) and "kind" in value and ("items" in value or "metadata" in value)


def read_objects(value: Object) -> Found:
    """Return jobs, spells out of service, and the GPUs of each node."""
    items = value.get("items") if "items" in value else [value]
    jobs: list[JobSpan] = []
    spells: list[NodeSpell] = []
    gpus: dict[str, int] = {}
    events: list[Object] = []
    for each in items if isinstance(items, list) else []:
        kind = each.get("kind") if isinstance(each, dict) else None
        if kind == "Pod":
            jobs += _pod(each)
        elif kind == "Node":
            gpus[_name(each)] = _whole(_at(each, "status", "capacity", _GPU))
            spells += _node(each)
        elif kind == "Event":
            events.append(each)
    return jobs, [*spells, *_past(events)], gpus


def _pod(pod: Object) -> Iterator[JobSpan]:
    node, start_s = _at(pod, "spec", "nodeName"), _time_s(_at(pod, "status", "startTime"))
    gpus = sum(
        _whole(_at(each, "resources", "limits", _GPU))
        for each in _list(_at(pod, "spec", "containers"))
    )
    if not node or isnan(start_s) or not gpus:
        return
    end, end_s = _pod_end(pod)
    name = f"{_at(pod, 'metadata', 'namespace') or 'default'}/{_name(pod)}"
    yield JobSpan(
        id=name,
        nodes=(str(node),),
        gpus=gpus,
        start_s=start_s,
        end_s=end_s,
        end=end,
        user=str(_at(pod, "metadata", "namespace") or ""),
    )


def _pod_end(pod: Object) -> tuple[JobEnd, float]:
    phase = _at(pod, "status", "phase")
    done = [
        found
        for each in _list(_at(pod, "status", "containerStatuses"))
        if isinstance(found := _at(each, "state", "terminated"), dict)
    ]
    known = [t for each in done if not isnan(t := _time_s(each.get("finishedAt")))]
    end_s = max(known, default=nan)
    if phase == "Succeeded":
        return JobEnd.DONE, end_s
    if phase != "Failed":
        return JobEnd.OPEN, nan
    reasons = [str(_at(pod, "status", "reason") or ""), *(str(each.get("reason")) for each in done)]
    taints = [
        str(each.get("reason", "")) + str(each.get("message", ""))
        for each in _list(_at(pod, "status", "conditions"))
        if each.get("type") == "DisruptionTarget"
    ]
    if any("Taint" in each for each in taints):
        return JobEnd.NODE, end_s
    return next((_REASONS[each] for each in reasons if each in _REASONS), JobEnd.FAILED), end_s


def _node(node: Object) -> Iterator[NodeSpell]:
    for each in _list(_at(node, "status", "conditions")):
        since_s = _time_s(each.get("lastTransitionTime"))
        if each.get("type") == "Ready" and each.get("status") != "True" and not isnan(since_s):
            reason = str(each.get("reason") or each.get("message") or "")
            yield NodeSpell(node=_name(node), from_s=since_s, reason=reason)
    for each in _list(_at(node, "spec", "taints")):
        since_s = _time_s(each.get("timeAdded"))
        key = str(each.get("key", ""))
        if (
            not isnan(since_s)
            and key not in _NODE_LOST
            and each.get("effect") != "PreferNoSchedule"
        ):
            yield NodeSpell(node=_name(node), from_s=since_s, use=NodeUse.DRAINED, reason=key)


def _past(events: Sequence[Object]) -> Iterator[NodeSpell]:
    """Yield spells between `NodeNotReady` and the next `NodeReady` of a node."""
    since: dict[str, float] = {}
    said = sorted(
        (t_s, str(each.get("reason")), str(_at(each, "involvedObject", "name")))
        for each in events
        if not isnan(t_s := _time_s(each.get("lastTimestamp") or each.get("eventTime")))
        and _at(each, "involvedObject", "kind") == "Node"
    )
    for t_s, reason, node in said:
        if reason == "NodeNotReady":
            since.setdefault(node, t_s)
        elif reason == "NodeReady" and node in since:
            yield NodeSpell(node=node, from_s=since.pop(node), to_s=t_s, reason="NodeNotReady")


def _at(value: object, *path: str) -> Any:  # noqa: ANN401 - JSON
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _list(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _name(value: Object) -> str:
    return str(_at(value, "metadata", "name") or "")


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() else 0


def _time_s(value: object) -> float:
    found = iso_s(value) if isinstance(value, str) else None
    return nan if found is None else found
