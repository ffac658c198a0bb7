"""One load on a real Slurm, as the lab judges replays: who ran when is what the jobs wrote."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from report import progress
from slurm_site import GPUS, GUARANTEES, SAVE_S, LoadJob, SlurmBed, Written, submit, written
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace, trace_of
from steward.sim.lab.judge import judge
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

__all__ = ["Run", "figures", "gpu_time", "lab_figures", "not_ended_once", "run_load"]

WITHIN_S = 900.0
KEPT = ("wait_mean_s", "wait_p99_s", "utilisation", "queue_mean", "queue_max", "makespan_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one load: when each task was submitted, and what it wrote."""

    jobs: Sequence[LoadJob]
    submit_s: dict[str, float]
    lines: dict[str, Sequence[Written]]
    ids: dict[str, str]  # of each task, as Slurm's commands take it


def run_load(bed: SlurmBed, jobs: Sequence[LoadJob], folder: Path, *options: str) -> Run:
    """Submit jobs at their times, and wait until all have come to their end."""
    folder.mkdir()
    names = [name for job in jobs for name in job.names]
    submit_s: dict[str, float] = {}
    ids: dict[str, str] = {}
    began_s = time.time()
    for job in jobs:
        time.sleep(max(0.0, began_s + job.arrive_s - time.time()))
        submit_s |= dict.fromkeys(job.names, time.time())
        id_ = submit(bed, job, folder, *options)
        ids |= {name: id_ + name.removeprefix(job.name) for name in job.names}
    while len(_ended(lines := written(folder, names))) < len(names):
        if time.time() - began_s > WITHIN_S:
            missing = sorted({*names} - _ended(lines))
            sys.exit(f"error: {len(missing)} jobs did not end within {WITHIN_S:.0f} s: {missing}")
        time.sleep(1.0)
    progress(f"  {len(names)} jobs in {time.time() - began_s:.0f} s")
    return Run(jobs=jobs, submit_s=submit_s, lines=lines, ids=ids)


def _ended(lines: dict[str, Sequence[Written]]) -> set[str]:
    return {name for name, found in lines.items() if any(each.what == "end" for each in found)}


def not_ended_once(bed: SlurmBed, run: Run) -> list[dict[str, Any]]:
    """Return each task that ended other than once, or beside itself, and what is known of it.

    `wrote`: its own lines. `accounting`: its runs by sacct. `controller`: what slurmctld logged.
    """
    found = []
    for name, lines in run.lines.items():
        said = [each.what for each in lines]
        if said.count("end") == 1 and "twice" not in said:
            continue
        why = "two runs at a time" if "twice" in said else f"ended {said.count('end')} times"
        columns = "JobID,State,ExitCode,Submit,Start,End,Comment"
        ask = ("sacct", "--duplicates", "--allocations", "--noheader", "--parsable2")
        rows = bed.run(*ask, f"--jobs={run.ids[name]}", f"--format={columns}")
        number = bed.run(*ask[:-1], f"--jobs={run.ids[name]}", "--format=JobIDRaw%20").split()
        logged = (bed.folder / "slurmctld.log").read_text(errors="replace").splitlines()
        about = (f"JobId={run.ids[name]} ", *(f"({each})" for each in number[:1]))
        about += tuple(f"JobId={each} " for each in number[:1])
        found.append(
            {
                "job": name,
                "why": why,
                "wrote": [f"{each.what} {each.run} {each.t_s:.3f} {each.at_s}" for each in lines],
                "accounting": rows.splitlines(),
                "controller": [
                    line for line in logged if any(each in f"{line} " for each in about)
                ],
            }
        )
    return found


def figures(run: Run, *, nodes: int) -> dict[str, float]:
    """Return how a load went, by the lab's own measures."""
    trace, machines = _trace(run.jobs, run.submit_s, run.lines), _machines(nodes)
    row_of = {name: row for row, name in enumerate(trace.job_id.tolist())}
    spans = sorted(
        (start_s, stop_s, row_of[name])
        for name, lines in run.lines.items()
        for start_s, stop_s in _spans(lines)
    )
    start_s, stop_s = np.array([each[:2] for each in spans]).T
    job = np.array([each[2] for each in spans], np.int64)
    first_s, end_s = np.full(len(trace), np.inf), np.zeros(len(trace))
    np.minimum.at(first_s, job, start_s)
    np.maximum.at(end_s, job, stop_s)
    stops = np.bincount(job, minlength=len(trace)) - 1
    return _kept(
        Replay(
            policy="real",
            trace=trace,
            machines=machines,
            quota=_settings().quota_of(trace, machines),
            start_s=first_s,
            end_s=end_s,
            preemptions=stops,
            lost_s=np.zeros(len(trace)),
            segments=Segments(
                job=job,
                start_s=start_s,
                stop_s=stop_s,
                gpus=trace.gpus[job],
                node=np.full(len(job), -1, np.int64),
                nodes=np.zeros(len(job), np.int64),
                speed=np.ones(len(job)),
            ),
            cpu_s=0.0,
            decisions=0,
        )
    )


def gpu_time(run: Run, *, nodes: int) -> dict[str, float]:
    """Return where the GPUs' time went until the last job ended, as shares that add up to 1.

    `redone`: what jobs did between their last save and their stop. `nobody_waits`: idle, and no
    job was there to run. `too_wide`: idle, and every job that waited asked for more GPUs than
    that. `stopped_wait`: idle, and of the jobs that would have fitted all had been stopped.
    `others_wait`: idle, and another would have fitted, if the free GPUs were in the right places.
    """
    names = [(name, job) for job in run.jobs for name in job.names]
    wants = {name: job.all_gpus for name, job in names}
    spans = {name: _spans(run.lines[name]) for name, _ in names}
    ends_s = {name: each[-1][1] for name, each in spans.items()}
    from_s, to_s = min(run.submit_s.values()), max(ends_s.values())
    edges = {from_s, to_s, *run.submit_s.values()}
    times = sorted(edges | {t_s for each in spans.values() for span in each for t_s in span})
    idle = dict.fromkeys(("nobody_waits", "too_wide", "stopped_wait", "others_wait"), 0.0)
    for begin_s, end_s in pairwise(times):
        runs = {n for n, each in spans.items() if any(a <= begin_s < b for a, b in each)}
        waits = {n for n in wants if run.submit_s[n] <= begin_s < ends_s[n]} - runs
        free = nodes * GPUS - sum(wants[name] for name in runs)
        stopped = {name for name in waits if spans[name][0][0] < begin_s}
        idle[_why_idle(waits, stopped, wants, free)] += free * (end_s - begin_s)
    held = sum((b - a) * wants[name] for name, each in spans.items() for a, b in each)
    asked = sum(job.run_s * job.all_gpus for _, job in names)
    whole = nodes * GPUS * (to_s - from_s)
    shares = {"work": asked, "redone": held - asked, **idle}
    return {name: round(value / whole, 4) for name, value in shares.items()}


def _why_idle(waits: set[str], stopped: set[str], wants: dict[str, int], free: int) -> str:
    fit = {name for name in waits if wants[name] <= free}
    if not waits:
        return "nobody_waits"
    if not fit:
        return "too_wide"
    return "stopped_wait" if fit <= stopped else "others_wait"


def lab_figures(jobs: Sequence[LoadJob], policy: str, *, nodes: int) -> dict[str, float]:
    """Return what the lab predicts for the same jobs, each as long as it asks to run."""
    submit_s = {name: job.arrive_s for job in jobs for name in job.names}
    trace = _trace(jobs, submit_s, {})
    return _kept(replay(trace, _machines(nodes), policy, _settings()))


def _kept(found: Replay) -> dict[str, float]:
    measures = judge(found)
    kept = {name: float(getattr(measures, name)) for name in KEPT}
    kept["guarantees_kept"] = measures.fairness_compliance
    kept["preemptions"] = float(measures.preemptions)
    return {name: round(value, 4) for name, value in kept.items()}


def _settings() -> LabSettings:
    return LabSettings(quota=GUARANTEES, checkpoint_s=float(SAVE_S), placement="packed")


def _machines(nodes: int) -> Machines:
    return machines_of(nodes * GPUS, gpus_per_node=GPUS)


def _trace(
    jobs: Sequence[LoadJob], submit_s: dict[str, float], lines: dict[str, Sequence[Written]]
) -> Trace:
    """Return a load as a trace; where jobs have run, with the time that this really took."""
    tasks = [(name, job) for job in jobs for name in job.names]
    ran_s = {
        name: sum(stop - start for start, stop in _spans(each)) for name, each in lines.items()
    }
    return trace_of(
        "the load",
        submit_s=[submit_s[name] for name, _ in tasks],
        duration_s=[ran_s.get(name, job.run_s) for name, job in tasks],
        gpus=[float(job.all_gpus) for _, job in tasks],
        tenant=[job.account for _, job in tasks],
        user=["root"] * len(tasks),
        model=[job.name for _, job in tasks],
        job_id=[name for name, _ in tasks],
    )


def _spans(lines: Sequence[Written]) -> list[tuple[float, float]]:
    """Return from when to when a job ran; a run without its last line ended with the last known."""
    found: list[tuple[float, float]] = []
    for line in lines:
        if line.what == "begin":
            found.append((line.t_s, line.t_s))
        elif found:
            found[-1] = (found[-1][0], max(found[-1][1], line.t_s))
    return found
