"""Is capping those that lose little better than the rivals, and are sensitivities estimated right?

An estimator is trained on scenes of its own seeds, in which caps are set at random (deliberately
congested and deliberately capped runs). Then each policy runs each of 20 unseen scenes on each of
three fabrics: stretch is a job's mean step against its step alone, utility the share of GPUs that
do useful work. Intervals are bootstrapped over seeds. At last real `tc` shapes real traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from network_scenes import FABRICS, PROGRAMS, Scene, alone_step_s, scene, true_sensitivity
from network_tc import measure
from report import bar, finish, progress, quick
from steward.decide.fabric import FABRIC_POLICIES
from steward.learn.estimators.delay_sensitivity import DelaySensitivity
from steward.model.fabric.traits import cap_loss, traits_of
from steward.model.fabric.view import CAP_SENSITIVITY, DELAY_SENSITIVITY, FabricView
from steward.model.forecast import About, ForecastColumn
from steward.ports import Policy
from steward.sim.fabric.world import FabricWorld

Floats = NDArray[np.float64]

TURN_S = 0.5
TURNS = 28
OURS = "netscope"
RIVALS = ("none", "uniform", "biggest-talker", "per-flow", "oracle")
HELD: Mapping[
    str, Mapping[str, float]
] = {  # all wait as long before they act, and before they undo
    "netscope": {"hold_s": 1.0, "calm_s": 5.0},
    "uniform": {"hold_s": 1.0, "calm_s": 5.0},
    "biggest-talker": {"hold_s": 1.0, "calm_s": 5.0},
}


@dataclass(frozen=True, slots=True)
class _Run:
    stretch: Floats
    sensitive: NDArray[np.bool_]
    gpus: Floats
    estimates: Floats

    @property
    def utility(self) -> float:
        return float((self.gpus / self.stretch).sum() / self.gpus.sum())


def main() -> None:
    """Train, run all, compare."""
    short = quick()
    seeds = range(3 if short else 20)
    state = _trained(range(1000, 1001 if short else 1004))
    runs: dict[tuple[str, str, int], _Run] = {}
    truths: dict[tuple[str, int], Floats] = {}
    for fabric in FABRICS:
        for seed in seeds:
            drawn = scene(fabric, seed, seconds=TURNS * TURN_S)
            alone = np.array([alone_step_s(drawn, row) for row in range(len(drawn.jobs))])
            truth = np.array([true_sensitivity(drawn, row) for row in range(len(drawn.jobs))])
            truths[fabric, seed] = truth
            for policy in (OURS, *RIVALS):
                runs[policy, fabric, seed] = _run(policy, drawn, alone, truth, state)
        progress(f"{fabric}: {len(seeds)} scenes under {1 + len(RIVALS)} policies")
    results, bars = _compared(runs, list(seeds))
    fit = _correlation(runs, truths)
    tc = measure(short=short)
    bars += [
        bar(
            "correlation of estimated and true sensitivity, unseen scenes",
            fit["pearson"],
            ">=",
            0.9,
        ),
        bar("seeds", len(seeds), ">=", 3 if short else 20),
        bar("fabrics", len(FABRICS), ">=", 3),
        bar("tc: throttled rate against its cap", tc["throttled_of_cap"], "<=", 1.1),
        bar("tc: protected latency, after / before", tc["latency_after_of_before"], "<=", 0.5),
    ]
    finish("network", {**results, "sensitivity": fit, "tc": tc}, bars)


def _trained(seeds: Sequence[int]) -> dict[str, Any]:
    """Return the state of an estimator that has seen random caps on scenes of its own."""
    estimator = DelaySensitivity()
    for fabric in FABRICS:
        for seed in seeds:
            drawn = scene(fabric, seed, seconds=48 * TURN_S)
            world, rng = drawn.world(), np.random.default_rng(seed)
            for turn in range(48):
                world.advance(TURN_S)
                estimator.learn(world.view(), ())
                if turn % 4 == 3:
                    for row in range(len(drawn.jobs)):
                        share = rng.choice([1.0, 1.0, 0.7, 0.5, 0.3])
                        world.cap(row, np.inf if share == 1.0 else share * 12.5e9)
        progress(f"trained on {fabric}")
    return estimator.save_state()


def _run(policy: str, drawn: Scene, alone: Floats, truth: Floats, state: dict[str, Any]) -> _Run:
    world = drawn.world()
    estimator = DelaySensitivity()
    estimator.restore_state(state)
    judge = _policy(policy)
    oracle = _oracle(drawn, world, truth, alone) if policy == "oracle" else None
    for _ in range(TURNS):
        world.advance(TURN_S)
        view = world.view()
        estimator.learn(view, ())
        view = view.with_forecasts(estimator.predict(view) if oracle is None else oracle)
        for decision in judge.decide(view):
            world.carry_out(decision, view.t_s)
    estimates = view.forecast(About.APPLICATIONS, DELAY_SENSITIVITY)
    assert estimates is not None
    return _Run(
        stretch=world.mean_step_s / alone,
        sensitive=np.array([PROGRAMS[job.application].sensitive for job in drawn.jobs]),
        gpus=view.applications.gpus,
        estimates=estimates.mid,
    )


def _policy(name: str) -> Policy[FabricView]:
    plug: Callable[..., Policy[FabricView]] = FABRIC_POLICIES[OURS if name == "oracle" else name]
    return plug(**HELD.get(OURS if name == "oracle" else name, {}))


def _oracle(
    drawn: Scene, world: FabricWorld, truth: Floats, alone: Floats
) -> tuple[ForecastColumn, ForecastColumn]:
    """Return what is truly so as forecasts without doubt: what delay costs, and what a cap does."""
    half = np.full(len(drawn.jobs), 0.5)
    applications = world.view().applications
    costs = []
    for row in range(len(drawn.jobs)):
        capped = FabricWorld(drawn.fabric, [drawn.jobs[row]], drawn.around)
        capped.cap(0, 0.5 * 12.5e9)
        capped.advance(20 * drawn.jobs[row].compute_s + 2.0)
        costs.append(np.log(max(float(capped.mean_step_s[0]) / alone[row], 1.0)))
    said = cap_loss(traits_of(applications), half)
    return _sure(DELAY_SENSITIVITY, np.nan_to_num(truth)), _sure(
        CAP_SENSITIVITY, np.array(costs) / said
    )


def _sure(quantity: str, values: Floats) -> ForecastColumn:
    return ForecastColumn(
        about=About.APPLICATIONS,
        quantity=quantity,
        low=values,
        mid=values,
        high=values,
        basis="oracle",
    )


def _compared(
    runs: Mapping[tuple[str, str, int], _Run], seeds: Sequence[int]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    policies = (OURS, *RIVALS)
    rng = np.random.default_rng(7)
    draws = [list(rng.choice(seeds, len(seeds))) for _ in range(400)]
    measures: dict[str, Callable[[str, Sequence[int]], float]] = {
        "p99_stretch": lambda p, s: float(np.percentile(_all(runs, p, s), 99)),
        "p95_stretch": lambda p, s: float(np.percentile(_all(runs, p, s), 95)),
        "mean_stretch": lambda p, s: float(_all(runs, p, s).mean()),
        "sensitive_stretch": lambda p, s: float(_all(runs, p, s, sensitive=True).mean()),
        "utility": lambda p, s: float(
            np.mean([runs[p, fabric, seed].utility for fabric in FABRICS for seed in s])
        ),
    }
    table: dict[str, Any] = {}
    against: dict[str, Any] = {}
    for measure_, of in measures.items():
        table[measure_] = {
            p: _interval(of(p, seeds), [of(p, drawn) for drawn in draws]) for p in policies
        }
        against[measure_] = {
            p: _interval(of(OURS, seeds) - of(p, seeds), [of(OURS, d) - of(p, d) for d in draws])
            for p in RIVALS
        }
    by_fabric = {
        fabric: {
            p: round(
                float(
                    np.percentile(np.concatenate([runs[p, fabric, s].stretch for s in seeds]), 99)
                ),
                3,
            )
            for p in policies
        }
        for fabric in FABRICS
    }
    bars = [
        bar(
            "P99 stretch, ours - biggest talker (high)",
            against["p99_stretch"]["biggest-talker"]["high"],
            "<",
            0.0,
        ),
        bar("P99 stretch, ours - none (high)", against["p99_stretch"]["none"]["high"], "<", 0.0),
        bar(
            "utility, ours - biggest talker (low)",
            against["utility"]["biggest-talker"]["low"],
            ">",
            0.0,
        ),
        bar("utility, ours - none (low)", against["utility"]["none"]["low"], ">", 0.0),
        bar(
            "mean stretch of the sensitive, ours - none (high)",
            against["sensitive_stretch"]["none"]["high"],
            "<=",
            0.0,
        ),
    ]
    return {"by_policy": table, "ours_minus": against, "p99_by_fabric": by_fabric}, bars


def _all(
    runs: Mapping[tuple[str, str, int], _Run],
    policy: str,
    seeds: Sequence[int],
    *,
    sensitive: bool = False,
) -> Floats:
    parts = []
    for fabric in FABRICS:
        for seed in seeds:
            run = runs[policy, fabric, seed]
            parts.append(run.stretch[run.sensitive] if sensitive else run.stretch)
    return np.concatenate(parts)


def _interval(value: float, drawn: Sequence[float]) -> dict[str, float]:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"low": round(float(low), 4), "value": round(value, 4), "high": round(float(high), 4)}


def _correlation(
    runs: Mapping[tuple[str, str, int], _Run], truths: Mapping[tuple[str, int], Floats]
) -> dict[str, float]:
    """Correlate what is believed of each job at the end of our runs with what is so."""
    said = np.concatenate([runs[OURS, *key].estimates for key in truths])
    true = np.concatenate(list(truths.values()))
    known = np.isfinite(true)
    said, true = said[known], true[known]
    ranks = [np.argsort(np.argsort(each)).astype(float) for each in (said, true)]
    weak = true < np.percentile(true, 80)
    return {
        "jobs": float(len(true)),
        "pearson": round(float(np.corrcoef(said, true)[0, 1]), 3),
        "spearman": round(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), 3),
        "pearson_without_the_most_sensitive_fifth": round(
            float(np.corrcoef(said[weak], true[weak])[0, 1]), 3
        ),
    }


if __name__ == "__main__":
    main()
