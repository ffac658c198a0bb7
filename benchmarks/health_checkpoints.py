"""Compares the useful share of training time, and the best interval, with a simulation.

The simulation knows nothing of the formulas: failures come to single GPUs, a job stops, waits,
restarts (and may fail again meanwhile), works and saves, step by step. Each GPU has a failure time
of its own; for lives that are not exponential the job as a whole is renewed, as after a new node.
Young's and Daly's intervals are the rivals, run in the same simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma
from typing import Any

import numpy as np
from numpy.typing import NDArray

from report import bar, finish, progress, quick
from steward.decide.health.checkpoint_intervals import (
    JobLife,
    SaveCosts,
    best_interval_s,
    daly_s,
    expected_wall_s,
    useful_share,
    young_s,
)

HOUR_S = 3600.0
FAILURES = 60_000  # of each simulated job
SEEDS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A job: its GPUs, how long one GPU lives, and what saving costs."""

    name: str
    gpus: int
    gpu_life_h: float
    costs: SaveCosts
    shape: float = 1.0

    @property
    def life(self) -> JobLife:
        """Return the life of the whole job."""
        return JobLife(mean_s=self.gpu_life_h * HOUR_S / self.gpus, shape=self.shape)


CASES = (
    Case("Llama 3: 16,384 GPUs", 16_384, 50_700, SaveCosts(save_s=30, restart_s=300)),
    Case("512 GPUs, slow saves", 512, 20_000, SaveCosts(save_s=600, restart_s=900)),
    Case("64 GPUs, waits for a place", 64, 50_700,
         SaveCosts(save_s=60, restart_s=120, down_s=1800)),
    Case("background saves", 4096, 50_700, SaveCosts(save_s=5, restart_s=300, durable_s=240)),
    Case("fails nearly as often as it saves", 16_384, 8_000, SaveCosts(save_s=900, restart_s=300)),
    Case("bursts of failures (Weibull 0.6)", 1024, 20_000,
         SaveCosts(save_s=60, restart_s=120), 0.6),
    Case("wearing parts (Weibull 1.8)", 1024, 20_000, SaveCosts(save_s=300, restart_s=300), 1.8),
)  # fmt: skip


def lives_s(case: Case, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return times until the job is hit: of constant rates, the first of all GPUs' own."""
    if case.shape == 1.0:
        few = min(case.gpus, 64)  # groups of GPUs: the least of many is drawn by groups
        group_s = case.gpu_life_h * HOUR_S / (case.gpus / few)
        found = np.full(count, np.inf)
        for _ in range(few):
            found = np.minimum(found, rng.exponential(group_s, count))
        return found
    scale_s = case.life.mean_s / gamma(1 + 1 / case.shape)
    return np.asarray(scale_s * rng.weibull(case.shape, count))


def simulate(case: Case, every_s: float, *, count: int, seed: int) -> float:
    """Return the useful share of a job that never ends, event by event, after so many failures."""
    rng, costs = np.random.default_rng(seed), case.costs
    kept_s = wall_s = 0.0
    for life_s in lives_s(case, count, rng).tolist():
        wall_s += costs.down_s + life_s
        now_s, pending = costs.restart_s, []
        while now_s < life_s:
            now_s += every_s  # works
            if now_s >= life_s:
                break
            now_s += costs.save_s  # stands still for the save
            if now_s >= life_s:
                break
            pending.append(now_s + costs.durable_s)
        kept_s += every_s * sum(durable_s <= life_s for durable_s in pending)
    return kept_s / wall_s


def simulate_end(case: Case, work_s: float, every_s: float, *, runs: int, seed: int) -> float:
    """Return the mean time of a job with an end; it does not save at the end."""
    rng, costs = np.random.default_rng(seed), case.costs
    parts = max(1, int(np.ceil(work_s / every_s - 1e-9)))
    one_s, total_s = work_s / parts, 0.0
    for _ in range(runs):
        done, first = 0, True
        while done < parts:
            life_s = float(rng.exponential(case.life.mean_s))
            now_s = 0.0 if first else costs.restart_s
            if not first:
                total_s += costs.down_s
            first = False
            while done < parts:
                step_s = one_s + (costs.save_s if done < parts - 1 else 0.0)
                if now_s + step_s > life_s:
                    break
                now_s += step_s
                done += 1
            total_s += now_s if done == parts else life_s
    return total_s / runs


def check(case: Case, *, count: int, seeds: int) -> dict[str, Any]:
    """Compare formula and simulation at our interval, half and twice it, and at the rivals'."""
    ours_s = best_interval_s(case.costs, case.life)
    young, daly = (rule(case.costs.save_s, case.life.mean_s) for rule in (young_s, daly_s))
    points = {"ours": ours_s, "half": ours_s / 2, "twice": 2 * ours_s, "young": young, "daly": daly}
    rows = {}
    for name, every_s in points.items():
        shares = [simulate(case, every_s, count=count, seed=seed) for seed in range(seeds)]
        mean, formula = float(np.mean(shares)), useful_share(every_s, case.costs, case.life)
        rows[name] = {
            "every_s": every_s,
            "simulated": mean,
            "simulated_standard_error": float(np.std(shares, ddof=1) / len(shares) ** 0.5),
            "formula": formula,
            "off": abs(formula / mean - 1),
        }
    # The best of a fine grid, by simulation with the same draws: nothing may beat ours.
    grid = np.geomspace(ours_s / 3, ours_s * 3, 13)
    best = max(simulate(case, float(each), count=count // 4, seed=99) for each in grid)
    own = simulate(case, ours_s, count=count // 4, seed=99)
    return {"points": rows, "grid_best_over_ours": best / own - 1}


def main() -> None:
    """Check all cases."""
    short = quick()
    count, seeds = (4_000, 3) if short else (FAILURES, SEEDS)
    results: dict[str, Any] = {}
    for case in CASES:
        progress(case.name)
        results[case.name] = check(case, count=count, seeds=seeds)
    progress("a job with an end")
    case = CASES[2]
    work_s, every_s = 30 * case.life.mean_s, best_interval_s(case.costs, case.life)
    simulated = simulate_end(case, work_s, every_s, runs=count // 30, seed=5)
    formula = expected_wall_s(work_s, every_s, case.costs, case.life)
    results["a job with an end"] = {"simulated_s": simulated, "formula_s": formula}
    cases = [results[case.name] for case in CASES]
    limit = 0.03 if short else 0.01
    off = max(row["off"] for each in cases for row in each["points"].values())
    against = {
        rule: [each["points"]["ours"]["simulated"] / each["points"][rule]["simulated"] - 1
               for each in cases]
        for rule in ("young", "daly")
    }  # fmt: skip
    results["gain_over"] = {
        rule: dict(zip((case.name for case in CASES), gains, strict=True))
        for rule, gains in against.items()
    }
    bars = [
        bar("useful share: formula off the simulation, worst", off, "<=", limit),
        bar(
            "job with an end: formula off the simulation", abs(formula / simulated - 1), "<=", limit
        ),
        bar(
            "best of a grid above our interval, worst",
            max(each["grid_best_over_ours"] for each in cases),
            "<=",
            limit,
        ),
        bar("ours above Young's, worst case", min(against["young"]), ">=", -0.002),
        bar("ours above Young's, best case", max(against["young"]), ">", 0.0),
        bar("ours above Daly's, worst case", min(against["daly"]), ">=", -0.002),
    ]
    finish("health_checkpoints", results, bars)


if __name__ == "__main__":
    main()
