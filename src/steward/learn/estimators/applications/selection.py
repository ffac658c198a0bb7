"""Chooses a model of the pool on runs that it was not fitted on, sets its level, and scores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.applications.features import FeatureRows
from steward.learn.estimators.applications.limits import pinball
from steward.learn.estimators.applications.models import ENOUGH_FULL, POOL, LogModel, pool

__all__ = ["Choice", "Sample", "choose"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
FOLDS = 5
LARGEST_SHARE = 0.4  # of the others, that are judged with fewer
FEWEST_LARGEST = 3
FULL_SHARE = 0.5  # of the weight of the others that full-scale runs have together, at least
SETTLED = 0.1  # of a run that speaks against a level


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Runs: features, log of what was measured; of one that did not finish, a lower bound."""

    rows: FeatureRows
    y: Floats
    full: Flags
    finished: Flags

    def __len__(self) -> int:
        return len(self.y)

    def of(self, rows: NDArray[np.generic]) -> Sample:
        """Return some of them, by index or mask."""
        return Sample(
            rows=self.rows.of(rows),
            y=self.y[rows],
            full=self.full[rows],
            finished=self.finished[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A model with its level; `scores` are log errors on runs that it had not seen."""

    name: str
    model: LogModel
    level: float
    scores: Floats
    judged: str  # on which runs
    losses: Mapping[str, float]  # pinball loss of each model

    def predict(self, rows: FeatureRows, full: Flags) -> Floats:
        """Return log values; the level is that of full scale."""
        return self.model.predict(rows) + self.level * full


def choose(train: Sample, held: Sample | None) -> Choice:
    """Return the model with the least pinball loss on runs that it was not fitted on.

    Errors are scored across folds: what chooses a model and sets its level is other runs than the
    one scored, so the scores are as large as they will be.
    """
    if held is not None and len(held):
        models = {name: fitted(name, train) for name in POOL}
        errors = {name: _errors(model, held) for name, model in models.items()}
        return _chosen(models, errors, judged="held-out runs")
    return _in_folds(train)


def fitted(name: str, sample: Sample) -> LogModel:
    """Return a model of the pool, fitted; runs that did not finish push it up where it is below."""
    ended = sample.of(sample.finished)
    model = POOL[name]().fit(ended.rows, ended.y, _weights(ended))
    cut = sample.of(~sample.finished)
    for _ in range(2 if len(cut) else 0):
        below = model.predict(cut.rows) < cut.y
        if not below.any():
            break
        keep = sample.finished.copy()
        keep[np.flatnonzero(~sample.finished)[below]] = True
        used = sample.of(keep)
        model = POOL[name]().fit(used.rows, used.y, _weights(used))
    return model


def _in_folds(train: Sample) -> Choice:
    """Judge on each run by models of the others; on full-scale runs first of all.

    Of many runs only those at full scale are left out in turn. Few full-scale runs say little of a
    model, so the largest of the others are judged with them.
    """
    judged = train.full.copy()
    if judged.sum() < ENOUGH_FULL:
        small = np.flatnonzero(~train.full)
        largest = small[np.argsort(train.y[small], kind="stable")]
        judged[largest[-max(FEWEST_LARGEST, round(LARGEST_SHARE * len(small))) :]] = True
    rows = np.flatnonzero(judged)
    fold = np.arange(len(rows)) % min(FOLDS, len(rows))
    names = pool(runs=len(train), full_runs=int(train.full.sum()))
    errors = {name: np.full(len(rows), np.nan) for name in names}
    for each in range(fold.max() + 1):
        keep = np.ones(len(train), dtype=np.bool_)
        keep[rows[fold == each]] = False
        part = train.of(keep)
        if part.finished.sum() < 2:
            part = train  # nothing is left to learn from: three runs of which one did not finish
        for name, known in errors.items():
            known[fold == each] = _errors(fitted(name, part), train.of(rows[fold == each]))
    losses = {name: _loss(each, centred=False) for name, each in errors.items()}
    best = min(losses, key=lambda name: losses[name])
    count = int(train.full.sum())
    return Choice(
        name=best,
        model=fitted(best, train),
        level=0.0,
        scores=_scores(errors, centred=False),
        judged="full-scale runs"
        if count == len(rows)
        else f"of the largest runs, {count} of them at full scale,",
        losses=losses,
    )


def _chosen(models: Mapping[str, LogModel], errors: Mapping[str, Floats], *, judged: str) -> Choice:
    losses = {name: _loss(each, centred=True) for name, each in errors.items()}
    best = min(losses, key=lambda name: losses[name])
    return Choice(
        name=best,
        model=models[best],
        level=_level(errors[best]),
        scores=_scores(errors),
        judged=judged,
        losses=losses,
    )


def _scores(errors: Mapping[str, Floats], *, centred: bool = True) -> Floats:
    """Return log errors, each of the model (and level) that the runs of other folds chose."""
    count = len(next(iter(errors.values())))
    fold = np.arange(count) % max(1, min(2 * FOLDS, count))
    found = np.full(count, np.nan)
    for each in range(fold.max() + 1):
        mine, others = fold == each, fold != each
        if not others.any():
            others = mine
        best = _best(errors, others, centred=centred)
        level = _level(errors[best][others]) if centred else 0.0
        found[mine] = errors[best][mine] - level
    known: Floats = found[~np.isnan(found)]
    return known


def _best(errors: Mapping[str, Floats], rows: Flags, *, centred: bool) -> str:
    return min(errors, key=lambda name: _loss(errors[name][rows], centred=centred))


def _loss(errors: Floats, *, centred: bool) -> float:
    known = errors[~np.isnan(errors)]
    return pinball(known, centred=centred) if len(known) else np.inf


def _level(errors: Floats) -> float:
    known = errors[~np.isnan(errors)]
    if not len(known):
        return 0.0
    return float(np.median(known)) * len(known) / (len(known) + SETTLED)


def _errors(model: LogModel, held: Sample) -> Floats:
    """Return what is measured less what is predicted; NaN where a bound says nothing."""
    left = held.y - model.predict(held.rows)
    found: Floats = np.where(held.finished | (left > 0.0), left, np.nan)
    return found


def _weights(sample: Sample) -> Floats:
    """Return weights: full-scale runs count half as much as all others together, at least."""
    full, others = int(sample.full.sum()), int((~sample.full).sum())
    weight = np.ones(len(sample))
    if full and others:
        weight[sample.full] = max(1.0, FULL_SHARE * others / full)
    return weight
