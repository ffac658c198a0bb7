"""Record of an elastic replay: spans in which a job held the same GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from steward.model.machines import Machines
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace
from steward.sim.lab.elastic.running import RunningJob

__all__ = ["ElasticRecord"]


@dataclass(slots=True, kw_only=True)
class ElasticRecord:
    """Collects spans while the engine runs. Speed in a span is its mean, restarts included."""

    work_s: dict[int, float]  # alone at the requested size, by job
    spans: list[tuple[int, float, float, int, int, int, float]] = field(default_factory=list)
    begun: dict[int, tuple[float, float]] = field(default_factory=dict)  # since, share done
    start_s: dict[int, float] = field(default_factory=dict)
    end_s: dict[int, float] = field(default_factory=dict)
    stops: dict[int, int] = field(default_factory=dict)

    def begin(self, job: RunningJob, t_s: float) -> None:
        """Note that a job holds new GPUs from now on."""
        self.begun[job.row] = (t_s, job.finished_share)
        self.start_s.setdefault(job.row, t_s)

    def stop(self, job: RunningJob, t_s: float, *, finished: bool = False) -> None:
        """Note that a job gives up the GPUs that it held."""
        since, done = self.begun.pop(job.row)
        nodes = job.placement
        worth_s = (job.finished_share - done) * self.work_s[job.row]
        speed = worth_s / (t_s - since) if t_s > since else 0.0
        self.spans.append((job.row, since, t_s, len(nodes), nodes[0], len(set(nodes)), speed))
        if finished:
            self.end_s[job.row] = t_s
        else:
            self.stops[job.row] = self.stops.get(job.row, 0) + 1

    def replay(
        self, trace: Trace, machines: Machines, *, policy: str, jobs: dict[int, RunningJob]
    ) -> Replay:
        """Return it all as columns; the engine adds CPU time, decisions and notes."""
        n = len(trace)
        spans = sorted(self.spans, key=lambda span: (span[1], span[0]))
        columns = list(zip(*spans, strict=True)) if spans else [()] * 7
        return Replay(
            policy=policy,
            trace=trace,
            machines=machines,
            quota=np.zeros(len(trace.tenants)),
            start_s=np.array([self.start_s.get(row, np.nan) for row in range(n)]),
            end_s=np.array([self.end_s.get(row, np.nan) for row in range(n)]),
            preemptions=np.array([self.stops.get(row, 0) for row in range(n)], np.int64),
            lost_s=np.array([jobs[row].lost_s if row in jobs else 0.0 for row in range(n)]),
            segments=Segments(
                job=np.array(columns[0], np.int64),
                start_s=np.array(columns[1], np.float64),
                stop_s=np.array(columns[2], np.float64),
                gpus=np.array(columns[3], np.float64),
                node=np.array(columns[4], np.int64),
                nodes=np.array(columns[5], np.int64),
                speed=np.array(columns[6], np.float64),
            ),
            cpu_s=0.0,
            decisions=0,
        )
