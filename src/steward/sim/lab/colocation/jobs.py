"""State of each job beside its progress, and the queues."""

from __future__ import annotations

import numpy as np

from steward.decide.scheduling.colocation.interface import JobKind, Solo
from steward.sim.lab.colocation.inputs import ReplayInputs
from steward.sim.lab.colocation.run_times import MeanRunTimes
from steward.sim.lab.colocation.sorted_queues import Entry, SortedQueues

__all__ = ["Jobs"]

_ALL = 0  # the only kind in the queue of jobs that were not profiled yet


class Jobs:
    """Columns are lists by row of the trace: they are read and written one at a time."""

    def __init__(self, stage: ReplayInputs) -> None:
        trace, settings = stage.trace, stage.settings
        n = len(trace)
        price = np.where(np.isnan(trace.checkpoint_s), settings.checkpoint_s, trace.checkpoint_s)
        self._policy, self._speeds = stage.policy, stage.speeds
        self.want = stage.wants.of_job
        self.gpus: list[float] = trace.gpus.tolist()
        self.price_s: list[float] = price.tolist()
        self.duration_s: list[float] = trace.duration_s.tolist()
        self.known = [stage.profiling is None] * n  # how it bears sharing
        self.entry: list[Entry] = [(0.0, -1, job) for job in range(n)]
        self.starts = [0] * n
        self.first_s = [np.nan] * n
        self.end_s = [np.nan] * n
        self.lost_s = [0.0] * n
        self.stops = [0] * n
        self.past = MeanRunTimes(trace)
        self.waiting: SortedQueues[JobKind] = SortedQueues()
        self.unprofiled: SortedQueues[int] = SortedQueues()
        self.alone: SortedQueues[tuple[float, int]] = SortedQueues()
        self.solos: SortedQueues[Solo] = SortedQueues()
        self._solo: dict[int, Solo] = {}  # of those in that line
        self._came = 0
        self.kind: list[JobKind] = [self._kind(job) for job in range(n)]

    def _kind(self, job: int) -> JobKind:
        speed = self._speeds.shared_speed[job] if self.known[job] else np.nan
        score = self._policy.score(speed)
        return JobKind(self.gpus[job], score, self.want[job], self._speeds.model[job])

    def come(self, job: int) -> None:
        """Set the number of an arriving job."""
        self._came += 1
        self.entry[job] = (self.gpus[job], self._came, job)

    def wait_for_profiling(self, job: int) -> bool:
        """Queue a new job for the partition; return whether it is the first."""
        _, came, _ = self.entry[job]
        self.entry[job] = (self.gpus[job], came, job)
        return self.unprofiled.add(_ALL, self.entry[job])

    def stop_waiting_for_profiling(self, job: int) -> None:
        """Remove a job from the queue of the partition."""
        self.unprofiled.drop(_ALL, self.entry[job])

    def wait(self, job: int) -> bool:
        """Queue a job for the cluster; return whether it is the first of its kind."""
        _, came, _ = self.entry[job]
        rank = self._policy.rank(self.past.expected_s(job), self.gpus[job])
        self.entry[job] = (rank, came, job)
        return self.waiting.add(self.kind[job], self.entry[job])

    def learn(self, job: int) -> None:
        """Note that it is now known how a job bears sharing."""
        self.known[job] = True
        self.kind[job] = self._kind(job)

    def be_alone(self, job: int, gpu_type: int) -> None:
        """Show a job as one that others can join, if it has whole GPUs."""
        kind = self.kind[job]
        if kind.gpus >= 1.0:
            self.alone.add((kind.gpus, kind.score), self.entry[job])
            self._solo[job] = solo = Solo(kind.gpus, kind.model, gpu_type)
            self.solos.add(solo, self.entry[job])

    def be_alone_no_more(self, job: int) -> None:
        kind = self.kind[job]
        if kind.gpus >= 1.0:
            self.alone.drop((kind.gpus, kind.score), self.entry[job])
            self.solos.drop(self._solo.pop(job), self.entry[job])

    def start(self, job: int, now_s: float) -> None:
        """Note that a job starts."""
        self.starts[job] += 1
        if self.starts[job] == 1:
            self.first_s[job] = now_s
