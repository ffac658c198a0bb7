"""Lets jobs that wait ask for as many GPUs as the same user's running ones have used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import RightSize, Tell
from steward.model.decision import Decision
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import QUEUED, RUNNING, ClusterView

__all__ = ["AskForWhatIsUsed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForWhatIsUsed:
    """Right-sizes the next jobs of a user who asks for more GPUs than a job of theirs has used.

    A job shows that when it has run for `after_s`, uses some of its GPUs, and has left the others
    alone ever since its first `settle_s`. Jobs that wait, of the same user, account and name, and
    that ask for as many, then ask for what it uses. Where none waits, its owner is told once.
    """

    after_s: float = 1800.0
    settle_s: float = 600.0
    check_after_s: float = 3600.0
    name: str = "ask-for-what-is-used"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what waiting jobs should ask for, in the order of the jobs that show it."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        known: set[tuple[str, str, str, int]] = set()
        for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
            job = view.details[view.job_id(row)]
            kind = (job.user, job.tenant, job.name, job.shape.gpus)
            used = self._used(view, row, job) if job.user and job.name and kind not in known else 0
            if not used:
                continue
            known.add(kind)
            because = f"job {job.id} ({job.name}) has used {used} of its {len(job.gpus)} GPUs"
            twins = list(_twins(view, kind))
            for twin in twins:
                action = RightSize(job=twin.id, before=twin.shape.gpus, count=used)
                text = f"{because} so far, and job {twin.id} asks for as many"
                yield self._decision(view, twin, action, text, seen=job)
            if not twins:
                text = f"{because}: ask for {used} next time (`steward jobs submit --gpus {used}`)"
                about = job_entity(job.id)
                tell = Tell(to=job.user, about=about, text=text, job=job.id)
                yield self._decision(view, job, tell, because, seen=job)

    def _used(self, view: ClusterView, row: int, job: Job) -> int:
        """Return how many of its GPUs a job uses; 0 if that is not known, or all of them."""
        start_s = float(view.jobs.start_s[row])
        if not view.t_s - start_s >= self.after_s or len(job.gpus) != job.shape.gpus:
            return 0
        gpus = np.flatnonzero((view.gpus.owner == row) & (view.gpus.borrower < 0))
        idle = view.gpus.quiet_since_s[gpus] <= start_s + self.settle_s  # NaN: not quiet
        busy = view.gpus.owner_busy_share[gpus]
        if len(gpus) != len(job.gpus) or np.isnan(busy).any() or not idle.any():
            return 0
        return int((~idle).sum())

    def _decision(
        self, view: ClusterView, about: Job, action: RightSize | Tell, because: str, *, seen: Job
    ) -> Decision:
        id_ = stable_id("d", self.name, action.type, about.id, about.submit_s, seen.id)
        return Decision(
            id=DecisionId(id_),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            check_after_s=self.check_after_s,
            tenant=about.tenant,
            subject=job_entity(about.id),
        )


def _twins(view: ClusterView, kind: tuple[str, str, str, int]) -> Iterator[Job]:
    """Return the jobs of a kind that wait, have not run yet, and are in nobody's hands."""
    for row in np.flatnonzero(view.jobs.state == QUEUED).tolist():
        job = view.details[view.job_id(row)]
        same = (job.user, job.tenant, job.name, job.shape.gpus) == kind
        if same and not job.held and not job.past.stops:
            yield job
