"""Checks of one metric's statistics: one small function per kind of flaw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby
from math import exp, log

from steward.model.frame import ENTITY, Frame
from steward.model.metric import of_events
from steward.model.metrics import METRICS
from steward.observe.quality.flaw import Flaw, FlawSeverity

__all__ = ["judge"]

_OF = {each.name: each.of for each in METRICS}
_ENOUGH = 50  # values; fewer show no pattern
_MOVE = ("_watts", "_celsius")  # no real device holds these still while it works
_STATES = ("_count", "_bits", "_code")  # they change when something happens, at no period
_RATIOS = (
    (1000.0, "a factor of 1000 (milli or kilo)"),
    (1024.0, "a factor of 1024 (KiB)"),
    (2.0**20, "a factor of 2^20 (MiB)"),
    (1e6, "a factor of 10^6 (micro or mega)"),
    (1e9, "a factor of 10^9 (nano or giga)"),
    (100.0, "a factor of 100 (percent)"),
)
_NEAR = 0.2  # how far a logarithm of a ratio may be off
Row = Mapping[str, float]


def judge(metric: str, kind: str, table: Frame, *, active: Set[str]) -> Iterator[Flaw]:
    """Look at one metric of all entities of one kind; `active` are those that did something.

    What is idle may well be zero and stand still.
    """
    rows = table.to_dicts()
    some = [row for row in rows if row["count"]]
    if some or _OF.get(metric, kind) == kind:  # else it is another kind's, in the same table
        yield from _missing(metric, rows)
    yield from _zeros(metric, some, active)
    for row in some:
        for check in (_partly, _sentinel, _range, _negative, _clipped, _slow):
            yield from check(metric, row)
    yield from _constant(metric, some, active)
    yield from _units(metric, some)
    yield from _periods(metric, kind, some)


def _missing(metric: str, rows: Sequence[Row]) -> Iterator[Flaw]:
    empty = [row for row in rows if not row["count"]]
    if empty and of_events(metric):
        yield from _named(
            metric,
            empty,
            rows,
            kind="no-events",
            severity=FlawSeverity.INFO,
            meaning="there was no event for it to count",
            hint="it has a value only when something happens: no value is no fault",
        )
    elif empty:
        yield from _named(
            metric,
            empty,
            rows,
            kind="missing",
            severity=FlawSeverity.WARNING,
            meaning="it is requested and never answered",
            hint="the driver or the rights to read it are missing, or this hardware has it not",
        )


def _partly(metric: str, row: Row) -> Iterator[Flaw]:
    share = row["count"] / row["rows"]
    if row["rows"] >= _ENOUGH and share < 0.9 and not of_events(metric):
        yield Flaw(
            kind="partly-missing",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.WARNING if share < 0.5 else FlawSeverity.INFO,
            meaning=f"only {row['count']} of {row['rows']} samples have a value",
            hint="it fails at times, or has stopped: look at when it was last seen (last_s)",
            evidence={"count": row["count"], "rows": row["rows"], "last_s": row["to_s"]},
        )


def _zeros(metric: str, rows: Sequence[Row], active: Set[str]) -> Iterator[Flaw]:
    zero = [row for row in rows if row["zeros"] == row["count"] >= _ENOUGH]
    alone = len(zero) == len(rows)
    if not alone:
        zero = [row for row in zero if str(row[ENTITY]) in active]
    if not zero:
        return
    yield from _named(
        metric,
        zero,
        rows,
        kind="always-zero" if alone else "structural-zero",
        severity=FlawSeverity.INFO if alone else FlawSeverity.WARNING,
        meaning="it is always zero"
        if alone
        else "it is always zero here although the device works, and not on others of its kind",
        hint="it may truly be unused; else the sensor is not wired up: leave it out of patterns",
    )


def _sentinel(metric: str, row: Row) -> Iterator[Flaw]:
    if row["sentinels"] and not (row["sentinel"] == -1.0 and row["negatives"] > row["sentinels"]):
        yield Flaw(
            kind="sentinel",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.WARNING,
            meaning=f"{row['sentinels']} values are {row['sentinel']:.0f}, which means 'unknown'",
            hint="translate this value to null where it is collected",
            evidence={"count": row["sentinels"], "value": row["sentinel"]},
        )


def _range(metric: str, row: Row) -> Iterator[Flaw]:
    if metric.endswith("_share") and row["max"] > 1.05:
        percent = 1.5 < row["max"] <= 100.0
        yield Flaw(
            kind="out-of-range",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.ERROR if row["q50"] > 1.05 else FlawSeverity.WARNING,
            meaning=f"a share is at most 1, but this one is {row['max']:.4g}",
            hint="it looks like percent: its scale is wrong" if percent else "its scale is wrong",
            evidence={"max": row["max"], "q50": row["q50"]},
        )


def _negative(metric: str, row: Row) -> Iterator[Flaw]:
    positive = metric.endswith(("_per_s", "_share", "_bytes", "_watts", "_cores", "_hz", "_count"))
    wrong = row["negatives"] - (row["sentinels"] if row["sentinel"] == -1.0 else 0)
    if positive and wrong > 0:
        yield Flaw(
            kind="counter-reset" if metric.endswith(("_per_s", "_cores")) else "negative",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.WARNING,
            meaning=f"{wrong} values are below zero (least {row['min']:.4g})",
            hint="a counter was reset or wrapped and its rate was taken across that"
            if metric.endswith(("_per_s", "_cores"))
            else "it cannot be negative: look at how it is read",
            evidence={"count": wrong, "min": row["min"]},
        )


def _clipped(metric: str, row: Row) -> Iterator[Flaw]:
    """Return a flaw if values are clipped: many equal maxima above many different values."""
    natural = metric.endswith("_share") and row["max"] <= 1.0
    many = row["at_max"] >= max(20, 0.02 * row["count"])
    rare_elsewhere = row["different"] > 100 and row["count"] / row["different"] < 5
    if many and rare_elsewhere and not natural and row["max"] != 0.0:
        yield Flaw(
            kind="saturated",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.WARNING,
            meaning=f"{row['at_max']} values are exactly {row['max']:.6g} and none is above",
            hint="the sensor ends there: true values may be higher",
            evidence={"bound": row["max"], "count": row["at_max"], "of": row["count"]},
        )


def _slow(metric: str, row: Row) -> Iterator[Flaw]:
    """Return a flaw if values are repeated: the source updates less often than it is read."""
    period_s, update_s = row["period_s"], row["run_q25_s"]
    if not period_s or not update_s or row["runs"] < _ENOUGH or metric.endswith(_STATES):
        return
    if update_s >= 1.8 * period_s and row["runs"] * 2 < row["count"]:
        yield Flaw(
            kind="slow-update",
            entity=str(row[ENTITY]),
            metric=metric,
            severity=FlawSeverity.INFO,
            meaning=f"it changes every {update_s:.3g} s at best but is read every {period_s:.3g} s",
            hint="samples in between are copies: do not count them as evidence",
            evidence={"update_s": update_s, "period_s": period_s, "runs": row["runs"]},
        )


def _constant(metric: str, rows: Sequence[Row], active: Set[str]) -> Iterator[Flaw]:
    still = [row for row in rows if row["min"] == row["max"] != 0.0 and row["count"] >= _ENOUGH]
    stuck = [row for row in still if str(row[ENTITY]) in active] if metric.endswith(_MOVE) else []
    if stuck:
        yield from _named(
            metric,
            stuck,
            rows,
            kind="stuck",
            severity=FlawSeverity.WARNING,
            meaning="it never changes although the device works",
            hint="the sensor hangs: compare it with another tool",
        )
    elif still and len(still) == len(rows):
        yield from _named(
            metric,
            still,
            rows,
            kind="constant",
            severity=FlawSeverity.INFO,
            meaning="it never changes",
            hint="it carries no information here: leave it out of patterns",
        )


def _units(metric: str, rows: Sequence[Row]) -> Iterator[Flaw]:
    """Compare hosts: when all of one's values are larger by a well-known factor, units differ."""
    nodes = {
        node: (_middle(group, "q05"), _middle(group, "q50"), _middle(group, "q95"))
        for node, group in _by_node(rows)
    }
    moves = "limit" not in metric  # a constant that may move is an idle device's
    usable = {
        node: q
        for node, q in nodes.items()
        if q[1] > 0.0 and q[2] > 0.0 and (q[2] > 1.02 * q[0] or not moves)
    }
    if len(usable) < 2 or metric.endswith("_share"):
        return  # a share that is too large is out of range; one that is small may be idle
    usual = sorted(q[1] for q in usable.values())[(len(usable) - 1) // 2]
    normal = [q for q in usable.values() if abs(log(q[1] / usual)) < log(10.0)]
    like = [_median([q[i] for q in normal]) for i in range(3)]
    for node, own in usable.items():
        pairs = [(a, b) for a, b in zip(own, like, strict=True) if a > 0.0 and b > 0.0]
        logs = [log(a / b) for a, b in pairs]
        for ratio, what in _RATIOS:
            for sign in (1.0, -1.0):
                off = [abs(each - sign * log(ratio)) for each in logs]
                if len(off) >= 2 and max(off) < _NEAR:
                    yield _unit_flaw(metric, node, own, like, what)
                    break
            else:
                continue
            break


def _unit_flaw(
    metric: str, node: str, own: Sequence[float], like: Sequence[float], what: str
) -> Flaw:
    return Flaw(
        kind="unit-mismatch",
        entity=node,
        metric=metric,
        severity=FlawSeverity.ERROR,
        meaning=f"all its values are off the other hosts' by {what}",
        hint="two programs report this metric in different units: correct the scale of one",
        evidence={"median": own[1], "others_median": like[1], "ratio": own[1] / like[1]},
    )


def _periods(metric: str, kind: str, rows: Sequence[Row]) -> Iterator[Flaw]:
    periods = sorted(row["period_s"] for row in rows if row["period_s"])
    if len(periods) < 2 or periods[-1] < 1.5 * periods[0]:
        return
    slowest = [row for row in rows if row["period_s"] and row["period_s"] > 1.5 * periods[0]]
    yield from _named(
        metric,
        slowest,
        rows,
        kind="period-differs",
        severity=FlawSeverity.INFO,
        meaning=f"it is sampled every {periods[0]:.3g} s to {periods[-1]:.3g} s, depending on "
        f"which {kind}",
        hint="resample (query with `every`) before comparing them",
    )


def _named(  # noqa: PLR0913 - the fields of a flaw
    metric: str,
    affected: Sequence[Row],
    rows: Sequence[Row],
    *,
    kind: str,
    severity: FlawSeverity,
    meaning: str,
    hint: str,
) -> Iterator[Flaw]:
    """Return one flaw for all, or one for each that has it."""
    if len(affected) == len(rows) and len(rows) > 1:
        evidence: dict[str, float | str] = {"entities": len(rows)}
        yield Flaw(
            kind=kind, entity="*", metric=metric, severity=severity, meaning=meaning, hint=hint,
            evidence=evidence,
        )  # fmt: skip
        return
    for row in affected:
        evidence = {"rows": row["rows"]}
        if row["max"] is not None:
            evidence["value"] = row["max"]
        yield Flaw(
            kind=kind, entity=str(row[ENTITY]), metric=metric, severity=severity, meaning=meaning,
            hint=hint, evidence=evidence,
        )  # fmt: skip


def _by_node(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    def node(row: Row) -> str:
        return str(row[ENTITY]).partition("/")[0].partition("@")[0]

    for name, group in groupby(sorted(rows, key=node), key=node):
        yield name, list(group)


def _middle(rows: Sequence[Row], name: str) -> float:
    return _median([row[name] for row in rows if row[name] is not None] or [0.0])


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return (
        ordered[half]
        if len(ordered) % 2
        else exp((log(max(ordered[half - 1], 1e-300)) + log(max(ordered[half], 1e-300))) / 2)
    )
