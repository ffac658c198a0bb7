"""Elastic policies against the simulators of Pollux (OSDI'21) and Sia (SOSP'23).

The profiles of the data folder are cut to six digits. That flips one near-tie of Optimus: at
37,500 s two jobs gain 1,055.929 s and 1,055.925 s from the next GPU, closer than the digits left.
`UNCUT` has the six measurements that decide it as they were published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from steward.decide.scheduling.elastic import ELASTIC_POLICIES
from steward.model.application import ApplicationProfile
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.sim.lab.elastic import replay_elastic
from steward.sim.traces import read_trace
from steward.sim.traces.locate import data_folder
from steward.sim.traces.profiles import read_profiles

__all__ = ["lines", "sia_machines", "uncut"]

Profiles = Mapping[str, ApplicationProfile]

UNCUT = {  # imagenet on T4: shape: samples per GPU, seconds per pass, of it synchronisation
    (1, 4, 4, 4): (
        (115, 0.6263887643814087, 0.06691314544677734),
        (163, 0.8449413299560546, 0.07939650115966798),
        (200, 1.0399193048477173, 0.10606436538696289),
    ),
    (2, 4, 4, 4): (
        (115, 0.6256393909454345, 0.05886128921508789),
        (163, 0.8513462543487549, 0.07495104942321776),
        (200, 1.0553663969039917, 0.09275908813476562),
    ),
}
PEER_CPU_S = {"elastic-tiresias": 22, "optimus": 79, "pollux": 2_038, "sia": 493}


def lines(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - the assembly's own call
    """Return one line per anchor; the Pollux line over all workloads only where not quick."""
    traces = data_folder()
    profiles = read_profiles(traces / "pollux")
    published = pl.read_csv(traces / "pollux" / "published_jcts.csv.gz")
    _pollux_run("pollux", 3, profiles)  # compiles
    found = [
        _exact("elastic-tiresias", profiles, published, 3_469.69375),
        _exact("optimus", uncut(profiles), published, 5_301.875, cut=profiles),
        _pollux_line(profiles),
        _sia_line(read_profiles(traces / "sia", learning_from=traces / "pollux")),
    ]
    if not quick:
        found.append(_all_workloads(profiles, published))
    return found


def uncut(profiles: Profiles) -> dict[str, ApplicationProfile]:
    """Return the profiles with the digits back that decide Optimus' near-tie."""
    imagenet = profiles["imagenet"]
    (kind,) = imagenet.step_times
    times = imagenet.step_times[kind]
    shapes = {shape: rows.copy() for shape, rows in times.by_shape.items()}
    for shape, rows in UNCUT.items():
        for samples, step_s, sync_s in rows:
            shapes[shape][shapes[shape][:, 0] == samples, 1:] = step_s, sync_s
    times = replace(times, by_shape=shapes, memo={}, hull=[])
    return {**profiles, "imagenet": replace(imagenet, step_times={kind: times})}


def sia_machines() -> Machines:
    """Return Sia's default cluster: 6 x 4 T4, 2 x 8 A100 and 3 x 8 2080Ti."""
    gpus = [4] * 6 + [8] * 5
    kinds = [0] * 6 + [1] * 2 + [2] * 3
    return replace(
        machines_of(sum([8] * len(gpus)), gpus_per_node=8),
        gpus=np.array(gpus),
        type=np.array(kinds),
        types=("aws", "dgx-ext", "rtx"),
    )


def _pollux_run(policy: str, workload: int, profiles: Profiles) -> Replay:
    trace = read_trace(f"pollux/1.0/{workload}")
    machines = machines_of(64, gpus_per_node=4, gpu_type="t4")
    return replay_elastic(trace, machines, ELASTIC_POLICIES[policy](), profiles=profiles)


def _jcts(made: Replay) -> dict[str, float]:
    spans = made.end_s - made.trace.submit_s
    return dict(zip(made.trace.job_id.tolist(), spans.tolist(), strict=True))


def _mean(made: Replay) -> float:
    return float((made.end_s - made.trace.submit_s).mean())


def _exact(
    policy: str,
    profiles: Profiles,
    published: pl.DataFrame,
    anchor: float,
    *,
    cut: Profiles | None = None,
) -> dict[str, Any]:
    """Compare with the published completion time of every job."""
    made = _pollux_run(policy, 6, profiles)
    run = f"{policy.removeprefix('elastic-')}-1.0"
    theirs = published.filter(experiment="jobload", run=run, workload=6)
    known = dict(zip(theirs["name"], theirs["jct_s"], strict=True))
    same = sum(known[name] == jct for name, jct in _jcts(made).items())
    note = f"{same} of {len(known)} jobs end at the published second"
    if cut is not None:
        worse = _mean(_pollux_run(policy, 6, cut))
        note += f"; six measurements at full digits, with the folder's cut ones {worse:.3f}"
    return {
        "what": f"{policy}: mean JCT, pollux 1.0 workload 6, 16 x 4 T4",
        "ours": _mean(made),
        "peer": anchor,
        "bar": "to the digit",
        "holds": _mean(made) == anchor and same == len(known),
        "cpu_s": made.cpu_s,
        "note": f"{note}; peer {PEER_CPU_S[policy]} CPU s",
    }


def _pollux_line(profiles: Profiles) -> dict[str, Any]:
    made = _pollux_run("pollux", 6, profiles)
    ours = _mean(made)
    return {
        "what": "pollux: mean JCT, pollux 1.0 workload 6, 16 x 4 T4",
        "ours": ours,
        "peer": 2_446.13125,
        "bar": "within 10 % (a random search: another run of the peer gives 2,484.71), < 20 CPU s",
        "holds": abs(ours / 2_446.13125 - 1) <= 0.10 and made.cpu_s < 20,
        "cpu_s": made.cpu_s,
        "note": f"sizes solved exactly instead of searched; peer {PEER_CPU_S['pollux']} CPU s",
    }


def _all_workloads(profiles: Profiles, published: pl.DataFrame) -> dict[str, Any]:
    runs = [_pollux_run("pollux", workload, profiles) for workload in range(1, 9)]
    ours = float(np.mean([_mean(made) for made in runs]))
    theirs = published.filter(experiment="jobload", run="pollux-1.0")["jct_s"].to_numpy().mean()
    return {
        "what": "pollux: mean JCT over its eight workloads",
        "ours": ours,
        "peer": float(theirs),
        "bar": "the same or better (within 1 %)",
        "holds": bool(ours <= theirs * 1.01),
        "cpu_s": sum(made.cpu_s for made in runs),
        "note": "by workload: " + ", ".join(f"{_mean(made):.0f}" for made in runs),
    }


def _sia_line(profiles: Profiles) -> dict[str, Any]:
    trace = read_trace("sia/philly/1")
    policy = ELASTIC_POLICIES["sia"]()
    made = replay_elastic(trace, sia_machines(), policy, profiles=profiles, restart_s=None)
    spans = made.end_s - trace.submit_s
    ours = float(spans.mean())
    return {
        "what": "sia: mean JCT, sia philly workload 1, 6 x 4 T4 + 3 x 8 2080Ti + 2 x 8 A100",
        "ours": ours,
        "peer": 1_949.75,
        "bar": "within 10 %, < 20 CPU s",
        "holds": abs(ours / 1_949.75 - 1) <= 0.10 and made.cpu_s < 20,
        "cpu_s": made.cpu_s,
        "note": (
            f"p99 {np.percentile(spans, 99):,.0f} (peer 28,390), makespan "
            f"{made.end_s.max():,.0f} (peer 56,040); moving to another node costs a restart here, "
            f"nothing there; peer {PEER_CPU_S['sia']} CPU s"
        ),
    }
