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
from steward.learn.patterns.ingest import Ingested, IngestPlan, by_name, value_names

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
_QUANTILES = (0.05, 0.5, 0.95)
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
        for scope, inside in by_name(chunk.scopes, chunk.run):
            for column, group in enumerate(groups):
                cuts_here = cuts.get((scope, names[group]))
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
    """Return hosts whose values, small and large ones, are the others' times a factor of units."""
    names = value_names(plan)
    by_group: dict[int, dict[str, tuple[float, ...]]] = {}
    for (host, group), sketch in sorted(found.hosts.items()):
        quantiles = tuple(sketch.quantile(share) for share in _QUANTILES)
        if quantiles[1] > 0 and quantiles[2] > 0:
            by_group.setdefault(group, {})[host] = quantiles
    notes = []
    for group, hosts in sorted(by_group.items()):
        middles = sorted(each[1] for each in hosts.values())
        usual = next(q for q in hosts.values() if q[1] == middles[(len(middles) - 1) // 2])
        for host, own in hosts.items():
            what = _factor(own, usual)
            if what:
                notes.append(
                    f"{names[group]} of {host or 'an unnamed host'} is {own[1]:.4g} at the middle, "
                    f"and {usual[1]:.4g} is usual: a factor of {what}?"
                )
    return notes


def _factor(own: Sequence[float], usual: Sequence[float]) -> str:
    """Return which factor lies between two hosts' quantiles, "" if none does."""
    logs = [log(a / b) for a, b in zip(own, usual, strict=True) if a > 0 and b > 0]
    for factor, what in _FACTORS.items():
        for sign in (1.0, -1.0):
            off = [abs(each - sign * log(factor)) for each in logs]
            if len(off) >= 2 and max(off) < _NEAR:
                return what
    return ""
