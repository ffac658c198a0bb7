"""Traces and machines of a few rows, written down in a test and replayed under all laws."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

from sim.lab.rigid.laws import assert_lawful
from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings


def jobs(*rows: tuple[float, float, float], **columns: Any) -> Trace:
    """Return a trace from submit times, durations and GPUs."""
    submit_s, duration_s, gpus = zip(*rows, strict=True)
    return trace_of("by hand", submit_s=submit_s, duration_s=duration_s, gpus=gpus, **columns)


def nodes(count: int, *changes: MachineChange, gpus: int = 4, **columns: Any) -> Machines:
    plain = machines_of(count * gpus, gpus_per_node=gpus)
    return changed(plain, changes=changes, **columns)


def down(t_s: float, node: int = 0, *, warning_s: float = 0.0) -> MachineChange:
    return MachineChange(t_s=t_s, node=node, up=False, warning_s=warning_s)


def up(t_s: float, node: int = 0) -> MachineChange:
    return MachineChange(t_s=t_s, node=node, up=True)


def replayed(trace: Trace, machines: Machines, policy: str = "fifo", **settings: Any) -> Replay:
    made = replay(trace, machines, policy, LabSettings(**settings))
    assert_lawful(made)
    return made


def spans(made: Replay, job: int) -> list[tuple[float, float, int]]:
    """Return from when to when a job ran, and on which node, or the first of several."""
    runs = made.segments
    return [
        (float(runs.start_s[i]), float(runs.stop_s[i]), int(runs.node[i]))
        for i in range(len(runs))
        if runs.job[i] == job
    ]
