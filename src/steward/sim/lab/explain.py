"""Why a job waited: what ran instead, what was free and where, and how its tenant stood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.free_capacity import FreeCapacity, capacity_between
from steward.sim.lab.judge.timeline_events import horizon, quotas, ready_s
from steward.sim.lab.report.formatting import count, number, percent, span

__all__ = ["Holder", "Wait", "WaitExplanation", "row_of", "why_waited"]

Floats = NDArray[np.float64]
MOST = 5  # holders that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who had GPUs while the job waited."""

    name: str
    gpu_h: float
    gpus: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One time in which a job was ready and did not run. The three kinds of time add up to it."""

    from_s: float
    to_s: float
    after: str  # "submission", "dependencies" or "preemption"
    full_s: float  # fewer GPUs were free than it asks for
    scattered_s: float  # enough were free, but on no node together
    kept_s: float  # enough were free where they could be used, and it did not get them
    most_free_gpus: float
    inside_quota_s: float  # its tenant could have run it within its guarantee
    tenant_held_gpus: float  # mean
    queued_before: int  # jobs that waited already
    tenants: tuple[Holder, ...]
    holders: tuple[Holder, ...]
    overtook: tuple[Holder, ...]  # submitted later, ran meanwhile
    overtook_jobs: int
    overtook_gpu_h: float

    @property
    def length_s(self) -> float:
        """How long it lasted."""
        return self.to_s - self.from_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    """The whole answer, in words and as a record."""

    job: str
    policy: str
    tenant: str
    gpus: float
    duration_s: float
    submit_s: float
    ready_s: float
    start_s: float
    end_s: float
    quota_gpus: float
    cluster_gpus: int
    waits: tuple[Wait, ...]

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON knows it, with the words."""
        return {**asdict(self), "says": list(self.lines())}

    def lines(self) -> Iterator[str]:
        """Tell it; lines that begin with spaces belong to the one before."""
        whose = f" of {self.tenant}" if self.tenant else ""
        yield (
            f"job {self.job}{whose} under {self.policy}: {number(self.gpus)} GPUs for "
            f"{span(self.duration_s)}, submitted at {span(self.submit_s)}"
        )
        yield f"  {_fate(self)}"
        if self.ready_s > self.submit_s:
            held = (
                "for ever" if self.ready_s == float("inf") else span(self.ready_s - self.submit_s)
            )
            yield f"  jobs that it depends on kept it back {held}"
        for wait in self.waits:
            yield from _told(self, wait)


def row_of(trace: Trace, job: str) -> int:
    """Return the row of a job by its id."""
    rows = np.flatnonzero(trace.job_id == job)
    if not len(rows):
        first = ", ".join(str(each) for each in trace.job_id[:3])
        near = did_you_mean(job, [str(each) for each in trace.job_id[:10_000]])
        raise StewardError(
            f"there is no job '{job}' in the trace; ids look like: {first}",
            where=trace.name,
            hint=near or "`--job` takes an id of the trace",
        )
    return int(rows[0])


def why_waited(replay: Replay, job: int) -> WaitExplanation:
    """Explain every wait of a job (a row of the trace)."""
    trace = replay.trace
    ready = float(ready_s(replay)[job])
    tenant = int(trace.tenant[job])
    return WaitExplanation(
        job=str(trace.job_id[job]),
        policy=replay.policy,
        tenant=trace.tenants[tenant] if tenant >= 0 else "",
        gpus=float(trace.gpus[job]),
        duration_s=float(trace.duration_s[job]),
        submit_s=float(trace.submit_s[job]),
        ready_s=ready,
        start_s=float(replay.start_s[job]),
        end_s=float(replay.end_s[job]),
        quota_gpus=float(quotas(replay)[tenant]),
        cluster_gpus=replay.machines.total_gpus,
        waits=tuple(_wait(replay, job, *each) for each in _gaps(replay, job, ready)),
    )


def _gaps(replay: Replay, job: int, ready: float) -> Iterator[tuple[float, float, str]]:
    """Return when the job was ready and did not run, and what had gone before."""
    segments = replay.segments
    mine = np.flatnonzero((segments.job == job) & (segments.stop_s > segments.start_s))
    mine = mine[np.argsort(segments.start_s[mine], kind="stable")]
    end_s = float(replay.end_s[job])
    last_s = horizon(replay)[1] if np.isnan(end_s) else end_s
    since, after = ready, "dependencies" if ready > replay.trace.submit_s[job] else "submission"
    for i in mine:
        if segments.start_s[i] > since + 1e-9:
            yield since, float(segments.start_s[i]), after
        since, after = float(segments.stop_s[i]), "preemption"
    if last_s > since + 1e-9:
        yield since, last_s, after


def _wait(replay: Replay, job: int, from_s: float, to_s: float, after: str) -> Wait:
    trace = replay.trace
    asked, tenant = float(trace.gpus[job]), int(trace.tenant[job])
    room = capacity_between(replay, from_s, to_s, tenant=tenant)
    quota = float(quotas(replay)[tenant])
    enough = room.free_gpus >= asked - 1e-6
    together = room.free_together >= asked - 1e-6
    scattered = enough & ~together & (asked <= float(replay.machines.gpus.max(initial=0)))
    gpu_h = _gpu_h(room, len(trace))
    later = (trace.submit_s > trace.submit_s[job]) & (gpu_h > 0)
    return Wait(
        from_s=from_s,
        to_s=to_s,
        after=after,
        full_s=float(room.length_s[~enough].sum()),
        scattered_s=float(room.length_s[scattered].sum()),
        kept_s=float(room.length_s[enough & ~scattered].sum()),
        most_free_gpus=float(room.free_gpus.max(initial=0.0)),
        inside_quota_s=float(room.length_s[room.tenant_gpus + asked <= quota + 1e-6].sum()),
        tenant_held_gpus=float((room.tenant_gpus * room.length_s).sum()) / (to_s - from_s),
        queued_before=_queued(replay, job, from_s),
        tenants=_tenants(trace, gpu_h),
        holders=_jobs(trace, gpu_h, gpu_h > 0),
        overtook=_jobs(trace, gpu_h, later),
        overtook_jobs=int(later.sum()),
        overtook_gpu_h=float(gpu_h[later].sum()),
    )


def _gpu_h(room: FreeCapacity, jobs: int) -> Floats:
    return np.bincount(room.job, room.gpu_s, minlength=jobs).astype(np.float64) / 3600.0


def _queued(replay: Replay, job: int, t_s: float) -> int:
    """Count the jobs that were there before this one and waited at a time."""
    segments = replay.segments
    ends = np.where(np.isnan(replay.end_s), np.inf, replay.end_s)
    there = (ready_s(replay) <= t_s) & (ends > t_s)
    there[segments.job[(segments.start_s <= t_s) & (segments.stop_s > t_s)]] = False
    there[job] = False
    before = np.arange(len(there)) < job
    return int((there & ((replay.trace.submit_s < t_s) | before)).sum())


def _tenants(trace: Trace, gpu_h: Floats) -> tuple[Holder, ...]:
    names = (*trace.tenants, "no tenant")
    held = np.bincount(trace.tenant + 1, gpu_h, minlength=len(names))
    held = np.append(held[1:], held[0])
    order = [int(i) for i in np.argsort(-held, kind="stable")[:MOST] if held[i] > 0]
    return tuple(Holder(name=names[i], gpu_h=float(held[i])) for i in order)


def _jobs(trace: Trace, gpu_h: Floats, which: NDArray[np.bool_]) -> tuple[Holder, ...]:
    rows = np.flatnonzero(which)
    rows = rows[np.argsort(-gpu_h[rows], kind="stable")][:MOST]
    return tuple(
        Holder(name=str(trace.job_id[i]), gpu_h=float(gpu_h[i]), gpus=float(trace.gpus[i]))
        for i in rows
    )


# -- words -------------------------------------------------------------------------------------


def _fate(told: WaitExplanation) -> str:
    waited = sum(wait.length_s for wait in told.waits)
    if told.gpus > told.cluster_gpus:
        return f"it can never run: the cluster has {told.cluster_gpus} GPUs"
    if np.isnan(told.end_s):
        return f"it did not finish; it waited {span(waited)}"
    total = told.end_s - told.submit_s
    if not told.waits:
        return f"it did not wait, and ended after {span(total)}"
    share = percent(waited / total)
    return f"it ended after {span(total)}; {span(waited)} of that ({share}) it waited"


def _told(told: WaitExplanation, wait: Wait) -> Iterator[str]:
    yield (
        f"from {span(wait.from_s)} to {span(wait.to_s)} it waited {span(wait.length_s)} "
        f"after {_AFTER[wait.after]}, behind {count(wait.queued_before, 'job')} in the queue"
    )
    asked = number(told.gpus)
    if wait.full_s > 0:
        yield f"  {span(wait.full_s)}: too few GPUs were free (it asks for {asked})"
    if wait.scattered_s > 0:
        yield f"  {span(wait.scattered_s)}: {asked} GPUs were free, but on no node together"
    if wait.kept_s > 0:
        yield f"  {span(wait.kept_s)}: {asked} GPUs were free, and the policy kept them for others"
    yield f"  {_quota(told, wait)}"
    if wait.tenants:
        yield f"  ran meanwhile: {_names(wait.tenants)}"
        yield f"  the largest of them: {_names(wait.holders, job=True)}"
    if wait.overtook_jobs:
        yield (
            f"  {count(wait.overtook_jobs, 'job')} submitted later ran meanwhile, on "
            f"{number(wait.overtook_gpu_h)} GPU-hours: {_names(wait.overtook, job=True)}"
        )


_AFTER = {
    "submission": "its submission",
    "dependencies": "the jobs that it depends on",
    "preemption": "it was preempted",
}


def _quota(told: WaitExplanation, wait: Wait) -> str:
    whose = f"tenant {told.tenant}" if told.tenant else "its tenant"
    held = (
        f"{whose} held {number(wait.tenant_held_gpus)} of {number(told.quota_gpus)} guaranteed GPUs"
    )
    if wait.inside_quota_s <= 0:
        return f"{held}: this job would have gone beyond its quota"
    return f"{held}; for {span(wait.inside_quota_s)} this job was within its quota"


def _names(holders: tuple[Holder, ...], *, job: bool = False) -> str:
    if job:
        return ", ".join(
            f"job {each.name} ({number(each.gpus)} GPUs, {number(each.gpu_h)} GPU-hours)"
            for each in holders
        )
    return ", ".join(f"{each.name} {number(each.gpu_h)} GPU-hours" for each in holders)
