"""Does lending find more and disturb less when it knows the phase that a run is in?

The same simulated histories are lived through twice: with `quiet-phases` alone, and with
`workload-phases` beside it, which lets a GPU be reported as idle after two minutes instead of five
where the filter is all but certain. Compared by history: what loans gained, and what owners lost,
both by the simulator's exact account. Nothing was chosen on these seeds.
"""

from __future__ import annotations

import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import sqrt

import polars as pl

from quiet_phases import IDLE, RECORDED, frames, stage
from report import bar, finish, progress, quick
from savings_truth import HOUR_S, LATE, START_S, T_95, UNSEEN, site
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.decide.rules.gpu_idle_while_allocated import GpuIdleWhileAllocated
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.learn.estimators.workload_phases import WorkloadPhases
from steward.model.event import Observation
from steward.model.frame import T_S
from steward.observe.normalise import Normaliser
from steward.sim.scenario import demo
from steward.sim.world import World

PLAIN = ("quiet-phases", "idle-spells")
PHASED = ("quiet-phases", "workload-phases", "idle-spells")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What one history brought."""

    gained_gpu_hours: float
    lost_gpu_hours: float  # by owners
    busy_share: float


def live(seed: int, hours: float, estimators: tuple[str, ...]) -> Lived:
    """Go through one history with these estimators."""
    world = World(demo(), seed=seed, start_s=START_S)
    clock = ManualClock(START_S)
    with tempfile.TemporaryDirectory() as folder:
        settings = site(folder, "auto", "")
        learn = settings.learn.model_copy(update={"estimators": estimators})
        settings = settings.model_copy(update={"learn": learn})
        loop = assemble(settings, clock=clock, collectors=[world], actuator=world)
        while clock.now_s() <= START_S + hours * HOUR_S:
            loop.turn()
            clock.set(clock.now_s() + settings.loop.every_s * LATE)
        loop.close()
    truth = world.truth()
    return Lived(
        gained_gpu_hours=truth.gained_gpu_s / HOUR_S,
        lost_gpu_hours=truth.owner_loss_gpu_s / HOUR_S,
        busy_share=truth.busy_gpu_s / truth.capacity_gpu_s,
    )


def both(seed: int, hours: float) -> tuple[Lived, Lived]:
    """Live through one history without phases and with them."""
    return live(seed, hours, PLAIN), live(seed, hours, PHASED)


def recorded() -> dict[str, dict[str, int]]:
    """Return, of a recorded job on an H200, the seconds reported as idle, by what it really did."""
    table = pl.read_csv(RECORDED)
    samples, _ = Normaliser(source="recorded", vocabulary="canonical").normalise(frames(table))
    labels = dict(zip(table[T_S], table["phase"], strict=True))
    moment, rule = stage(), GpuIdleWhileAllocated()
    quiet, phases = QuietPhases(), WorkloadPhases()
    found = {name: {"idle": 0, "at_work": 0} for name in ("plain", "phased")}
    for (t_s,), rows in samples.group_by(T_S, maintain_order=True):
        assert isinstance(t_s, float)
        moment.fold(Observation(frame=rows))
        view = moment.view(t_s)
        quiet.learn(view, ())
        phases.learn(view, ())
        plain = view.with_forecasts(quiet.predict(view))
        phased = plain.with_forecasts(phases.predict(view))
        which = "idle" if labels[t_s] in IDLE else "at_work"
        found["plain"][which] += bool(rule.detect(plain))
        found["phased"][which] += bool(rule.detect(phased))
    return found


def interval(values: list[float]) -> dict[str, float]:
    """Return the mean with its 95 % range over seeds."""
    mean = statistics.fmean(values)
    half = T_95[len(values)] * statistics.stdev(values) / sqrt(len(values))
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


def main() -> None:
    """Compare gains and losses by history."""
    seeds, hours = (UNSEEN[:3], 2.0) if quick() else (UNSEEN, 3.0)
    with ProcessPoolExecutor(2) as pool:
        pairs = []
        for seed, pair in zip(seeds, pool.map(both, seeds, [hours] * len(seeds)), strict=True):
            pairs.append(pair)
            progress(f"seed {seed}: {pair[0]} -> {pair[1]}")
    more = [b.gained_gpu_hours - a.gained_gpu_hours for a, b in pairs]
    lost = [
        b.lost_gpu_hours / b.gained_gpu_hours - a.lost_gpu_hours / a.gained_gpu_hours
        for a, b in pairs
    ]
    finish(
        "workloads_lending",
        {
            "seconds_reported_idle_in_a_recorded_job": recorded(),
            "seeds": len(seeds),
            "hours": hours,
            "gained_gpu_hours": [round(a.gained_gpu_hours, 2) for a, _ in pairs],
            "gained_gpu_hours_with_phases": [round(b.gained_gpu_hours, 2) for _, b in pairs],
            "more_gpu_hours": interval(more),
            "owner_loss_share_of_gain": [
                round(a.lost_gpu_hours / a.gained_gpu_hours, 5) for a, _ in pairs
            ],
            "owner_loss_share_of_gain_with_phases": [
                round(b.lost_gpu_hours / b.gained_gpu_hours, 5) for _, b in pairs
            ],
            "owner_loss_share_difference": interval(lost),
        },
        [
            bar("GPU-hours found more, mean", round(statistics.fmean(more), 3), ">", 0.0),
            bar("owners' loss per gain, difference", round(statistics.fmean(lost), 5), "<=", 0.0),
        ],
    )


if __name__ == "__main__":
    main()
