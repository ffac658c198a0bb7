"""What each part of `commons` is worth, and how much its constants and assumptions matter.

Each row is one change to the default, everything else the same: mean and p99 of completion times
over those of the default, with a paired 95 % interval over blocks of the trace. Three parts:

1. without a part: no learning, no lead, no bound on stops, no moving, no guarantees;
2. with its constants halved and doubled: a policy that needed tuning would show it here;
3. under other assumptions: what a stop costs, how busy the cluster is, and how wrong the forecasts
   of a policy that knows durations (SRSF) may be before `commons`, which knows none, is better.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.model.machines import Machines, machines_of
from steward.model.trace import Trace
from steward.sim.lab.intervals import JobSample, difference, drawn, sample_of
from steward.sim.lab.judge.judgement import judged_jobs
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials.variants import with_load
from steward.sim.traces import read_trace

# Trace: GPUs. Both are loaded enough for order to matter; the second was not looked at in design.
TRACES = {"philly/6c71a0": 64, "philly": 480, "chronus": 1104}
FIGURES = ("jct_mean_s", "jct_p99_s")
STOP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One change: the policy, its options, and what the replay assumes."""

    policy: str = "commons"
    options: dict[str, object] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


PARTS = {
    "learns nothing (least attained service)": Variant(options={"strength": 1e30}),
    "one queue, no tenants (Gittins)": Variant(policy="gittins"),
    "no lead for who runs": Variant(options={"lead": 1.0}),
    "no bound on what stops cost": Variant(options={"patience": float("inf")}),
    "nothing guaranteed": Variant(settings={"guaranteed_share": 0.0}),
    "the whole share guaranteed": Variant(settings={"guaranteed_share": 1.0}),
    "the old go first after a week": Variant(options={"old_s": 7 * 86_400.0}),
    "packed, jobs may move": Variant(settings={"placement": "packed"}),
    "packed, nobody moves": Variant(
        options={"moves": False, "gang_wait_s": np.inf}, settings={"placement": "packed"}
    ),
}
CONSTANTS = {
    f"{name} x {times:g}": Variant(options={name: value * times})
    for name, value in (("lead", 2.0), ("patience", 0.05), ("strength", 10.0), ("memory", 1000.0))
    for times in (0.5, 2.0)
}
ERRORS = (0.0, 0.5, 1.0, 2.0)  # spread of the log-normal factor on what SRSF knows
STOPS_S = (0.0, 60.0, 300.0, 900.0)
LOADS = (0.7, 0.85, 1.0, 1.15)


def main() -> None:
    """Run all variants on each trace."""
    names = list(TRACES)[: 1 if quick() else None]
    results = {name: _study(name) for name in names}
    tuned = [
        row["jct_mean_s"][0] for each in results.values() for row in each["constants"].values()
    ]
    first = results["philly/6c71a0"]
    bars = [
        bar("halved or doubled constants: worst mean JCT over default", max(tuned), "<=", 1.1),
        bar(
            "moving: mean JCT packed over counted",
            _mean(first, "packed, jobs may move"),
            "<=",
            1.05,
        ),
        bar("not moving: the same", _mean(first, "packed, nobody moves"), ">", 1.1),
    ]
    finish("lab_ablations", results, bars)


def _mean(study: dict[str, Any], part: str) -> float:
    return float(study["parts"][part]["jct_mean_s"][0])


def _study(name: str) -> dict[str, Any]:
    trace, machines = read_trace(name), machines_of(TRACES[name])
    default = _sample(trace, machines, Variant())
    parts = {what: _beside(trace, machines, each, default) for what, each in PARTS.items()}
    progress(f"{name}: parts {parts}")
    constants = {what: _beside(trace, machines, each, default) for what, each in CONSTANTS.items()}
    progress(f"{name}: constants {constants}")
    return {"parts": parts, "constants": constants, **_assumptions(trace, machines, default)}


def _assumptions(trace: Trace, machines: Machines, default: _Judged) -> dict[str, Any]:
    """Vary what the world is like. Ratios are of commons to a rival in the same world."""
    errors = {
        f"SRSF, forecasts off by a factor e^{error:g}": _beside(
            trace, machines, Variant(policy="srsf", settings={"forecast_error": error}), default
        )
        for error in ERRORS
    }
    stops = {
        f"a stop costs {stop_s:.0f} s": _against_tiresias(trace, machines, stop_s)
        for stop_s in STOPS_S
    }
    loads = {
        f"load x {load:g}": _against_tiresias(with_load(trace, load), machines, STOP_S)
        for load in LOADS
    }
    return {"forecast error": errors, "stops, over tiresias": stops, "load, over tiresias": loads}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    sample: JobSample
    figures: dict[str, float]


def _sample(trace: Trace, machines: Machines, variant: Variant, stop_s: float = STOP_S) -> _Judged:
    options = {f"{variant.policy}.{name}": value for name, value in variant.options.items()}
    settings = LabSettings(
        **{"checkpoint_s": stop_s, "policy_options": options, **variant.settings}
    )
    run = replay(trace, machines, variant.policy, settings)
    measures, times = judged_jobs(run)
    return _Judged(sample=sample_of(run, times, measures), figures=measures.figures())


def _against_tiresias(trace: Trace, machines: Machines, stop_s: float) -> dict[str, Any]:
    theirs = _sample(trace, machines, Variant(policy="tiresias"), stop_s)
    return _beside(trace, machines, Variant(), theirs, stop_s)


def _beside(
    trace: Trace, machines: Machines, variant: Variant, other: _Judged, stop_s: float = STOP_S
) -> dict[str, Any]:
    """Return ratios to the other run, with their intervals, and what was kept and stopped."""
    mine = _sample(trace, machines, variant, stop_s)
    draws = drawn([{"mine": mine.sample, "other": other.sample}])
    row: dict[str, Any] = {}
    for figure in FIGURES:
        found = difference(
            draws["mine"][figure],
            draws["other"][figure],
            figure=mine.figures[figure],
            other=other.figures[figure],
        )
        bounds = (found.relative, found.relative_low, found.relative_high)
        row[figure] = [round(float(1 + each), 4) for each in bounds]
    row["fairness_compliance"] = round(mine.figures["fairness_compliance"], 4)
    row["preemptions"] = int(np.nan_to_num(mine.figures["preemptions"]))
    return row


if __name__ == "__main__":
    main()
