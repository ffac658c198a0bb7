"""How well a classifier does on labelled runs, all of them unseen: the figures of `learn kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.workloads.classifier import KindClassifier, Recognised
from steward.learn.workloads.ensemble import Rows
from steward.learn.workloads.figures import area_under_curve, calibration_error, macro_f1
from steward.learn.workloads.selection import Selection
from steward.learn.workloads.signals import RunSignals
from steward.learn.workloads.signatures import coarse_of

__all__ = ["KindScores", "ShotScores", "score", "score_shots"]

EPISODES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KindScores:
    """Scores over runs of known kinds; the unknown ones only count for `unknown_auroc`."""

    runs: int
    unknown_runs: int
    macro_f1_by_run: float | None
    macro_f1_by_window: float | None
    coarse_f1_by_run: float | None
    unknown_auroc: float | None
    unknown_recall: float | None  # of unknown runs, the share that is abstained from
    false_unknown_share: float | None  # of known runs, the same
    calibration_error: float | None
    recognised: tuple[Recognised, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotScores:
    """Macro-F1 by run with so many labelled runs of each kind, over episodes drawn at random."""

    shots: int
    episodes: int
    macro_f1_by_run: float
    lowest: float
    highest: float


def score(classifier: KindClassifier, rows: Rows) -> KindScores:
    """Return the scores on runs; those of kinds that it never saw are the unknown ones."""
    labelled = np.array([place for place, kind in enumerate(rows.kinds) if kind], dtype=np.int64)
    rows = rows.take(labelled)
    recognised = classifier.recognise(rows)
    known = np.array([kind in classifier.kinds for kind in rows.kinds], dtype=bool)
    seen = np.flatnonzero(known)
    truth = [rows.kinds[i] for i in seen]
    strange = np.array([each.unknown_score for each in recognised])
    abstains = np.array([each.abstains for each in recognised], dtype=bool)
    probability = np.array([each.probability for each in recognised])
    right = np.array([each.kind == kind for each, kind in zip(recognised, rows.kinds, strict=True)])
    return KindScores(
        runs=len(seen),
        unknown_runs=int((~known).sum()),
        macro_f1_by_run=macro_f1(truth, [recognised[i].kind for i in seen]),
        macro_f1_by_window=_by_window(classifier, rows.take(seen)),
        coarse_f1_by_run=macro_f1(
            [coarse_of(kind) for kind in truth], [recognised[i].coarse for i in seen]
        ),
        unknown_auroc=area_under_curve(strange[~known], strange[known]),
        unknown_recall=_mean(abstains[~known]),
        false_unknown_share=_mean(abstains[known]),
        calibration_error=calibration_error(probability[known], right[known]),
        recognised=tuple(recognised),
    )


def score_shots(
    train: Sequence[RunSignals], test: Sequence[RunSignals], *, shots: int, seed: int = 0
) -> ShotScores:
    """Return the scores with `shots` runs of each kind, drawn `EPISODES` times.

    The members are not chosen anew in each episode: a few runs are too few for that.
    """
    usable = [run for run in train if run.kind]
    if not usable:
        raise StewardError(
            "there is no labelled run to draw from", where="--shots", hint="see --train"
        )
    random = np.random.default_rng(seed)
    found = []
    for _ in range(EPISODES):
        drawn: list[RunSignals] = []
        for kind in sorted({run.kind for run in usable}):
            runs = [run for run in usable if run.kind == kind]
            drawn.extend(runs[i] for i in random.permutation(len(runs))[:shots])
        classifier = KindClassifier.learn(drawn, selection=Selection.cautious())
        scored = score(classifier, classifier.rows(test))
        if scored.macro_f1_by_run is not None:
            found.append(scored.macro_f1_by_run)
    if not found:
        raise StewardError(
            "no run to score is of a kind that was learnt", where="--score", hint="see --train"
        )
    return ShotScores(
        shots=shots,
        episodes=len(found),
        macro_f1_by_run=float(np.mean(found)),
        lowest=min(found),
        highest=max(found),
    )


def _by_window(classifier: KindClassifier, rows: Rows) -> float | None:
    if not len(rows.windows):
        return None
    found = classifier.log_probabilities_by_window(rows.windows).argmax(axis=1)
    truth = [rows.kinds[run] for run in rows.run]
    return macro_f1(truth, [classifier.kinds[int(each)] for each in found])


def _mean(values: NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None
