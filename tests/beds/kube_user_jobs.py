"""A cluster whose pods run small shell commands, for those who submit jobs and look at them.

Of a command, `echo WORDS`, `sleep` (until the pod is deleted) and `exit N` are understood.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beds.kube_cluster import KubeCluster
from beds.kubernetes import KubeDouble
from patience import until
from steward.clients.kubernetes.training_job import training_job_from
from told import Answer, steward

IMAGE = os.environ.get("STEWARD_TEST_IMAGE", "busybox:1.36")
INDEX = "batch.kubernetes.io/job-completion-index"
EVERY_S = 0.005


@dataclass
class UserBed:
    """A cluster, and a configuration that names it."""

    config: Path
    made: list[str] = field(default_factory=list)

    def jobs(self, what: str, *args: object) -> Answer:
        return steward("jobs", what, "--config", self.config, *args, KUBECONFIG=None)

    def submit(self, *args: object) -> str:
        answer = self.jobs("submit", *args)
        assert answer.code == 0, answer.err
        self.made.append(answer.out.strip())
        return self.made[-1]

    def state(self, job: str) -> str:
        answer = self.jobs("show", job, "--json")
        return str(answer.json["state"]) if answer.code == 0 else "gone"

    def wait_state(self, job: str, *states: str) -> None:
        until(lambda: self.state(job) in states, why=f"{job} to be {' or '.join(states)}")


def configured(folder: Path, file: Path) -> Path:
    config = folder / "steward.toml"
    config.write_text(
        f"[jobs]\nengine = 'kubernetes'\nkubernetes_image = '{IMAGE}'\n"
        f"[plugs.kubernetes]\nkubeconfig = '{file}'\n"
    )
    return config


def kubeconfig(double: KubeDouble, file: Path, *, namespace: str = "bio") -> Path:
    """Write how to reach a double."""
    context = {"cluster": "k", "user": "u", "namespace": namespace}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": context}],
        "clusters": [{"name": "k", "cluster": {"server": double.address}}],
        "users": [{"name": "u", "user": {"token": "right"}}],
    }
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


def serve_trainings(double: KubeDouble) -> None:
    """Make a Job of each TrainingJob, as the operator does."""
    made = {each["metadata"]["name"] for each in double.all("jobs")}
    for raw in double.all("trainingjobs"):
        training = training_job_from(raw)
        if training is not None and training.job_name not in made:
            double.create("jobs", training.namespace, training.job(), "steward")


class UserCluster(KubeCluster):
    """Controllers, scheduler and kubelets; Jobs end as their pods do."""

    store: KubeDouble

    def tick(self) -> None:
        with self.store.lock:
            super().tick()
            self._collect_garbage()

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Let time pass in a thread of its own."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(EVERY_S):
                self.tick()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _make(self, raw: dict[str, Any]) -> None:
        taken = {_index(pod) for pod in self._pods_of(raw)}
        index = min({*range(raw["spec"].get("completions", 1) + len(taken))} - taken)
        super()._make(raw)
        pod = self.store.all("pods")[-1]
        labels = {"job-name": raw["metadata"]["name"]}
        notes = {**pod["metadata"]["annotations"], INDEX: str(index)}
        self._put(pod, metadata={"labels": labels, "annotations": notes})

    def _schedule(self, pod: dict[str, Any]) -> None:
        super()._schedule(pod)
        now = self.store.named("pods", pod["metadata"]["name"])
        if now["status"]["phase"] == "Pending" and "conditions" not in now["status"]:
            why = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
            refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._put(now, status={"conditions": [{**refused, "message": why}]})
        elif now["status"]["phase"] == "Running":
            self._put(now, status={"conditions": []})

    def _run(self, pod: dict[str, Any]) -> None:
        super()._run(pod)
        meta = pod["metadata"]
        if pod["status"]["phase"] != "Running" or "deletionTimestamp" in meta:
            return
        words = pod["spec"]["containers"][0]["command"]
        script = words[4:] if words[0] == "/bin/sh" else words  # without steward's shell around it
        text = " ".join(script).replace("$$", "$")
        said = re.findall(r"\becho (\w+)", text)
        self.store.logs[meta["name"]] = "".join(f"{each}\n" for each in said)
        if not re.search(r"\bsleep\b", text):
            code = int((re.findall(r"\bexit (\d+)", text) or ["0"])[-1])
            ended = {"exitCode": code, "finishedAt": self.store.now}
            phase = "Failed" if code else "Succeeded"
            state = {"phase": phase, "containerStatuses": [{"state": {"terminated": ended}}]}
            self._put(pod, status=state)

    def _status(self, raw: dict[str, Any]) -> None:
        conditions = raw.get("status", {}).get("conditions", ())
        if any(each["type"] in ("Complete", "Failed") for each in conditions):
            return
        pods, spec = self._pods_of(raw), raw["spec"]
        of = {
            phase: [pod for pod in pods if pod["status"]["phase"] == phase]
            for phase in ("Pending", "Running", "Succeeded", "Failed")
        }
        leaving = sum("deletionTimestamp" in pod["metadata"] for pod in pods)
        status = {
            "active": len(of["Pending"]) + len(of["Running"]) - leaving,
            "ready": len(of["Running"]),
            "terminating": leaving,
            "succeeded": len(of["Succeeded"]),
            "completedIndexes": ",".join(str(_index(pod)) for pod in of["Succeeded"]),
        }
        if not spec.get("suspend"):
            status["startTime"] = raw.get("status", {}).get("startTime", self.store.now)
        over = len(of["Succeeded"]) + len(of["Failed"])
        each_alone = "backoffLimitPerIndex" in spec
        if over >= spec["completions"] or (of["Failed"] and not each_alone):
            type_ = "Failed" if of["Failed"] else "Complete"
            condition = {"type": type_, "status": "True", "lastTransitionTime": self.store.now}
            status["conditions"] = [{**condition, "reason": "BackoffLimitExceeded"}]
        if raw.get("status") != status:
            self.store.put("jobs", {**raw, "status": status})

    def _collect_garbage(self) -> None:
        """End what belongs to objects that are deleted, and then those."""
        for owners, owned in (("trainingjobs", "jobs"), ("jobs", "pods")):
            for owner in self.store.all(owners):
                if "deletionTimestamp" not in owner["metadata"]:
                    continue
                uid = owner["metadata"]["uid"]
                below = [
                    each
                    for each in self.store.all(owned)
                    if any(x["uid"] == uid for x in each["metadata"].get("ownerReferences", ()))
                ]
                for each in below:
                    if "deletionTimestamp" not in each["metadata"]:
                        meta = {**each["metadata"], "deletionTimestamp": self.store.now}
                        self.store.put(owned, {**each, "metadata": meta})
                if not below:
                    self.store.delete(owners, uid)


def _index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"].get("annotations", {}).get(INDEX, "-1"))
