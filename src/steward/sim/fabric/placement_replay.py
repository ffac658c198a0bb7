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


@dataclass(slots=True, kw_only=True, eq=False)
class _State:
    """The queue and what runs."""

    free: Ints
    waiting: list[int] = field(default_factory=list)
    running: dict[int, PlacedJob] = field(default_factory=dict)
    left: dict[int, float] = field(default_factory=dict)
    slow: dict[int, float] = field(default_factory=dict)
    start: dict[int, float] = field(default_factory=dict)


def replay_placements(
    place: NodeMap,
    jobs: Sequence[ReplayJob],
    rule: PlacementRule,
    *,
    speeds: TrueSpeeds,
    typical: tuple[tuple[int, ...], tuple[float, ...]] = ((), ()),
    moves: NetworkMoves | None = None,
) -> ReplayResult:
    """Return when each job started and ended under a placement rule.

    Jobs have to come in the order of their submission, and each has to fit an empty cluster.
    """
    state = _State(free=place.gpus.copy())
    start, end = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
    took: list[float] = []
    refused, moved, t, arriving = 0, 0, 0.0, 0
    while arriving < len(jobs) or state.running or state.waiting:
        ending = min(((t + state.left[i] * state.slow[i], i) for i in state.running), default=None)
        arrives = jobs[arriving].submit_s if arriving < len(jobs) else np.inf
        if ending is None and arrives == np.inf:
            break  # what waits does not fit an empty cluster
        now = arrives if ending is None or arrives <= ending[0] else ending[0]
        for i in state.running:
            state.left[i] -= (now - t) / state.slow[i]
        t = now
        if ending is not None and ending[0] <= arrives:
            done = ending[1]
            gone = state.running.pop(done)
            np.add.at(state.free, np.array(gone.nodes), np.array(gone.gpus))
            end[done] = t
        else:
            state.waiting.append(arriving)
            arriving += 1
        for i in list(state.waiting):
            if jobs[i].gpus > state.free.sum():
                continue
            load = _load(place, state, typical)
            begun = time.perf_counter()
            chosen = rule(load, jobs[i].job, jobs[i].profile, jobs[i].gpus)
            took.append(time.perf_counter() - begun)
            if chosen is None:
                refused += 1
                continue
            state.waiting.remove(i)
            _begin(state, i, jobs[i], chosen)
            start[i] = state.start[i] = t
        _measure(state, jobs, speeds)
        if moves is not None and _moved(moves, _load(place, state, typical), (state, jobs), t):
            moved += 1
            _measure(state, jobs, speeds)
    return ReplayResult(
        start_s=start, end_s=end, decision_s=np.array(took), refused=refused, moves=moved
    )


def _load(
    place: NodeMap, state: _State, typical: tuple[tuple[int, ...], tuple[float, ...]]
) -> NetworkLoad:
    return NetworkLoad(
        place=place,
        free=state.free.copy(),
        jobs=tuple(state.running.values()),
        sizes=typical[0],
        weights=typical[1],
    )


def _moved(
    moves: NetworkMoves, load: NetworkLoad, what: tuple[_State, Sequence[ReplayJob]], t: float
) -> bool:
    """Carry out the best move, if there is one.

    How long a job still runs is not known: as long as it has run, as heavy tails have it.
    """
    state, jobs = what
    known = {
        jobs[row].job: MovableJob(
            slowdown=state.slow[row], left_s=t - state.start[row], move_s=MOVE_S
        )
        for row in state.running
    }
    best = moves.best(load, known)
    if best is None:
        return False
    row = next(row for row, each in state.running.items() if each is best.job)
    np.add.at(state.free, np.array(best.job.nodes), np.array(best.job.gpus))
    left = state.left[row] + MOVE_S
    _begin(state, row, jobs[row], best.target)
    state.left[row] = left
    return True


def _begin(state: _State, row: int, job: ReplayJob, chosen: Candidate) -> None:
    state.running[row] = PlacedJob(
        job=job.job, profile=job.profile, nodes=chosen.nodes, gpus=chosen.gpus
    )
    np.subtract.at(state.free, np.array(chosen.nodes), np.array(chosen.gpus))
    assert (state.free >= 0).all(), "a rule gave a GPU away twice"  # noqa: S101 - our own mistake
    state.left[row] = job.work_s


def _measure(state: _State, jobs: Sequence[ReplayJob], speeds: TrueSpeeds) -> None:
    found = speeds.slowdowns([each for each in state.running.values() if len(each.nodes) > 1])
    state.slow = {row: found.get(jobs[row].job, 1.0) for row in state.running}
