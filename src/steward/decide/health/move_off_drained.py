"""Lets jobs go on elsewhere that run on a node which steward drained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from steward.decide.placement.free_pools import free_pools, take_like
from steward.model.actions import Preempt, Resume
from steward.model.decision import Decision, Expectation
from steward.model.finding import Finding
from steward.model.frame import job_entity, steps_of
from steward.model.identity import DecisionId, GpuId, stable_id
from steward.model.job import Job
from steward.model.view import RUNNING, ClusterView

__all__ = ["MoveOffDrained"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOffDrained:
    """Lets jobs that can save leave a node that steward drained, for GPUs that are free elsewhere.

    What the node was drained for must still be found, and its drain be `after_s` old, so that the
    engine does not start the job there again. A job is stopped only if as many GPUs, on as many
    nodes as it has, are free for it to go on at once. Nodes that somebody else drained are left
    alone: a person who drains one may mean to let its jobs end.
    """

    after_s: float = 60.0
    check_after_s: float = 600.0
    name: str = "move-off-drained"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a stop and a start for each job that moves, in the order of the jobs."""
        troubled = self._troubled(view)
        return tuple(self._decisions(view, troubled)) if troubled else ()

    def _troubled(self, view: ClusterView) -> dict[int, Finding]:
        """Return nodes, by row, that steward drained for what is still found, with that."""
        old = view.t_s - view.nodes.drained_since_s >= self.after_s  # NaN: not by steward
        drained = {str(view.nodes.ids[row]): row for row in np.flatnonzero(old).tolist()}
        found = {
            drained[node]: finding
            for finding in reversed(view.findings)
            if finding.keeps_out and (node := steps_of(finding.subject)[0]) in drained
        }
        return {row: each for row, each in found.items() if view.nodes.draining[row]}

    def _decisions(self, view: ClusterView, troubled: Mapping[int, Finding]) -> Iterator[Decision]:
        pools = free_pools(view)
        for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
            job = view.details[view.job_id(row)]
            rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
            bad = next((each for each in view.gpus.node[rows].tolist() if each in troubled), None)
            stop = Preempt(job=job.id, gpus=job.gpus)
            if bad is None or stop.unmet(view):
                continue
            well = [each for each in rows if not view.nodes.draining[view.gpus.node[each]]]
            target = take_like(view, row, rows, pools, kept=well)
            if target:
                gpus = tuple(view.gpu_id(each) for each in target)
                yield from self._move(view, job, stop, gpus, troubled[bad])

    def _move(
        self,
        view: ClusterView,
        job: Job,
        stop: Preempt,
        target: tuple[GpuId, ...],
        finding: Finding,
    ) -> Iterator[Decision]:
        node = steps_of(finding.subject)[0]
        because = (
            f"node {node} is drained ({finding.title}), and job {job.id} can save and go on on "
            f"{len(target)} GPUs that are free elsewhere"
        )
        cost = -(job.checkpointing.save_s + job.checkpointing.restore_s) * len(job.gpus)
        first = self._decision(view, job, stop, because, finding, cost=cost)
        resume = Resume(job=job.id, gpus=target)
        yield first
        yield self._decision(view, job, resume, because, finding, after=(first.id,))

    def _decision(  # noqa: PLR0913 - what the two have in common and what not
        self,
        view: ClusterView,
        job: Job,
        action: Preempt | Resume,
        because: str,
        finding: Finding,
        *,
        cost: float = 0.0,
        after: tuple[DecisionId, ...] = (),
    ) -> Decision:
        return Decision(
            id=DecisionId(stable_id("d", self.name, action.type, job.id, job.start_s)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            findings=(finding.id,),
            expects=Expectation(low=cost, mid=cost, high=cost),
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
            trusted=finding.is_trusted,
            after=after,
        )
