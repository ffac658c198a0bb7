"""Replays a trace under a policy that lets two jobs share GPUs."""

from __future__ import annotations

import time

import numpy as np

from steward.decide.scheduling.colocation.interface import ColocationPolicy
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.colocation.engine import Run
from steward.sim.lab.colocation.inputs import inputs_of
from steward.sim.lab.settings import LabSettings

__all__ = ["replay_colocation"]


def replay_colocation(
    trace: Trace,
    machines: Machines,
    policy: ColocationPolicy,
    settings: LabSettings,
    *,
    throughputs: ThroughputTable | None = None,
) -> Replay:
    """Run all jobs to their end; jobs that fit nowhere stay unfinished, with a note.

    Two jobs on the same GPUs hold half of them each in the record, at less than their full speed.
    """
    began = time.process_time()
    stage = inputs_of(trace, machines, policy, settings, throughputs)
    run = Run(stage)
    run.advance()
    jobs = run.jobs
    return Replay(
        policy=policy.name,
        trace=trace,
        machines=machines,
        quota=settings.quota_of(trace, machines),
        start_s=np.array(jobs.first_s, np.float64),
        end_s=np.array(jobs.end_s, np.float64),
        preemptions=np.array(jobs.stops, np.int64),
        lost_s=np.array(jobs.lost_s, np.float64),
        segments=run.running.segments(),
        cpu_s=time.process_time() - began,
        decisions=run.decisions,
        notes=(*stage.notes, *_told(run)),
    )


def _told(run: Run) -> tuple[str, ...]:
    """Return notes on what the columns do not show."""
    notes = []
    if run.operations.moves:
        notes.append(f"{run.operations.moves} times a running job was moved to other GPUs")
    if run.evicted:
        notes.append(f"{run.evicted} jobs had to start anew after they had been looked at")
    nowhere, waiting = sum(run.nowhere), sum(many > 0 for many in run.waits_for)
    if nowhere:
        notes.append(f"{nowhere} jobs fit on no machine: too many GPUs, or a type not here")
    if waiting:
        notes.append(f"{waiting} jobs wait for jobs that never ended")
    left = int(np.isnan(run.jobs.end_s).sum()) - nowhere - waiting
    if left > 0:
        notes.append(f"{left} jobs never ran to their end: their machines did not come back")
    return tuple(notes)
