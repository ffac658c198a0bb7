"""Makes one Job of each TrainingJob, exactly once, and says how it goes.

A Job has a name that follows from its TrainingJob, so a second one cannot exist; its uid is kept in
the status, so one that is gone is not made again. A crash between any two requests is repaired by
the next pass, which does the same again. What the server refuses is tried again after pauses that
double, up to minutes, and one pass has a time limit: refused objects do not hold up the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from steward.act.kubernetes.kept_objects import KeptObjects
from steward.act.kubernetes.retry_backoff import RetryBackoff
from steward.act.kubernetes.training_status import event_of, status_of
from steward.clients.kubernetes import Api, Reflector
from steward.clients.kubernetes.batch_job import BatchJob, batch_job_from
from steward.clients.kubernetes.custom_resources import TRAINING_JOBS
from steward.clients.kubernetes.faults import (
    ConflictError,
    KubernetesError,
    MissingError,
    RejectedError,
    UnreachableError,
)
from steward.clients.kubernetes.lease import Lease
from steward.clients.kubernetes.training_job import TrainingJob, training_job_from
from steward.errors import StewardError

__all__ = ["OperatorPass", "TrainingOperator"]

ENDS = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPass:
    """What one pass has done."""

    leads: bool
    created: int = 0
    updated: int = 0
    faults: tuple[StewardError, ...] = ()

    def with_more(self, other: OperatorPass) -> OperatorPass:
        """Return both together."""
        return OperatorPass(
            leads=self.leads and other.leads,
            created=self.created + other.created,
            updated=self.updated + other.updated,
            faults=(*self.faults, *other.faults),
        )


class TrainingOperator:
    """Reconciles the TrainingJobs of a cluster, or of one namespace."""

    def __init__(
        self,
        api: Api,
        lease: Lease,
        *,
        namespace: str = "",
        pass_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._lease = lease
        self._now = now
        self._clock = clock
        self._pass_s = pass_s  # of one pass; shorter than the lease, or another would take over
        self._backoff = RetryBackoff(clock=clock)
        inside = f"/namespaces/{namespace}" if namespace else ""
        root, _, plural = TRAINING_JOBS.rpartition("/")
        self._trainings = KeptObjects(
            Reflector(api, f"{root}{inside}/{plural}", make=training_job_from)
        )
        self._jobs = KeptObjects(
            Reflector(api, f"/apis/batch/v1{inside}/jobs", make=batch_job_from)
        )
        self._open: set[str] = set()  # uids of TrainingJobs to look at

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return self._trainings.reflector, self._jobs.reflector

    def start(self) -> None:
        """Begin to watch."""
        for each in self.reflectors:
            each.start()

    def stop(self) -> None:
        """Stop watching, and let another operator begin at once."""
        for each in self.reflectors:
            each.stop()
        self._lease.release()

    def turn(self) -> OperatorPass:
        """Do what is due now. Without the lease, or before everything was listed, nothing is."""
        self._take_in()
        problems = [each.problem for each in self.reflectors if each.problem is not None]
        try:
            leads = self._lease.held()
        except StewardError as fault:
            return OperatorPass(leads=False, faults=(*problems, fault))
        if not leads or not all(each.synced for each in self.reflectors):
            return OperatorPass(leads=leads, faults=tuple(problems))
        done = OperatorPass(leads=True, faults=tuple(problems))
        end_s = self._clock() + self._pass_s
        for uid in self._backoff.due(self._open):
            if self._clock() > end_s:
                break  # the rest is first in the next pass
            now = self._served(uid)
            done = done.with_more(now)
            if any(isinstance(each, UnreachableError) for each in now.faults):
                break
        return done

    def _served(self, uid: str) -> OperatorPass:
        """Reconcile one TrainingJob; one that could not be stays open, and pauses."""
        training = self._trainings.objects.get(uid)
        done = OperatorPass(leads=True)
        try:
            if training is not None and not training.leaving:
                created, updated = self._reconciled(training)
                done = OperatorPass(leads=True, created=created, updated=updated)
        except (ConflictError, MissingError):
            # It has changed since: the watch will say, and that ends the pause.
            self._backoff.pause(uid, _version(training))
            return done
        except UnreachableError as fault:
            return OperatorPass(leads=True, faults=(fault,))
        except StewardError as fault:
            self._backoff.pause(uid, _spec(training))
            return OperatorPass(leads=True, faults=(fault,))
        self._open.discard(uid)
        self._backoff.forget(uid)
        return done

    def _take_in(self) -> None:
        by_job = {each.job_name: uid for uid, each in self._trainings.objects.items()}
        before = {uid: job.name for uid, job in self._jobs.objects.items()}
        changed_trainings = self._trainings.fold()
        for uid in changed_trainings:
            now = self._trainings.objects.get(uid)
            self._backoff.forget(uid, unless=(_version(now), _spec(now)) if now else ())
        self._open |= changed_trainings
        changed = self._jobs.fold()
        by_job |= {each.job_name: uid for uid, each in self._trainings.objects.items()}
        names = before | {uid: job.name for uid, job in self._jobs.objects.items()}
        self._open |= {by_job[names[uid]] for uid in changed if names.get(uid) in by_job}

    def _reconciled(self, training: TrainingJob) -> tuple[bool, bool]:
        """Create its Job where there is none, and say how it is; return whether each was needed."""
        if training.phase in ENDS:
            return False, False  # an end is an end, whatever becomes of its Job
        job, created, refused = None, False, None
        try:
            job, created = self._job_of(training)
        except RejectedError as fault:
            refused = ("Failed", f"its Job is not accepted: {fault.problem}")
        except (ConflictError, MissingError, UnreachableError):
            raise
        except KubernetesError as fault:
            with suppress(StewardError):  # the refusal itself is what has to be reported
                self._say(training, None, ("Refused", f"its Job is tried again: {fault.problem}"))
            raise
        return created, self._say(training, job, refused)

    def _say(
        self, training: TrainingJob, job: BatchJob | None, refused: tuple[str, str] | None
    ) -> bool:
        """Write the status and the Event of a new phase; return whether that was needed."""
        now = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        status = status_of(training, job, now=now, refused=refused)
        if status == training.status:
            return False
        if status["phase"] != training.phase:
            self._event(training, event_of(training, status, now))
        meta = {"resourceVersion": training.version, "uid": training.uid}
        self._api.patch(f"{training.path}/status", {"metadata": meta, "status": status})
        return True

    def _job_of(self, training: TrainingJob) -> tuple[BatchJob | None, bool]:
        """Return its Job, created if there never was one, and whether that was now."""
        known = self._jobs.objects.get(training.job_uid)
        if known is not None:
            return known, False
        if training.job_uid:
            return self._same(training), False
        self._refuse_stale(training)
        try:
            made = self._api.create(training.jobs_path, training.job())
        except ConflictError:
            # An earlier process has made it, and the watch has not told us yet.
            made = self._api.get(f"{training.jobs_path}/{training.job_name}")
            return batch_job_from(made), False
        return batch_job_from(made), True

    def _refuse_stale(self, training: TrainingJob) -> None:
        """Raise a conflict if the server has a newer version: a Job may be in its status by now.

        A watch that is behind would otherwise make a Job again that was deleted meanwhile.
        """
        now = training_job_from(self._api.get(training.path))
        if now is None or (now.uid, now.version) != (training.uid, training.version):
            raise ConflictError(f"{training.path} has changed since", where="kubernetes")

    def _same(self, training: TrainingJob) -> BatchJob | None:
        """Return the Job of a status as the server has it: a watch may be behind, or it is gone."""
        try:
            raw = self._api.get(f"{training.jobs_path}/{training.job_name}")
        except MissingError:
            return None
        found = batch_job_from(raw)
        return found if found is not None and found.uid == training.job_uid else None

    def _event(self, training: TrainingJob, event: dict[str, Any]) -> None:
        try:
            self._api.create(f"/api/v1/namespaces/{training.namespace}/events", event)
        except ConflictError:
            return  # an earlier process has said so, and was stopped before it wrote the status


def _version(training: TrainingJob | None) -> str:
    return f"version {training.version}" if training else ""


def _spec(training: TrainingJob | None) -> str:
    return f"generation {training.generation}" if training else ""
