"""Choose members of an ensemble, and how far to trust it, by cross-validation grouped by run.

Only where there are runs to choose by: with three or four of each kind, the few runs by which
members differ are chance, and what was chosen by them did worse on unseen runs than a fixed pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steward.learn.workloads.ensemble import Rows, WindowEnsemble, pooled
from steward.learn.workloads.figures import macro_f1
from steward.learn.workloads.members import MEMBERS, log_softmax

__all__ = ["Selection", "folds_of", "select"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FOLDS = 3
TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
EARNED = 0.99  # another member has to lower the loss to this share of it
LOG_LOSS_WEIGHT = 0.1
RUNS_TO_CHOOSE_BY = 10  # of the median kind; with fewer, members are not chosen
CAUTIOUS = ("discriminants", "forest of runs")
CAUTIOUS_TEMPERATURE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which members were chosen, at which temperature, and the loss that each one had."""

    members: tuple[str, ...]
    temperature: float
    losses: Mapping[str, float] = field(default_factory=dict)  # held out, each at its best

    @classmethod
    def cautious(cls) -> Self:
        """Return what is used where too few runs are there to choose by."""
        return cls(members=CAUTIOUS, temperature=CAUTIOUS_TEMPERATURE)

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "members": list(self.members),
            "temperature": self.temperature,
            "losses": dict(self.losses),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """Return it from JSON values; unknown members are a fault."""
        members = tuple(str(each) for each in record["members"])
        if not members or not set(members) <= set(MEMBERS):
            raise ValueError(f"its members are {', '.join(members) or 'none'}")
        return cls(
            members=members,
            temperature=float(record["temperature"]),
            losses={str(k): float(v) for k, v in record["losses"].items()},
        )


def folds_of(kinds: Sequence[str], folds: int, *, seed: int = 0) -> Ints:
    """Return a fold for each run: the runs of a kind are spread over the folds as evenly as can be.

    Which fold holds more runs of a kind is drawn, so that folds are of about the same size.
    """
    random = np.random.default_rng(seed)
    names = np.array(kinds)
    found = np.zeros(len(names), dtype=np.int64)
    for kind in np.unique(names):
        runs = random.permutation(np.flatnonzero(names == kind))
        found[runs] = (np.arange(len(runs)) + random.integers(folds)) % folds
    return found


def select(rows: Rows, kinds: tuple[str, ...]) -> Selection:
    """Return the ensemble with the least held-out loss; members join while they lower it."""
    usual = float(np.median([rows.kinds.count(kind) for kind in kinds]))
    if len(kinds) < 2 or usual < RUNS_TO_CHOOSE_BY:
        return Selection.cautious()
    held, labels = _held_out(rows, kinds)
    if held is None:
        return Selection.cautious()
    alone = {name: _best(scores, labels)[0] for name, scores in held.items()}
    chosen = [min(alone, key=lambda name: alone[name])]
    loss = alone[chosen[0]]
    while len(chosen) < len(held):
        tried = {
            name: _best(np.mean([held[each] for each in (*chosen, name)], axis=0), labels)[0]
            for name in held
            if name not in chosen
        }
        best = min(tried, key=lambda name: tried[name])
        if tried[best] > EARNED * loss:
            break
        chosen.append(best)
        loss = tried[best]
    temperature = _best(np.mean([held[each] for each in chosen], axis=0), labels)[1]
    return Selection(members=tuple(chosen), temperature=temperature, losses=alone)


def _held_out(rows: Rows, kinds: tuple[str, ...]) -> tuple[dict[str, Floats] | None, Ints]:
    """Return each member's scores of runs that it did not learn from, and their labels."""
    folds = folds_of(rows.kinds, FOLDS)
    names = np.array(rows.kinds)
    parts: list[dict[str, Floats]] = []
    labels: list[int] = []
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        known = np.isin(names[outside], names[inside])
        outside = outside[known]  # a kind with one run cannot be both learnt and tested
        if not len(outside) or len(np.unique(names[inside])) < 2:
            continue
        ensemble = WindowEnsemble(rows.take(inside), kinds, tuple(MEMBERS))
        tested = rows.take(outside)
        parts.append(
            {
                name: pooled(scores, tested.run, len(tested.runs))
                for name, scores in ensemble.by_member(tested.windows).items()
            }
        )
        labels.extend(kinds.index(kind) for kind in tested.kinds)
    if not parts:
        return None, np.array(labels, dtype=np.int64)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, np.array(
        labels, dtype=np.int64
    )


def _best(scores: Floats, labels: Ints) -> tuple[float, float]:
    """Return the least loss over temperatures, and the temperature.

    The loss is what macro-F1 lacks, and a little of the log-loss, which alone would favour members
    that are cautious over those that are right.
    """
    found = log_softmax(scores)
    said = macro_f1([str(each) for each in labels], [str(each) for each in found.argmax(axis=1)])
    losses = [
        (-float(log_softmax(scores / each)[np.arange(len(labels)), labels].mean()), each)
        for each in TEMPERATURES
    ]
    loss, temperature = min(losses)
    return 1.0 - (said or 0.0) + LOG_LOSS_WEIGHT * loss, temperature
