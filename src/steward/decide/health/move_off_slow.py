"""Lets jobs go on elsewhere whose GPUs are found to be slow, where that is worth the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from steward.decide.placement.free_pools import free_pools, take_like
from steward.model.actions import Migrate
from steward.model.decision import Decision, Expectation
from steward.model.finding import Finding
from steward.model.forecast import RUN_LEFT_S, SLOWDOWN_SHARE, About, Forecast
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, GpuId, NodeId, stable_id
from steward.model.job import Job
from steward.model.view import RUNNING, ClusterView

__all__ = ["MoveOffSlow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gain:
    """What a job would save by GPUs that are not slow, and on what that rests."""

    seconds: float
    text: str
    forecasts: tuple[Forecast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOffSlow:
    """Moves a job that can save off GPUs that are throttled, slow or disturbed, to free ones.

    What is wrong has to be found by a rule that would drain the node, on a node that is open still.
    What it costs the job is its measured slowdown (`step-rates`); of one that counts no steps it is
    taken to be `assumed_slowdown_share`, 0 leaves such jobs. It moves if that, over the time that
    it will run for, is `least_gain` times what saving and restoring take.
    """

    assumed_slowdown_share: float = 0.1
    least_gain: float = 2.0
    check_after_s: float = 600.0
    name: str = "move-off-slow"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a move for each job that gains by it, in the order of the jobs."""
        troubled = _troubled(view)
        return tuple(self._decisions(view, troubled)) if troubled else ()

    def _decisions(self, view: ClusterView, troubled: Mapping[int, Finding]) -> Iterator[Decision]:
        pools = free_pools(view, without=troubled)
        running = (view.jobs.state == RUNNING) & ~view.jobs.reserved
        for row in np.flatnonzero(running).tolist():
            job = view.details[view.job_id(row)]
            rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
            bad = next((each for each in rows if each in troubled), None)
            gain = None if bad is None else self._gain(view, row, job)
            if bad is None or gain is None:
                continue
            well = [each for each in rows if each not in troubled]
            chosen = take_like(view, row, rows, pools, kept=well)
            target = tuple(view.gpu_id(each) for each in chosen)
            move = Migrate(job=job.id, source=job.gpus, target=target)
            if chosen and not move.unmet(view):
                yield self._decision(view, job, move, troubled[bad], gain)

    def _gain(self, view: ClusterView, row: int, job: Job) -> _Gain | None:
        """Return what a move would save a job; None if that is unknown, or too little."""
        left = view.forecast(About.JOBS, RUN_LEFT_S)
        if left is None or not left.mid[row] > 0:
            return None
        slower = view.forecast(About.JOBS, SLOWDOWN_SHARE)
        measured = slower is not None and not np.isnan(slower.mid[row])
        forecasts = [left.row(row, job.id)]
        share, how = self.assumed_slowdown_share, "taken to be; nobody counts its steps"
        if slower is not None and measured:
            share, how = float(slower.low[row]), "measured"
            forecasts.append(slower.row(row, job.id))
        seconds = share * float(left.mid[row])
        able = job.checkpointing
        if not seconds > self.least_gain * (able.save_s + able.restore_s):
            return None
        text = f"{share:.0%} slower by it ({how}), about {seconds / 60:.0f} min until its end"
        return _Gain(seconds=seconds, text=text, forecasts=tuple(forecasts))

    def _decision(
        self, view: ClusterView, job: Job, move: Migrate, finding: Finding, gain: _Gain
    ) -> Decision:
        able = job.checkpointing
        move_s = able.save_s + able.restore_s
        cost = -move_s * len(job.gpus)
        because = (
            f"{finding.title}, and job {job.id} is {gain.text}; as many GPUs are "
            f"free elsewhere, and a save and a start there take {move_s:.0f} s"
        )
        return Decision(
            id=DecisionId(stable_id("d", self.name, job.id, job.start_s, finding.id)),
            t_s=view.t_s,
            policy=self.name,
            action=move,
            because=because,
            findings=(finding.id,),
            forecasts=gain.forecasts,
            expects=Expectation(low=cost, mid=cost, high=cost),
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
            trusted=finding.is_trusted,
        )


def _troubled(view: ClusterView) -> dict[int, Finding]:
    """Return GPUs, by row, that are slow on nodes that are open, each with what was found."""
    found: dict[int, Finding] = {}
    for finding in view.findings:
        if finding.treatment is None or finding.treatment.action != "drain":
            continue
        for row in _gpus_of(finding, view):
            if not view.nodes.draining[view.gpus.node[row]]:
                found.setdefault(row, finding)
    return found


def _gpus_of(finding: Finding, view: ClusterView) -> list[int]:
    """Return the rows of the GPUs that a finding is about: one, or all of its node."""
    place = finding.place
    if place in view.gpu_row:
        return [view.gpu_row[GpuId(place)]]
    node = view.node_row.get(NodeId(place))
    return [] if node is None else np.flatnonzero(view.gpus.node == node).tolist()
