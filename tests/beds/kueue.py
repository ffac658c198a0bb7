"""Kueue's own part: quota, admission when all checks are Ready, eviction when one says Retry.

As in `pkg/controller/core`: after Retry a workload is Evicted and its checks are Pending again in
one step, its quota is free in the next, and then it is queued again. Quota is without limit here.
"""

from __future__ import annotations

from typing import Any

from beds.kube_cluster import KubeCluster, job
from beds.kube_store import KubeStore


class Kueue:
    """The queue of a cluster. `tick` lets it, the Job controller and the kubelets act once."""

    def __init__(self, store: KubeStore, cluster: KubeCluster, *, checks: tuple[str, ...]) -> None:
        self.store = store
        self.cluster = cluster
        self.checks = checks
        self.stuck: list[str] = []  # set to Retry while they were evicted: queued never again

    def submit(self, name: str, namespace: str, *, gpus: int = 8, **options: Any) -> None:
        """Create a suspended Job and its Workload."""
        notes = options.pop("annotations", {"steward.dev/saves": "20"})
        body = job(name, gpus=gpus, suspend=True, annotations=notes, **options)
        made = self.store.create("jobs", namespace, body, "ann")
        template = made["spec"]["template"]
        owner = {"kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}
        workload = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
        }
        self.store.create("workloads", namespace, workload, "kueue")

    def tick(self) -> None:
        with self.store.lock:
            for raw in self.store.all("workloads"):
                self._step(raw)
            self.cluster.tick()

    def states(self) -> dict[str, tuple[str, str]]:
        """Return state and message of the first check of each workload."""
        found = {}
        for raw in self.store.all("workloads"):
            (check, *_) = raw.get("status", {}).get("admissionChecks") or [{}]
            found[raw["metadata"]["name"]] = check.get("state", ""), check.get("message", "")
        return found

    def running(self) -> set[str]:
        """Return the Jobs that have running pods."""
        return {
            pod["metadata"]["ownerReferences"][0]["name"]
            for pod in self.store.all("pods")
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def _step(self, raw: dict[str, Any]) -> None:
        status = raw.get("status", {})
        holds = {each["type"]: each["status"] == "True" for each in status.get("conditions", ())}
        states = [each["state"] for each in status.get("admissionChecks", ())]
        if holds.get("Evicted") and holds.get("QuotaReserved"):
            self._write(raw, {**holds, "QuotaReserved": False, "Admitted": False}, states)
            self._suspend(raw, suspend=True)
        elif not holds.get("QuotaReserved"):
            if "Retry" in states:
                self.stuck.append(raw["metadata"]["name"])
                return
            reserved = {**holds, "QuotaReserved": True, "Evicted": False}
            self._write(raw, reserved, ["Pending"] * len(self.checks))
        elif "Retry" in states:
            self._write(raw, {**holds, "Evicted": True}, ["Pending"] * len(states))
        elif set(states) == {"Ready"} and not holds.get("Admitted"):
            self._write(raw, {**holds, "Admitted": True}, states, keep=True)
            self._suspend(raw, suspend=False)

    def _write(
        self, raw: dict[str, Any], holds: dict[str, bool], states: list[str], *, keep: bool = False
    ) -> None:
        now = self.store.now
        conditions = [
            {
                "type": type_,
                "status": str(value),
                "reason": "ByKueue",
                "message": "",
                "lastTransitionTime": now,
            }
            for type_, value in holds.items()
        ]
        checks = [
            {"name": name, "state": state, "message": "", "lastTransitionTime": now}
            for name, state in zip(self.checks, states, strict=True)
        ]
        status = {"conditions": conditions, "admissionChecks": checks}
        if keep:
            status["admissionChecks"] = raw["status"]["admissionChecks"]
        self.store.put("workloads", {**raw, "status": status})

    def _suspend(self, raw: dict[str, Any], *, suspend: bool) -> None:
        meta = raw["metadata"]
        body = {"spec": {"suspend": suspend}}
        self.store.patch("jobs", meta["namespace"], meta["name"], body, manager="kueue")
