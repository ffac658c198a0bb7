"""The jobs of a simulated fleet: more than it has nodes for, with saves, crashes and new starts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import count

import numpy as np

from steward.sim.health.plan import FleetPlan

__all__ = ["Running", "WorkQueue"]

HOUR_S = 3600.0
DEPTH = 30  # jobs that wait
HEAD_WAITS_S = 2 * HOUR_S  # then nothing smaller passes the first in line


@dataclass(slots=True)
class _Waiting:
    number: int
    nodes: int
    left_s: float  # work that is not saved yet
    since_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """A job on its nodes."""

    number: int
    rows: tuple[int, ...]
    began_s: float
    left_s: float
    end_s: float


class WorkQueue:
    """Whole nodes, first come first served; smaller ones pass while the first has not waited long.

    A crash takes a job back to its last save, and to the front of the queue.
    """

    def __init__(self, plan: FleetPlan, rng: np.random.Generator) -> None:
        self._plan = plan
        self._rng = rng
        self._queue: deque[_Waiting] = deque()
        self._numbers = count()
        weights = np.array(plan.job_weights)
        self._shares = weights / weights.sum()

    def start(self, free: list[int], t_s: float) -> list[Running]:
        """Start what fits on free nodes, in order."""
        self._fill(t_s)
        started: list[Running] = []
        kept: deque[_Waiting] = deque()
        blocked = False
        while self._queue:
            job = self._queue.popleft()
            if blocked or job.nodes > len(free):
                blocked = blocked or t_s - job.since_s > HEAD_WAITS_S
                kept.append(job)
                continue
            rows, free = tuple(free[: job.nodes]), free[job.nodes :]
            end_s = t_s + self._plan.start_h * HOUR_S + job.left_s
            started.append(Running(job.number, rows, t_s, job.left_s, end_s))
        self._queue = kept
        return started

    def crash(self, job: Running, t_s: float) -> float:
        """Put a job back; return the node-hours of work that were saved."""
        every_s = self._plan.checkpoint_h * HOUR_S
        ran_s = max(0.0, t_s - job.began_s - self._plan.start_h * HOUR_S)
        saved_s = min(job.left_s, ran_s // every_s * every_s)
        left = _Waiting(job.number, len(job.rows), job.left_s - saved_s, t_s)
        self._queue.appendleft(left)
        return saved_s / HOUR_S * len(job.rows)

    def end(self, job: Running) -> float:
        """Return the node-hours of work of a job that has ended."""
        return job.left_s / HOUR_S * len(job.rows)

    def useful_h(self, job: Running, t_s: float) -> float:
        """Return the node-hours of work that a running job has done."""
        ran_s = max(0.0, t_s - job.began_s - self._plan.start_h * HOUR_S)
        return min(job.left_s, ran_s) / HOUR_S * len(job.rows)

    def _fill(self, t_s: float) -> None:
        while len(self._queue) < DEPTH:
            nodes = int(self._rng.choice(self._plan.job_nodes, p=self._shares))
            hours = self._plan.job_h * float(self._rng.lognormal(0.0, 0.8))
            fits = min(nodes, max(1, self._plan.nodes // 4))
            self._queue.append(_Waiting(next(self._numbers), fits, hours * HOUR_S, t_s))
