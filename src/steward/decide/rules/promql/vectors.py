"""Vectors of series at many times: binary operators and aggregations.

NaN means absent: Prometheus distinguishes the two, this does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import Floats, Longs
from steward.decide.rules.promql.expression import Aggregate, Binary
from steward.decide.rules.promql.label_index import LabelColumn, Labels
from steward.errors import StewardError

__all__ = ["LabelledRows", "Labels", "aggregated", "combined", "compared"]

Bools = NDArray[np.bool_]
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
class LabelledRows:
    """One row for each series, one column for each time; NaN is absent."""

    labels: LabelColumn
    values: Floats

    def with_values(self, values: Floats) -> LabelledRows:
        """Return the same series with other values."""
        return LabelledRows(labels=self.labels, values=values)


# -- binary operators ----------------------------------------------------------------------------


def compared(how: Binary, left: Floats, right: Floats, *, kept: Floats) -> Floats:
    """Apply an operator; a comparison gives `kept` where it holds, or 0 and 1 for `bool`."""
    if how.op in ARITHMETIC:
        return ARITHMETIC[how.op](left, right)
    holds = COMPARE[how.op](left, right)
    if how.as_bool:
        present = ~(np.isnan(left) | np.isnan(right))
        return np.where(present, holds.astype(np.float64), np.nan)
    return np.where(holds & ~np.isnan(right) & ~np.isnan(left), kept, np.nan)


def combined(how: Binary, left: LabelledRows, right: LabelledRows) -> LabelledRows:
    """Apply an operator to matching series of both sides."""
    keys = _keys(how, left.labels), _keys(how, right.labels)
    if how.op == "or":
        return _either(left, right, *keys)
    if how.op in ("and", "unless"):
        present = _any_of(right.values, keys[1], keys[0])
        wanted = present if how.op == "and" else ~present
        return left.with_values(np.where(wanted, left.values, np.nan))
    if how.many == "right":
        return _matched(how, right, left, keys[::-1])
    return _matched(how, left, right, keys)


def _keys(how: Binary, labels: LabelColumn) -> LabelColumn:
    """Return the matching keys of both sides for an operator."""
    on, ignoring = how.on, how.ignoring
    if on is not None:
        return labels.made(("on", on), lambda one: tuple(x for x in one if x[0] in on))
    if ignoring is not None:
        return labels.made(
            ("ignoring", ignoring), lambda one: tuple(x for x in one if x[0] not in ignoring)
        )
    return labels


def _any_of(values: Floats, keys: LabelColumn, wanted: LabelColumn) -> Bools:
    """Return for each wanted key the times at which any series of that key is present."""
    present = ~np.isnan(values)
    each = keys.distinct
    if len(each.names) < len(keys):
        some = np.zeros((len(each.names), values.shape[1]), bool)
        np.logical_or.at(some, each.rows, present)
        present = some
    elif keys is wanted:  # the usual case: parts of one condition
        return present
    never = np.zeros((1, values.shape[1]), bool)
    return np.concatenate([present, never])[each.names.rows_of(wanted)]  # -1: the last row


def _either(
    left: LabelledRows, right: LabelledRows, left_keys: LabelColumn, right_keys: LabelColumn
) -> LabelledRows:
    missing = ~_any_of(left.values, left_keys, right_keys)
    added = np.where(missing, right.values, np.nan)
    return _distinct(left.labels.then(right.labels), np.concatenate([left.values, added]))


class _Pairs(NamedTuple):
    """Matching rows of the "many" and the "one" side, and the labels of the results."""

    own: Longs
    own_keys: LabelColumn
    other: Longs  # among the distinct keys of the one
    labels: LabelColumn


def _matched(
    how: Binary, many: LabelledRows, one: LabelledRows, keys: tuple[LabelColumn, ...]
) -> LabelledRows:
    """Apply an operator to pairs; `many` is the left side unless there is `group_right`."""
    pairs = _pairs(how, many.labels, one.labels, keys)
    mine = many.values[pairs.own]
    if not how.many:
        _only_one(mine, pairs.own_keys, how)
    _only_one(one.values, keys[1], how)
    other = _distinct(keys[1], one.values).values[pairs.other]
    left, right = (other, mine) if how.many == "right" else (mine, other)
    return _distinct(pairs.labels, compared(how, left, right, kept=left))


def _pairs(
    how: Binary, many: LabelColumn, one: LabelColumn, keys: tuple[LabelColumn, ...]
) -> _Pairs:
    each = keys[1].distinct
    found = each.names.rows_of(keys[0])
    own = np.flatnonzero(found >= 0)
    whole = len(own) == len(found)  # as in most expressions; then columns stay the same
    own_keys, other = keys[0] if whole else keys[0].only(own), found[own]
    labels = own_keys if not how.many else many if whole else many.only(own)
    if how.taken:
        both = zip(labels, one.only(each.first[other]), strict=True)
        labels = many.label_index.names(_with(mine, its, how.taken) for mine, its in both)
    return _Pairs(own, own_keys, other, labels)


def _with(labels: Labels, other: Labels, taken: Sequence[str]) -> Labels:
    more = {name: value for name, value in other if name in taken}
    return tuple(sorted({**dict(labels), **more}.items()))


def _distinct(labels: LabelColumn, values: Floats) -> LabelledRows:
    """Merge series of equal labels: at each time the first that is present."""
    names, rows, _ = labels.distinct
    if len(names) == len(labels):
        return LabelledRows(labels=labels, values=values)
    merged = np.full((len(names), values.shape[1]), np.nan)
    rest = np.arange(len(labels))
    while len(rest):  # once for the first of each, once for the second
        first = np.unique(rows[rest], return_index=True)[1]
        mine = rest[first]
        known = merged[rows[mine]]
        merged[rows[mine]] = np.where(np.isnan(known), values[mine], known)
        rest = np.delete(rest, first)
    return LabelledRows(labels=names, values=merged)


def _only_one(values: Floats, keys: LabelColumn, how: Binary) -> None:
    """Refuse two series for one key at the same time."""
    each = keys.distinct
    if len(each.names) == len(keys):
        return
    count = np.zeros((len(each.names), values.shape[1]), np.int64)
    np.add.at(count, each.rows, ~np.isnan(values))
    for several in np.flatnonzero((count > 1).any(axis=1)).tolist():
        key = each.names.label_index.labels[each.names.ids[several]]
        shown = ", ".join(f'{name}="{value}"' for name, value in key)
        raise StewardError(
            f"'{how.op}' finds {(each.rows == several).sum()} series for {{{shown}}} on one side",
            where="promql",
            hint="add group_left or group_right, or aggregate that side first",
        )


# -- aggregations --------------------------------------------------------------------------------


def aggregated(how: Aggregate, rows: LabelledRows) -> LabelledRows:
    """Return one series for each group, or the extreme series of each."""
    groups = rows.labels.made(
        ("by", how.labels, how.without), lambda labels: _group(how, labels)
    ).distinct
    if not len(groups.names):
        return rows
    order = np.argsort(groups.rows, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(groups.rows))[:-1])
    if how.op in ("topk", "bottomk"):
        return rows.with_values(_extreme(how, rows.values, np.split(order, starts[1:])))
    values = rows.values[order]
    if how.op == "quantile":
        q = float(how.parameter or 0.0)
        found = np.array([_quantiles(part, q) for part in np.split(values, starts[1:])])
    else:
        found = _reduced(how.op, values, starts)
    return LabelledRows(labels=groups.names, values=found)


def _group(how: Aggregate, labels: Labels) -> Labels:
    return tuple(each for each in labels if (each[0] in how.labels) != how.without)


def _reduced(op: str, values: Floats, starts: Longs) -> Floats:
    present = ~np.isnan(values)
    count = np.add.reduceat(present, starts, axis=0, dtype=np.float64)
    if op in ("min", "max"):
        fill, reduce = (np.inf, np.minimum) if op == "min" else (-np.inf, np.maximum)
        found = reduce.reduceat(np.where(present, values, fill), starts, axis=0)
    elif op in ("count", "group"):
        found = count if op == "count" else np.minimum(count, 1.0)
    else:
        found = _summed(op, np.where(present, values, 0.0), present, starts)
    return np.where(count > 0, found, np.nan)


def _summed(op: str, values: Floats, present: Bools, starts: Longs) -> Floats:
    total = np.add.reduceat(values, starts, axis=0)
    if op == "sum":
        return total
    count = np.add.reduceat(present, starts, axis=0, dtype=np.float64)
    mean = total / count
    if op == "avg":
        return mean
    sizes = np.diff([*starts.tolist(), len(values)])
    away = np.where(present, values - np.repeat(mean, sizes, axis=0), 0.0)
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


def _extreme(how: Aggregate, values: Floats, groups: Sequence[Longs]) -> Floats:
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
