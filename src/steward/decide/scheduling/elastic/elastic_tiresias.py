"""Tiresias as the Pollux artifact runs it: two queues by attained service, jobs at full size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from steward.decide.scheduling.elastic.interface import (
    ElasticChoice,
    ElasticView,
    Needs,
    fill_freest,
)

__all__ = ["ElasticTiresias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticTiresias:
    """Serve young jobs in order of arrival, then those past the threshold in order of passing it.

    Each pass gives GPUs to every job that fits and skips the others; who is not reached stops.
    """

    threshold_gpu_s: float = 57_600.0
    name: str = "elastic-tiresias"
    needs: Needs = "size"
    fixed_batch: bool = True

    def decide(self, moment: ElasticView) -> ElasticChoice:
        """Keep who still fits where they are; fill the freest nodes with the others."""
        jobs = {job.row: job for job in moment.jobs}
        demoted = [row for row in cast("tuple[int, ...]", moment.memory or ()) if row in jobs]
        past = set(demoted)
        demoted += [
            job.row
            for job in moment.jobs
            if job.attained_gpu_s >= self.threshold_gpu_s and job.row not in past
        ]
        past = set(demoted)
        free = moment.total_gpus
        running: list[int] = []
        for row in [row for row in jobs if row not in past] + demoted:
            if jobs[row].replicas <= free:
                free -= jobs[row].replicas
                running.append(row)
        kept = {row: jobs[row].placement for row in running if jobs[row].placement}
        wanted = [(row, jobs[row].replicas) for row in running if row not in kept]
        placements = fill_freest(wanted, kept, moment.node_gpus)
        return ElasticChoice(placements=placements, memory=tuple(demoted))
