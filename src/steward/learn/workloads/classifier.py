"""Recognise kinds of work, and abstain where none of the known ones fits.

A run is answered for as a whole: its windows are pooled, signatures are applied to the whole run,
and both are added up as log-probabilities. Members and their temperature are chosen by
cross-validation grouped by run, inside the data that the classifier learns from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.workloads.ensemble import Rows, WindowEnsemble, pooled, rows_of
from steward.learn.workloads.features import FEATURES, host_switches
from steward.learn.workloads.members import Scaler, log_softmax
from steward.learn.workloads.misfit import Misfit
from steward.learn.workloads.selection import Selection, select
from steward.learn.workloads.signals import RunSignals
from steward.learn.workloads.signatures import SIGNATURES, coarse_of

__all__ = ["UNKNOWN", "KindClassifier", "Recognised"]

Floats = NDArray[np.float64]

UNKNOWN = "unknown"
STATE_VERSION = 1
PRIOR = 1.5  # weight of a signature's points, which are half squared units
FALSE_UNKNOWN_SHARE = 0.1
CALMER_SHARE = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What a run was recognised as; `kind` is the best known one even if `abstains`."""

    run: str
    kind: str
    coarse: str
    probability: float
    unknown_score: float
    unknown_p_value: float  # share of runs of known kinds that look at least as strange

    @property
    def abstains(self) -> bool:
        """Return whether none of the known kinds fits."""
        return self.unknown_p_value < FALSE_UNKNOWN_SHARE

    @property
    def answer(self) -> str:
        """Return the kind, or `unknown`."""
        return UNKNOWN if self.abstains else self.kind


def _likeliest_group(row: Floats, groups: Sequence[str]) -> str:
    total: dict[str, float] = {}
    for group, value in zip(groups, np.exp(row), strict=True):
        total[group] = total.get(group, 0.0) + float(value)
    return max(total, key=lambda group: total[group])


class KindClassifier:
    """Learn kinds of work from labelled runs."""

    name = "workload-kinds"

    def __init__(
        self, rows: Rows, *, switches_base: float, selection: Selection | None = None
    ) -> None:
        self.kinds = tuple(sorted(set(rows.kinds)))
        if not rows.runs or not all(rows.kinds):
            raise StewardError(
                "there is no labelled run to learn from",
                where="workload kinds",
                hint="give events that name the `kind` of each run",
            )
        self._rows, self._base = rows, switches_base
        self.prior = PRIOR  # 0 leaves signatures out
        self.selection = selection or select(rows, self.kinds)
        self._ensemble = WindowEnsemble(rows, self.kinds, self.selection.members)
        self._misfit = Misfit(rows.whole, np.array(rows.kinds), self.kinds)

    @classmethod
    def learn(cls, runs: Sequence[RunSignals], *, selection: Selection | None = None) -> Self:
        """Learn from labelled runs, cut to where their work is."""
        usable = [run for run in runs if len(run) > 1 and run.kind]
        base = host_switches(usable)
        return cls(rows_of(usable, base), switches_base=base, selection=selection)

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the names of the runs that it learnt from."""
        return self._rows.runs

    @property
    def whole_scaler(self) -> Scaler:
        """Return the metric in which whole runs are compared."""
        return self._misfit.scaler

    def rows(self, runs: Sequence[RunSignals]) -> Rows:
        """Return the features of runs as this classifier takes them.

        A host never makes fewer context switches than its own: where even the calmest runs lie
        clearly below the host that was learnt on, these come from a calmer one, and it counts.
        """
        own = host_switches(list(runs))
        return rows_of(runs, own if own < CALMER_SHARE * self._base else self._base)

    def log_probabilities(self, rows: Rows) -> Floats:
        """Return normalised log-probabilities of each kind by run."""
        windows = self._ensemble.log_probabilities(rows.windows)
        by_run = pooled(windows, rows.run, len(rows.runs)) / self.selection.temperature
        return log_softmax(log_softmax(by_run) + self._prior_of(rows.whole))

    def log_probabilities_by_window(self, windows: Floats) -> Floats:
        """Return normalised log-probabilities of each kind by window, from that window alone."""
        learnt = log_softmax(self._ensemble.log_probabilities(windows) / self.selection.temperature)
        return log_softmax(learnt + self._prior_of(windows))

    def _prior_of(self, features: Floats) -> Floats:
        """Return what signatures say; a kind without one is judged by how near its runs are.

        Where no kind has a signature, runs alone decide.
        """
        if not any(kind in SIGNATURES for kind in self.kinds):
            return np.zeros((len(features), len(self.kinds)))
        return -self.prior * self._misfit.lost(features)

    def recognise(self, rows: Rows) -> list[Recognised]:
        """Return what each run is."""
        found = self.log_probabilities(rows)
        groups = [coarse_of(kind) for kind in self.kinds]
        strange = self._misfit.scores(rows.whole)
        p_values = self._misfit.p_values(strange)
        return [
            Recognised(
                run=run,
                kind=self.kinds[int(best)],
                coarse=_likeliest_group(row, groups),
                probability=float(np.exp(row[int(best)])),
                unknown_score=float(score),
                unknown_p_value=float(p_value),
            )
            for run, row, best, score, p_value in zip(
                rows.runs, found, found.argmax(axis=1), strange, p_values, strict=True
            )
        ]

    def with_runs(self, runs: Sequence[RunSignals]) -> KindClassifier:
        """Return a classifier that knows more runs, also of new kinds: three to five suffice."""
        more = self.rows([run for run in runs if len(run) > 1 and run.kind])
        old = self._rows
        joined = Rows(
            runs=(*old.runs, *more.runs),
            kinds=(*old.kinds, *more.kinds),
            whole=np.concatenate([old.whole, more.whole]),
            windows=np.concatenate([old.windows, more.windows]),
            run=np.concatenate([old.run, more.run + len(old.runs)]),
            start_s=np.concatenate([old.start_s, more.start_s]),
        )
        return KindClassifier(joined, switches_base=self._base)

    def save_state(self) -> dict[str, Any]:
        """Return the features and labels that it learnt from; it is fitted anew from them."""
        rows = self._rows
        return {
            "features": list(FEATURES),
            "runs": list(rows.runs),
            "kinds": list(rows.kinds),
            "whole": rows.whole,
            "windows": rows.windows,
            "run": rows.run,
            "start_s": rows.start_s,
            "switches_base": self._base,
            "selection": self.selection.as_record(),
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the classifier of a saved state."""
        if list(state["features"]) != list(FEATURES):
            raise ValueError("it was saved with other features")
        rows = Rows(
            runs=tuple(str(each) for each in state["runs"]),
            kinds=tuple(str(each) for each in state["kinds"]),
            whole=np.asarray(state["whole"], dtype=np.float64),
            windows=np.asarray(state["windows"], dtype=np.float64),
            run=np.asarray(state["run"], dtype=np.int64),
            start_s=np.asarray(state["start_s"], dtype=np.float64),
        )
        if not len(rows.runs) == len(rows.kinds) == len(rows.whole):
            raise ValueError("columns differ in length")
        return cls(
            rows,
            switches_base=float(state["switches_base"]),
            selection=Selection.of_record(state["selection"]),
        )
