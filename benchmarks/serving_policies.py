"""Does our dispatcher miss fewer deadlines than each rival, and our scaler use fewer GPU-seconds?

Dispatchers: one model on one instance, three classes (chat 60 %, standard, batch) with the lengths
of public traces, at loads of 0.5 to 1.5 of its measured capacity and with bursts of three times
the rate; two models on four instances whose popularity turns over half-way. Attainment is the
share of requests that got all that their class promises. Differences are paired by seed, with 95 %
intervals of the mean (Student's t).

Scalers: one to ten instances under a load that changes over time; each with the dispatcher that its
system has, and with ours; `kpa` and `qps` with a second target too. The first 900 s are not judged:
nobody has seen a jump before (`attainment_from_start` has them). GPU-seconds count from the start.
A rival that meets fewer than 99 % of the deadlines is not compared by its GPU-seconds.

Tuned with seeds 101 and 102 only; what is reported are other seeds. But `slack` was tuned on the
shapes wave and jumps: steps (levels and their lengths drawn by seed) and recorded (an hour of
Azure's chat, sped up, thinned by seed) were added after that, and nothing was changed for them.

Policies plan with the nominal step times of the instance type and answers of 256 tokens; nobody is
told the length of an answer. `qlm, learned` is ours with the estimator that the gateway uses: its
forecasts come from requests that ended in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from report import bar, finish, progress, quick
from serving_loads import Mix, arrivals, capacity, drawn, slower
from steward.decide.serving import DISPATCHERS, SCALERS
from steward.decide.serving.scaling.kpa import Kpa
from steward.decide.serving.scaling.qps import Qps
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.model.serving.requests import RequestTrace
from steward.ports import Scaler
from steward.sim.serving.result import ServingRun
from steward.sim.serving.simulate import Fleet, simulate, warm_up
from steward.sim.serving.traces import read_requests

OURS = "qlm"
LEARNED = "qlm, learned"
RIVALS = tuple(name for name in DISPATCHERS if name != OURS)
SEEDS = (1, 2, 3)
LOADS = (0.5, 0.75, 1.0, 1.25, 1.5)
BURST_LOADS = (0.75, 1.0, 1.5)
SPAN_S = 300.0
SCALE_SPAN_S = 2700.0
UNJUDGED_S = 900.0
MOST = "as many as possible throughout"
TOLERANCE = 0.002  # of attainment: what 3 requests in 1,500 are

Floats = NDArray[np.float64]


def burst(t_s: Floats) -> Floats:
    """Return three times the rate for 30 s of every 120 s."""
    return np.where(t_s % 120 < 30, 3.0, 1.0)


def wave(t_s: Floats) -> Floats:
    """Return a rate that rises and falls nine-fold within half an hour."""
    return 1.0 + 0.8 * np.sin(2 * np.pi * t_s / 1800 - np.pi / 2)


def jumps(t_s: Floats) -> Floats:
    """Return a rate that is four times as high for 5 of every 15 minutes."""
    return np.where((t_s // 300) % 3 == 1, 2.5, 0.6)


def steps(t_s: Floats, seed: int) -> Floats:
    """Return rates that change at random: log-normal levels, for half a minute and more each."""
    draw = np.random.default_rng((seed, 13))
    level, at = np.zeros(len(t_s)), 0
    while at < len(t_s):
        until = at + 30 + int(draw.exponential(240.0))
        level[at:until] = draw.lognormal(0.0, 0.6)
        at = until
    return level


def recorded(rate: float, seed: int) -> Floats:
    """Return an hour of Azure's chat, as fast as the span is long, thinned to a mean rate."""
    known = read_requests("azure_llm_2023_conv").arrival_s
    arrival_s = (known - known[0]) * (SCALE_SPAN_S / (known[-1] - known[0]))
    count = min(round(rate * SCALE_SPAN_S), len(arrival_s))
    rows = np.random.default_rng((seed, 11)).choice(len(arrival_s), count, replace=False)
    thinned: Floats = np.sort(arrival_s[rows])
    return thinned


def _shaped(shape: Callable[[Floats, int], Floats]) -> Callable[[float, int], Floats]:
    return lambda rate, seed: arrivals(
        rate, SCALE_SPAN_S, seed=seed, shape=lambda t_s: shape(t_s, seed)
    )


LOADS_OVER_TIME: dict[str, Callable[[float, int], Floats]] = {  # by mean rate and seed
    "wave": _shaped(lambda t_s, _: wave(t_s)),
    "jumps": _shaped(lambda t_s, _: jumps(t_s)),
    "steps": _shaped(steps),
    "recorded": recorded,
}


def turned_over(arrival_s: Floats, draw: np.random.Generator) -> NDArray[np.int64]:
    """Return models: the first has 80 % of the requests, after half of the time 20 %."""
    first = np.where(arrival_s < arrival_s[-1] / 2, 0.8, 0.2)
    return (draw.random(len(arrival_s)) >= first).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A load, and what serves it."""

    name: str
    trace: Callable[[int], RequestTrace]  # by seed
    fleet: Fleet


def main() -> None:
    """Compare dispatchers, then scalers."""
    warm_up()
    seeds = SEEDS[:2] if quick() else SEEDS
    results: dict[str, Any] = {}
    bars = []
    for setting in dispatcher_settings(short=quick()):
        names = (*DISPATCHERS, LEARNED)
        rows = {name: [judged(setting, name, seed) for seed in seeds] for name in names}
        results[setting.name] = summary(rows)
        ours = [row["attainment"] for row in rows[OURS]]
        best = min((statistics.mean(differences(ours, rows[name])), name) for name in RIVALS)
        results[setting.name]["least gain over"] = best[1]
        progress(f"{setting.name}: least gain {best[0]:+.4f} over {best[1]}")
        bars.append(bar(f"{setting.name}: least gain of attainment", best[0], ">=", -TOLERANCE))
        learned = [row["attainment"] for row in rows[LEARNED]]
        least = min(statistics.mean(differences(learned, rows[name])) for name in RIVALS)
        bars.append(bar(f"{setting.name}: least gain, learned", least, ">=", -TOLERANCE))
    bars.append(published_gain(results))
    for name, times in LOADS_OVER_TIME.items():
        found = scaled(times, seeds[:1] if quick() else seeds)
        results[f"scaling, {name}"] = found
        bars += scaling_bars(name, found)
    finish("serving_policies", results, bars)


def dispatcher_settings(*, short: bool) -> list[Setting]:
    """Return all loads of a fixed number of instances."""
    kind, mix = slower(), Mix()
    each = capacity(mix, kind)
    one = Fleet(types=(kind,), instances=(0,))
    found = []
    loads = [(load, None) for load in LOADS] + [(load, burst) for load in BURST_LOADS]
    for load, shape in loads[1::3] if short else loads:

        def trace(seed: int, load: float = load, shape: Any = shape) -> RequestTrace:  # noqa: ANN401
            times = arrivals(load * each, SPAN_S, seed=seed, shape=shape)
            return drawn(mix, times, seed=seed)

        kind_of_load = "steady" if shape is None else "bursts"
        found.append(Setting(name=f"{kind_of_load}, load {load:g}", trace=trace, fleet=one))
    both = tuple(slower(name=f"m{place}", model=f"model-{place}") for place in (0, 1))
    four = Fleet(types=both, instances=(0, 0, 1, 1))

    def models(seed: int) -> RequestTrace:
        times = arrivals(0.75 * 4 * each, SPAN_S, seed=seed)
        return drawn(mix, times, seed=seed, models=turned_over)

    found.append(Setting(name="two models, load 0.75", trace=models, fleet=four))
    return found


def judged(setting: Setting, policy: str, seed: int) -> dict[str, Any]:
    """Serve a load once; return what it was worth."""
    trace = setting.trace(seed)
    name, _, learned = policy.partition(", ")
    estimator = LearnedWaits() if learned else None
    run = simulate(trace, setting.fleet, DISPATCHERS[name](), estimator=estimator)
    met = run.met()
    last_s = float(trace.arrival_s[-1])
    return {
        "attainment": float(met.mean()),
        "by_class": run.attainment(),
        "goodput": float(met.sum()) / last_s,
        "gpu_seconds": run.gpu_seconds,
        "jain": jain(run),
        "cpu_s": run.cpu_s,
    }


def jain(run: ServingRun) -> float:
    """Return Jain's index of the tenants' attainments: 1 is the same share for each."""
    met, tenant = run.met(), run.trace.tenant
    shares = np.array([met[tenant == each].mean() for each in np.unique(tenant)])
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if shares.any() else 1.0


def differences(ours: Sequence[float], rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return by how much ours attains more, seed by seed."""
    return [mine - row["attainment"] for mine, row in zip(ours, rows, strict=True)]


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return mean and half-width of its 95 % interval."""
    spread = statistics.stdev(values) / len(values) ** 0.5
    half = float(student.ppf(0.975, len(values) - 1)) * spread
    return {"mean": round(statistics.mean(values), 4), "half_width": round(half, 4)}


def summary(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the means of each policy, and how much more ours attains."""
    ours = [row["attainment"] for row in rows[OURS]]
    table = {}
    for name, runs in rows.items():
        classes = runs[0]["by_class"]
        table[name] = {
            "attainment": interval([row["attainment"] for row in runs]),
            "by_class": {
                each: round(statistics.mean(row["by_class"][each] for row in runs), 4)
                for each in classes
            },
            **{
                what: round(statistics.mean(row[what] for row in runs), 4)
                for what in ("goodput", "gpu_seconds", "jain", "cpu_s")
            },
        }
        if name not in (OURS, LEARNED):
            table[name]["ours_attains_more"] = interval(differences(ours, runs))
    return table


def published_gain(results: dict[str, Any]) -> dict[str, Any]:
    """Compare the gain over FCFS in overload with QLM's 40 to 90 points."""
    name = "steady, load 1.5" if "steady, load 1.5" in results else "bursts, load 1"
    gain = results[name]["fcfs"]["ours_attains_more"]["mean"]
    least = 0.4 if name.startswith("steady") else 0.05
    return bar(f"gain over FCFS in overload ({name})", gain, ">=", least)


def scaled(times: Callable[[float, int], Floats], seeds: Sequence[int]) -> dict[str, Any]:
    """Return attainment and GPU-seconds of each system under a changing load."""
    kind, mix = slower(), Mix()
    each = capacity(mix, kind)
    fleet = Fleet(types=(kind,), instances=(0, 0), places=10)
    systems: dict[str, tuple[str, Scaler | None]] = {
        "ours (qlm + slack)": ("qlm", SCALERS["slack"]()),
        "chiron + chiron": ("chiron", SCALERS["chiron"]()),
        "fcfs + wva": ("fcfs", SCALERS["wva"]()),
        "fcfs + kpa": ("fcfs", Kpa(target=64.0)),
        "fcfs + qps": ("fcfs", Qps(target_qps=0.7 * each)),
        "fcfs + qps, quick": ("fcfs", Qps(target_qps=0.7 * each, up_s=20.0, down_s=120.0)),
        "edf + wva": ("edf", SCALERS["wva"]()),
        "edf + kpa": ("edf", Kpa(target=64.0)),
        "qlm + wva": ("qlm", SCALERS["wva"]()),
        "qlm + kpa": ("qlm", Kpa(target=64.0)),
        "qlm + kpa, fuller": ("qlm", Kpa(target=128.0)),
        "qlm + qps, quick": ("qlm", Qps(target_qps=0.9 * each, up_s=20.0, down_s=120.0)),
        MOST: ("qlm", None),
    }
    started = dict.fromkeys(systems, fleet)
    started[MOST] = replace(fleet, instances=(0,) * fleet.places)
    table = {}
    for name, (dispatcher, scaler) in systems.items():
        shares, from_start, costs = [], [], []
        for seed in seeds:
            trace = drawn(mix, times(2.0 * each, seed), seed=seed)
            run = simulate(trace, started[name], DISPATCHERS[dispatcher](), scaler=scaler)
            met = run.met()
            shares.append(float(met[trace.arrival_s > UNJUDGED_S].mean()))
            from_start.append(float(met.mean()))
            costs.append(run.gpu_seconds)
        table[name] = {
            "attainment": round(statistics.mean(shares), 4),
            "attainment_from_start": round(statistics.mean(from_start), 4),
            "gpu_seconds": round(statistics.mean(costs)),
        }
        progress(f"{name}: {table[name]}")
    return table


def scaling_bars(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whether ours attains 99 % with the fewest GPU-seconds of those that do."""
    ours = found["ours (qlm + slack)"]
    good = [
        row["gpu_seconds"]
        for system, row in found.items()
        if row["attainment"] >= 0.99 and not system.startswith("ours")
    ]
    saved = 1.0 - ours["gpu_seconds"] / min(good) if good else 0.0
    return [
        bar(f"scaling, {name}: attainment", ours["attainment"], ">=", 0.99),
        bar(f"scaling, {name}: GPU-seconds saved against the best rival", saved, ">=", 0.0),
    ]


if __name__ == "__main__":
    main()
