"""Optimus (EuroSys'18) in its GPU-only form: the next GPU goes where it saves the most time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from steward.decide.scheduling.elastic.interface import (
    ElasticChoice,
    ElasticJob,
    ElasticView,
    Needs,
    fill_freest,
)

__all__ = ["Optimus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus:
    """One GPU for each job in order of arrival; then GPU by GPU by marginal gain.

    The gain is what the step gets shorter, times the steps that are left. It is an oracle: the
    steps left and the step times are the true ones.
    """

    name: str = "optimus"
    needs: Needs = "step times"
    fixed_batch: bool = True

    def decide(self, moment: ElasticView) -> ElasticChoice:
        """Keep jobs whose size does not change; place the others, smallest first."""
        sizes = _sizes(moment)
        kept = {
            job.row: job.placement
            for job in moment.jobs
            if job.placement and len(job.placement) == sizes[job.row]
        }
        wanted = [(row, size) for row, size in sizes.items() if size > 0 and row not in kept]
        wanted.sort(key=lambda item: item[1])
        return ElasticChoice(placements=fill_freest(wanted, kept, moment.node_gpus))


def _sizes(moment: ElasticView) -> dict[int, int]:
    """Hand out GPUs one by one; ties go to the job that came first."""
    free = moment.total_gpus
    sizes: dict[int, int] = {}
    gains: list[tuple[float, int]] = []
    for place, job in enumerate(moment.jobs):
        sizes[job.row] = 1 if free > 0 else 0
        free -= sizes[job.row]
        if sizes[job.row] and free > 0:
            gains.append((-_gain(job, 1), place))
    heapq.heapify(gains)
    while free > 0 and gains and gains[0][0] < 0:
        place = gains[0][1]
        job = moment.jobs[place]
        sizes[job.row] += 1
        free -= 1
        heapq.heapreplace(gains, (-_gain(job, sizes[job.row]), place))
    return sizes


def _gain(job: ElasticJob, replicas: int) -> float:
    """Return the seconds that one more replica would save; 0 where it may have no more."""
    if replicas + 1 >= len(job.step_s):
        return 0.0
    return (job.step_s[replicas] - job.step_s[replicas + 1]) * job.steps_left
