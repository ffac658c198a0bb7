"""Jobs that come, are placed by a rule, slow one another down, and end: a replay with a network.

Whenever a job starts or ends, the speeds of those that it can meet are simulated anew, iteration
by iteration (`steady_state`). Which of equal paths a job's flows take is drawn once per job and no
rule sees it. All rules get the same queue: in the order of arrival, whoever fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.candidates import Candidate
from steward.decide.fabric.least_contention import NetworkLoad
from steward.decide.fabric.moves import MovableJob, NetworkMoves
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.node_map import NodeMap
from steward.model.fabric.placed_job import (
    PlacedJob,
    TrafficProfile,
    contention_of,
    entries_of,
    ideal_s,
)
from steward.sim.fabric.steady_state import PLAIN, Losses, measured_slowdown

__all__ = ["PlacementRule", "ReplayJob", "ReplayResult", "TrueSpeeds", "replay_placements"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PlacementRule = Callable[[NetworkLoad, str, TrafficProfile, int], Candidate | None]

MOVE_S = 120.0  # to save, start elsewhere and restore

_ITERATIONS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """A job of a trace: it takes `work_s` on whole nodes of an idle network."""

    job: str
    submit_s: float
    gpus: int
    work_s: float
    profile: TrafficProfile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayResult:
    """When each job started and ended, and how slow it was meanwhile."""

    start_s: Floats
    end_s: Floats
    decision_s: Floats  # wall clock of each call of the rule
    moves: int
    refused: int  # calls that placed nothing though enough GPUs were free


@dataclass(slots=True, kw_only=True, eq=False)
class TrueSpeeds:
    """What running jobs really measure. Groups of jobs that meet are simulated once."""

    place: NodeMap
    seed: int
    losses: Losses = PLAIN
    iterations: int = _ITERATIONS
    _known: dict[frozenset[str], dict[str, float]] = field(default_factory=dict)

    def slowdowns(self, jobs: Sequence[PlacedJob]) -> dict[str, float]:
        """Return each job's iteration time against whole nodes of an idle network."""
        if not jobs:
            return {}
        entries = [entries_of(self.place, each, self._salt(each.job)) for each in jobs]
        scene = contention_of(self.place, jobs, entries)
        small, _ = reduced(scene, 1.0 if self.losses == PLAIN else 0.5)
        rates = alone_rate(scene)
        size = int(self.place.gpus.max())
        out: dict[str, float] = {}
        for rows in _groups(small):
            met = self._met(small, rows, jobs)
            for row in rows:
                job = jobs[row]
                ideal = ideal_s(job.profile, -(-job.total_gpus // size), self.place)
                alone = iteration_s(scene, row, rates[row])
                out[job.job] = alone * met[job.job] / ideal
        return out

    def _salt(self, job: str) -> int:
        value = self.seed * 7919 + 17
        for letter in job.encode():
            value = (value * 137 + letter) % 1_000_000_007
        return value

    def _met(
        self, scene: Contention, rows: list[int], jobs: Sequence[PlacedJob]
    ) -> dict[str, float]:
        """Return the slowdown of each job of a group against running alone where it is."""
        if len(rows) == 1:
            return {jobs[rows[0]].job: 1.0}
        key = frozenset(f"{jobs[row].job} {jobs[row].nodes}" for row in rows)
        if key not in self._known:
            part = _part(scene, rows)
            took = measured_slowdown(
                part, seed=self.seed, losses=self.losses, iterations=self.iterations
            )
            self._known[key] = {
                jobs[row].job: max(1.0, float(each)) for row, each in zip(rows, took, strict=True)
            }
        return self._known[key]


def _groups(scene: Contention) -> list[list[int]]:
    """Return rows of jobs that meet on some link, directly or through others."""
    head = list(range(len(scene.compute_s)))

    def top(row: int) -> int:
        while head[row] != row:
            head[row] = head[head[row]]
            row = head[row]
        return row

    first_on: dict[int, int] = {}
    for row in range(len(head)):
        for link in scene.link[scene.job_first[row] : scene.job_first[row + 1]].tolist():
            other = first_on.setdefault(link, row)
            head[top(row)] = top(other)
    groups: dict[int, list[int]] = {}
    for row in range(len(head)):
        groups.setdefault(top(row), []).append(row)
    return list(groups.values())


def _part(scene: Contention, rows: list[int]) -> Contention:
    """Return some of the jobs, on their links."""
    picked = np.array(rows, np.int64)
    ranges = [np.arange(scene.job_first[row], scene.job_first[row + 1]) for row in rows]
    entries = np.concatenate(ranges)
    links, link = np.unique(scene.link[entries], return_inverse=True)
    return Contention(
        scene.compute_s[picked],
        scene.overlap_share[picked],
        scene.volume_bytes[picked],
        scene.rate_limit[picked],
        scene.capacity[links],
        np.cumsum([0, *(len(each) for each in ranges)], dtype=np.int64),
        link.reshape(-1).astype(np.int64),
        scene.flows[entries],
        scene.incast_share,
    )


Typical = tuple[tuple[int, ...], tuple[float, ...]]


def replay_placements(
    place: NodeMap,
    jobs: Sequence[ReplayJob],
    rule: PlacementRule,
    *,
    speeds: TrueSpeeds,
    typical: Typical = ((), ()),
    moves: NetworkMoves | None = None,
) -> ReplayResult:
    """Return when each job started and ended under a placement rule.

    Jobs have to come in the order of their submission, and each has to fit an empty cluster. With
    `moves`, the best one is carried out whenever a job has started or ended.
    """
    replay = _Replay(place=place, jobs=jobs, rule=rule, speeds=speeds, typical=typical)
    while replay.step():
        replay.start_waiting()
        replay.measure()
        if moves is not None:
            replay.move(moves)
    return ReplayResult(
        start_s=replay.start,
        end_s=replay.end,
        decision_s=np.array(replay.took),
        refused=replay.refused,
        moves=replay.moved,
    )


class _Replay:
    """The queue, what runs, and how far it is."""

    def __init__(
        self,
        *,
        place: NodeMap,
        jobs: Sequence[ReplayJob],
        rule: PlacementRule,
        speeds: TrueSpeeds,
        typical: Typical,
    ) -> None:
        self.place, self.jobs, self.rule, self.speeds = place, jobs, rule, speeds
        self.typical = typical
        self.start, self.end = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
        self.took: list[float] = []
        self.refused = self.moved = self._arrived = 0
        self._t = 0.0
        self._free = place.gpus.copy()
        self._waiting: list[int] = []
        self._running: dict[int, PlacedJob] = {}
        self._left: dict[int, float] = {}  # seconds of work at full speed
        self._slow: dict[int, float] = {}

    def step(self) -> bool:
        """Go to the next arrival or end; return False when there is none."""
        ends = [(self._t + self._left[i] * self._slow[i], i) for i in self._running]
        end_s, done = min(ends, default=(np.inf, -1))
        arrives = self.jobs[self._arrived].submit_s if self._arrived < len(self.jobs) else np.inf
        now = min(end_s, arrives)
        if now == np.inf:
            return False
        for i in self._running:
            self._left[i] -= (now - self._t) / self._slow[i]
        self._t = now
        if end_s <= arrives:
            self._release(self._running.pop(done))
            self.end[done] = now
        else:
            self._waiting.append(self._arrived)
            self._arrived += 1
        return True

    def start_waiting(self) -> None:
        """Offer every waiting job to the rule, in the order of arrival."""
        for i in list(self._waiting):
            job = self.jobs[i]
            if job.gpus > self._free.sum():
                continue
            load = self._load()
            begun = time.perf_counter()
            chosen = self.rule(load, job.job, job.profile, job.gpus)
            self.took.append(time.perf_counter() - begun)
            if chosen is None:
                self.refused += 1
                continue
            self._waiting.remove(i)
            self._begin(i, chosen)
            self._left[i] = job.work_s
            self.start[i] = self._t

    def measure(self) -> None:
        """Simulate how fast the jobs are now."""
        wide = [each for each in self._running.values() if len(each.nodes) > 1]
        found = self.speeds.slowdowns(wide)
        self._slow = {row: found.get(self.jobs[row].job, 1.0) for row in self._running}

    def move(self, moves: NetworkMoves) -> None:
        """Carry out the best move, if there is one.

        How long a job still runs is not known: as long as it has run, as heavy tails have it.
        """
        known = {
            self.jobs[row].job: MovableJob(
                slowdown=self._slow[row], left_s=self._t - float(self.start[row]), move_s=MOVE_S
            )
            for row in self._running
        }
        best = moves.best(self._load(), known)
        if best is None:
            return
        row = next(row for row, each in self._running.items() if each is best.job)
        self._release(best.job)
        self._begin(row, best.target)
        self._left[row] += MOVE_S
        self.moved += 1
        self.measure()

    def _load(self) -> NetworkLoad:
        return NetworkLoad(
            place=self.place,
            free=self._free.copy(),
            jobs=tuple(self._running.values()),
            sizes=self.typical[0],
            weights=self.typical[1],
        )

    def _begin(self, row: int, chosen: Candidate) -> None:
        job = self.jobs[row]
        placed = PlacedJob(job=job.job, profile=job.profile, nodes=chosen.nodes, gpus=chosen.gpus)
        self._running[row] = placed
        np.subtract.at(self._free, np.array(placed.nodes), np.array(placed.gpus))
        assert (self._free >= 0).all(), "a rule gave a GPU away twice"  # noqa: S101 - our mistake

    def _release(self, job: PlacedJob) -> None:
        np.add.at(self._free, np.array(job.nodes), np.array(job.gpus))
