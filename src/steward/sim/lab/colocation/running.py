"""Running jobs: speed, expected end, and the record."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from steward.model.replay import Segments
from steward.model.trace import Trace
from steward.sim.lab.colocation.gpu_pools import HeldGpus
from steward.sim.lab.colocation.interference import Interference

__all__ = ["Agenda", "Gang", "PairEventOrder", "Running"]

_HALF = 0.5


class PairEventOrder(IntEnum):
    """Order of events at one instant."""

    END = 0
    CHANGE = 1
    ARRIVAL = 2
    PROFILED = 3
    TRIED = 4


class Agenda:
    """Future events in the total order (time, rank, sequence)."""

    def __init__(self) -> None:
        self.events: list[tuple[float, int, int, int, int]] = []
        self._sequence = 0

    def add(self, t_s: float, rank: int, subject: int, stamp: int = 0) -> None:
        """Note an event; whoever takes it looks whether the stamp still holds."""
        heapq.heappush(self.events, (t_s, rank, self._sequence, subject, stamp))
        self._sequence += 1


@dataclass(slots=True, eq=False)
class Gang:
    """GPUs held together, and the one or two jobs on them."""

    held: HeldGpus
    since_s: float
    one: int
    other: int = -1
    takes_turns: bool = False
    jobs: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = (self.one,)

    def set_jobs(self, one: int, other: int) -> None:
        self.one, self.other = one, other
        self.jobs = (one,) if other < 0 else (one, other)
        if other < 0:
            self.takes_turns = False


class Running:
    """Progress of every job, as lists by row of the trace."""

    def __init__(self, trace: Trace, speeds: Interference, agenda: Agenda) -> None:
        n = len(trace)
        self._speeds, self._agenda = speeds, agenda
        self._gpus: list[float] = trace.gpus.tolist()
        self.left_s: list[float] = trace.duration_s.tolist()
        self.begun_with_s = [0.0] * n  # what was left when it last started
        self.speed = [0.0] * n
        self.stamp = [0] * n
        self.gang: list[Gang | None] = [None] * n
        self._since_s = [0.0] * n
        self._span = [-1] * n
        self._spans: list[tuple[int, float, float, int, int, float]] = []
        self._stop_s: list[float] = []

    def share_of(self, gang: Gang, job: int) -> float:
        """Return a job's speed where it is, of its speed alone there."""
        if gang.other < 0:
            return 1.0
        if gang.takes_turns:
            return _HALF
        other = gang.other if job == gang.one else gang.one
        return self._speeds.beside(job, other, gang.held.kind)

    def begin(self, job: int, gang: Gang) -> None:
        """Note where a job starts; `pace` lets it run."""
        self.gang[job] = gang
        self.begun_with_s[job] = self.left_s[job]

    def pace(self, gang: Gang, now_s: float) -> None:
        """Set the jobs of a gang to the speed they can have now."""
        held, many = gang.held, len(gang.jobs)
        for job in gang.jobs:
            self.rest(job, now_s)
            speed = self._speeds.alone[job][held.kind] * held.slowdown * self.share_of(gang, job)
            self.speed[job], self._since_s[job] = speed, now_s
            self._span[job] = len(self._stop_s)
            self._stop_s.append(now_s)
            self._spans.append((job, now_s, self._gpus[job] / many, held.node, held.nodes, speed))
            self._agenda.add(
                now_s + self.left_s[job] / speed, PairEventOrder.END, job, self.stamp[job]
            )

    def rest(self, job: int, now_s: float) -> None:
        """Count what a job has done until now and close its span, if one is open."""
        span = self._span[job]
        self.stamp[job] += 1
        if span >= 0:
            done_s = (now_s - self._since_s[job]) * self.speed[job]
            self.left_s[job] = max(0.0, self.left_s[job] - done_s)
            self._stop_s[span] = now_s
            self._span[job] = -1

    def leave(self, job: int, now_s: float) -> Gang:
        """Take a job off its GPUs and return what it leaves."""
        gang = self.gang[job]
        assert gang is not None  # noqa: S101 - only who runs can leave
        self.rest(job, now_s)
        self.gang[job] = None
        others = [other for other in gang.jobs if other != job]
        gang.set_jobs(others[0] if others else -1, -1)
        return gang

    def segments(self) -> Segments:
        """Return the record; spans in which no time passed are left out."""
        table = np.array(self._spans, np.float64).reshape(-1, 6)
        stop_s = np.array(self._stop_s, np.float64)
        real = stop_s > table[:, 1]
        job, start_s, gpus, node, nodes, speed = table[real].T
        return Segments(
            job=job.astype(np.int64),
            start_s=start_s.copy(),
            stop_s=stop_s[real],
            gpus=gpus.copy(),
            node=node.astype(np.int64),
            nodes=nodes.astype(np.int64),
            speed=speed.copy(),
        )
