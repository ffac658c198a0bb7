"""Greener and cheaper hours: carbon by waiting, energy by power limits, money by spot capacity.

Carbon: a job of 4 h arrives every hour and may wait 24 h, on recorded grid intensities of ten
regions (CarbonCast). Features and the length of training were chosen on January to June 2021; July
to December 2021 is reported (part of its regions was seen while choosing; other regions are not in
the data). `forecasts alone` is the estimator without forecasts of others, `with CarbonCast` weighs
both. Which region would be greenest is counted apart.

Power: recorded curves of Zeus, by `power_caps.py`, trainings that nothing was chosen on.

Spot: generated availability of one and of nine zones, two kinds of lives; a policy sees the two
weeks before a job and the present, the optimum knows the future. Nothing was chosen on these seeds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from power_caps import curves, summary, trial
from report import bar, finish, progress
from steward.decide.planning.spot import SpotTable, spot_table
from steward.learn.estimators.spot_lives import SpotLives, spot_lives
from steward.model.planning.spot import Capacity, SpotJob
from steward.sim.greener import replay_greener
from steward.sim.spot import (
    SpotMoment,
    SpotTrial,
    generated_capacity,
    offline_cost,
    run_on_spot,
)
from steward.store.grid_carbon import read_carbon

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
REPORTED_FROM_S = 1625097600.0 + 7 * 86400  # 2021-07-08, a week after the first forecast of others
STEP_S = 360.0
HISTORY = int(14 * 86400 / STEP_S)
RESTART = 2  # steps: 12 minutes
SPOT_PRICE = 1 / 3
HOURS = ((48, 52), (24, 32), (12, 24))  # of work, to the deadline
LIVES: tuple[Literal["memoryless", "heavy"], ...] = ("memoryless", "heavy")


def carbon(*, quick: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Replay jobs in all regions, with and without forecasts of others."""
    folder = DATA / "energy"
    given = folder / "carbon_forecasts.csv.gz"
    found, bars = {}, []
    for name, forecasts in (("forecasts alone", None), ("with CarbonCast", given)):
        series = read_carbon(folder / "carbon_hourly.csv.gz", forecasts)
        if quick:
            series = series[:2]
        saving = replay_greener(series, run_s=4 * 3600.0, slack_h=24, from_s=REPORTED_FROM_S)
        progress(f"carbon, {name}: {saving.of_oracle_share:.1%} of the oracle's saving")
        of_oracle = [each.saved_share / each.oracle_share for each in saving.regions]
        record = asdict(saving)
        record["of_oracle_share_mean_of_regions"] = round(float(np.mean(of_oracle)), 4)
        found[name] = record
        bars += [
            bar(f"{name}: share of the oracle's saving", saving.of_oracle_share, ">=", 0.85),
            bar(
                f"{name}: most that a region emits over starting now",
                saving.worst_share,
                "<=",
                0.02,
            ),
        ]
    return found, bars


def power(*, quick: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Let the estimator and the policy that run live find limits on recorded curves."""
    found = [
        trial(curve, 0.05, number)
        for number, curve in enumerate(curves()[:: 8 if quick else 1])
        if curve.part != "v100, chosen on"
    ]
    every, reached = summary(found), summary([each for each in found if each["reached"]])
    bars = [
        bar("power: energy saved, median of all jobs", every["saving_median"], ">=", 0.09),
        bar(
            "power: jobs slowed by more than 5 % and 1 % of noise",
            every["beyond_allowed_and_1_percent_share"],
            "<=",
            0.0,
        ),
        bar("power: limits tried, most", every["limits_tried_most"], "<=", 5),
    ]
    return {"all jobs": every, "jobs that a limit reaches": reached}, bars


def _ours(table: SpotTable, lives: SpotLives) -> Callable[[SpotMoment], tuple[Capacity, int]]:
    def choose(seen: SpotMoment) -> tuple[Capacity, int]:
        wanted = table.choose(
            left_s=seen.left * STEP_S,
            work_s=seen.work * STEP_S,
            on=seen.on,
            restarting_s=seen.restarting * STEP_S,
            spot_is_there=bool(seen.there),
        )
        if wanted is not Capacity.SPOT:
            return wanted, -1
        return wanted, seen.zone if seen.on is Capacity.SPOT else lives.best(seen.there)

    return choose


def _greedy(trial_: SpotTrial, lives: SpotLives) -> Callable[[SpotMoment], tuple[Capacity, int]]:
    """Return the rule: spot where there is any, else wait until only on demand is in time."""

    def choose(seen: SpotMoment) -> tuple[Capacity, int]:
        if seen.on is Capacity.ON_DEMAND or seen.left <= seen.work + 2 * trial_.restart + 1:
            on_spot = seen.on is Capacity.SPOT and seen.left > seen.work + trial_.restart + 1
            return (Capacity.SPOT, seen.zone) if on_spot else (Capacity.ON_DEMAND, -1)
        if seen.on is Capacity.SPOT:
            return seen.on, seen.zone
        return (Capacity.SPOT, lives.best(seen.there)) if seen.there else (Capacity.NONE, -1)

    return choose


def spot(*, quick: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run jobs on generated capacity under ours, greedy, on demand only, and the optimum."""
    found: dict[str, Any] = {}
    bars = []
    for zones, limit in ((1, 1.12), (9, 1.05)):
        late = 0
        for lives in LIVES:
            for work_h, deadline_h in HOURS:
                name = f"{zones} zones, {lives}, {work_h} h of work in {deadline_h} h"
                rows = [
                    _spot_trial(seed, zones, lives, work_h, deadline_h)
                    for seed in range(1000, 1006 if quick else 1060)
                ]
                costs = np.array([row[:3] for row in rows])
                late += sum(not row[3] for row in rows)
                ratio = costs[:, 0].sum() / costs[:, 2].sum()
                low, high = _interval(costs)
                found[name] = {
                    "cost_to_optimum": round(float(ratio), 4),
                    "cost_to_optimum_95": [round(low, 4), round(high, 4)],
                    "greedy_to_optimum": round(float(costs[:, 1].sum() / costs[:, 2].sum()), 4),
                    "cost_to_on_demand": round(
                        float(costs[:, 0].mean() * STEP_S / 3600 / work_h), 4
                    ),
                    "worst_job": round(float((costs[:, 0] / costs[:, 2]).max()), 4),
                    "jobs": len(rows),
                }
                progress(f"{name}: {ratio:.3f}")
                bars.append(bar(f"spot, {name}: cost to the optimum", float(ratio), "<=", limit))
        bars.append(bar(f"spot, {zones} zones: late jobs", late, "==", 0))
    return found, bars


def _spot_trial(
    seed: int, zones: int, lives: Literal["memoryless", "heavy"], work_h: int, deadline_h: int
) -> tuple[float, float, float, bool]:
    steps = round(deadline_h * 3600 / STEP_S)
    asked = SpotTrial(
        work=round(work_h * 3600 / STEP_S), deadline=steps, restart=RESTART, spot_price=SPOT_PRICE
    )
    there = generated_capacity(
        seed, zones=zones, steps=HISTORY + steps + 1, step_s=STEP_S, lives=lives
    )
    before, after = there[:, :HISTORY], there[:, HISTORY:]
    learned = spot_lives(before, step_s=STEP_S)
    job = SpotJob(
        work_s=asked.work * STEP_S,
        deadline_s=steps * STEP_S,
        restart_s=RESTART * STEP_S,
        spot_price=SPOT_PRICE,
    )
    table = spot_table(job, learned.life, step_s=STEP_S)
    cost, in_time = run_on_spot(asked, after, _ours(table, learned))
    greedy, _ = run_on_spot(asked, after, _greedy(asked, learned))
    return cost, greedy, offline_cost(asked, after), in_time


def _interval(costs: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    random = np.random.default_rng(0)
    drawn = costs[random.integers(0, len(costs), (1000, len(costs)))]
    ratios = drawn[:, :, 0].sum(axis=1) / drawn[:, :, 2].sum(axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return low, high


def main() -> None:
    """Run all parts and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few regions, curves and seeds")
    quick = bool(parser.parse_args().quick)
    results, bars = {}, []
    for name, part in (("carbon", carbon), ("power", power), ("spot", spot)):
        results[name], found = part(quick=quick)
        bars += found
    finish("greener", results, bars)


if __name__ == "__main__":
    main()
