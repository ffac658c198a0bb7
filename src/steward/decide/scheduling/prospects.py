"""Why a job waits: who goes before it, what it lacks, when it will start, what would start it now.

Nothing is guessed beside the policy. It is asked about moments that come later, with run times
that are low, likely and high, and about ones that differ from this one by a single change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.live.queue_state import usable_gpus
from steward.decide.scheduling.lookahead import CASES, look_ahead
from steward.decide.scheduling.supposed import SupposedMoment
from steward.model.identity import JobId
from steward.model.job import Job, JobState
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["Prospect", "StartsBetween", "WaitChange", "prospect_of"]

MOST_OWN = 20  # own running jobs whose end is tried as a change


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChange:
    """One change that would start the job now. `what`: gpus, time, priority, tenant, cancel."""

    what: str
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsBetween:
    """When it starts, if all run times are low, likely or high. None: nobody knows.

    `unknown` are the jobs whose end would have to be known; `beyond` says that it is later than
    `mid_s`, so much is ahead.
    """

    low_s: float | None
    mid_s: float | None
    high_s: float | None
    unknown: tuple[JobId, ...] = ()
    beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What can be said of a job that waits."""

    job: JobId
    starts_now: bool
    room_by: tuple[JobId, ...]  # who would have to make room if the policy had its way now
    reserved: bool  # something is decided about it already
    limits: tuple[str, ...]
    holders: tuple[JobId, ...]  # who runs on what it could use
    ahead: tuple[JobId, ...]  # who starts before it, in that order
    starts: StartsBetween
    changes: tuple[WaitChange, ...]  # the cheapest first


def prospect_of(
    policy: Policy[ClusterView],
    view: ClusterView,
    job: JobId,
    *,
    stops: bool,
    most_steps: int | None = None,
    with_changes: bool = True,
) -> Prospect:
    """Return why a waiting job waits; `stops` says whether jobs are stopped for others here.

    An answer that may not take long looks fewer steps ahead, and tries no changes.
    """
    looker = _Looker(
        policy=policy, view=view, job=view.details[job], stops=stops, most_steps=most_steps
    )
    return looker.look(with_changes=with_changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Looker:
    policy: Policy[ClusterView]
    view: ClusterView
    job: Job
    stops: bool
    most_steps: int | None = None

    @property
    def row(self) -> int:
        return int(np.flatnonzero(self.view.jobs.ids == self.job.id)[0])

    def look(self, *, with_changes: bool = True) -> Prospect:
        now, room_by = self._now()
        ahead, starts = self._ahead()
        return Prospect(
            job=self.job.id,
            starts_now=now,
            room_by=room_by,
            reserved=bool(self.view.jobs.reserved[self.row]),
            limits=tuple(self._limits()),
            holders=self._holders(),
            ahead=ahead,
            starts=starts,
            changes=tuple(self._changes()) if with_changes and not now else (),
        )

    def _now(self) -> tuple[bool, tuple[JobId, ...]]:
        """Return whether the policy would start it now, and who would make room for it."""
        found = SupposedMoment(self.view).decided(self.policy, stops=True)
        mine = [each for each in found if each.job == self.job.id]
        needed = {id_ for each in mine for id_ in each.after}
        room = tuple(each.job for each in found if each.id in needed)
        return bool(mine) and (self.stops or not room), room

    # -- what it lacks ---------------------------------------------------------------------------

    def _fitting(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the GPUs of a kind that it can use, and those of them that anybody can have."""
        view, mask = self.view, int(self.view.jobs.model_mask[self.row])
        fits = (mask >> view.gpus.model) & 1 == 1
        return fits, fits & usable_gpus(view)

    def _limits(self) -> Iterator[str]:
        fits, usable = self._fitting()
        need, there, all_ = self.job.shape.gpus, int(usable.sum()), int(fits.sum())
        free = int((usable & (self.view.gpus.owner < 0)).sum())
        if there < all_:
            yield f"{all_ - there} of {all_} GPUs can't be used: broken, lent, draining or claimed"
        if free < need:
            yield f"it asks for {need} GPUs, and {free} of {there} are free"
        else:
            yield f"{free} GPUs are free, but others go first"
        tenant = int(self.view.jobs.tenant[self.row])
        if tenant >= 0:
            held = int(self.view.tenants.held[tenant])
            guaranteed = int(self.view.tenants.guaranteed[tenant])
            yield f"its tenant {self.job.tenant} holds {held} GPUs, {guaranteed} are guaranteed"

    def _holders(self) -> tuple[JobId, ...]:
        fits, _ = self._fitting()
        owners = self.view.gpus.owner[fits & (self.view.gpus.owner >= 0)]
        return tuple(self.view.job_id(int(row)) for row in dict.fromkeys(owners.tolist()))

    # -- when ------------------------------------------------------------------------------------

    def _ahead(self) -> tuple[tuple[JobId, ...], StartsBetween]:
        low, mid, high = (
            look_ahead(
                self.policy,
                self.view,
                self.job.id,
                case=case,
                stops=self.stops,
                most_steps=self.most_steps,
            )
            for case in CASES
        )
        times = sorted(each.t_s for each in (low, mid, high) if each.known)
        return mid.before, StartsBetween(
            low_s=times[0] if times else None,
            mid_s=mid.t_s if mid.known or mid.beyond else None,
            high_s=times[-1] if high.known else None,
            unknown=tuple(dict.fromkeys((*mid.unknown, *high.unknown))),
            beyond=mid.beyond,
        )

    # -- what would help -------------------------------------------------------------------------

    def _changes(self) -> Iterator[WaitChange]:
        supposed = SupposedMoment(self.view)
        tried: set[str] = set()
        for change, jobs in self._candidates():
            if change.what in tried:
                continue  # the cheapest of its kind has been found
            kept = [supposed.jobs[each.id] for each in jobs]
            supposed.put(*jobs)
            found = supposed.decided(self.policy, stops=self.stops)
            if any(each.job == self.job.id for each in found):
                tried.add(change.what)
                yield change
            supposed.put(*kept)

    def _candidates(self) -> Iterator[tuple[WaitChange, tuple[Job, ...]]]:
        """Return single changes, cheapest first within each kind."""
        job, view = self.job, self.view
        for part in (0.5, 0.25, 0.1):
            if job.time_limit_s is not None:
                limit_s = job.time_limit_s * part
                yield (
                    WaitChange(
                        what="time", value=f"{limit_s:g}", text=f"a time limit of {limit_s:.0f} s"
                    ),
                    (replace(job, time_limit_s=limit_s),),
                )
        for gpus in range(job.shape.gpus - 1, 0, -1):
            yield (
                WaitChange(what="gpus", value=str(gpus), text=f"ask for {gpus} GPUs"),
                (replace(job, shape=replace(job.shape, gpus=gpus)),),
            )
        yield from self._own_jobs()
        top = max(int(each) for each in view.jobs.priority) + 1
        yield (
            WaitChange(what="priority", value=str(top), text=f"priority {top} (by an operator)"),
            (replace(job, priority=top),),
        )
        for tenant in view.tenants.ids:
            if tenant != job.tenant:
                yield (
                    WaitChange(what="tenant", value=str(tenant), text=f"run as tenant {tenant}"),
                    (replace(job, tenant=tenant),),
                )

    def _own_jobs(self) -> Iterator[tuple[WaitChange, tuple[Job, ...]]]:
        """Return own jobs that could be given up for it, the smallest and youngest first."""
        details, job = self.view.details, self.job
        mine = [
            each
            for id_ in self._holders()
            if (each := details[id_]).user == job.user and not each.held
        ]
        mine.sort(key=lambda each: (len(each.gpus), -(each.start_s or 0.0)))
        for each in mine[:MOST_OWN]:
            gone = each.changed(self.view.t_s, JobState.CANCELLED, "supposed")
            text = f"cancel your job {each.id}"
            yield WaitChange(what="cancel", value=each.id, text=text), (gone,)
