"""How long will a job run, by its history: `job-history` against four rivals on every trace.

Everything is prequential: a forecast for a job is made when it is submitted, from what had happened
by then (where a trace does not record starts, jobs start when they are submitted), and its outcome
is learned when it ends. Constants were chosen on the traces in `CHOSEN`; the others are marked
unseen. Reported are, for each trace and rival: the share of jobs off by more than a factor of two
(`job-history`: its likely value; beside it its median), the mean pinball loss of the 5 %, 50 % and
95 % quantiles on logarithms, that of the median alone, both in seconds too, and how often the
limits held. Cut-off jobs are learned from as such, and are not scored.

Then: the bias of what is learned where a third of all jobs is cancelled, at times of their own
(where one limit cut them all off, taking them for ended would not move the median), against leaving
them out and taking them for ended. Waits in the queue have a program of their own:
`history_waits.py`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from history_rivals import RIVALS, rival_forecasts
from report import bar, finish, progress, quick
from steward.learn.run_time_history import RunTimeHistory
from steward.learn.trace_history import learn_trace, started_s
from steward.model.trace import Trace, trace_of
from steward.sim.traces import read_trace
from steward.sim.traces.locate import find

Floats = NDArray[np.float64]
OURS = "job-history"
EAGLE = "eagle"
TRACES = (
    *("muri/trace1", "pollux/1.0/6", "alibaba_openb/default", "chronus", "philly"),
    *("shockwave/120", "gavel/max_min_fairness", "tiresias", EAGLE, "sia/philly/1"),
    *("sia/newtrace/1", "sia/saturn/1", "muri/trace2", "gavel/msr/0", "alibaba_pai_100k"),
)
CHOSEN = {"muri/trace1", "pollux/1.0/6", "alibaba_openb/default", "chronus", "philly"}
LARGE = 500  # jobs: below, ten chance misses move coverage by more than its bar allows
DEFAULTS: dict[str, Any] = {"classes": 3000, "memory": 300.0, "quick": 8.0}


def main() -> None:
    """Compare on every trace, then what censoring is worth."""
    short = quick()
    rows: dict[str, Any] = {}
    for name in TRACES[: 3 if short else None]:
        rows[name] = _trace(name)
        progress(f"{name}: {_told(rows[name])}")
    censored = _censored()
    progress(f"censored: {censored}")
    results: dict[str, Any] = {"traces": rows, "a third cancelled": censored}
    results["summary"] = {
        part: {
            figure: f"best in {sum(_best(rows[n], figure) for n in names)} of {len(names)}"
            for figure in ("off_by_2", "pinball_log", "pinball_log_median", "pinball_s")
        }
        for part, names in (
            ("all", list(rows)),
            ("unseen", [name for name in rows if name not in CHOSEN]),
        )
    }
    large = [name for name, row in rows.items() if row["jobs"] >= LARGE]
    most = {name: rows[name] for name in large}
    held = [rows[name][OURS]["held"] for name in large]
    bars = [
        bar("traces not best in share off by 2", _behind(rows, "off_by_2"), "<=", 0),
        bar("traces not best in pinball loss (logarithms)", _behind(rows, "pinball_log"), "<=", 0),
        *(
            bar(f"{figure}: traces of 500 jobs or more, not best", _behind(most, figure), "<=", 0)
            for figure in ("off_by_2", "pinball_log", "pinball_log_median")
        ),
        bar("90 % limits, least, traces of 500 jobs or more", min(held), ">=", 0.88),
        bar("90 % limits, most, traces of 500 jobs or more", max(held), "<=", 0.92),
        bar("learned with a third cut off: median off by", censored["censored"], "<=", 1.25),
        bar(
            "the same, to taking them for ended",
            censored["censored"] / censored["taken for ended"],
            "<",
            1.0,
        ),
    ]
    finish("history", results, bars)


def _read(name: str) -> Trace:
    if name != EAGLE:
        return read_trace(name)
    data = next(each for each in find("philly").path.parents if (each / "catalog").is_dir())
    return read_trace(data / "catalog" / "nrel_eagle_sample" / "jobs.csv")


def _trace(name: str) -> dict[str, Any]:
    trace = _read(name)
    began = time.process_time()
    history = RunTimeHistory(**DEFAULTS)
    found, likely_s = np.empty((len(trace), 3)), np.empty(len(trace))
    for row, made in learn_trace(history, trace):
        found[row] = made.low_s, made.mid_s, made.high_s
        likely_s[row] = history.likely_s(made.left)
    took_s = time.process_time() - began
    cap_s = np.nan_to_num(trace.time_limit_s, nan=np.inf)
    likely_s = np.minimum(likely_s, cap_s)
    mine = _scores(trace, np.minimum(found, cap_s[:, None]), likely_s)
    mine["median_off_by_2"] = _scores(trace, found, found[:, 1])["off_by_2"]
    mine["us_per_job"] = round(took_s / len(trace) * 1e6)
    capped = {rival: np.minimum(s, cap_s[:, None]) for rival, s in _rivals(name, trace).items()}
    return {
        "jobs": len(trace),
        "unseen": name not in CHOSEN,
        OURS: mine,
        **{rival: _scores(trace, s, s[:, 1]) for rival, s in capped.items()},
    }


def _rivals(name: str, trace: Trace) -> dict[str, Floats]:
    """Return the rivals' forecasts; kept in $STEWARD_RIVALS, as their trees take most of the time.

    Empty that folder after a change to `history_rivals.py`.
    """
    folder = os.environ.get("STEWARD_RIVALS")
    if not folder:
        return rival_forecasts(trace, started_s(trace))
    file = Path(folder) / f"r_{name.replace('/', '_')}.npz"
    if not file.exists():
        found: dict[str, Any] = {**rival_forecasts(trace, started_s(trace))}
        np.savez(file, **found)
    with np.load(file) as kept:
        return dict(zip(RIVALS, (kept[rival] for rival in RIVALS), strict=True))


def _scores(trace: Trace, found: Floats, point_s: Floats) -> dict[str, float]:
    """Score limits and a median (columns of `found`), and one value for being off by two."""
    ended = ~(trace.cut_off > 0)
    true_s, found, point_s = trace.duration_s[ended], found[ended], point_s[ended]
    low, mid, high = np.maximum(found.T, 1e-3)
    log = [_pinball(np.log(true_s), np.log(each), q) for each, q in _with_shares(low, mid, high)]
    plain = [_pinball(true_s, each, q) for each, q in _with_shares(low, mid, high)]
    return {
        "off_by_2": _rounded((np.abs(np.log(point_s / true_s)) > np.log(2.0)).mean()),
        "pinball_log": _rounded(np.mean(log)),
        "pinball_log_median": _rounded(log[1]),
        "pinball_s": _rounded(np.mean(plain)),
        "pinball_s_median": _rounded(plain[1]),
        "held": _rounded(((true_s >= low) & (true_s <= high)).mean()),
        "above": _rounded((true_s > high).mean()),
    }


def _with_shares(low: Floats, mid: Floats, high: Floats) -> tuple[tuple[Floats, float], ...]:
    return (low, 0.05), (mid, 0.5), (high, 0.95)


def _pinball(true: Floats, found: Floats, share: float) -> float:
    off = true - found
    return float(np.maximum(share * off, (share - 1.0) * off).mean())


def _rounded(value: Any) -> float:  # noqa: ANN401 - numbers of numpy, too
    return float(f"{value:.4g}")


def _best(row: dict[str, Any], figure: str) -> bool:
    return bool(row[OURS][figure] <= min(row[rival][figure] for rival in RIVALS))


def _behind(rows: dict[str, Any], figure: str) -> int:
    return sum(not _best(row, figure) for row in rows.values())


def _told(row: dict[str, Any]) -> str:
    return "; ".join(
        f"{name} {row[name]['off_by_2']:.3f} {row[name]['pinball_log']:.3f} {row[name]['held']:.3f}"
        for name in (OURS, *RIVALS)
    )


def _censored() -> dict[str, float]:
    """Return by how much the median is off where jobs are cancelled before they end."""
    draws = np.random.default_rng(7)
    n, median_s = 3000, 3600.0
    true_s = np.exp(np.log(median_s) + 1.2 * draws.standard_normal(n))
    until_s = median_s * np.exp(0.73 + 1.2 * draws.standard_normal(n))  # a third end later
    over = true_s > until_s
    submit_s = np.cumsum(draws.exponential(600.0, n))
    found: dict[str, float] = {}
    for what, keep, cut in (
        ("censored", np.ones(n, bool), over),
        ("taken for ended", np.ones(n, bool), np.zeros(n, bool)),
        ("left out", ~over, np.zeros(n, bool)),
    ):
        trace = trace_of(
            what,
            submit_s=submit_s[keep],
            duration_s=np.minimum(true_s, until_s)[keep],
            gpus=np.ones(int(keep.sum())),
            user=["ann"] * int(keep.sum()),
            cut_off=cut[keep].astype(float),
        )
        history = RunTimeHistory(**DEFAULTS)
        last = [made for _, made in learn_trace(history, trace)][-1]
        mid_s = last.mid_s
        found[what] = _rounded(max(mid_s / median_s, median_s / mid_s))
    return found


if __name__ == "__main__":
    main()
