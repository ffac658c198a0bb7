"""Lucid (ASPLOS'23): look at new jobs first, then pack those that do not disturb one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from steward.decide.scheduling.colocation.interface import (
    ColocationChoice,
    ColocationView,
    JobKind,
    Profile,
    Profiling,
    Share,
    StartAlone,
)

__all__ = ["Lucid"]

TINY, MEDIUM, JUMBO = 0, 1, 2
_TEN_MINUTES_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lucid:
    """The job with the least predicted GPU time first; two share GPUs if both bear it.

    New jobs run up to `profile_s` in a small partition, fewest GPUs first, and start anew in the
    cluster if that did not suffice. There a job joins one that runs alone on as many GPUs if their
    scores add up to at most `most_score` and it is not expected to take more than `most_ratio`
    times as much GPU time; among several the longest. Otherwise it takes free GPUs. Nobody is
    stopped. While few jobs arrive nobody shares, and nobody passes the first in line.
    """

    profile_nodes: int = 2
    profile_s: float = 80.0
    profile_factor: float = 2.0  # jobs of up to so many GPUs per node of the partition
    profile_share: float = 0.05  # of a small cluster, where whole nodes would be too much
    most_shared_gpus: int = 8
    most_score: int = 2
    most_ratio: float = 2.0
    few_jobs: float = 2.0  # in ten minutes, on `few_jobs_gpus`; in proportion elsewhere
    few_jobs_gpus: int = 1064  # the cluster (Venus) that the number comes from
    trial_s: ClassVar[float] = 0.0
    move_s: ClassVar[float] = 0.0
    keeps_sizes_together: ClassVar[bool] = False
    name: str = "lucid"

    def profiling(self, total_gpus: int, gpus_per_node: int) -> Profiling:
        gpus = min(self.profile_nodes * gpus_per_node, int(self.profile_share * total_gpus))
        most = min(self.profile_factor * self.profile_nodes, gpus)
        return Profiling(gpus=gpus, time_s=self.profile_s, most_gpus=most)

    def rank(self, predicted_s: float, gpus: float) -> float:
        return predicted_s * gpus

    def score(self, shared_speed: float) -> int:
        if shared_speed > 0.95:
            return TINY
        return MEDIUM if shared_speed >= 0.85 else JUMBO  # unknown counts as jumbo

    def decide(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        if moment.unprofiled and moment.fits_profiling(moment.unprofiled[0][2]):
            return (Profile(job=moment.unprofiled[0][2]), *self._next(moment))
        return self._next(moment)

    def _next(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        """Return who is served next in the cluster: each of a kind stands for all behind it."""
        if moment.settled:
            return ()
        shares = self._shares(moment)
        firsts = sorted((line[0], kind) for kind, line in moment.waiting.items())
        for (rank, _, job), kind in firsts:
            if shares:
                partner = self._partner(moment, job, kind, rank)
                if partner >= 0:
                    return (Share(job=job, partner=partner),)
            if moment.fits(job):
                return (StartAlone(job=job),)
            if not shares:
                break
        return ()

    def _shares(self, moment: ColocationView) -> bool:
        few = self.few_jobs * moment.total_gpus / self.few_jobs_gpus
        return moment.arrivals_per_s * _TEN_MINUTES_S > few

    def _partner(self, moment: ColocationView, job: int, kind: JobKind, rank: float) -> int:
        """Return who should take the job in: the least disturbed, then the longest; -1: nobody."""
        if not 1 <= kind.gpus <= self.most_shared_gpus:
            return -1
        for score in range(min(self.most_score - kind.score, JUMBO) + 1):
            for other_rank, _, other in reversed(moment.alone.get((kind.gpus, score), ())):
                if rank > self.most_ratio * other_rank:
                    break
                if moment.may_join(job, other) and moment.can_share(job, other):
                    return other
        return -1
