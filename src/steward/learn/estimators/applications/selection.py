"""Chooses a model of the pool on runs that it was not fitted on, sets its level, and scores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.applications.features import FeatureRows
from steward.learn.estimators.applications.limits import pinball
from steward.learn.estimators.applications.models import POOL, LogModel

__all__ = ["Choice", "Sample", "choose"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
FOLDS = 5
FEWEST_FOR_FOLDS = 4  # full-scale runs, for models that learn from them too
LARGEST_SHARE = 0.25  # of the runs, held out where none is at full scale
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
    full = train.full & train.finished
    small = train.of(~train.full)
    if not full.any() or small.finished.sum() < 3:
        return _from_largest(train)
    return _from_full(train, small)


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


def _from_full(train: Sample, small: Sample) -> Choice:
    """Judge on the full-scale runs: models of the others alone, and models of all in folds."""
    held = train.of(train.full)
    models = {name: fitted(name, small) for name in POOL}
    errors = {name: _errors(model, held) for name, model in models.items()}
    level = _chosen(models, errors, judged="full-scale runs")
    if held.finished.sum() < FEWEST_FOR_FOLDS:
        return _with_largest(level, train)
    fold = np.arange(len(held)) % min(FOLDS, len(held))
    errors = {name: np.full(len(held), np.nan) for name in POOL}
    for each in range(fold.max() + 1):
        keep = np.ones(len(train), dtype=np.bool_)
        keep[np.flatnonzero(train.full)[fold == each]] = False
        part = train.of(keep)
        for name, known in errors.items():
            known[fold == each] = _errors(fitted(name, part), held.of(fold == each))
    names = {name: name for name in POOL}
    best = _best(errors, list(names), np.ones(len(held), dtype=np.bool_))
    if _loss(errors[best]) >= level.losses[level.name]:
        return _with_largest(level, train)
    final = {best: fitted(best, train)}
    scores = _scores(errors)
    made = Choice(
        name=best,
        model=final[best],
        level=0.0,
        scores=scores,
        judged="full-scale runs",
        losses={name: _loss(each) for name, each in errors.items()},
    )
    return _with_largest(made, train)


def _from_largest(train: Sample) -> Choice:
    """Without full scale, judge on the largest of the runs, predicted from the smaller ones."""
    order = np.argsort(train.y, kind="stable")
    count = max(1, round(LARGEST_SHARE * len(train)))
    held, part = train.of(order[-count:]), train.of(order[:-count])
    if part.finished.sum() < 2:
        part = train
    models = {name: fitted(name, part) for name in POOL}
    errors = {name: _errors(model, held) for name, model in models.items()}
    losses = {name: float(np.mean(np.abs(each))) for name, each in errors.items()}
    best = min(losses, key=lambda name: losses[name])
    known = errors[best]
    return Choice(
        name=best,
        model=fitted(best, train),
        level=0.0,
        scores=known[~np.isnan(known)],
        judged="of the largest runs",
        losses=losses,
    )


def _with_largest(made: Choice, train: Sample) -> Choice:
    """Where full-scale runs are few, score the largest of the others as well."""
    few = 9 - len(made.scores)
    small = train.of(~train.full)
    if few <= 0 or small.finished.sum() < 6:
        return made
    order = np.argsort(small.y, kind="stable")
    count = max(1, round(LARGEST_SHARE * len(small)))
    errors = _errors(fitted(made.name, small.of(order[:-count])), small.of(order[-count:]))
    errors = errors[~np.isnan(errors)]
    return Choice(
        name=made.name,
        model=made.model,
        level=made.level,
        scores=np.concatenate([made.scores, errors - np.median(errors)]),
        judged=f"runs ({len(made.scores)} at full scale, the others the largest downsized ones)",
        losses=made.losses,
    )


def _chosen(models: Mapping[str, LogModel], errors: Mapping[str, Floats], *, judged: str) -> Choice:
    best = _best(errors, list(errors), np.ones(len(next(iter(errors.values()))), dtype=np.bool_))
    return Choice(
        name=best,
        model=models[best],
        level=_level(errors[best]),
        scores=_scores(errors),
        judged=judged,
        losses={name: _loss(each) for name, each in errors.items()},
    )


def _scores(errors: Mapping[str, Floats]) -> Floats:
    """Return log errors, each of the model and level that the runs of other folds chose."""
    names = list(errors)
    count = len(errors[names[0]])
    fold = np.arange(count) % max(1, min(2 * FOLDS, count))
    found = np.full(count, np.nan)
    for each in range(fold.max() + 1):
        mine, others = fold == each, fold != each
        if not others.any():
            others = mine
        best = _best(errors, names, others)
        found[mine] = errors[best][mine] - _level(errors[best][others])
    known: Floats = found[~np.isnan(found)]
    return known


def _best(errors: Mapping[str, Floats], names: list[str], rows: Flags) -> str:
    return min(names, key=lambda name: _loss(errors[name][rows]))


def _loss(errors: Floats) -> float:
    known = errors[~np.isnan(errors)]
    return pinball(known) + 1e-3 * abs(float(np.median(known))) if len(known) else np.inf


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
