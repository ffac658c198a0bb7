"""Do wide jobs run, where no job can be moved out of their way, and what does that cost?

The simulated cluster of `steward up --demo --policy commons` lives through twelve hours twice per
seed: with `gang_wait_s` of commons of an hour, and as it is by default, which is without turns for
gangs. Wide is a job that needs a whole node. Compared are the GPU-hours that wide jobs get, how
long jobs of each width wait, and how many GPUs jobs hold and keep busy. Rules are off and a turn is
a minute instead of 10 s: it takes a fifth of the time.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from savings_truth import HOUR_S, LATE, START_S, site
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.model.event import Observation
from steward.model.job import Job, JobState
from steward.sim.program import Order
from steward.sim.scenario import demo
from steward.sim.workload import Workload
from steward.sim.world import World

HOURS, QUICK_HOURS = 12.0, 2.0
UNSEEN = (11, 12, 13, 14, 15)  # the mechanism was made while looking at histories 1 to 5
EVERY_S = 60.0
WAYS: dict[str, dict[str, float]] = {
    "without": {"gang_wait_s": inf},
    "with": {"gang_wait_s": 3600.0},
}


class Demand(Workload):
    """The demo's stream of orders, which notes those that are given."""

    given: dict[str, Order]

    def initial(self) -> tuple[Order, ...]:
        """Note the orders that are there when the world begins."""
        orders = super().initial()
        self.given = {order.job.id: order for order in orders}
        return orders

    def submits(self, order: Order, *, waiting: int) -> bool:
        """Note an order that is given."""
        given = super().submits(order, waiting=waiting)
        if given:
            self.given[order.job.id] = order
        return given


class WatchedWorld(World):
    """A world that keeps the last state of each job that it has reported."""

    jobs: dict[str, Job]

    def collect(self, t_s: float) -> Observation:
        """Note the jobs that changed."""
        seen = super().collect(t_s)
        self.jobs = getattr(self, "jobs", {}) | {job.id: job for job in seen.jobs}
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What became of a job in the hours that were watched."""

    gpus: int
    asked_gpu_h: float
    ran_h: float
    waited_h: float
    took_h: float  # from its submission to its end, or until now


def settings_of(folder: str, options: dict[str, float]) -> Settings:
    """Return the settings of a site that commons schedules, without rules."""
    plain = site(folder, "auto", "commons")
    return plain.model_copy(
        update={
            "rules": plain.rules.model_copy(update={"on": False}),
            "loop": plain.loop.model_copy(update={"every_s": EVERY_S}),
            "plugs": {"commons": options},
        }
    )


def live(seed: int, hours: float, options: dict[str, float]) -> dict[str, Any]:
    """Go through one history with these options of commons."""
    scenario = replace(demo(), starts_jobs=False, sample_every_s=EVERY_S)
    script = Demand(scenario, seed=seed, begin_s=START_S - scenario.warm_up_s)
    world = WatchedWorld(scenario, seed=seed, start_s=START_S, script=script)
    clock = ManualClock(START_S)
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(folder, options)
        loop = assemble(settings, clock=clock, collectors=[world], actuator=world)
        while clock.now_s() <= START_S + hours * HOUR_S:
            loop.turn()
            clock.set(clock.now_s() + EVERY_S * LATE)
        loop.close()
    end_s = world.truth().t_s
    lives = [life_of(job, script.given[job.id], end_s) for job in world.jobs.values()]
    return figures(world, lives, wide=scenario.gpus_per_node)


def life_of(job: Job, order: Order, end_s: float) -> Lived:
    """Return what a job asked for and got since the start."""
    over_s = end_s if job.end_s is None else job.end_s
    ran_s = sum(max(to_s - max(from_s, START_S), 0.0) for from_s, to_s in runs_of(job, over_s))
    gpus = job.shape.gpus
    return Lived(
        gpus=gpus,
        asked_gpu_h=gpus * order.duration_s / HOUR_S,
        ran_h=ran_s / HOUR_S,
        waited_h=(over_s - max(job.submit_s, START_S) - ran_s) / HOUR_S,
        took_h=(over_s - job.submit_s) / HOUR_S,
    )


def runs_of(job: Job, over_s: float) -> Iterator[tuple[float, float]]:
    """Return from when to when a job ran."""
    began_s: float | None = None
    for line in job.history:
        if line.state is JobState.RUNNING:
            began_s = line.t_s if began_s is None else began_s
        elif began_s is not None:
            yield began_s, line.t_s
            began_s = None
    if began_s is not None:
        yield began_s, over_s


def figures(world: World, lives: Sequence[Lived], *, wide: int) -> dict[str, Any]:
    """Return what one history comes to."""
    truth = world.truth()
    by_width: dict[int, list[Lived]] = defaultdict(list)
    for each in lives:
        by_width[each.gpus].append(each)
    got = {
        width: sum(each.gpus * each.ran_h for each in group) for width, group in by_width.items()
    }
    asked = {width: sum(each.asked_gpu_h for each in group) for width, group in by_width.items()}
    hours = (truth.t_s - START_S) / HOUR_S
    return {
        "held_gpus": truth.held_gpu_s / HOUR_S / hours,
        "busy_gpus": truth.busy_gpu_s / HOUR_S / hours,
        "mean_completion_h": statistics.fmean(each.took_h for each in lives),
        "completed": truth.completed,
        "wide_share": got.get(wide, 0.0) / sum(got.values()),
        "wide_demand_share": asked.get(wide, 0.0) / sum(asked.values()),
        "by_width": {
            str(width): {
                "jobs": len(group),
                "ran": sum(each.ran_h > 0 for each in group),
                "gpu_hours": round(got[width], 2),
                "mean_wait_h": round(statistics.fmean(each.waited_h for each in group), 3),
                "p95_wait_h": round(float(np.quantile([e.waited_h for e in group], 0.95)), 3),
            }
            for width, group in sorted(by_width.items())
        },
    }


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means over seeds; waits are weighed by jobs."""
    means = {
        name: round(statistics.fmean(run[name] for run in runs), 4)
        for name in runs[0]
        if name != "by_width"
    }
    widths = sorted({width for run in runs for width in run["by_width"]}, key=int)
    by_width = {}
    for width in widths:
        rows = [run["by_width"][width] for run in runs if width in run["by_width"]]
        jobs = sum(row["jobs"] for row in rows)
        by_width[width] = {
            **{name: round(sum(row[name] for row in rows), 2) for name in ("jobs", "ran")},
            "gpu_hours": round(sum(row["gpu_hours"] for row in rows), 2),
            **{
                name: round(sum(row[name] * row["jobs"] for row in rows) / jobs, 3)
                for name in ("mean_wait_h", "p95_wait_h")
            },
        }
    return {**means, "by_width": by_width}


def main() -> None:
    """Live through every history with and without turns for gangs; exit 1 where a bar is missed."""
    seeds, hours = (UNSEEN[:2], QUICK_HOURS) if quick() else (UNSEEN, HOURS)
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with ProcessPoolExecutor() as pool:
        tasks = [
            (way, seed, pool.submit(live, seed, hours, options))
            for seed in seeds
            for way, options in WAYS.items()
        ]
        for way, seed, task in tasks:
            runs[way].append(task.result())
            progress(f"seed {seed} {way}: {runs[way][-1]}")
    means = {way: over_seeds(found) for way, found in runs.items()}
    wide = str(demo().gpus_per_node)
    with_turns, without = means["with"], means["without"]
    finish(
        "wide_jobs",
        {"seeds": list(seeds), "hours": hours, "means": means, "runs": runs},
        [
            bar(
                "GPU-hours of wide jobs, with / without",
                with_turns["by_width"][wide]["gpu_hours"]
                / max(without["by_width"][wide]["gpu_hours"], 1e-9),
                ">=",
                2.0,
            ),
            bar(
                "share of GPU-hours that wide jobs get / share that they ask for",
                with_turns["wide_share"] / with_turns["wide_demand_share"],
                ">=",
                0.25,
            ),
            bar(
                "GPUs held, with / without",
                with_turns["held_gpus"] / without["held_gpus"],
                ">=",
                0.98,
            ),
            bar(
                "GPUs busy, with / without",
                with_turns["busy_gpus"] / without["busy_gpus"],
                ">=",
                0.98,
            ),
        ],
    )


if __name__ == "__main__":
    main()
