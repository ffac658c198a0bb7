"""Is `commons` as good as the best of those that do not know durations, and does it keep its word?

Two questions, on real traces, with forecasts learned while the replay runs:

1. Every trace of the data folder that can be replayed, at a size where work queues: mean completion
   time, mean wait and p99 of `commons` against every rival that knows no durations, with paired
   intervals over blocks of the trace; and the share of time in which guarantees were kept. Once
   against the best rival in each figure, whoever that is, and once against the best of those that
   keep the same guarantees. A rival dominates if it is better in all three, and in one of them not
   by chance. `unseen` marks traces on which nothing was chosen.
2. The third source's table: 512 GPUs, 50 tenants, static quotas against `commons`.

What was asked for is every figure. The bars are lower: they are what held when they were written,
so that it cannot get worse unseen; the two lists of figures that are behind say what is missing.

3. `--part history`, with a result of its own: `commons` with `job-history` in place of
   `similar-jobs` (through views, as the live loop runs it: the compiled replay has `similar-jobs`
   built in), beside the same rivals on traces that views can replay. Time limits say nothing there:
   the lab's stand-ins are made from true durations. Constants of `job-history` were chosen on
   `pollux/1.0/6`.

Stops are free in the first half, as in the simulators that the rivals come from; then each costs
60 s, as it would.
"""

from __future__ import annotations

import argparse
from dataclasses import replace as with_fields
from typing import Any

import numpy as np
from scipy import stats

from report import bar, finish, progress
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.learn.estimators.job_history import JobHistory
from steward.learn.estimators.tenant_use import TenantUse
from steward.learn.experience import EDGES_S
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.compare import Comparison, ComparisonPlan, compare
from steward.sim.lab.generate import fair_quota, tenants_scenario
from steward.sim.lab.run import FAMILIES, knows, replay
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import StudyInput
from steward.sim.lab.view_replay import ViewReplay
from steward.sim.traces import read_trace

OURS = "commons"
RIVALS = tuple(
    name
    for family in ("one order", "tenants")
    for name in FAMILIES[family]
    if knows(name) == "nothing" and name != OURS
)
BOUNDS = ("srsf",)  # knows durations: how much is left to gain
# Trace: GPUs. The anchors' own sizes, or nine tenths of them busy on average.
TRACES = {
    "philly": 480,
    "philly/103959": 24,
    "philly/0e4a51": 40,
    "philly/ee9e8c": 128,
    "philly/b436b2": 64,
    "philly/6c71a0": 64,
    "muri/trace1": 64,
    "muri/trace2": 0,
    "chronus": 0,
    "alibaba_pai_100k": 0,
    "alibaba_openb/default": 0,
    "gavel/msr/0": 0,
    "gavel/max_min_fairness": 0,
    "shockwave/120": 32,
    "pollux/1.0/6": 64,
    "sia/philly/1": 64,
}
# Designed while looking at these: Philly all along, the others when ranks became GPU time.
SEEN = {name for name in TRACES if name.startswith(("philly", "muri", "alibaba_openb"))}
FIGURES = ("jct_mean_s", "wait_mean_s", "jct_p99_s")
KEPT = 0.997
SCENARIO_SEEDS = (1, 2, 3, 4, 5)
WITH_HISTORY = "commons, job-history"
HISTORY_TRACES = {
    "gavel/max_min_fairness": 0,
    "shockwave/120": 32,
    "pollux/1.0/6": 64,
    "sia/philly/1": 64,
    "sia/saturn/1": 64,
    "philly/ed69ec": 0,
}
NO_LIMIT_S = 1e7


def main() -> None:
    """Compare everywhere, then the scenario; or what run times from history add."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few traces")
    parser.add_argument("--part", choices=("all", "history"), default="all")
    asked = parser.parse_args()
    if asked.part == "history":
        _compare_history(short=asked.quick)
    else:
        _compare_all(short=asked.quick)


def _compare_all(*, short: bool) -> None:
    names = list(TRACES)[: 3 if short else None]
    results: dict[str, Any] = {"traces": {}}
    for stop_s in (0.0,) if short else (0.0, 60.0):
        for name in names:
            row = _trace(name, stop_s)
            results["traces"][f"{name}, a stop costs {stop_s:.0f} s"] = row
            progress(f"{name}, {stop_s:.0f} s: {row['verdict']}")
    results["scenario"] = _scenario(SCENARIO_SEEDS[: 1 if short else None])
    rows = results["traces"].values()
    kept = min(row["fairness_compliance"] for row in rows)
    beaten = [
        (row["trace"], figure) for row in rows for figure in FIGURES if not row["as_good"][figure]
    ]
    results["not as good as the best rival"] = beaten
    judged = 3 * len(rows)
    results["summary"] = f"as good as the best rival in {judged - len(beaten)} of {judged} figures"
    unseen = [row for row in rows if row["unseen"]]
    good = sum(sum(row["as_good"].values()) for row in unseen)
    results["summary, unseen"] = f"{good} of {3 * len(unseen)} figures"
    behind = [
        (row["trace"], figure)
        for row in rows
        for figure in FIGURES
        if not row["as_good_as_who_keeps_guarantees"][figure]
    ]
    results["not as good as the best that keeps guarantees"] = behind
    dominated = {name: row["dominated_by"] for name, row in results["traces"].items()}
    results["dominated"] = {name: by for name, by in dominated.items() if by}
    bars = [
        bar("guarantees kept, worst trace", kept, ">=", KEPT),
        bar(
            "philly: mean JCT over that of the best rival",
            _ratio(results, "philly", "jct_mean_s"),
            "<=",
            1.06,
        ),
        bar("share of figures in which commons is as good", 1 - len(beaten) / judged, ">=", 0.8),
        bar(
            "share of figures in which it is as good as who keeps guarantees",
            1 - len(behind) / judged,
            ">=",
            0.85,
        ),
        bar(
            "scenario: mean wait against static quotas",
            results["scenario"]["wait_change"][0],
            "<=",
            -0.75,
        ),
        bar(
            "scenario: utilisation over that of static quotas",
            results["scenario"]["utilisation"][OURS][0]
            / results["scenario"]["utilisation"]["static-quota"][0],
            ">=",
            1.2,
        ),
    ]
    finish("lab_policies", results, bars)


def _compare_history(*, short: bool) -> None:
    """Put `commons` with `job-history` beside `commons` and every rival."""
    rows = {name: _history(name) for name in list(HISTORY_TRACES)[: 2 if short else None]}
    ratios = {
        against: {
            figure: _mean_ratio([row[against][figure] for row in rows.values()])
            for figure in FIGURES
        }
        for against in ("to_commons", "to_best_rival")
    }
    kept = min(row["fairness_compliance"] for row in rows.values())
    bars = [
        bar("mean completion to that of commons", ratios["to_commons"]["jct_mean_s"], "<=", 0.9),
        bar("mean wait to that of commons", ratios["to_commons"]["wait_mean_s"], "<=", 0.9),
        bar("mean completion to the best rival's", ratios["to_best_rival"]["jct_mean_s"], "<=", 1),
        bar("guarantees kept, worst trace", kept, ">=", KEPT),
    ]
    finish("lab_policies_history", {"traces": rows, "geometric means": ratios}, bars)


def _history(name: str) -> dict[str, Any]:
    trace = read_trace(name)
    gpus = _gpus(trace, HISTORY_TRACES[name])
    found = compare(
        StudyInput(trace=trace, machines=machines_of(gpus), run=_run),
        (OURS, WITH_HISTORY, *RIVALS, *BOUNDS),
        LabSettings(),
        ComparisonPlan(baseline=WITH_HISTORY),
    )
    figures = found.figures
    rivals = [each for each in RIVALS if not figures[each]["unfinished"]]
    best = {each: min(rivals, key=lambda rival: figures[rival][each]) for each in FIGURES}
    mine = figures[WITH_HISTORY]
    row: dict[str, Any] = {
        "gpus": gpus,
        "jobs": len(trace),
        "fairness_compliance": mine["fairness_compliance"],
        "preemptions": mine["preemptions"],
        "best_rival": best,
        "to_commons": {each: mine[each] / figures[OURS][each] for each in FIGURES},
        "to_best_rival": {each: mine[each] / figures[best[each]][each] for each in FIGURES},
        "policies": {
            policy: {each: round(figures[policy][each], 1) for each in FIGURES}
            for policy in (OURS, WITH_HISTORY, *BOUNDS)
        },
    }
    progress(f"{name}: {row}")
    return row


def _run(trace: Trace, machines: Machines, policy: str, settings: LabSettings) -> Replay:
    """Replay by the compiled engine; the one with `job-history` through views."""
    if policy != WITH_HISTORY:
        return replay(trace, machines, policy, settings)
    without = with_fields(trace, time_limit_s=np.full(len(trace), NO_LIMIT_S))
    return ViewReplay(
        trace=without,
        machines=machines,
        policy=Commons(moves=False, placement=settings.placement),
        settings=settings,
        estimators=(JobHistory(), TenantUse()),
        levels_s=lambda size: [float(edge) / size for edge in EDGES_S[1:]],
    ).run()


def _mean_ratio(ratios: list[float]) -> float:
    return round(float(np.exp(np.mean(np.log(ratios)))), 4)


def _ratio(results: dict[str, Any], trace: str, figure: str) -> float:
    return float(results["traces"][f"{trace}, a stop costs 0 s"]["ratio_to_best"][figure])


def _gpus(trace: Trace, known: int) -> int:
    """Return the size: as in the anchors, or so that nine tenths are busy on average."""
    if known:
        return known
    busy = trace.gpu_seconds / max(float(np.ptp(trace.submit_s)), 1.0)
    return max(8 * int(np.ceil(busy / 0.9 / 8)), 8 * int(np.ceil(trace.gpus.max() / 8)))


def _trace(name: str, stop_s: float) -> dict[str, Any]:
    trace = read_trace(name)
    gpus = _gpus(trace, TRACES[name])
    policies = (OURS, *RIVALS, *BOUNDS)
    settings = LabSettings(checkpoint_s=stop_s)
    found = compare(
        StudyInput(trace=trace, machines=machines_of(gpus)),
        policies,
        settings,
        ComparisonPlan(baseline=OURS),
    )
    row = {"trace": name, "gpus": gpus, "unseen": name not in SEEN} | _judged(found)
    row["policies"] = {
        policy: {figure: round(found.figures[policy][figure], 1) for figure in FIGURES}
        | {
            "fairness_compliance": round(found.figures[policy]["fairness_compliance"], 4),
            "preemptions": found.figures[policy]["preemptions"],
            "unfinished": found.figures[policy]["unfinished"],
        }
        for policy in policies
    }
    return row


def _judged(found: Comparison) -> dict[str, Any]:
    """Say for each figure whether commons is best, or the best rival's lead may be chance."""
    finished = [name for name in RIVALS if not found.figures[name]["unfinished"]]
    keepers = [name for name in finished if found.figures[name]["fairness_compliance"] >= KEPT]
    best, ratio, as_good, intervals = _beside_the_best(found, finished)
    kept = found.figures[OURS]["fairness_compliance"]
    behind = [figure for figure in FIGURES if not as_good[figure]]
    verdict = "as good as the best in all" if not behind else f"behind in {', '.join(behind)}"
    return {
        "fairness_compliance": kept,
        "best_rival": best,
        "ratio_to_best": ratio,
        "rival_minus_commons_interval": intervals,
        "as_good": as_good,
        "as_good_as_who_keeps_guarantees": _beside_the_best(found, keepers)[2],
        "who_keeps_guarantees": keepers,
        "dominated_by": [name for name in finished if _dominates(found, name)],
        "verdict": f"{verdict}; ratios {ratio}; guarantees kept {kept:.4f}",
    }


def _beside_the_best(
    found: Comparison, rivals: list[str]
) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, list[float]]]:
    """Return, by figure, the best rival, our ratio to it, whether ours is as good, and how sure."""
    record = found.as_record()["differences"]
    best, ratio, intervals = {}, {}, {}
    as_good = dict.fromkeys(FIGURES, True)
    for figure in FIGURES if rivals else ():
        rival = min(rivals, key=lambda name: found.figures[name][figure])
        mine, theirs = found.figures[OURS][figure], found.figures[rival][figure]
        best[figure], ratio[figure] = rival, round(mine / theirs, 4)
        low, high = _interval(record, rival, figure)
        intervals[figure] = [low, high]
        as_good[figure] = bool(mine <= theirs or low <= 0.0 <= high)
    return best, ratio, as_good, intervals


def _dominates(found: Comparison, rival: str) -> bool:
    """Say whether a rival is better in every figure, and in one of them not by chance."""
    record = found.as_record()["differences"]
    better = all(found.figures[rival][each] < found.figures[OURS][each] for each in FIGURES)
    return better and any(_interval(record, rival, each)[1] < 0.0 for each in FIGURES)


def _interval(record: Any, policy: str, figure: str) -> tuple[float, float]:  # noqa: ANN401 - JSON
    each = record[policy][figure]
    return float(each["interval"][0]), float(each["interval"][1])


def _scenario(seeds: tuple[int, ...]) -> dict[str, Any]:
    """Compare static quotas with commons for 50 tenants on 512 GPUs, over seeds of the scenario."""
    changes: dict[str, list[float]] = {"wait": [], "queue": [], "jct": []}
    used: dict[str, list[float]] = {"static-quota": [], OURS: []}
    philly = read_trace("philly")
    for seed in seeds:
        trace = tenants_scenario(philly, tenants=50, gpus=512, seed=seed)
        quota = dict(zip(trace.tenants, fair_quota(trace, 512).tolist(), strict=True))
        settings = LabSettings(quota=quota, checkpoint_s=60.0)
        base = StudyInput(trace=trace, machines=machines_of(512))
        found = compare(base, ("static-quota", OURS), settings).figures
        for name, shares in used.items():
            shares.append(found[name]["utilisation_arrivals"])
        for what, figure in (
            ("wait", "wait_mean_s"),
            ("queue", "queue_mean"),
            ("jct", "jct_mean_s"),
        ):
            changes[what].append(found[OURS][figure] / found["static-quota"][figure] - 1)
        progress(f"scenario {seed}: {used} {changes}")
    return {
        "claimed": "utilisation 58 % to 92 %, queue -82 %, wait -75 %, training time -25 %",
        "each is": "mean over seeds and its 95 % interval (Student's t)",
        "utilisation": {name: _with_interval(values) for name, values in used.items()},
        **{f"{what}_change": _with_interval(values) for what, values in changes.items()},
    }


def _with_interval(values: list[float]) -> list[float]:
    """Return the mean over seeds, and between what it lies."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return [round(mean, 4)]
    apart = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1)) / len(values) ** 0.5
    return [round(each, 4) for each in (mean, mean - apart, mean + apart)]


if __name__ == "__main__":
    main()
