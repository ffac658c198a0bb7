"""What else a cluster has besides its API server: Job controller, scheduler, kubelets.

Nothing happens by itself: `tick` lets each of them act once, so that tests do not depend on time.
"""

from __future__ import annotations

from typing import Any

from beds.kube_store import KubeStore


def job(name: str, **changes: Any) -> dict[str, Any]:
    """Return a Job as its owner sends it; its pods have the same annotations."""
    pods, gpus = changes.pop("pods", 1), changes.pop("gpus", 8)
    annotations = changes.pop("annotations", {})
    labels = changes.pop("labels", {})
    limits = {"nvidia.com/gpu": str(gpus)}
    template = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    template |= changes.pop("template", {})
    spec = {"parallelism": pods, "completions": pods, "suspend": False}
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {
            **spec,
            **changes,
            "template": {"metadata": {"annotations": annotations}, "spec": template},
        },
    }


class KubeCluster:
    """The controllers of a cluster. `work_ticks`: how long each pod runs until it succeeds.

    `done` is the work of each Job, which goes on where it was; `ends` the Jobs that were complete.
    """

    def __init__(self, store: KubeStore, *, work_ticks: int = 10**9, grace_ticks: int = 1) -> None:
        self.store = store
        self.work_ticks = work_ticks
        self.grace_ticks = grace_ticks
        self.done: dict[str, int] = {}  # work of each Job that was saved, in ticks
        self.evicted: dict[str, int] = {}  # pods of each Job
        self.ends: list[str] = []
        self._made = 0
        self._leaving: dict[str, int] = {}

    def tick(self) -> None:
        with self.store.lock:
            for raw in self.store.all("jobs"):
                self._control(raw)
            for pod in self.store.all("pods"):
                self._schedule(pod)
            for pod in self.store.all("pods"):
                self._run(pod)
            for raw in self.store.all("jobs"):
                self._status(raw)

    # -- the Job controller ------------------------------------------------------------------------

    def _control(self, raw: dict[str, Any]) -> None:
        if _over(raw):
            return
        spec, pods = raw["spec"], self._pods_of(raw)
        wanted = 0 if spec.get("suspend") else spec.get("parallelism", 1)
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        for pod in live[wanted:]:
            self._put(pod, metadata={"deletionTimestamp": self.store.now})
        for _ in range(wanted - len(pods)):
            self._make(raw)

    def _make(self, raw: dict[str, Any]) -> None:
        self._made += 1
        meta, template = raw["metadata"], raw["spec"]["template"]
        owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        body = {
            "metadata": {
                "uid": f"pod-{self._made}",
                "name": f"{meta['name']}-{self._made}",
                "namespace": meta["namespace"],
                "creationTimestamp": self.store.now,
                "ownerReferences": [owner],
                "annotations": dict(template.get("metadata", {}).get("annotations") or {}),
            },
            "spec": dict(template["spec"]),
            "status": {"phase": "Pending"},
        }
        self.store.put("pods", body)

    def _status(self, raw: dict[str, Any]) -> None:
        if _over(raw):
            return
        pods = self._pods_of(raw)
        ready = sum(pod["status"]["phase"] == "Running" for pod in pods)
        leaving = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
        name = raw["metadata"]["name"]
        status = {"active": len(pods) - leaving, "ready": ready, "terminating": leaving}
        if ready:
            status["startTime"] = self.store.now
        if self.done.get(name, 0) >= self.work_ticks:
            status = {"succeeded": 1, "completionTime": self.store.now}
            status["conditions"] = [{"type": "Complete", "status": "True"}]
            self.ends.append(name)
            for pod in pods:
                self.store.delete("pods", pod["metadata"]["uid"])
        counted = 0 if "podFailurePolicy" in raw["spec"] else self.evicted.get(name, 0)
        if counted > raw["spec"].get("backoffLimit", 6):
            status["conditions"] = [{"type": "Failed", "status": "True", "reason": "BackoffLimit"}]
        if raw.get("status") != status:
            self.store.put("jobs", {**raw, "status": status})

    # -- the scheduler and the kubelets ------------------------------------------------------------

    def _schedule(self, pod: dict[str, Any]) -> None:
        gated = pod["spec"].get("schedulingGates")
        if pod["status"]["phase"] != "Pending" or gated:
            return
        free = self.free()
        wants = _gpus(pod)
        found = next((name for name, count in free.items() if count >= wants), None)
        if found is not None:
            running = {"phase": "Running", "startTime": self.store.now}
            self._put(pod, spec={"nodeName": found}, status=running)

    def free(self) -> dict[str, int]:
        free = {
            each["metadata"]["name"]: int(each["status"]["capacity"]["nvidia.com/gpu"])
            for each in self.store.all("nodes")
            if not each["spec"].get("unschedulable")
        }
        for pod in self.store.all("pods"):
            on = pod["spec"].get("nodeName")
            if on in free and pod["status"]["phase"] == "Running":
                free[on] -= _gpus(pod)
        return free

    def _run(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        owner = next(iter(meta.get("ownerReferences", ())), {}).get("name", "")
        if "deletionTimestamp" in meta:
            waited = self._leaving[meta["uid"]] = self._leaving.get(meta["uid"], 0) + 1
            if waited > self.grace_ticks:
                self.store.delete("pods", meta["uid"])
                if pod["status"].get("conditions"):  # evicted: by the Job's policy no failure
                    self.evicted[owner] = self.evicted.get(owner, 0) + 1
        elif pod["status"]["phase"] == "Running":
            self.done[owner] = self.done.get(owner, 0) + 1

    def _pods_of(self, raw: dict[str, Any]) -> list[dict[str, Any]]:
        uid = raw["metadata"]["uid"]
        return [
            pod
            for pod in self.store.all("pods")
            if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ()))
        ]

    def _put(self, raw: dict[str, Any], **parts: dict[str, Any]) -> None:
        self.store.put("pods", {**raw, **{key: {**raw[key], **parts[key]} for key in parts}})


def _over(raw: dict[str, Any]) -> bool:
    return any(
        each["type"] in ("Complete", "Failed")
        for each in raw.get("status", {}).get("conditions", ())
    )


def _gpus(pod: dict[str, Any]) -> int:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return int(limits.get("nvidia.com/gpu", 0))
