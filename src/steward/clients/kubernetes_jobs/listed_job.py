"""One job as a person sees it: a TrainingJob with its Job, or a Job alone, and their pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.annotations import HELD, PREEMPTED
from steward.clients.kubernetes.batch_job import BatchJob, batch_job_from
from steward.clients.kubernetes.objects import Pod, map_in, maps_in, pod_from, time_s
from steward.clients.kubernetes.training_job import TrainingJob, training_job_from
from steward.clients.kubernetes_jobs.manifest import ARRAY, INDEX, JOB_NAME, USER

__all__ = ["KubeJob", "KubeTask", "is_of_training", "kube_job"]

_KIND = "TrainingJob"
_MOST_INDICES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTask:
    """One pod with its index in the Job."""

    index: int | None
    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeJob:
    """A job. `job` is None while the operator has made none, or somebody has deleted it."""

    id: str
    training: TrainingJob | None
    job: BatchJob | None
    tasks: tuple[KubeTask, ...]
    template: Mapping[str, Any]  # spec of its pods
    submit_s: float
    annotations: Mapping[str, str]  # of the object that was submitted, and of its Job
    completed: frozenset[int] = field(default_factory=frozenset)
    failed: frozenset[int] = field(default_factory=frozenset)

    @property
    def submitted(self) -> TrainingJob | BatchJob:
        """The object that its owner has made."""
        found = self.training or self.job
        assert found is not None  # noqa: S101 - `kube_job` makes none without
        return found

    @property
    def job_name(self) -> str:
        return self.job.name if self.job else ""

    @property
    def namespace(self) -> str:
        return self.submitted.namespace

    @property
    def name(self) -> str:
        return self.annotations.get(JOB_NAME) or self.submitted.name

    @property
    def user(self) -> str:
        return self.annotations.get(USER, "")

    @property
    def array(self) -> bool:
        return self.annotations.get(ARRAY) == "true"

    @property
    def held(self) -> str:
        """By whom, in words; empty where nobody holds it by `steward jobs hold`."""
        return self.annotations.get(HELD, "")

    @property
    def preempted_s(self) -> float | None:
        said = self.annotations.get(PREEMPTED, "")
        return float(said) if re.fullmatch(r"[0-9]{1,12}", said) else None

    @property
    def was_preempted(self) -> bool:
        did = self.job.did if self.job else None
        return self.preempted_s is not None or (did is not None and did.did == "preempt")

    @property
    def leaving(self) -> bool:
        return any(each is not None and each.leaving for each in (self.training, self.job))

    @property
    def ended(self) -> bool:
        if self.training is not None and self.training.phase in ("Succeeded", "Failed"):
            return True
        return self.leaving or (self.job is not None and self.job.over)

    @property
    def pods(self) -> int:
        if self.job is not None:
            return self.job.parallelism if self.job.completions is None else self.job.completions
        return int(self.training.spec.get("pods") or 1) if self.training else 0

    @property
    def gpus(self) -> int:
        shape = pod_from({"metadata": {"uid": "template"}, "spec": self.template})
        return (shape.gpus if shape else 0) * self.pods

    @property
    def container(self) -> str:
        """The one whose output is the job's: others are beside it."""
        return str(next(iter(maps_in(self.template, "containers")), {}).get("name") or "")

    @property
    def live(self) -> tuple[Pod, ...]:
        """Its pods that run, by their index."""
        return tuple(each.pod for each in self.tasks if each.pod.phase == "Running")

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pod.node for pod in self.live if pod.node))

    def newest(self, index: int | None) -> Pod | None:
        """Return the newest pod of an index; without indices, of all."""
        return next(reversed(self._oldest_first(index)), None)

    def runs(self, index: int | None) -> list[Pod]:
        """Return the pods that ran one after another for an index, of an indexed Job the first.

        Of several that run at once without indices, it is the newest alone.
        """
        indexed = self.job is not None and self.job.indexed
        found = self._oldest_first(0 if index is None and indexed else index)
        return found if indexed or index is not None or self.pods <= 1 else found[-1:]

    def _oldest_first(self, index: int | None) -> list[Pod]:
        found = [each.pod for each in self.tasks if index is None or each.index in (index, None)]
        return sorted(found, key=lambda pod: (pod.created_s, pod.name))


def is_of_training(raw: Mapping[str, Any]) -> str:
    """Return the uid of the TrainingJob that a Job was made for; empty for others."""
    owners = maps_in(map_in(raw, "metadata"), "ownerReferences")
    return next((str(each.get("uid")) for each in owners if each.get("kind") == _KIND), "")


def kube_job(
    training: Mapping[str, Any] | None,
    job: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]],
    *,
    id_: str = "",
) -> KubeJob | None:
    """Read a job; None when it is not one."""
    wanted = training_job_from(training) if training else None
    made = batch_job_from(job) if job else None
    first = training or job
    if first is None or (wanted is None and made is None):
        return None
    spec, status = map_in(job or {}, "spec"), map_in(job or {}, "status")
    template = map_in(spec or map_in(training or {}, "spec"), "template")
    notes = {**(made.annotations if made else {}), **(wanted.annotations if wanted else {})}
    for key in (HELD, PREEMPTED):  # the Job's, once there is one
        if made is not None:
            notes.pop(key, None)
            notes |= {key: made.annotations[key]} if key in made.annotations else {}
    meta = map_in(first, "metadata")
    return KubeJob(
        id=id_ or str(meta.get("name") or ""),
        training=wanted,
        job=made,
        tasks=tuple(sorted(_tasks(pods), key=_by_index)),
        template=map_in(template, "spec"),
        submit_s=time_s(meta.get("creationTimestamp")) or 0.0,
        annotations=notes,
        completed=_indices(status.get("completedIndexes")),
        failed=_indices(status.get("failedIndexes")),
    )


def _tasks(pods: Iterable[Mapping[str, Any]]) -> Iterable[KubeTask]:
    for raw in pods:
        pod = pod_from(raw)
        said = str(map_in(map_in(raw, "metadata"), "annotations").get(INDEX, ""))
        if pod is not None:
            yield KubeTask(index=int(said) if said.isdecimal() else None, pod=pod)


def _by_index(task: KubeTask) -> tuple[int, float, str]:
    return -1 if task.index is None else task.index, task.pod.created_s, task.pod.name


def _indices(said: object) -> frozenset[int]:
    """Read a list of indices as Kubernetes writes it.

    >>> sorted(_indices("0,2-4")), sorted(_indices(None))
    ([0, 2, 3, 4], [])
    """
    found: set[int] = set()
    for part in str(said or "").split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match:
            last = min(int(match[2] or match[1]), _MOST_INDICES)
            found |= {*range(int(match[1]), last + 1)}
    return frozenset(found)
