"""Features of runs: logarithms and levels of their parameters, and their work terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.learn.estimators.applications.next_run import Places
from steward.learn.estimators.applications.work import WorkTerm, automatic_terms
from steward.model.campaign import Configuration, Parameter

__all__ = ["FeatureRows", "Features"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
SLOPE = 1.0  # prior deviation of log time over one deviation of a parameter that scales
SIDE_SLOPE = 0.3  # of one that does not
LEVEL_SLOPE = 0.7  # of a level
LOG_FROM_RATIO = 3.0  # a positive parameter that varies by more counts by its logarithm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureRows:
    """Runs as numbers: `x` standardised, `work` in the order of the terms with a constant last.

    `cell` numbers the combinations of levels; `full` is 1 at full scale.
    """

    x: Floats
    work: Floats
    cell: Ints
    full: Floats

    def __len__(self) -> int:
        return len(self.cell)

    def of(self, rows: NDArray[Any]) -> FeatureRows:
        """Return some rows, by index or mask."""
        return FeatureRows(
            x=self.x[rows], work=self.work[rows], cell=self.cell[rows], full=self.full[rows]
        )


@dataclass(frozen=True, slots=True)
class _Number:
    name: str
    log: bool
    mean: float
    deviation: float
    low: float
    high: float


class Features:
    """The features of one application. A parameter that never varied is left out and named."""

    def __init__(self, parameters: Sequence[Parameter], state: Mapping[str, Any]) -> None:
        self.parameters = tuple(parameters)
        self._state = dict(state)
        self._numbers = tuple(_Number(*each) for each in state["numbers"])
        self._levels = {str(key): tuple(each) for key, each in state["levels"].items()}
        self.constant = dict(state["constant"])
        self.terms = tuple(state["terms"])
        self._numeric = [each.name for each in parameters if not each.is_text]
        self._work = tuple(WorkTerm(each, self._numeric) for each in self.terms)
        self._unit = np.asarray(state["unit"], dtype=np.float64)
        self._cells = {tuple(each): i for i, each in enumerate(state["cells"])}

    @classmethod
    def of_runs(
        cls, parameters: Sequence[Parameter], terms: Sequence[str], runs: Sequence[Configuration]
    ) -> Features:
        """Return the features that these runs, or candidates for runs, differ in."""
        texts = [each.name for each in parameters if each.is_text]
        columns = {x.name: _column(x.name, runs) for x in parameters if not x.is_text}
        varied = {name: each for name, each in columns.items() if np.ptp(each) > 0.0}
        levels = {name: sorted({str(run[name]) for run in runs}) for name in texts}
        levels = {name: each for name, each in levels.items() if len(each) > 1}
        whole = any(each.scales for each in parameters)
        scaling = [x.name for x in parameters if x.name in varied and (x.scales or not whole)]
        chosen = tuple(terms) or automatic_terms([x for x in scaling if min(varied[x]) > 0.0])
        work = [WorkTerm(each, list(columns)).values(columns) for each in chosen]
        state = {
            "numbers": [_number(name, each) for name, each in varied.items()],
            "levels": levels,
            "constant": {
                name: runs[0][name]
                for name in (*columns, *texts)
                if name not in varied and name not in levels
            },
            "terms": list(chosen),
            "unit": np.array([*(float(np.median(each)) for each in work), 1.0]),
            "cells": sorted({tuple(str(run[name]) for name in levels) for run in runs}),
        }
        return cls(parameters, state)

    # -- rows ----------------------------------------------------------------------------------

    def rows(self, runs: Sequence[Configuration], full: Sequence[bool] | Flags) -> FeatureRows:
        """Return the features of configurations, also of those that were never run."""
        found = [
            (self._scaled(each, _column(each.name, runs)) - each.mean) / each.deviation
            for each in self._numbers
        ]
        for name, levels in self._levels.items():
            said = np.array([str(run[name]) for run in runs])
            found += [(said == level).astype(np.float64) for level in levels]
        cell = np.array([self._cells.get(key, -1) for key in self._keys(runs)], dtype=np.int64)
        x = np.array(found, dtype=np.float64).reshape(len(found), len(runs)).T
        flags = np.asarray(full, dtype=np.float64)
        return FeatureRows(x=x, work=self._work_rows(runs) / self._unit, cell=cell, full=flags)

    def places(self, runs: Sequence[Configuration], full: Sequence[bool] | Flags) -> Places:
        """Return where configurations are, for what is known about them."""
        rows = self.rows(runs, full)
        scaling = {each.name for each in self.parameters if each.scales}
        slopes = [
            SLOPE if each.name in scaling or not scaling else SIDE_SLOPE for each in self._numbers
        ]
        slopes += [LEVEL_SLOPE] * sum(len(each) for each in self._levels.values())
        return Places(
            x=rows.x * np.array(slopes, dtype=np.float64),
            cell=rows.cell,
            full=np.asarray(full, dtype=np.bool_),
        )

    def checked(self, given: Configuration) -> dict[str, Any]:
        """Return a configuration that a person gave, with all its parameters, or raise."""
        names = [each.name for each in self.parameters]
        unknown = [each for each in given if each not in names]
        if unknown:
            hint = did_you_mean(unknown[0], names) or f"known: {', '.join(names)}"
            raise StewardError(f"no parameter is called {unknown[0]!r}", where="--set", hint=hint)
        missing = [each for each in names if each not in given and each not in self.constant]
        if missing:
            hint = " ".join(f"--set {each}=VALUE" for each in missing)
            problem = f"{', '.join(missing)}: no value is given"
            raise StewardError(problem, where="--set", hint=hint)
        return {
            each.name: _typed(each, given[each.name]) if each.name in given
            else self.constant[each.name]
            for each in self.parameters
        }  # fmt: skip

    def beyond(self, run: Configuration) -> list[str]:
        """Return in words where a configuration lies outside what was run."""
        found = [
            f"{each.name} {run[each.name]} is beyond {each.low:g} to {each.high:g}, which was run"
            for each in self._numbers
            if not each.low <= float(run[each.name]) <= each.high
        ]
        found += [
            f"{name} {run[name]} was never run"
            for name, levels in self._levels.items()
            if str(run[name]) not in levels
        ]
        found += [
            f"{name} was always {value}: what {run[name]} changes is unknown"
            for name, value in self.constant.items()
            if run[name] != value
        ]
        return found

    @staticmethod
    def _scaled(number: _Number, values: Floats) -> Floats:
        if not number.log:
            return values
        scaled: Floats = np.log(np.maximum(values, 1e-300))
        return scaled

    def _work_rows(self, runs: Sequence[Configuration]) -> Floats:
        """Return the work terms with a constant one at the end: starting up."""
        columns = {name: _column(name, runs) for name in self._numeric}
        rows = [each.values(columns) for each in self._work]
        return np.array([*rows, np.ones(len(runs))], dtype=np.float64).T

    def _keys(self, runs: Sequence[Configuration]) -> list[tuple[str, ...]]:
        return [tuple(str(run[name]) for name in self._levels) for run in runs]

    # -- state ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return dict(self._state)


def _column(name: str, runs: Sequence[Configuration]) -> Floats:
    try:
        return np.array([float(run[name]) for run in runs], dtype=np.float64)
    except ValueError as fault:
        odd = next(run[name] for run in runs if not _is_number(run[name]))
        hint = "write a number, or make all values of the parameter text"
        raise StewardError(f"{odd!r} is no number", where=name, hint=hint) from fault


def _number(name: str, values: Floats) -> tuple[str, bool, float, float, float, float]:
    """Return what a `_Number` is made of."""
    low, high = float(values.min()), float(values.max())
    log = low > 0.0 and high / low >= LOG_FROM_RATIO
    scaled = np.log(values) if log else values
    return name, bool(log), float(scaled.mean()), float(scaled.std()), low, high


def _typed(parameter: Parameter, value: object) -> Any:  # noqa: ANN401 - text or number
    if parameter.is_text:
        return str(value)
    if not _is_number(value):
        example = parameter.full[-1]
        hint = f"write a number, as --set {parameter.name}={example}"
        raise StewardError(f"{value!r} is no number", where=f"--set {parameter.name}", hint=hint)
    number = float(str(value))
    return int(number) if number.is_integer() else number


def _is_number(value: object) -> bool:
    try:
        return bool(np.isfinite(float(str(value))))
    except ValueError:
        return False
