"""Running jobs that would gain more by going on elsewhere than saving and restoring costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from steward.decide.fabric.candidates import Candidate, candidates
from steward.decide.fabric.least_contention import LeastContention, NetworkLoad, Ranked
from steward.model.fabric.placed_job import PlacedJob

__all__ = ["MovableJob", "NetworkMove", "NetworkMoves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovableJob:
    """What is known of a running job beside where it runs."""

    slowdown: float  # measured, against whole nodes of an idle network
    left_s: float  # that it is expected to run for
    move_s: float  # to save, start elsewhere and restore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkMove:
    """A job, where it would go, and what that brings all jobs in GPU-seconds of computing."""

    job: PlacedJob
    target: Candidate
    gain_gpu_s: float  # after what the move costs
    cost_gpu_s: float
    slowdown_here: float
    slowdown_there: float

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        here, there = f"{self.slowdown_here:.2f}\u00d7", f"{self.slowdown_there:.2f}\u00d7"
        gained, spent = self.gain_gpu_s / 3600.0, self.cost_gpu_s / 3600.0
        return (
            f"job {self.job.job} runs at {here} where it is and would at {there} "
            f"({self.target.kind}); {gained:.1f} GPU-hours gained, {spent:.1f} spent on the move"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMoves:
    """Finds moves, the most useful first. One at a time: each changes what the next is worth."""

    policy: LeastContention = LeastContention()  # noqa: RUF009 - frozen
    least_slowdown: float = 1.15  # jobs below are left where they are
    least_gain: float = 2.0  # times the cost
    tried: int = 4  # jobs per moment: those that lose most

    def best(self, load: NetworkLoad, known: Mapping[str, MovableJob]) -> NetworkMove | None:
        """Return the move that brings most; None if none is worth its cost."""
        found = list(self._moves(load, known))
        return max(found, key=lambda each: each.gain_gpu_s, default=None)

    def _moves(self, load: NetworkLoad, known: Mapping[str, MovableJob]) -> Iterator[NetworkMove]:
        slow = [
            each
            for each in load.jobs
            if len(each.nodes) > 1
            and each.job in known
            and known[each.job].slowdown >= self.least_slowdown
        ]
        slow.sort(key=lambda each: (-_wasted(each, known[each.job]), each.job))
        for job in slow[: self.tried]:
            move = self._move(load, job, known[job.job])
            if move is not None:
                yield move

    def _move(self, load: NetworkLoad, job: PlacedJob, known: MovableJob) -> NetworkMove | None:
        free = load.free.copy()
        np.add.at(free, np.array(job.nodes, np.int64), np.array(job.gpus, np.int64))
        without = replace(
            load, free=free, jobs=tuple(each for each in load.jobs if each.job != job.job)
        )
        stay = Candidate(kind="stay", nodes=job.nodes, gpus=job.gpus)
        found = [stay, *candidates(load.place, free, job.total_gpus)]
        ranked = self.policy.weigh(without, job.job, job.profile, found)
        here = next(each for each in ranked if each.candidate is stay)
        best = ranked[0]
        if best is here or set(best.candidate.nodes) == set(job.nodes):
            return None
        return self._priced(job, known, here, best)

    def _priced(
        self, job: PlacedJob, known: MovableJob, here: Ranked, best: Ranked
    ) -> NetworkMove | None:
        cost = known.move_s * here.ideal_gpus
        gain = (best.useful_gpus - here.useful_gpus) * max(0.0, known.left_s - known.move_s)
        if gain <= self.least_gain * cost or gain <= 0.0:
            return None
        return NetworkMove(
            job=job,
            target=best.candidate,
            gain_gpu_s=gain - cost,
            cost_gpu_s=cost,
            slowdown_here=known.slowdown,
            slowdown_there=best.mean_slowdown,
        )


def _wasted(job: PlacedJob, known: MovableJob) -> float:
    return job.total_gpus * (1.0 - 1.0 / known.slowdown) * known.left_s
