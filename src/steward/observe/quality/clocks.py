"""Checks of clocks by stored rows: offsets, samples from the future, sources that disagree.

A clock that is wrong, but steadily and for everything, cannot be found in its own rows: only where
two clocks meet. That is where an agent contacts its server, where a file is written, and where two
sources cover one node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.observe.quality.flaw import Flaw, FlawSeverity
from steward.store.files.parquet import TableSchema, columns_of

__all__ = ["clock_flaws"]

_OFFSET = "host.clock.offset_seconds"
# Each source that is compared has one: our collectors, exporters, files.
_HOST, _GPU = "host.context_switches_per_s", "gpu.busy_share"
_OFF_S = 0.5  # five samples: causes and effects change places
_JUMP_S = 0.25  # far above what a slow network does to the estimate
_SLACK_S = 1.0  # a file may be written within the same second
_SIMULATED = "simulated"  # the mark of a demo, whose time runs ahead of every clock
_LOOKED_AT_S = 600.0  # of each hour: ticks are regular
_ENOUGH = 50  # ticks
_SHAPE = TableSchema()
_NODE, _OFF = "\0node", "\0off"


def clock_flaws(folder: Path, files: Sequence[Path]) -> Iterator[Flaw]:
    """Return clocks that are off or jump, rows later than their file, sources that disagree."""
    yield from _offset_flaws(_having(files, _OFFSET))
    if not (folder / _SIMULATED).exists():
        yield from _future_flaws(files, time.time())
    yield from _source_flaws(files)


def _having(files: Sequence[Path], column: str) -> list[Path]:
    return [file for file in files if column in columns_of(file, _SHAPE)]


def _rows(files: Sequence[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(
        list(files), missing_columns="insert", extra_columns="ignore", glob=False
    )


# -- what agents learn from their server -------------------------------------------------------


def _offset_flaws(files: Sequence[Path]) -> Iterator[Flaw]:
    if not files:
        return
    known = [pl.scan_parquet(file, glob=False).select(ENTITY, T_S, _OFFSET) for file in files]
    rows = pl.concat(known).drop_nulls().sort(ENTITY, T_S).collect()
    for (node,), mine in rows.partition_by(ENTITY, as_dict=True, maintain_order=True).items():
        yield from _off(str(node), mine)
        yield from _jumps(str(node), mine)


def _off(node: str, rows: Frame) -> Iterator[Flaw]:
    off = rows.filter(pl.col(_OFFSET).abs() > _OFF_S)
    if off.is_empty():
        return
    worst = off.sort(pl.col(_OFFSET).abs())[_OFFSET][-1]
    yield Flaw(
        kind="clock-off",
        entity=node,
        metric=_OFFSET,
        severity=FlawSeverity.WARNING,
        meaning=f"its clock was up to {abs(worst):.3g} s {'behind' if worst > 0 else 'ahead of'} "
        f"the server's, in {off.height} of {rows.height} values",
        hint="agents correct the times of samples, but not those inside lines and files of others: "
        "look at chrony or ntpd",
        evidence={
            "worst_s": worst,
            "count": off.height,
            "from_s": off[T_S][0],
            "to_s": off[T_S][-1],
        },
    )


def _jumps(node: str, rows: Frame) -> Iterator[Flaw]:
    jumps = rows.with_columns(pl.col(_OFFSET).diff().alias(_OFF)).filter(
        pl.col(_OFF).abs() > _JUMP_S
    )
    if jumps.is_empty():
        return
    worst = jumps.sort(pl.col(_OFF).abs()).row(-1, named=True)
    yield Flaw(
        kind="clock-jump",
        entity=node,
        metric=_OFFSET,
        severity=FlawSeverity.WARNING,
        meaning=f"its clock moved against the server's {jumps.height} times, by up to "
        f"{abs(worst[_OFF]):.3g} s at once",
        hint="it was set, or the machine slept: times around that moment may be out of order",
        evidence={"worst_s": worst[_OFF], "at_s": worst[T_S], "count": jumps.height},
    )


# -- rows that are later than what they were written to ----------------------------------------


def _future_flaws(files: Sequence[Path], now_s: float) -> Iterator[Flaw]:
    found = [late for file in files if (late := _late(file, now_s)) is not None]
    late = pl.concat(found) if found else pl.DataFrame()
    if late.is_empty():
        return
    table = late.group_by(_NODE).agg(
        pl.col("rows").sum(), pl.col("ahead_s").max(), pl.col("to_s").max()
    )
    for row in table.sort(_NODE).to_dicts():
        yield Flaw(
            kind="clock-future",
            entity=row[_NODE],
            metric=T_S,
            severity=FlawSeverity.WARNING,
            meaning=f"{row['rows']} samples are up to {row['ahead_s']:.4g} s later than the moment "
            "at which they were written down",
            hint="the clock of their source was ahead: their times are wrong by at least that",
            evidence={"count": row["rows"], "ahead_s": row["ahead_s"], "to_s": row["to_s"]},
        )


def _late(file: Path, now_s: float) -> Frame | None:
    """Return rows that are later than their file, by node.

    The time of a file counts where some of its rows came before it. One that is older than all
    that is in it was set by the program that copied it.
    """
    rows = pl.scan_parquet(file, glob=False)
    from_s, to_s = rows.select(pl.col(T_S).min(), pl.col(T_S).max().alias("to")).collect().row(0)
    written_s = file.stat().st_mtime
    end_s = min(now_s, written_s) if from_s is not None and from_s <= written_s else now_s
    if to_s is None or to_s <= end_s + _SLACK_S:
        return None
    return (
        rows.filter(pl.col(T_S) > end_s + _SLACK_S)
        .group_by(_node().alias(_NODE))
        .agg(
            pl.len().alias("rows"),
            (pl.col(T_S).max() - end_s).alias("ahead_s"),
            pl.col(T_S).max().alias("to_s"),
        )
        .collect()
    )


# -- two sources of one node -------------------------------------------------------------------


def _source_flaws(files: Sequence[Path]) -> Iterator[Flaw]:
    """Compare when the host and when its GPUs were read, at the same pace."""
    host, gpu = _having(files, _HOST), _having(files, _GPU)
    if not host or not gpu:
        return
    ends = _ends(host, _HOST).join(_ends(gpu, _GPU), on=_NODE, suffix="_gpu").sort(_NODE)
    apart = _apart(host, gpu)
    for row in ends.to_dicts():
        shift_s = _shift(row)
        if shift_s is not None:
            yield _shifted(row[_NODE], shift_s)
        else:
            yield from _out_of_step(row[_NODE], apart.filter(pl.col(_NODE) == row[_NODE]))


def _shift(row: Mapping[str, float]) -> float | None:
    """Return by how much one source begins and ends later than the other, if by the same."""
    if min(row["ticks"], row["ticks_gpu"]) < _ENOUGH:
        return None
    period_s = (row["to_s"] - row["from_s"]) / (row["ticks"] - 1)
    begins_s, ends_s = row["from_s_gpu"] - row["from_s"], row["to_s_gpu"] - row["to_s"]
    same_pace = 0.9 <= row["ticks_gpu"] / row["ticks"] <= 1.1
    clear = abs(begins_s) > max(1.0, 5 * period_s)
    return begins_s if same_pace and clear and abs(begins_s - ends_s) <= 2 * period_s else None


def _shifted(node: str, shift_s: float) -> Flaw:
    return Flaw(
        kind="clock-skew",
        entity=node,
        metric=T_S,
        severity=FlawSeverity.WARNING,
        meaning=f"rows of its GPUs begin and end {abs(shift_s):.4g} s "
        f"{'later' if shift_s > 0 else 'earlier'} than its own, as if by another clock",
        hint="two programs report this node: compare their clocks and time zones before joining",
        evidence={"shift_s": shift_s},
    )


def _out_of_step(node: str, hours: Frame) -> Iterator[Flaw]:
    if hours.is_empty():
        return
    typical = hours.select(
        pl.col("period_s").median(),
        pl.col("off_s").median(),
        pl.max_horizontal(
            pl.col("spread_s").max(), pl.col("off_s").max() - pl.col("off_s").min()
        ).alias("spread_s"),
    )
    period_s, after_s, spread_s = typical.row(0)
    off_s = after_s if after_s <= period_s / 2 else after_s - period_s
    if abs(off_s) > 0.05 * period_s and spread_s < 0.1 * period_s:
        side = "after" if off_s > 0 else "before"
        yield Flaw(
            kind="out-of-step",
            entity=node,
            metric=T_S,
            severity=FlawSeverity.INFO,
            meaning=f"its GPUs are always read {abs(off_s):.3g} s {side} the node itself "
            f"(every {period_s:.3g} s)",
            hint="two timers, or two clocks: rows do not show which. Join by the nearest time, and "
            "trust no order of events within that",
            evidence={"off_s": off_s, "period_s": period_s, "spread_s": spread_s},
        )


def _ends(files: Sequence[Path], column: str) -> Frame:
    return (
        _rows(files)
        .filter(pl.col(column).is_not_null())
        .group_by(_node().alias(_NODE))
        .agg(
            pl.col(T_S).min().alias("from_s"),
            pl.col(T_S).max().alias("to_s"),
            pl.col(T_S).n_unique().alias("ticks"),
        )
        .collect(engine="streaming")
    )


def _apart(host: Sequence[Path], gpu: Sequence[Path]) -> Frame:
    """Return by node and hour how long after the node its GPUs were read, where paces agree."""
    hours = {hour: list(group) for hour, group in groupby(sorted(host), key=lambda f: f.parent)}
    found = [_nothing()]
    for hour, group in groupby(sorted(gpu), key=lambda file: file.parent):
        if hour in hours:
            found.append(_steps(_ticks(hours[hour], _HOST), _ticks(list(group), _GPU)))
    return pl.concat(found)


def _steps(host: Frame, gpu: Frame) -> Frame:
    """Compare ticks; looking back from each, what jitters about zero is as often nearly a period.

    That is what it should do: such sources are in step, and too spread to be named.
    """
    paces = _pace(host).join(_pace(gpu), on=_NODE, suffix="_gpu")
    same_pace = paces.filter(
        (pl.col("period_s_gpu") / pl.col("period_s")).is_between(0.9, 1.1),
        pl.min_horizontal("ticks", "ticks_gpu") >= _ENOUGH,
    )
    before = host.with_columns(pl.col(T_S).alias("host_s"))
    paired = gpu.join_asof(before, on=T_S, by=_NODE, strategy="backward", check_sortedness=False)
    off = pl.col(T_S) - pl.col("host_s")
    return (
        paired.with_columns(off.alias(_OFF))
        .join(same_pace, on=_NODE)
        .filter(pl.col(_OFF) < 1.5 * pl.col("period_s"))  # not into a gap
        .group_by(_NODE)
        .agg(
            pl.col("period_s").first(),
            pl.col(_OFF).median().alias("off_s"),
            (pl.col(_OFF).quantile(0.95) - pl.col(_OFF).quantile(0.05)).alias("spread_s"),
            pl.len().alias("ticks"),
        )
        .filter(pl.col("ticks") >= _ENOUGH)
    )


def _pace(ticks: Frame) -> Frame:
    return ticks.group_by(_NODE).agg(
        pl.col(T_S).diff().median().alias("period_s"), pl.len().alias("ticks")
    )


def _ticks(files: Sequence[Path], column: str) -> Frame:
    rows = _rows(files).filter(pl.col(column).is_not_null())
    early = pl.col(T_S) < pl.col(T_S).min() + _LOOKED_AT_S
    return rows.filter(early).select(_node().alias(_NODE), T_S).unique().sort(T_S).collect()


def _nothing() -> Frame:
    kinds = {
        "period_s": pl.Float64,
        "off_s": pl.Float64,
        "spread_s": pl.Float64,
        "ticks": pl.UInt32,
    }
    return pl.DataFrame(schema={_NODE: pl.String, **kinds})


def _node() -> pl.Expr:
    return pl.col(ENTITY).str.extract("^([^/@]+)")
