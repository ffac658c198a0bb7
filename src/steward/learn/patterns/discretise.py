"""Window values become levels: cuts per scope from the merged sketches, and what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.cuts import LEVELS, Cuts, cut, levels_of
from steward.learn.patterns.ingest import Ingested, IngestPlan, value_names
from steward.learn.patterns.sketches import Sketch

__all__ = ["CutTable", "Discretised", "discretise", "unit_differences"]

_FACTORS = {
    100.0: "per cent",
    1000.0: "1000",
    1024.0: "KiB",
    2.0**20: "MiB",
    1e6: "10^6",
    1e9: "10^9",
}
_NEAR = 0.2  # how far a logarithm of a ratio may be off
CutTable = Mapping[tuple[str, str], Cuts]  # scope, group


@dataclass(frozen=True, slots=True, kw_only=True)
class Discretised:
    """Baskets of one window size, the cuts behind them, and what was left out."""

    baskets: Baskets
    cuts: CutTable
    absent: tuple[str, ...]  # groups without any value
    constant: tuple[str, ...]  # groups of one level everywhere: left out, unless asked for
    empty_windows: int  # no group had a value


def discretise(
    found: Ingested,
    plan: IngestPlan,
    *,
    size: int = 0,
    labels: Mapping[str, str] | None = None,
    given: CutTable | None = None,
    keep_constant: bool = False,
) -> Discretised:
    """Return the baskets of one window size. `given` cuts are used instead of learning them.

    An item that every window has doubles the itemsets and says nothing.
    """
    names = value_names(plan)
    cuts = dict(given) if given else _learnt(found, names, size)
    measured = {
        group for at, _, group in found.sketches if at == size and names[group] in _of_groups(cuts)
    }
    groups = sorted(measured)
    if not groups:
        raise StewardError(
            f"no run has a full window of {plan.windows.windows_s[size]:g} s",
            where=plan.inputs[0].path if plan.inputs else "",
            hint="choose a smaller --window, or look at `steward learn quality`",
        )
    united = {group: _united(names[group], cuts) for group in groups}
    constant = [group for group in groups if len(united[group]) < 2]
    if not keep_constant and len(constant) < len(groups):
        groups = [group for group in groups if group not in constant]
    level_names = [united[group] for group in groups]
    runs, run, start_s, levels = _levels(found, size, groups, level_names, names, cuts)
    filled = (levels != ABSENT).any(axis=1)
    order = np.lexsort((start_s, run))
    order = order[filled[order]]
    baskets = Baskets(
        groups=tuple(names[group] for group in groups),
        level_names=tuple(level_names),
        levels=levels[order],
        runs=tuple(runs),
        run=run[order],
        start_s=start_s[order],
        window_s=plan.windows.windows_s[size],
        labels=_labels(runs, labels),
    )
    return Discretised(
        baskets=baskets,
        cuts=cuts,
        absent=tuple(name for place, name in enumerate(names) if place not in measured),
        constant=tuple(names[group] for group in constant),
        empty_windows=int((~filled).sum()),
    )


def _learnt(found: Ingested, names: Sequence[str], size: int) -> dict[tuple[str, str], Cuts]:
    return {
        (scope, names[group]): cut(sketch)
        for (at, scope, group), sketch in sorted(found.sketches.items(), key=lambda each: each[0])
        if at == size
    }


def _of_groups(cuts: CutTable) -> set[str]:
    return {group for _, group in cuts}


def _united(group: str, cuts: CutTable) -> tuple[str, ...]:
    """Return the levels that a group has in any scope, from low to high."""
    there = {name for (_, of), each in cuts.items() if of == group for name in each.names}
    return tuple(name for name in LEVELS if name in there)


def _levels(
    found: Ingested,
    size: int,
    groups: Sequence[int],
    level_names: Sequence[Sequence[str]],
    names: Sequence[str],
    cuts: CutTable,
) -> tuple[list[str], NDArray[np.int32], NDArray[np.float64], NDArray[np.uint8]]:
    runs: dict[str, int] = {}
    chunks = found.windows[size]
    total = sum(len(chunk.run) for chunk in chunks)
    run, start_s = np.empty(total, np.int32), np.empty(total)
    levels = np.full((total, len(groups)), ABSENT, np.uint8)
    begin = 0
    for chunk in chunks:
        rows = slice(begin, begin + len(chunk.run))
        places = np.array([runs.setdefault(name, len(runs)) for name in chunk.runs], np.int32)
        run[rows], start_s[rows] = places[chunk.run], chunk.start_s
        scopes = np.asarray(chunk.scopes)
        for scope in np.unique(scopes):
            inside = (scopes == scope)[chunk.run]
            for column, group in enumerate(groups):
                cuts_here = cuts.get((str(scope), names[group]))
                if cuts_here is not None and cuts_here.names:
                    values = chunk.values[inside, group]
                    codes = _codes(values, cuts_here, level_names[column])
                    levels[rows, column][inside] = codes
        begin += len(chunk.run)
    return [*runs], run, start_s, levels


def _codes(
    values: NDArray[np.float32], cuts: Cuts, level_names: Sequence[str]
) -> NDArray[np.uint8]:
    table = np.array([level_names.index(name) for name in cuts.names], np.uint8)
    codes = table[np.minimum(levels_of(values, cuts), len(table) - 1)]
    return np.where(np.isnan(values), np.uint8(ABSENT), codes)


def _labels(runs: Sequence[str], labels: Mapping[str, str] | None) -> tuple[str, ...]:
    if not labels:
        return ()
    found = tuple(labels.get(run, "") for run in runs)
    return found if any(found) else ()


def unit_differences(found: Ingested, plan: IngestPlan) -> list[str]:
    """Return hosts whose values are those of the others times a factor of units."""
    names = value_names(plan)
    by_group: dict[int, dict[str, Sketch]] = {}
    for (host, group), sketch in found.hosts.items():
        by_group.setdefault(group, {})[host] = sketch
    notes = []
    for group, hosts in sorted(by_group.items()):
        middles = {host: abs(sketch.quantile(0.5)) for host, sketch in hosts.items()}
        middles = {host: middle for host, middle in middles.items() if middle > 0}
        if len(middles) < 2:
            continue
        usual = float(np.median(np.fromiter(middles.values(), float)))
        for host, middle in sorted(middles.items()):
            factor = next(
                (f for f in _FACTORS if abs(abs(log(middle / usual)) - log(f)) < _NEAR), None
            )
            if factor is not None:
                notes.append(
                    f"{names[group]} of {host or 'an unnamed host'} is {middle:.4g} at the middle, "
                    f"and {usual:.4g} is usual: a factor of {_FACTORS[factor]}?"
                )
    return notes
