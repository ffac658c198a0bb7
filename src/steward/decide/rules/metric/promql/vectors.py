"""Many series at many times at once, and what can be done with two sets of them.

A value that is no number is none: Prometheus tells the two apart, this does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import Floats, Longs
from steward.decide.rules.metric.promql.expression import Aggregate, Binary
from steward.errors import StewardError

__all__ = ["Labels", "Rows", "aggregated", "combined", "compared"]

Bools = NDArray[np.bool_]
Labels = tuple[tuple[str, str], ...]  # by name
ARITHMETIC: Mapping[str, Callable[..., Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
}
COMPARE: Mapping[str, Callable[..., Bools]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One row for each series, one column for each time; NaN is absent."""

    labels: tuple[Labels, ...]
    values: Floats

    def with_values(self, values: Floats) -> Rows:
        """Return the same series with other values."""
        return Rows(labels=self.labels, values=values)


# -- between two sides ---------------------------------------------------------------------------


def compared(how: Binary, left: Floats, right: Floats, *, kept: Floats) -> Floats:
    """Apply an operator; a comparison gives `kept` where it holds, or 0 and 1 for `bool`."""
    if how.op in ARITHMETIC:
        return ARITHMETIC[how.op](left, right)
    holds = COMPARE[how.op](left, right)
    if how.as_bool:
        there = ~(np.isnan(left) | np.isnan(right))
        return np.where(there, holds.astype(np.float64), np.nan)
    return np.where(holds & ~np.isnan(right) & ~np.isnan(left), kept, np.nan)


def combined(how: Binary, left: Rows, right: Rows) -> Rows:
    """Apply an operator to the series of both sides that belong together."""
    keys = _keys(how, left.labels), _keys(how, right.labels)
    if how.op == "or":
        return _either(left, right, *keys)
    if how.op in ("and", "unless"):
        there = _any_of(right.values, keys[1], keys[0])
        wanted = there if how.op == "and" else ~there
        return left.with_values(np.where(wanted, left.values, np.nan))
    if how.many == "right":
        return _matched(how, right, left, keys[::-1])
    return _matched(how, left, right, keys)


def _keys(how: Binary, labels: Sequence[Labels]) -> Sequence[Labels]:
    """Return what tells series apart for an operator."""
    if how.on is not None:
        return [tuple(each for each in one if each[0] in how.on) for one in labels]
    if how.ignoring is not None:
        return [tuple(each for each in one if each[0] not in how.ignoring) for one in labels]
    return labels


def _rows_of(keys: Sequence[Labels]) -> dict[Labels, list[int]]:
    found: dict[Labels, list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return found


def _numbered(keys: Sequence[Labels]) -> tuple[dict[Labels, int], list[int]]:
    """Return a number for each key from 0 on, and the numbers of all rows."""
    numbers: dict[Labels, int] = {}
    return numbers, [numbers.setdefault(key, len(numbers)) for key in keys]


def _any_of(values: Floats, keys: Sequence[Labels], wanted: Sequence[Labels]) -> Bools:
    """Say for each wanted key at which times any series with that key is there."""
    there = ~np.isnan(values)
    if keys == wanted and len({*keys}) == len(keys):  # as most often: parts of one condition
        return there
    numbers, rows = _numbered(keys)
    if len(numbers) < len(keys):
        some = np.zeros((len(numbers), values.shape[1]), bool)
        np.logical_or.at(some, rows, there)
        there = some
    never = np.zeros((1, values.shape[1]), bool)
    found = np.array([numbers.get(key, -1) for key in wanted], np.int64)  # -1: the last row
    return np.concatenate([there, never])[found]


def _either(
    left: Rows, right: Rows, left_keys: Sequence[Labels], right_keys: Sequence[Labels]
) -> Rows:
    missing = ~_any_of(left.values, left_keys, right_keys)
    added = np.where(missing, right.values, np.nan)
    labels = (*left.labels, *right.labels)
    return _distinct(labels, np.concatenate([left.values, added]))


def _matched(how: Binary, many: Rows, one: Rows, keys: tuple[Sequence[Labels], ...]) -> Rows:
    """Apply an operator to pairs; `many` is the left side unless there is `group_right`."""
    rows = _rows_of(keys[1])
    own = [row for row, key in enumerate(keys[0]) if key in rows]
    if not how.many:
        _only_one(many.values[own], [keys[0][row] for row in own], how)
    _only_one(one.values, keys[1], how)
    theirs = _distinct(keys[1], one.values).values
    place = {key: at for at, key in enumerate(rows)}
    other = theirs[[place[keys[0][row]] for row in own]]
    mine = many.values[own]
    left, right = (other, mine) if how.many == "right" else (mine, other)
    values = compared(how, left, right, kept=left)
    labels = [
        _with(many.labels[row], one.labels[rows[keys[0][row]][0]], how.taken)
        if how.many
        else keys[0][row]
        for row in own
    ]
    return _distinct(labels, values)


def _with(labels: Labels, other: Labels, taken: Sequence[str]) -> Labels:
    more = {name: value for name, value in other if name in taken}
    return tuple(sorted({**dict(labels), **more}.items()))


def _distinct(labels: Sequence[Labels], values: Floats) -> Rows:
    """Put series of the same labels together: at each time the first that is there."""
    numbers, at = _numbered(labels)
    if len(numbers) == len(labels):
        return Rows(labels=tuple(labels), values=values)
    merged = np.full((len(numbers), values.shape[1]), np.nan)
    rest, rows = np.arange(len(labels)), np.array(at)
    while len(rest):  # once for the first of each, once for the second
        first = np.unique(rows[rest], return_index=True)[1]
        mine = rest[first]
        known = merged[rows[mine]]
        merged[rows[mine]] = np.where(np.isnan(known), values[mine], known)
        rest = np.delete(rest, first)
    return Rows(labels=tuple(numbers), values=merged)


def _only_one(values: Floats, keys: Sequence[Labels], how: Binary) -> None:
    """Refuse two series for one key at the same time."""
    if len({*keys}) == len(keys):
        return
    for key, own in _rows_of(keys).items():
        if len(own) > 1 and ((~np.isnan(values[own])).sum(axis=0) > 1).any():
            shown = ", ".join(f'{name}="{value}"' for name, value in key)
            raise StewardError(
                f"'{how.op}' finds {len(own)} series for {{{shown}}} on one side",
                where="promql",
                hint="add group_left or group_right, or aggregate that side first",
            )


# -- over groups ---------------------------------------------------------------------------------


def aggregated(how: Aggregate, rows: Rows) -> Rows:
    """Return one series for each group, or the extreme series of each."""
    groups = _rows_of([_group(how, each) for each in rows.labels])
    if how.op in ("topk", "bottomk"):
        return rows.with_values(_extreme(how, rows.values, list(groups.values())))
    if not groups:
        return rows
    order = np.concatenate([np.array(own) for own in groups.values()])
    starts = np.cumsum([0, *(len(own) for own in groups.values())])[:-1]
    values = rows.values[order]
    if how.op == "quantile":
        q = float(how.parameter or 0.0)
        found = np.array([_quantiles(part, q) for part in np.split(values, starts[1:])])
    else:
        found = _reduced(how.op, values, starts)
    return Rows(labels=tuple(groups), values=found)


def _group(how: Aggregate, labels: Labels) -> Labels:
    return tuple(each for each in labels if (each[0] in how.labels) != how.without)


def _reduced(op: str, values: Floats, starts: Longs) -> Floats:
    there = ~np.isnan(values)
    count = np.add.reduceat(there, starts, axis=0, dtype=np.float64)
    if op in ("min", "max"):
        fill, reduce = (np.inf, np.minimum) if op == "min" else (-np.inf, np.maximum)
        found = reduce.reduceat(np.where(there, values, fill), starts, axis=0)
    elif op in ("count", "group"):
        found = count if op == "count" else np.minimum(count, 1.0)
    else:
        found = _summed(op, np.where(there, values, 0.0), there, starts)
    return np.where(count > 0, found, np.nan)


def _summed(op: str, values: Floats, there: Bools, starts: Longs) -> Floats:
    total = np.add.reduceat(values, starts, axis=0)
    if op == "sum":
        return total
    count = np.add.reduceat(there, starts, axis=0, dtype=np.float64)
    mean = total / count
    if op == "avg":
        return mean
    sizes = np.diff([*starts.tolist(), len(values)])
    away = np.where(there, values - np.repeat(mean, sizes, axis=0), 0.0)
    variance = np.add.reduceat(away * away, starts, axis=0) / count
    return np.sqrt(variance) if op == "stddev" else variance


def _quantiles(values: Floats, q: float) -> Floats:
    if not 0.0 <= q <= 1.0:
        outside = -np.inf if q < 0 else np.inf
        return np.where(np.isnan(values).all(axis=0), np.nan, outside)
    ordered = np.sort(values, axis=0)  # NaN last
    count = (~np.isnan(values)).sum(axis=0)
    rank = q * np.maximum(count - 1, 0)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    columns = np.arange(values.shape[1])
    part = rank - below
    found: Floats = ordered[below, columns] * (1 - part) + ordered[above, columns] * part
    return found


def _extreme(how: Aggregate, values: Floats, groups: Sequence[list[int]]) -> Floats:
    """Keep the `k` largest or smallest of each group at each time; ties by place."""
    k = int(how.parameter or 0)
    found = np.full_like(values, np.nan)
    for own in groups:
        part = values[own]
        ranked = -part if how.op == "topk" else part
        order = np.argsort(ranked, axis=0, kind="stable")[: max(k, 0)]  # NaN last
        columns = np.arange(values.shape[1])
        kept = np.full_like(part, np.nan)
        kept[order, columns] = part[order, columns]
        found[own] = kept
    return found
