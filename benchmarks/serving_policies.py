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

Dispatchers were tuned with seeds 101 and 102, `slack` with 101 to 105 of wave, jumps and steps
(levels and their lengths drawn by seed). Reported are other seeds, of scalers 21 to 23, which were
not looked at before; nothing was tuned on recorded (an hour of Azure's chat, sped up, thinned by
seed).

Policies plan with the nominal step times of the instance type and answers of 256 tokens; nobody is
told the length of an answer. `qlm, learned` is ours with the estimator that the gateway uses: its
forecasts come from requests that ended in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
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
SCALING_SEEDS = (21, 22, 23)
LOADS = (0.5, 0.75, 1.0, 1.25, 1.5)
BURST_LOADS = (0.75, 1.0, 1.5)
SPAN_S = 300.0
SCALE_SPAN_S = 2700.0
UNJUDGED_S = 900.0
MOST = "as many as possible throughout"
OUR_SYSTEM = "ours (qlm + slack)"
STARTED, PLACES = 2, 10  # instances at the start and at most, where they are scaled
WORKERS = 2
FIGURES = {  # means with intervals, rounded to so many digits
    **dict.fromkeys(("attainment", "attainment_from_start", "jain"), 4),
    **dict.fromkeys(("goodput", "cpu_s"), 3),
    "gpu_seconds": 0,
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedRun:
    """A dispatcher on a load of a fixed number of instances."""

    setting: str
    policy: str
    seed: int
    short: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledRun:
    """A system on a load that changes over time."""

    load: str
    system: str
    seed: int


def main() -> None:
    """Compare dispatchers, then scalers."""
    short = quick()
    seeds = SEEDS[:2] if short else SEEDS
    fixed = [
        FixedRun(setting=name, policy=policy, seed=seed, short=short)
        for name in settings(short=short)
        for policy in (*DISPATCHERS, LEARNED)
        for seed in seeds
    ]
    scaled = [
        ScaledRun(load=load, system=system, seed=seed)
        for load in LOADS_OVER_TIME
        for system in systems()
        for seed in (SCALING_SEEDS[:2] if short else SCALING_SEEDS)
    ]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        later = pool.map(scale, scaled)
        rows_fixed = list(pool.map(judge, fixed))
        rows_scaled = list(later)
    results: dict[str, Any] = {}
    for run, row in zip(fixed, rows_fixed, strict=True):
        results.setdefault(run.setting, {}).setdefault(run.policy, []).append(row)
    results = {name: summary(rows, OURS, "attainment") for name, rows in results.items()}
    bars = [each for name, table in results.items() for each in fixed_bars(name, table)]
    bars.append(published_gain(results))
    by_load: dict[str, Any] = {}
    for each, row in zip(scaled, rows_scaled, strict=True):
        by_load.setdefault(each.load, {}).setdefault(each.system, []).append(row)
    for load, rows in by_load.items():
        results[f"scaling, {load}"] = summary(rows, OUR_SYSTEM, "gpu_seconds")
        bars += scaling_bars(load, results[f"scaling, {load}"])
    finish("serving_policies", results, bars)


@cache
def settings(*, short: bool) -> dict[str, Setting]:
    """Return the loads of a fixed number of instances by name; compile the simulator."""
    warm_up()
    return {each.name: each for each in dispatcher_settings(short=short)}


@cache
def capacity_of_one() -> float:
    """Return how many requests of the mix one instance serves a second."""
    warm_up()
    return capacity(Mix(), slower())


def dispatcher_settings(*, short: bool) -> list[Setting]:
    """Return all loads of a fixed number of instances."""
    kind, mix = slower(), Mix()
    each = capacity_of_one()
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


def judge(run: FixedRun) -> dict[str, Any]:
    """Serve a load once by a fixed number of instances; return what it was worth."""
    setting = settings(short=run.short)[run.setting]
    trace = setting.trace(run.seed)
    name, _, learned = run.policy.partition(", ")
    estimator = LearnedWaits() if learned else None
    served = simulate(trace, setting.fleet, DISPATCHERS[name](), estimator=estimator)
    row = worth(served, np.ones(len(trace), bool))
    progress(f"{run.setting}, {run.policy}, {run.seed}: {row['attainment']:.4f}")
    return row


def worth(run: ServingRun, judged: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the figures of those requests that are judged, and what the whole run cost."""
    trace, met = run.trace, run.met()
    classes = trace.deadline_class
    return {
        "attainment": float(met[judged].mean()),
        "attainment_from_start": float(met.mean()),
        "by_class": {
            each.name: float(met[judged & (classes == code)].mean())
            for code, each in enumerate(trace.classes)
            if (judged & (classes == code)).any()
        },
        "goodput": float(met.sum()) / float(trace.arrival_s[-1]),
        "gpu_seconds": run.gpu_seconds,
        "jain": jain(met[judged], trace.tenant[judged]),
        "cpu_s": run.cpu_s,
    }


def jain(met: NDArray[np.bool_], tenant: NDArray[np.int64]) -> float:
    """Return Jain's index of the tenants' attainments: 1 is the same share for each."""
    shares = np.array([met[tenant == each].mean() for each in np.unique(tenant)])
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if shares.any() else 1.0


def interval(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return mean and half-width of its 95 % interval."""
    spread = statistics.stdev(values) / len(values) ** 0.5
    half = float(student.ppf(0.975, len(values) - 1)) * spread
    return {"mean": round(statistics.mean(values), digits), "half_width": round(half, digits)}


def summary(rows: dict[str, list[dict[str, Any]]], ours: str, what: str) -> dict[str, Any]:
    """Return means with intervals of each policy, and by how much ours has more of `what`."""
    table = {}
    for name, runs in rows.items():
        row: dict[str, Any] = {
            each: interval([run[each] for run in runs], digits) for each, digits in FIGURES.items()
        }
        row["by_class"] = {
            each: interval([run["by_class"][each] for run in runs]) for each in runs[0]["by_class"]
        }
        if name != ours:
            gains = [a[what] - b[what] for a, b in zip(rows[ours], runs, strict=True)]
            row[f"more_{what}_of_ours"] = interval(gains, FIGURES[what])
        table[name] = row
    return table


def fixed_bars(name: str, table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whether ours attains what each rival does, with and without forecasts."""
    found = []
    for how, ours in (("", OURS), (", learned", LEARNED)):
        mean = table[ours]["attainment"]["mean"]
        least = min((mean - table[each]["attainment"]["mean"], each) for each in RIVALS)
        text = f"{name}: least gain of attainment{how}, over {least[1]}"
        found.append(bar(text, round(least[0], 4), ">=", -TOLERANCE))
    return found


def published_gain(results: dict[str, Any]) -> dict[str, Any]:
    """Compare the gain over FCFS in overload with QLM's 40 to 90 points."""
    name = "steady, load 1.5" if "steady, load 1.5" in results else "bursts, load 1"
    gain = results[name]["fcfs"]["more_attainment_of_ours"]["mean"]
    least = 0.4 if name.startswith("steady") else 0.05
    return bar(f"gain over FCFS in overload ({name})", gain, ">=", least)


@cache
def systems() -> dict[str, tuple[str, Scaler | None]]:
    """Return the dispatcher and scaler of each system."""
    each = capacity_of_one()
    return {
        OUR_SYSTEM: ("qlm", SCALERS["slack"]()),
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


def scale(asked: ScaledRun) -> dict[str, Any]:
    """Serve a changing load once; return what it was worth."""
    dispatcher, scaler = systems()[asked.system]
    kind = slower()
    count = PLACES if scaler is None else STARTED
    fleet = Fleet(types=(kind,), instances=(0,) * count, places=PLACES)
    arrival_s = LOADS_OVER_TIME[asked.load](2.0 * capacity_of_one(), asked.seed)
    trace = drawn(Mix(), arrival_s, seed=asked.seed)
    run = simulate(trace, fleet, DISPATCHERS[dispatcher](), scaler=scaler)
    row = worth(run, trace.arrival_s > UNJUDGED_S)
    attained, gpu_s = row["attainment"], row["gpu_seconds"]
    progress(f"{asked.load}, {asked.system}, {asked.seed}: {attained:.4f}, {gpu_s:.0f} GPU-s")
    return row


def scaling_bars(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return whether ours attains 99 % with the fewest GPU-seconds of those that do."""
    ours = found[OUR_SYSTEM]
    good = [
        (row["gpu_seconds"]["mean"], system)
        for system, row in found.items()
        if row["attainment"]["mean"] >= 0.99 and system != OUR_SYSTEM
    ]
    cost, rival = min(good, default=(ours["gpu_seconds"]["mean"], "none"))
    saved = 1.0 - ours["gpu_seconds"]["mean"] / cost
    text = f"scaling, {name}: GPU-seconds saved against the best rival ({rival})"
    return [
        bar(f"scaling, {name}: attainment", ours["attainment"]["mean"], ">=", 0.99),
        bar(text, round(saved, 4), ">=", 0.0),
    ]


if __name__ == "__main__":
    main()
