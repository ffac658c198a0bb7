"""Features of runs and their windows, and an ensemble that is fitted on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from steward.learn.workloads.features import FEATURES, features_of, windows_of
from steward.learn.workloads.members import MEMBERS, ON_RUNS, Scaler
from steward.learn.workloads.signals import RunSignals

__all__ = ["STEP_S", "WINDOW_S", "Rows", "WindowEnsemble", "pooled", "rows_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW_S, STEP_S = 5.0, 2.0
SETTLE_S = 1.5  # libraries warm up at the start of the work
SHORT_S = 4.0  # a run must last as long for its start to be left out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Features of runs: one row per run, and one per window with the place of its run."""

    runs: tuple[str, ...]
    kinds: tuple[str, ...]  # per run; empty where unknown
    whole: Floats
    windows: Floats
    run: Ints
    start_s: Floats  # per window

    def take(self, chosen: Sequence[int] | Ints) -> Rows:
        """Return some of the runs."""
        chosen = np.asarray(chosen, dtype=np.int64)
        place = np.full(len(self.runs), -1)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.run] >= 0
        return Rows(
            runs=tuple(self.runs[i] for i in chosen),
            kinds=tuple(self.kinds[i] for i in chosen),
            whole=self.whole[chosen],
            windows=self.windows[kept],
            run=place[self.run[kept]],
            start_s=self.start_s[kept],
        )


def rows_of(runs: Sequence[RunSignals], switches_base: float) -> Rows:
    """Return the features of runs; runs of two samples are the shortest that have any."""
    whole, windows, places, starts = [], [], [], []
    for place, run in enumerate(runs):
        settled = run
        if len(run) and run.t_s[-1] - run.t_s[0] > SHORT_S:
            settled = run.between(run.t_s[0] + SETTLE_S, np.inf)
        kept = {"step_s": run.step_s, "switches_base": switches_base}
        whole.append(features_of(settled.values[None], **kept)[0])
        cut, begins = windows_of(run, window_s=WINDOW_S, step_s=STEP_S)
        windows.append(features_of(cut, **kept))
        places.append(np.full(len(cut), place))
        starts.append(begins)
    width = len(FEATURES)
    return Rows(
        runs=tuple(run.run for run in runs),
        kinds=tuple(run.kind for run in runs),
        whole=np.array(whole).reshape(-1, width),
        windows=np.concatenate([np.empty((0, width)), *windows]),
        run=np.concatenate([np.empty(0, dtype=np.int64), *places]),
        start_s=np.concatenate([np.empty(0), *starts]),
    )


class WindowEnsemble:
    """Members fitted on runs or their windows; they answer for windows, and are averaged."""

    def __init__(self, rows: Rows, kinds: Sequence[str], members: Sequence[str]) -> None:
        labels = np.array([kinds.index(kind) for kind in rows.kinds], dtype=np.int64)
        self._kinds = len(kinds)
        self._fitted: dict[str, tuple[Scaler, Callable[[Floats], Floats]]] = {}
        if len(np.unique(labels)) < 2:
            return
        tables = {False: (rows.windows, rows.run), True: (rows.whole, np.arange(len(labels)))}
        scalers = {which: Scaler.of(table, run, labels) for which, (table, run) in tables.items()}
        with threadpool_limits(limits=1):
            for name in members:
                scaler, (table, run) = scalers[name in ON_RUNS], tables[name in ON_RUNS]
                fitted = MEMBERS[name](scaler.apply(table), labels[run], len(kinds))
                self._fitted[name] = scaler, fitted

    def by_member(self, windows: Floats) -> dict[str, Floats]:
        """Return the log-probabilities of each member by window."""
        with threadpool_limits(limits=1):
            return {
                name: member(scaler.apply(windows))
                for name, (scaler, member) in self._fitted.items()
            }

    def log_probabilities(self, windows: Floats) -> Floats:
        """Return the mean of all members by window."""
        if not self._fitted or not len(windows):  # one kind only: nothing was to be told apart
            return np.zeros((len(windows), self._kinds))
        found: Floats = np.mean(list(self.by_member(windows).values()), axis=0)
        return found


def pooled(windows: Floats, run: Ints, runs: int) -> Floats:
    """Return the mean over the windows of each run."""
    count = np.bincount(run, minlength=runs).astype(np.float64)
    total = np.zeros((runs, windows.shape[1]))
    np.add.at(total, run, windows)
    return total / np.maximum(count, 1.0)[:, None]
