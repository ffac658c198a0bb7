"""Submits, shows and changes jobs of Kubernetes for the account that runs this process.

The API server knows who asks, and decides what they may. So no steward has to run for this; where
one does, it decides when a TrainingJob starts, and leaves alone what a person holds.
"""

from __future__ import annotations

import time
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.faults import ConflictError, MissingError, retryable_faults
from steward.clients.kubernetes_jobs import records
from steward.clients.kubernetes_jobs.change_plans import ChangePlan, plan_change
from steward.clients.kubernetes_jobs.job_life import exit_status, task_status
from steward.clients.kubernetes_jobs.job_log import KubeLog
from steward.clients.kubernetes_jobs.job_lookup import JobLookup, NoSuchJobError
from steward.clients.kubernetes_jobs.job_options import KubeDraft, token_digest
from steward.clients.kubernetes_jobs.job_request import JobRequest
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.clients.kubernetes_jobs.manifest import manifest_of
from steward.clients.kubernetes_jobs.save_requests import SaveWait
from steward.clients.kubernetes_jobs.waiting_reasons import waiting_reasons
from steward.clients.retrying import retried
from steward.errors import StewardError, TemporaryError

__all__ = ["MANAGER", "KubernetesJobs"]

MANAGER = "steward-jobs"  # a person's changes are not those of steward, which goes by this name
SUBMIT_WITHIN_S = 120.0
LOOKS = 5  # how often a change is tried that others overtake


class KubernetesJobs:
    """The jobs of one namespace.

    `gpu_resource`: what a GPU is called there. `save_within_s`: how long a job that was asked to
    save may take to answer.
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        gpu_resource: str = "nvidia.com/gpu",
        save_within_s: float = 300.0,
    ) -> None:
        self._api = api
        self._lookup = JobLookup(api, namespace)
        self._gpu_resource = gpu_resource
        self._save_within_s = save_within_s
        self._seen: set[str] = set()

    # -- looking -------------------------------------------------------------------------------

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]:
        """Return the newest jobs."""
        with retryable_faults():
            found = [job for job in self._lookup.listed() if ended or not job.ended]
        return [records.short_record(job) for job in found[:limit]]

    def show(self, id_: str) -> dict[str, Any]:
        """Return one job with its life, or an array with its tasks."""
        job, index = self._of(id_)
        if index is None and job.array:
            return records.array_record(job)
        return records.long_record(job, index=index)

    def why(self, id_: str) -> dict[str, Any]:
        """Return why a job does not run."""
        job, _ = self._of(id_)
        with retryable_faults():
            reasons = waiting_reasons(job, self._lookup)
        return records.why_record(job, reasons, time.time())

    def status(self, id_: str) -> int | None:
        """Return the exit status of a job; None until it is over. One deleted meanwhile has 1."""
        try:
            job, index = self._of(id_)
        except NoSuchJobError:
            if id_ not in self._seen:
                raise
            return 1
        self._seen.add(id_)
        return exit_status(job) if index is None else task_status(job, index)

    def log(self, id_: str) -> KubeLog:
        """Return the log of a job, of several pods that of index 0."""
        return KubeLog(self._api, lambda: self._of(id_))

    # -- submitting ----------------------------------------------------------------------------

    def manifest(self, draft: KubeDraft) -> dict[str, Any]:
        """Return what would be created here."""
        with retryable_faults():
            training = self._lookup.has_trainings
        return manifest_of(
            draft,
            namespace=self._lookup.namespace,
            training=training,
            gpu_resource=self._gpu_resource,
        )

    def submit(self, draft: KubeDraft) -> dict[str, Any]:
        """Create exactly one object, though the server hangs or is restarted meanwhile."""
        digest = token_digest(draft.token)
        body = self.manifest(draft)
        with retryable_faults():
            found = self._lookup.by_token(digest)
        if found is None:
            try:
                found = retried(lambda: self._created(body, digest), SUBMIT_WITHIN_S)
            except TemporaryError as fault:
                hint = f"the job may exist: submit it again with --token {draft.token}"
                raise StewardError(fault.problem, where=fault.where, hint=hint) from fault
        record = records.short_record(found)
        return {
            "id": found.id,
            "token": draft.token,
            "state": record["state"],
            "kind": "TrainingJob" if found.training else "Job",
            "namespace": found.namespace,
        }

    def _created(self, body: dict[str, Any], digest: str) -> KubeJob:
        """Create the object, or find that an earlier request has, whose answer was lost."""
        path = self._lookup.trainings if body["kind"] == "TrainingJob" else self._lookup.jobs
        with retryable_faults():
            try:
                self._api.create(path, body)
            except ConflictError:
                found = self._lookup.by_token(digest)
                if found is None:
                    raise
                return found
            except MissingError as fault:
                problem = f"there is no namespace {self._lookup.namespace}"
                hint = "set the namespace of the context, or plugs.kubernetes.namespace"
                raise StewardError(problem, where="kubernetes", hint=hint) from fault
            return self._lookup.of(body["metadata"]["name"])

    # -- changing ------------------------------------------------------------------------------

    def requests(self, what: str, id_: str, body: dict[str, Any]) -> list[JobRequest]:
        """Return what a change would send."""
        return list(self._plan(what, id_, body)[1].requests)

    def change(self, what: str, id_: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Change a job and return what became of it; look again where another was faster."""
        for look in range(LOOKS):
            job, plan = self._plan(what, id_, body)
            try:
                with retryable_faults():
                    for request in plan.requests:
                        request.send(self._api)
            except ConflictError:
                if look == LOOKS - 1:
                    raise
                continue
            if not self._overtaken(what, job):
                why = f"{self._saved(job, plan.save)}; {plan.why}" if plan.save else plan.why
                return [{"id": job.id, "state": plan.state.value, "why": why}]
        raise AssertionError

    def _saved(self, job: KubeJob, id_: str) -> str:
        """Wait for the answer to a request to save, and return it in words."""
        with retryable_faults():
            return SaveWait(self._api, job, id_, within_s=self._save_within_s).answered()

    def _overtaken(self, what: str, before: KubeJob) -> bool:
        """Return whether the operator made the Job while the TrainingJob was changed."""
        if before.job is not None or what not in ("hold", "release"):
            return False
        with retryable_faults():
            now = self._lookup.of(before.id)
        return now.job is not None and bool(now.held) != (what == "hold")

    def _plan(self, what: str, id_: str, body: dict[str, Any]) -> tuple[KubeJob, ChangePlan]:
        job, index = self._of(id_)
        if index is not None:
            problem = "Kubernetes does not change a single task"
            raise StewardError(problem, where=f"job {id_}", hint=f"change all of {job.id}")
        return job, plan_change(what, job, body, time.time())

    def _of(self, id_: str) -> tuple[KubeJob, int | None]:
        """Return a job, and which of its indices is meant."""
        name, _, index = id_.partition("_")
        with retryable_faults():
            job = self._lookup.of(name)
        if index and int(index) >= job.pods:
            hint = f"it has {job.pods}, counted from 0"
            raise StewardError("it has no such task", where=f"job {id_}", hint=hint)
        return job, int(index) if index else None
