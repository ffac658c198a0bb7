"""Looks at jobs of one namespace, as the account that runs this process may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.custom_resources import API_VERSION
from steward.clients.kubernetes.faults import ForbiddenError, MissingError
from steward.clients.kubernetes.objects import map_in, maps_in, warned_from
from steward.clients.kubernetes.training_job import training_job_from
from steward.clients.kubernetes_jobs.listed_job import KubeJob, is_of_training, kube_job
from steward.clients.kubernetes_jobs.manifest import TOKEN
from steward.errors import StewardError

__all__ = ["JobLookup", "NoSuchJobError"]

_JOB_OF_POD = "job-name"  # label that every Job controller puts on its pods
_WORKLOADS = ("v1beta2", "v1beta1")
Raw = Mapping[str, Any]


class NoSuchJobError(StewardError):
    """There is no job of that name."""


class JobLookup:
    """The jobs of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self.trainings = f"/apis/{API_VERSION}/namespaces/{namespace}/trainingjobs"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._core = f"/api/v1/namespaces/{namespace}"
        self._installed: bool | None = None

    @property
    def has_trainings(self) -> bool:
        """Whether TrainingJobs are installed; discovery is open to everybody."""
        if self._installed is None:
            try:
                found = self._api.get(f"/apis/{API_VERSION}")
                self._installed = any(
                    each.get("name") == "trainingjobs" for each in maps_in(found, "resources")
                )
            except (MissingError, ForbiddenError):
                self._installed = False
        return self._installed

    def listed(self) -> list[KubeJob]:
        """Return all jobs that there are, newest first."""
        trainings = self._trainings()
        jobs = self._api.list(self.jobs)[0]
        if not jobs and not trainings:
            self._check_namespace()
        pods: dict[str, list[Raw]] = defaultdict(list)
        for raw in self._pods(_JOB_OF_POD):
            for owner in maps_in(map_in(raw, "metadata"), "ownerReferences"):
                pods[str(owner.get("uid"))].append(raw)
        of_training = {is_of_training(raw): raw for raw in jobs}
        names = {_name(raw) for raw in trainings}
        found = [_read(raw, of_training.get(_uid(raw)), pods) for raw in trainings]
        uids = {_uid(raw) for raw in trainings}
        for raw in jobs:
            if is_of_training(raw) not in uids:
                id_ = f"job/{_name(raw)}" if _name(raw) in names else ""
                found.append(_read(None, raw, pods, id_=id_))
        made = [job for job in found if job is not None]
        return sorted(made, key=lambda job: (job.submit_s, job.id), reverse=True)

    def of(self, id_: str) -> KubeJob:
        """Return a job by its name, or raise if there is none.

        `job/NAME` and `trainingjob/NAME` are of one kind alone.
        """
        kind, _, name = id_.rpartition("/")
        training = self._training(name) if kind != "job" else None
        if training is not None:
            return self._of_training(training)
        job = self._one(f"{self.jobs}/{name}") if kind != "trainingjob" else None
        if job is not None and is_of_training(job) and not kind:
            owner = next(iter(maps_in(map_in(job, "metadata"), "ownerReferences")))
            training = self._training(str(owner.get("name")))
            if training is not None and _uid(training) == is_of_training(job):
                return self._of_training(training)
        found = self._with_pods(None, job, id_=id_) if job is not None else None
        if found is None:
            self._check_namespace()
            hint = "`steward jobs list --all` shows those that there are; other kinds, as "
            hint += "PyTorchJob or JobSet, are kubectl's"
            problem = f"Kubernetes has no such job in namespace {self.namespace}"
            raise NoSuchJobError(problem, where=f"job {id_}", hint=hint)
        return found

    def by_token(self, digest: str) -> KubeJob | None:
        """Return what was submitted with a token."""
        labels = f"{TOKEN}={digest}"
        for raw in self._trainings(labels):
            return self._of_training(raw)
        for raw in self._api.list(self.jobs, labels=labels)[0]:
            return self._with_pods(None, raw)
        return None

    def warnings(self, *names: str) -> list[str]:
        """Return what Kubernetes warns of about objects, the newest first."""
        found = []
        for name in names:
            try:
                raws = self._api.list(f"{self._core}/events", fields=f"involvedObject.name={name}")[
                    0
                ]
            except (ForbiddenError, MissingError):
                return []
            found += [each for each in map(warned_from, raws) if each is not None]
        newest = sorted(found, key=lambda each: each.t_s or 0.0, reverse=True)
        return [f"{each.reason}: {each.message}" for each in newest]

    def workload(self, uid: str) -> Raw | None:
        """Return Kueue's workload of a Job, where there is one for us to see."""
        for version in _WORKLOADS:
            path = f"/apis/kueue.x-k8s.io/{version}/namespaces/{self.namespace}/workloads"
            try:
                raws = self._api.list(path)[0]
            except (ForbiddenError, MissingError):
                continue
            for raw in raws:
                owners = maps_in(map_in(raw, "metadata"), "ownerReferences")
                if any(each.get("uid") == uid for each in owners):
                    return raw
        return None

    # -- reading -------------------------------------------------------------------------------

    def _trainings(self, labels: str = "") -> list[dict[str, Any]]:
        if not self.has_trainings:
            return []
        try:
            return self._api.list(self.trainings, labels=labels)[0]
        except ForbiddenError:
            return []  # their Jobs are listed, if these are for us to see

    def _of_training(self, raw: Raw) -> KubeJob:
        training = training_job_from(raw)
        job = self._one(f"{self.jobs}/{training.job_name}") if training is not None else None
        if job is not None and is_of_training(job) != _uid(raw):
            job = None
        found = self._with_pods(raw, job)
        if found is None:
            raise StewardError("it makes no sense", where=f"TrainingJob {_name(raw)}")
        return found

    def _with_pods(self, training: Raw | None, job: Raw | None, *, id_: str = "") -> KubeJob | None:
        pods = self._pods(f"{_JOB_OF_POD}={_name(job)}") if job is not None else []
        uid = _uid(job) if job is not None else ""
        mine = [
            raw
            for raw in pods
            if any(
                each.get("uid") == uid
                for each in maps_in(map_in(raw, "metadata"), "ownerReferences")
            )
        ]
        return kube_job(training, job, mine, id_=id_)

    def _pods(self, labels: str) -> list[dict[str, Any]]:
        try:
            return self._api.list(f"{self._core}/pods", labels=labels)[0]
        except ForbiddenError:
            return []

    def _training(self, name: str) -> dict[str, Any] | None:
        """Return a TrainingJob, where they are installed and for us to see."""
        try:
            return self._one(f"{self.trainings}/{name}") if self.has_trainings else None
        except ForbiddenError:
            return None

    def _one(self, path: str) -> dict[str, Any] | None:
        try:
            return self._api.get(path)
        except MissingError:
            return None

    def _check_namespace(self) -> None:
        try:
            self._api.get(self._core)
        except MissingError as fault:
            problem = f"there is no namespace {self.namespace}"
            hint = "set the namespace of the context, or plugs.kubernetes.namespace"
            raise StewardError(problem, where="kubernetes", hint=hint) from fault
        except ForbiddenError:
            return  # most people may not ask


def _read(
    training: Raw | None, job: Raw | None, pods: Mapping[str, Iterable[Raw]], *, id_: str = ""
) -> KubeJob | None:
    return kube_job(training, job, list(pods.get(_uid(job), ())) if job else [], id_=id_)


def _uid(raw: Raw) -> str:
    return str(map_in(raw, "metadata").get("uid") or "")


def _name(raw: Raw) -> str:
    return str(map_in(raw, "metadata").get("name") or "")
