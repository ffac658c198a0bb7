"""Where a job goes so that the network bears it: least contention.

Each candidate is weighed by what all jobs together would compute: GPUs times the share of an
iteration that is computing, less what becomes of no use to typical jobs. Which of several equal
paths the flows take is not known before; several draws are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.candidates import Candidate, candidates
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.link_sharing import share_links
from steward.model.fabric.node_map import NodeMap
from steward.model.fabric.placed_job import (
    PlacedJob,
    TrafficProfile,
    contention_of,
    entries_of,
    ideal_s,
)

__all__ = [
    "LeastContention",
    "NetworkLoad",
    "Ranked",
    "SlowdownModel",
    "by_mean_field",
    "fragmented_gpus",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Slowdown of each job of each scene against running there alone.
SlowdownModel = Callable[[Sequence[Contention]], Sequence[Floats]]

_DRAWS = 4
_ERROR = 0.2  # of the part above 1, that predictions are off by where jobs contend
_FEW_FLOWS = 256  # of a job; many flows are an average by themselves


def by_mean_field(scenes: Sequence[Contention]) -> list[Floats]:
    """Return slowdowns by the mean field."""
    return [share_links(reduced(scene, 1.0)[0]).slowdown for scene in scenes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkLoad:
    """What runs, what is free, and what jobs usually ask for."""

    place: NodeMap
    free: Ints  # GPUs of each node
    jobs: tuple[PlacedJob, ...] = ()
    lendable: Ints | None = None
    sizes: tuple[int, ...] = ()  # GPUs of typical jobs
    weights: tuple[float, ...] = ()  # how often each comes; they sum to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """A candidate with what it would bring."""

    candidate: Candidate
    useful_gpus: float  # that compute, of all jobs
    fragmented: float  # free GPUs that typical jobs could not use
    slowdown: Floats  # of the new job, against the whole nodes of an idle network; by draw
    gained_gpus: float  # of `useful_gpus`, by starting the job there
    ideal_gpus: float  # that it would gain on whole nodes of an idle network
    worst_hit: tuple[str, float] = ("", 1.0)  # the other job that loses most, and its slowdown

    @property
    def mean_slowdown(self) -> float:
        """The slowdown to be expected."""
        return float(self.slowdown.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The slowdown within which four of five outcomes lie: other ports, other errors."""
        spread = 1.0 + (self.mean_slowdown - 1.0) * _ERROR
        low, high = float(self.slowdown.min()), float(self.slowdown.max())
        return min(self.mean_slowdown, low / max(1.0, spread) ** 0.5), high * spread**0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeastContention:
    """Ranks candidates; `fragment_weight` is what a GPU that becomes useless costs."""

    fragment_weight: float = 0.02
    model: SlowdownModel = by_mean_field
    draws: int = _DRAWS
    name: str = "least-contention"

    def rank(
        self, load: NetworkLoad, job: str, profile: TrafficProfile, gpus: int
    ) -> tuple[Ranked, ...]:
        """Return the candidates, best first; none if the job does not fit."""
        found = candidates(load.place, load.free, gpus, lendable=load.lendable)
        return self.weigh(load, job, profile, found)

    def weigh(
        self, load: NetworkLoad, job: str, profile: TrafficProfile, found: Sequence[Candidate]
    ) -> tuple[Ranked, ...]:
        """Return these candidates with what they would bring, best first."""
        running = [each for each in load.jobs if len(each.nodes) > 1]
        before = _Crossed(load.place, running, self._draws(running))
        placed = [
            PlacedJob(job=job, profile=profile, nodes=each.nodes, gpus=each.gpus) for each in found
        ]
        ranked = self._weighed(load, before, found, placed)
        return tuple(sorted(ranked, key=lambda each: -self.value(each)))

    def value(self, ranked: Ranked) -> float:
        """Return what a candidate is worth, in GPUs that compute."""
        return ranked.useful_gpus - self.fragment_weight * ranked.fragmented

    def _draws(self, jobs: Sequence[PlacedJob]) -> int:
        flows = sum(len(each.nodes) * max(each.gpus) for each in jobs)
        return self.draws if flows < 16 * _FEW_FLOWS else max(1, self.draws // 2)

    def _weighed(
        self,
        load: NetworkLoad,
        before: _Crossed,
        found: Sequence[Candidate],
        placed: Sequence[PlacedJob],
    ) -> list[Ranked]:
        scenes: list[Contention] = []
        owner: list[int] = []
        for at, each in enumerate(placed):
            flows = len(each.nodes) * each.channels(load.place.nics)
            count = before.draws if len(each.nodes) > 1 and flows <= _FEW_FLOWS else 1
            for draw in range(count):
                scenes.append(before.with_job(each, draw))
                owner.append(at)
        bare = [before.without(draw) for draw in range(before.draws)]
        predicted = self.model([*bare, *scenes])
        now = [_useful(bare[k], predicted[k], before.jobs) for k in range(before.draws)]
        predicted = predicted[before.draws :]
        out = []
        for at, (candidate, job) in enumerate(zip(found, placed, strict=True)):
            mine = [i for i, whose in enumerate(owner) if whose == at]
            useful = [_useful(scenes[i], predicted[i], (*before.jobs, job)) for i in mine]
            gained = [each - now[k] for k, each in enumerate(useful)]
            own = np.array([_against_ideal(scenes[i], predicted[i], load, job) for i in mine])
            left = load.free.copy()
            np.subtract.at(left, np.array(job.nodes, np.int64), np.array(job.gpus, np.int64))
            others = np.mean([predicted[i][:-1] for i in mine], axis=0)
            worst = int(np.argmax(others)) if len(others) else -1
            out.append(
                Ranked(
                    candidate=candidate,
                    useful_gpus=float(np.mean(useful)),
                    fragmented=fragmented_gpus(np.maximum(left, 0), load),
                    slowdown=own,
                    gained_gpus=float(np.mean(gained)),
                    ideal_gpus=_ideal_gpus(load, job),
                    worst_hit=(before.jobs[worst].job, float(others[worst]))
                    if worst >= 0
                    else ("", 1.0),
                )
            )
        return out


class _Crossed:
    """The links of running jobs, for each draw of the ports."""

    def __init__(self, place: NodeMap, jobs: Sequence[PlacedJob], draws: int) -> None:
        self.jobs = tuple(jobs)
        self.draws = draws
        self._place = place
        self._entries = [
            [entries_of(place, each, _salt(each.job, draw)) for each in jobs]
            for draw in range(draws)
        ]

    def without(self, draw: int) -> Contention:
        """Return the scene as it is."""
        return contention_of(self._place, self.jobs, self._entries[draw])

    def with_job(self, job: PlacedJob, draw: int) -> Contention:
        """Return the scene with one more job, the last."""
        entries = [*self._entries[draw], entries_of(self._place, job, _salt(job.job, draw))]
        return contention_of(self._place, (*self.jobs, job), entries)


def _salt(job: str, draw: int) -> int:
    """Return a number for a job and a draw that is the same everywhere."""
    value = draw + 1
    for letter in job.encode():
        value = (value * 131 + letter) % 1_000_003
    return value


def _useful(scene: Contention, slowdown: Floats, jobs: Sequence[PlacedJob]) -> float:
    """Return the GPUs that compute: each job's, by the share of an iteration that computes."""
    rates = alone_rate(scene)
    total = 0.0
    for row, job in enumerate(jobs):
        alone = iteration_s(scene, row, rates[row])
        total += job.total_gpus * job.profile.compute_s / (alone * float(slowdown[row]))
    return total


def _ideal_gpus(load: NetworkLoad, job: PlacedJob) -> float:
    nodes = -(-job.total_gpus // int(load.place.gpus.max()))
    return job.total_gpus * job.profile.compute_s / ideal_s(job.profile, nodes, load.place)


def _against_ideal(scene: Contention, slowdown: Floats, load: NetworkLoad, job: PlacedJob) -> float:
    """Return the last job's slowdown against whole nodes in an idle network."""
    rates = alone_rate(scene)
    size = int(load.place.gpus.max())
    alone = iteration_s(scene, len(rates) - 1, rates[-1])
    ideal = ideal_s(job.profile, -(-job.total_gpus // size), load.place)
    return alone * float(slowdown[-1]) / ideal


def fragmented_gpus(free: Ints, load: NetworkLoad) -> float:
    """Return the free GPUs that the next typical job could not use well (FGD's measure).

    By node for jobs that fit one; for wider ones by leaf: what a leaf has left that does not hold
    the job would send its traffic through the spines.
    """
    place = load.place
    size = int(place.gpus.max())
    whole = np.where(free == place.gpus, free, 0)
    by_leaf = np.bincount(place.leaf, whole)
    room = np.bincount(place.leaf, place.gpus)
    lost = 0.0
    for gpus, weight in zip(load.sizes, load.weights, strict=True):
        if gpus <= size:
            lost += weight * float(free[free < gpus].sum())
            continue
        held = np.minimum(gpus, room)  # of a job wider than the leaf, a whole leaf is of use
        lost += weight * float(free.sum() - by_leaf[by_leaf >= held].sum())
    return lost
