"""Arrivals in order of time: jobs, jobs whose dependencies have ended, and machines."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import MachineChange, Machines
from steward.model.trace import Trace
from steward.sim.lab.time_shares.job_rates import JobRates

__all__ = ["ArrivalQueue"]

Ints = NDArray[np.int64]


class ArrivalQueue:
    """Jobs by the time from which they may run; equal times in the order of the trace."""

    def __init__(self, trace: Trace, machines: Machines, work: JobRates) -> None:
        self.trace = trace
        self.changes = sorted(machines.changes, key=lambda change: change.t_s)
        room = np.bincount(machines.type, weights=machines.gpus, minlength=len(machines.types))
        fits = ((trace.gpus[:, None] <= room) & (work.rate > 0.0)).any(axis=1)
        self.too_large = ~fits & (trace.gpus > 0.0)
        self.waits_for = np.bincount(trace.after[:, 0], minlength=len(trace))
        self.followers: dict[int, list[int]] = {}
        for job, before in trace.after:
            self.followers.setdefault(int(before), []).append(int(job))
        free = np.flatnonzero((self.waits_for == 0) & ~self.too_large)
        self.queue = [(float(trace.submit_s[job]), int(job)) for job in free]
        heapq.heapify(self.queue)

    def next_s(self) -> float:
        """Return when something comes next; infinity if nothing does."""
        job_s = self.queue[0][0] if self.queue else np.inf
        change_s = self.changes[0].t_s if self.changes else np.inf
        return float(min(job_s, change_s)) if self.queue or self.changes else np.inf

    def jobs(self, now_s: float) -> tuple[Ints, list[tuple[int, float]]]:
        """Return the jobs that may run by now; apart from them, with times, those without GPUs."""
        come: list[int] = []
        alone: list[tuple[int, float]] = []
        while self.queue and self.queue[0][0] <= now_s:
            from_s, job = heapq.heappop(self.queue)
            if self.trace.gpus[job] > 0.0:
                come.append(job)
            else:
                alone.append((job, from_s))
                self.ended(job, from_s + float(self.trace.duration_s[job]))
        return np.array(sorted(come), np.int64), alone

    def ended(self, job: int, at_s: float) -> None:
        """Release the jobs that waited for this job only."""
        for follower in self.followers.get(job, ()):
            self.waits_for[follower] -= 1
            if self.waits_for[follower] == 0 and not self.too_large[follower]:
                from_s = max(at_s, float(self.trace.submit_s[follower]))
                heapq.heappush(self.queue, (from_s, follower))

    def machine_changes(self, now_s: float) -> list[MachineChange]:
        """Return the changes that have happened by now."""
        come = [change for change in self.changes if change.t_s <= now_s]
        self.changes = self.changes[len(come) :]
        return come

    def notes(self) -> tuple[str, ...]:
        """Return which jobs could not run, and why."""
        large, waiting = int(self.too_large.sum()), int((self.waits_for > 0).sum())
        notes = []
        if large:
            notes.append(f"{large} jobs fit on no machine: too many GPUs, or a type not here")
        if waiting:
            notes.append(f"{waiting} jobs wait for jobs that never ended")
        return tuple(notes)
