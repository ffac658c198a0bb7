"""Are changes and anomalies found, how soon, and beside river and ruptures?

Three parts. Anomalies: NAB's score on its CloudWatch series at an equal budget of alarms, beside a
rolling z-score and river's detectors. Changes afterwards: the phase marks of runs on an H200,
beside ruptures. Changes on-line: the same marks with delay and false alarms, beside river.

Everything was chosen on every second series and run (`chosen`); the others (`unseen`) are what the
bars hold. A rival's own setting is chosen on the same half. Not every true change has a mark: a
false alarm here may be a change that nobody wrote down, for each method alike.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ruptures
from numpy.typing import NDArray
from river import anomaly, drift, preprocessing

from nab_score import PROFILES, Labelled, alarms, load, nab_score, threshold_for
from report import bar, finish, progress, quick
from steward.inspection.series.entity_series import read_entity_series
from steward.learn.patterns.anomalies import find_anomalies
from steward.learn.patterns.changes import Segmentation, change_points, online
from steward.learn.patterns.series import EntitySeries
from steward.observe.importing.source import ImportCounts

Array = NDArray[np.float64]
DATA = Path(__file__).parents[2] / "shared" / "data"
ALARMS_PER_SERIES = 2.0
APART = 144  # rows: half a day
TOLERANCE_S = 1.0  # between a mark and a change that was found afterwards
LATEST_S = 2.0  # after a mark, for an on-line alarm to be about it
NOT_CHANGES = {"summary", "launch"}  # marks without any effect


# -- anomalies -----------------------------------------------------------------------------------


def rolling_z(width: int) -> Callable[[Labelled], Array]:
    """Return deviations from the mean of the last `width` values."""

    def score(each: Labelled) -> Array:
        found = np.zeros(len(each.values))
        for row in range(width, len(found)):
            past = each.values[row - width : row]
            level = 1e-9 * (1.0 + abs(past.mean()))
            found[row] = abs(each.values[row] - past.mean()) / (past.std() + level)
        return found

    return score


def half_space_trees(window: int) -> Callable[[Labelled], Array]:
    """Return river's half-space trees, behind its running scaler."""

    def score(each: Labelled) -> Array:
        model = anomaly.HalfSpaceTrees(n_trees=25, height=8, window_size=window, seed=1)
        scaler, found = preprocessing.MinMaxScaler(), []
        for value in each.values:
            scaler.learn_one({"v": float(value)})
            scaled = scaler.transform_one({"v": float(value)})
            found.append(model.score_one(scaled))
            model.learn_one(scaled)
        return np.array(found)

    return score


def one_class_svm(nu: float) -> Callable[[Labelled], Array]:
    """Return river's on-line one-class SVM, behind its running scaler."""

    def score(each: Labelled) -> Array:
        model, scaler, found = anomaly.OneClassSVM(nu=nu), preprocessing.StandardScaler(), []
        for value in each.values:
            scaler.learn_one({"v": float(value)})
            scaled = scaler.transform_one({"v": float(value)})
            found.append(float(model.score_one(scaled)))
            model.learn_one(scaled)
        return np.array(found)

    return score


def ours(each: Labelled) -> Array:
    """Return our scores."""
    order = np.argsort(each.t_s, kind="stable")
    series = EntitySeries(
        entity=each.name, metrics=("value",), t_s=each.t_s[order], values=each.values[order, None]
    )
    found = np.zeros(len(each.values))
    found[order] = find_anomalies(series).scores
    return found


def judge(series: Sequence[Labelled], scores: Mapping[str, Array]) -> dict[str, Any]:
    """Return NAB's scores at the budget, and how many windows were found."""
    budget = int(ALARMS_PER_SERIES * len(series))
    limit = threshold_for([scores[s.name] for s in series], budget=budget, apart=APART)
    found = {s.name: alarms(scores[s.name], limit, APART) for s in series}
    hits = sum(any(a <= row <= b for row in found[s.name]) for s in series for a, b in s.windows)
    return {
        **{name: round(nab_score(series, found, name), 1) for name in PROFILES},
        "alarms": sum(map(len, found.values())),
        "windows_found": hits,
        "windows": sum(len(s.windows) for s in series),
    }


def anomalies(*, short: bool) -> dict[str, Any]:
    """Compare detectors; of a rival's settings the best on the chosen half is taken."""
    series = load(DATA / "telemetry" / "nab_cloudwatch")
    halves = {"chosen": series[0::2], "unseen": series[1::2]}
    rivals: dict[str, list[Callable[[Labelled], Array]]] = {
        "ours": [ours],
        "rolling z-score": [rolling_z(width) for width in (48, 144, 288, 576)],
        "river HalfSpaceTrees": [half_space_trees(window) for window in (100, 250, 500)],
        "river OneClassSVM": [one_class_svm(nu) for nu in (0.05, 0.2)],
    }
    found: dict[str, Any] = {}
    for name, settings in rivals.items():
        began = time.process_time()
        tried = settings[:1] if short else settings
        scored = [{s.name: score(s) for s in series} for score in tried]
        cpu_s = (time.process_time() - began) / len(tried)
        best = max(scored, key=lambda each: float(judge(halves["chosen"], each)["standard"]))
        found[name] = {half: judge(of, best) for half, of in halves.items()}
        found[name]["cpu_s"] = round(cpu_s, 2)
        progress(f"{name:24} {found[name]['unseen']}")
    return found


# -- changes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedRun:
    """The telemetry of one run, and the moments at which it entered another phase."""

    series: EntitySeries
    marks_s: tuple[float, ...]


def marked_runs(telemetry: str, events: str) -> list[MarkedRun]:
    """Read the runs of a recording of the H200."""
    folder = DATA / "h200"
    marks: dict[str, list[float]] = {}
    for line in (folder / events).read_text(encoding="utf-8").splitlines():
        mark = json.loads(line)
        if mark["phase"] not in NOT_CHANGES:
            marks.setdefault(mark["run"], []).append(float(mark["t"]))
    times: dict[str, list[float]] = {}
    with gzip.open(folder / telemetry, "rt") as lines:
        for line in lines:
            run, t_s, _ = line.split(",", 2)
            if run in marks:
                times.setdefault(run, []).append(float(t_s))
    (whole,) = read_entity_series(folder / telemetry, ImportCounts())
    found = []
    for run, own in times.items():
        rows = (whole.t_s >= min(own)) & (whole.t_s <= max(own))
        series = EntitySeries(
            entity=run, metrics=whole.metrics, t_s=whole.t_s[rows], values=whole.values[rows]
        )
        found.append(MarkedRun(series=series, marks_s=_apart(marks[run])))
    return found


def _apart(times: Sequence[float]) -> tuple[float, ...]:
    """Leave out marks within a second of another: nobody could tell them apart."""
    found: list[float] = []
    for t_s in sorted(times):
        if not found or t_s - found[-1] > TOLERANCE_S:
            found.append(t_s)
    return tuple(found)


def standardised(values: Array) -> Array:
    """Return what ruptures and river are given: deviations, without metrics that are constant."""
    filled = np.where(np.isfinite(values), values, np.nanmedian(values, axis=0))
    filled = filled[:, np.ptp(filled, axis=0) > 0]
    scaled: Array = (filled - filled.mean(axis=0)) / filled.std(axis=0)
    return scaled


def agreement(
    runs: Sequence[MarkedRun],
    find: Callable[[MarkedRun], Sequence[float]],
    window: tuple[float, float],
) -> dict[str, float]:
    """Match what was found with marks, each once: F1, false alarms an hour and the delay."""
    hits = count = marks = 0
    hours, delays = 0.0, []
    began = time.process_time()
    for run in runs:
        left = list(run.marks_s)
        times = find(run)
        count, marks = count + len(times), marks + len(left)
        hours += (run.series.t_s[-1] - run.series.t_s[0]) / 3600.0
        for t_s in times:
            near = [each for each in left if window[0] <= t_s - each <= window[1]]
            if near:
                closest = min(near, key=lambda each: abs(t_s - each))
                left.remove(closest)
                hits += 1
                delays.append(t_s - closest)
    return {
        "f1": round(2 * hits / max(1, count + marks), 3),
        "recall": round(hits / marks, 3),
        "found": count,
        "marks": marks,
        "false_alarms_per_hour": round((count - hits) / hours, 1),
        "median_delay_s": round(float(np.median(delays)), 2) if delays else float("nan"),
        "cpu_s": round(time.process_time() - began, 2),
    }


def afterwards(pen: float, kernel: str) -> Callable[[MarkedRun], Sequence[float]]:
    """Return changes by ruptures with this penalty, in units of metrics x log(rows); "" is ours."""

    def find(run: MarkedRun) -> Sequence[float]:
        if not kernel:
            how = Segmentation(penalty=pen, metric_penalty=pen / 8)
            return [float(run.series.t_s[row]) for row in change_points(run.series.values, how)[0]]
        series = standardised(run.series.values)
        unit = series.shape[1] * np.log(len(series)) if kernel == "linear" else 1.0
        found = ruptures.KernelCPD(kernel=kernel, min_size=5).fit(series).predict(pen=pen * unit)
        return [float(run.series.t_s[row]) for row in found[:-1]]

    return find


def live(method: str) -> Callable[[MarkedRun], Sequence[float]]:
    """Return the alarms of one of our on-line detectors."""

    def find(run: MarkedRun) -> Sequence[float]:
        return [float(run.series.t_s[row]) for row, _ in online(run.series.values, method)]

    return find


def river_each(make: Callable[[], Any]) -> Callable[[MarkedRun], Sequence[float]]:
    """Return the alarms of a river detector for each metric; within a second they are one."""

    def find(run: MarkedRun) -> Sequence[float]:
        rows: set[int] = set()
        for column in standardised(run.series.values).T:
            detector = make()
            for row, value in enumerate(column):
                detector.update(float(value))
                if detector.drift_detected:
                    rows.add(row)
        return _apart([float(run.series.t_s[row]) for row in rows])

    return find


def changes(*, short: bool) -> dict[str, Any]:
    """Compare methods on the marks; each with its setting that is best on the chosen half."""
    runs = marked_runs("telemetry.csv.gz", "events.jsonl")
    kinds = marked_runs("kinds_telemetry.csv.gz", "kinds_events.jsonl")
    halves = {"chosen": runs[0::2] + kinds[0::2], "unseen": runs[1::2] + kinds[1::2]}
    after, soon = (-TOLERANCE_S, TOLERANCE_S), (0.0, LATEST_S)
    methods: dict[str, tuple[tuple[float, float], list[Callable[[MarkedRun], Sequence[float]]]]] = {
        "afterwards: ours": (after, [afterwards(2.0, "")]),
        "afterwards: ruptures linear": (
            after,
            [afterwards(pen, "linear") for pen in (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0)],
        ),
        "afterwards: ruptures rbf": (
            after,
            [afterwards(pen, "rbf") for pen in (1.0, 2.0, 4.0, 8.0)],
        ),
        "on-line: ours, bocpd": (soon, [live("bocpd")]),
        "on-line: ours, page-hinkley": (soon, [live("page-hinkley")]),
        "on-line: ours, adwin": (soon, [live("adwin")]),
        "on-line: river ADWIN": (
            soon,
            [
                river_each(partial(drift.ADWIN, delta=delta, clock=4))
                for delta in (0.01, 0.002, 0.0001)
            ],
        ),
        "on-line: river PageHinkley": (
            soon,
            [
                river_each(partial(drift.PageHinkley, threshold=limit, min_instances=10))
                for limit in (10, 25, 50)
            ],
        ),
        "on-line: river KSWIN": (
            soon,
            [
                river_each(partial(drift.KSWIN, alpha=alpha, window_size=50, stat_size=15, seed=1))
                for alpha in (1e-4,)
            ],
        ),
    }
    found: dict[str, Any] = {}
    for name, (window, settings) in methods.items():
        if short and "KSWIN" in name:
            continue
        tried = settings[-1:] if short else settings
        best = max(tried, key=lambda find: agreement(halves["chosen"], find, window)["f1"])
        found[name] = {half: agreement(of, best, window) for half, of in halves.items()}
        progress(f"{name:30} {found[name]['unseen']}")
    return found


def planted(repeats: int) -> dict[str, float]:
    """Return how often a change of 2 deviations is found, and how often one is invented."""
    hits = invented = 0
    for seed in range(repeats):
        noise = np.random.default_rng(seed).normal(size=(600, 4))
        invented += len(change_points(noise)[0]) > 0
        noise[300:, 1] += 2.0
        rows, _ = change_points(noise)
        hits += bool(len(rows)) and bool(np.min(np.abs(rows - 300)) <= 5)
    return {"found_share": hits / repeats, "invented_share": invented / repeats}


def main() -> None:
    """Hold the bars on the unseen half."""
    short = quick()
    found, moved = anomalies(short=short), changes(short=short)
    truth = planted(20 if short else 100)

    def best(of: Mapping[str, Any], begins: str, figure: str) -> float:
        rivals = [each for name, each in of.items() if name.startswith(begins)]
        return max(float(each["unseen"][figure]) for each in rivals)

    rivals = {name: each for name, each in found.items() if name != "ours"}
    mine = moved["on-line: ours, bocpd"]["unseen"]
    afterwards_f1 = moved["afterwards: ours"]["unseen"]["f1"]
    finish(
        "changes",
        {"anomalies": found, "changes": moved, "planted": truth},
        [
            bar(
                "NAB score at two alarms a series, less the best rival's",
                round(found["ours"]["unseen"]["standard"] - best(rivals, "", "standard"), 1),
                ">",
                0.0,
            ),
            bar(
                "F1 of changes afterwards, less ruptures' best",
                round(afterwards_f1 - best(moved, "afterwards: ruptures", "f1"), 3),
                ">=",
                0.0,
            ),
            bar(
                "F1 of on-line changes, less river's best",
                round(mine["f1"] - best(moved, "on-line: river", "f1"), 3),
                ">",
                0.0,
            ),
            bar("median delay of on-line changes in s", mine["median_delay_s"], "<=", 0.5),
            bar("planted changes that are found", truth["found_share"], ">=", 0.95),
            bar("series of noise with an invented change", truth["invented_share"], "<=", 0.05),
        ],
    )


if __name__ == "__main__":
    main()
