"""What `commons` gains from `job-history` over `similar-jobs`, as the live loop runs it.

Five traces are replayed through views (nobody moves, stops are free), with either estimator
learning as it goes; constants of `job-history` were chosen on `pollux/1.0/6`, not on the others.
Time limits say nothing: the lab's stand-ins are made from true durations, which would give away
what `job-history` has to guess.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.learn.estimators.job_history import JobHistory
from steward.learn.estimators.similar_jobs import SimilarJobs
from steward.learn.experience import EDGES_S
from steward.model.machines import machines_of
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.view_replay import ViewReplay
from steward.sim.traces import read_trace

TRACES = {
    "gavel/max_min_fairness": 24,
    "pollux/1.0/6": 32,
    "sia/philly/1": 48,
    "sia/saturn/1": 48,
    "shockwave/120": 32,
}
NO_LIMIT_S = 1e7


def main() -> None:
    """Compare on each trace."""
    rows: dict[str, Any] = {}
    for name, gpus in list(TRACES.items())[: 2 if quick() else None]:
        rows[name] = {
            each.name: _replayed(name, gpus, each) for each in (SimilarJobs(), JobHistory())
        }
        progress(f"{name}: {rows[name]}")
    ratios = {
        name: row["job-history"]["jct_mean_s"] / row["similar-jobs"]["jct_mean_s"]
        for name, row in rows.items()
    }
    mean = float(np.exp(np.mean(np.log([*ratios.values()]))))
    results = {"traces": rows, "mean JCT over that with similar-jobs": ratios, "mean ratio": mean}
    finish("history_commons", results, [bar("mean JCT, mean ratio", mean, "<=", 0.9)])


def _replayed(name: str, gpus: int, estimator: SimilarJobs | JobHistory) -> dict[str, float]:
    trace = read_trace(name)
    trace = trace.rows(trace.gpus <= gpus)
    trace = replace(trace, time_limit_s=np.full(len(trace), NO_LIMIT_S))
    found = ViewReplay(
        trace=trace,
        machines=machines_of(gpus),
        policy=Commons(moves=False),
        settings=LabSettings(),
        estimators=(estimator,),
        levels_s=lambda size: [float(edge) / size for edge in EDGES_S[1:]],
    ).run()
    jct_s = found.end_s - trace.submit_s
    return {
        "jct_mean_s": round(float(jct_s.mean()), 1),
        "jct_p99_s": round(float(np.quantile(jct_s, 0.99)), 1),
        "wait_mean_s": round(float((jct_s - trace.duration_s).mean()), 1),
        "stops": int(found.preemptions.sum()),
    }


if __name__ == "__main__":
    main()
