"""One wide file as windows of groups: which columns, which runs, counters as rates, units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.patterns.column_names import Column, read_names
from steward.learn.patterns.combining import Combiner
from steward.learn.patterns.groups import MetricGroup, Selection, select_columns
from steward.learn.patterns.table_blocks import Reading, Table, open_table
from steward.learn.patterns.window_fold import WindowFold, Windows, usual_step
from steward.learn.patterns.window_statistics import Statistic
from steward.store.files.time_columns import LAST_S, seconds, time_column

__all__ = ["FileWindows", "WindowPlan", "finished", "hardware_of", "read_windows"]

_RUNS = ("run", "run_id", "job_id")
_NODES = ("node", "host", "hostname", "instance", "nodename", "server", "machine")
_DEVICES = ("gpu", "gpu_id", "gpu_index", "gpuid", "device_index", "index", "uuid")
_LONG = ({"metric", "value"}, {"metric_name", "value"}, {"__name__", "value"})
_TOLERATED = 1.05  # of what no true value exceeds
_PERCENT = 100.0
_ROUNDING = 1e-3
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """What is made of each file."""

    groups: tuple[MetricGroup, ...]
    windows_s: tuple[float, ...]
    statistics: tuple[Statistic, ...] = ("median",)
    least_share: float = 0.5  # of the rows that a window should have


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWindows:
    """Windows by size, in the order of the plan, and what the file was."""

    runs: tuple[str, ...]  # "" where the file itself is the run
    hosts: tuple[str, ...]  # per run
    hardware: str
    begin_s: tuple[float, ...]  # per run
    windows: tuple[Windows, ...]
    rows: int
    period_s: float
    columns: tuple[int, ...]  # per group, how many
    unmapped: tuple[str, ...]  # names without device and host, each once


@dataclass(slots=True, kw_only=True)
class _Keys:
    """The runs of a file in the order in which they are met, as numbers."""

    columns: Sequence[int]
    names: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    host: int | None = None
    _known: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, block: pl.DataFrame) -> NDArray[np.int64]:
        """Return the run of each row."""
        if not self.columns:
            self._number(())
            return np.zeros(len(block), np.int64)
        keys = block.select(_name(place) for place in self.columns)
        distinct = keys.unique(maintain_order=True)
        numbers = [self._number(row) for row in distinct.iter_rows()]
        coded = distinct.with_columns(pl.Series("\0n", numbers, dtype=pl.Int64))
        names = [str(place) for place in self.columns]
        joined = keys.join(coded, on=names, how="left", maintain_order="left")
        return joined["\0n"].to_numpy()

    def _number(self, key: tuple[str, ...]) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._known)
            self.names.append("/".join(part for part in key if part))
            self.hosts.append(key[self.columns.index(self.host)] if self.host is not None else "")
        return found


def _name(place: int) -> pl.Expr:
    text = pl.col(str(place)).cast(pl.String).fill_null("")
    return text.str.strip_chars().str.replace(r"[/@].*$", "").str.replace(r":\d+$", "")


def read_windows(path: str, plan: WindowPlan, seen: Reading) -> FileWindows:
    """Read a file. What cannot be used is counted in `seen`; no table at all is an error."""
    table = open_table(path, seen)
    roles = Roles.of(table)
    columns = [each for each in read_names(table.names) if each.place not in roles.taken]
    selection = select_columns(columns, plan.groups)
    if not selection.columns:
        raise StewardError(
            f"no column is in a group; there are: {', '.join(table.names[:8])}",
            where=path,
            hint="give your own groups with --groups FILE; a group is a name and expressions",
        )
    if roles.device is None:
        selection = _without_aliases(selection, seen)
    combiner = Combiner(groups=plan.groups, members=selection.members, statistics=plan.statistics)
    fold = WindowFold(
        windows_s=plan.windows_s,
        statistics=plan.statistics,
        combine=combiner,
        columns=len(selection.columns),
    )
    keys = _Keys(columns=roles.keys, host=roles.node)
    rates = Rates(columns=selection.columns)
    rows = 0
    for block in _blocks(table, roles, selection, seen):
        rows += len(block)
        t_s = seconds(block[str(roles.time)].alias(table.names[roles.time]))
        usable = (t_s.is_between(0.0, LAST_S, closed="left")).fill_null(value=False)
        seen.count("rows whose time cannot be read", path, int((~usable).sum()))
        if not usable.all():
            block, t_s = block.filter(usable), t_s.filter(usable)  # noqa: PLW2901
        run = keys.of(block)
        series = run if roles.device is None else _series(run, block[str(roles.device)])
        times = t_s.to_numpy()
        fold.period_s = fold.period_s or usual_step(times, series)
        rates.period_s = fold.period_s
        fold.add(times, run, rates.values(block, times, series))
    windows = finished(fold, plan, seen, path)
    seen.count("times that go back within a run", path, fold.backwards)
    usual = Counter(each.host for each in selection.columns if each.host).most_common(1)
    host = usual[0][0] if usual else ""
    return FileWindows(
        runs=tuple(keys.names),
        hosts=tuple(each or host for each in keys.hosts),
        hardware=hardware_of(columns),
        begin_s=tuple(fold.begin_s),
        windows=tuple(windows),
        rows=rows,
        period_s=fold.period_s,
        columns=tuple(len(places) for places in selection.members),
        unmapped=tuple(dict.fromkeys(each.generic or each.name for each in selection.unmapped)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The columns that are no metrics: time, run, node, device."""

    time: int
    keys: tuple[int, ...]
    node: int | None
    device: int | None

    @property
    def taken(self) -> set[int]:
        return {self.time, *self.keys, *([] if self.device is None else [self.device])}

    @classmethod
    def of(cls, table: Table) -> Roles:
        lower = {name.strip().lower(): place for place, name in reversed([*enumerate(table.names)])}
        if any(long <= {*lower} for long in _LONG):
            raise StewardError(
                "this is a long table, a row per value; patterns need a column per metric",
                where=table.path,
                hint="`steward observe import` makes a store folder of it: name that folder",
            )
        time = time_column(table.names)
        if time is None and table.names[0] in {"", "unnamed", "Unnamed: 0", "__index_level_0__"}:
            time = table.names[0]  # Reveal's, or an index that pandas has written
        if time is None:
            raise StewardError(
                f"no column is called like a time; there are: {', '.join(table.names[:8])}",
                where=table.path,
                hint="call it t_s, timestamp or time (seconds, milliseconds, or ISO dates)",
            )
        run = next((lower[name] for name in _RUNS if name in lower), None)
        node = next((lower[name] for name in ("entity", *_NODES) if name in lower), None)
        device = next((lower[name] for name in ("entity", *_DEVICES) if name in lower), None)
        place = table.names.index(time)
        keys = tuple(dict.fromkeys(each for each in (run, node) if each not in (None, place)))
        return cls(time=place, keys=keys, node=node, device=device)


def _without_aliases(selection: Selection, seen: Reading) -> Selection:
    """Leave out columns that give the same metric of the same device again, as old and new names.

    They would count twice where columns are summed.
    """
    first: dict[tuple[str, str, str], int] = {}
    twice: list[int] = []
    for place, column in enumerate(selection.columns):
        key = (column.metric or column.name, column.device, column.host)
        if key in first:
            twice.append(place)
        first.setdefault(key, place)
    seen.count(
        "columns that say the same by another name: the first is used",
        ", ".join(selection.columns[place].name for place in twice[:3]),
        len(twice),
    )
    members = tuple(
        tuple(place for place in places if place not in twice) for places in selection.members
    )
    return replace(selection, members=members)


def _blocks(
    table: Table, roles: Roles, selection: Selection, seen: Reading
) -> Iterator[pl.DataFrame]:
    counters = [each.place for each in selection.columns if each.counter]
    gauges = [each.place for each in selection.columns if not each.counter]
    yield from table.blocks(gauges, counters, sorted(roles.taken), seen)


def _series(run: NDArray[np.int64], device: pl.Series) -> NDArray[np.int64]:
    """Return numbers of what counters belong to: a device of a run."""
    text = device.cast(pl.String).fill_null("")
    names = text.to_frame("d").with_columns(pl.Series("r", run))
    return names.select(pl.struct("r", "d").rank("dense")).to_series().cast(pl.Int64).to_numpy()


@dataclass(slots=True, kw_only=True)
class Rates:
    """Columns as float32; counters as rates, which go on from block to block within a run."""

    columns: Sequence[Column]
    _last: dict[int, tuple[float, float]] = field(default_factory=dict)  # column: time, value
    _last_series: int = -1
    period_s: float = 0.0  # between samples

    def values(
        self, block: pl.DataFrame, t_s: NDArray[np.float64], series: NDArray[np.int64]
    ) -> Floats:
        """Return columns x rows in canonical units."""
        found = np.empty((len(self.columns), len(block)), np.float32)
        order = None
        if any(column.counter for column in self.columns) and (np.diff(series) < 0).any():
            order = np.argsort(series, kind="stable")
        for place, column in enumerate(self.columns):
            values = block[str(column.place)].to_numpy()
            if column.counter:
                found[place] = self._rate(place, values, t_s, series, order)
            else:
                found[place] = values
            factor = column.scale
            if column.per_sample:
                factor /= self.period_s or 1.0
            if factor != 1.0:
                found[place] *= np.float32(factor)
            if not np.isfinite(found[place].sum(dtype=np.float64)):  # NaN, or worse
                found[place][np.isinf(found[place])] = np.nan
        if len(series):
            self._last_series = int(series[-1])
        return found

    def _rate(
        self,
        place: int,
        values: NDArray[np.float64],
        t_s: NDArray[np.float64],
        series: NDArray[np.int64],
        order: NDArray[np.intp] | None,
    ) -> NDArray[np.float64]:
        if order is not None:
            found = np.empty(len(values))
            found[order] = _growth(values[order], t_s[order], series[order])
            return found
        found = _growth(values, t_s, series)
        if len(values):
            if place in self._last and series[0] == self._last_series:
                before_s, before = self._last[place]
                step, grown = t_s[0] - before_s, values[0] - before
                found[0] = grown / step if step > 0 and grown >= 0 else np.nan
            self._last[place] = (float(t_s[-1]), float(values[-1]))
        return found


def _growth(
    values: NDArray[np.float64], t_s: NDArray[np.float64], series: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return growth per second; NaN at a beginning, and where a counter was reset."""
    found = np.full(len(values), np.nan)
    step, grown = np.diff(t_s), np.diff(values)
    good = (np.diff(series) == 0) & (step > 0) & (grown >= 0)
    np.divide(grown, step, out=found[1:], where=good)
    return found


def finished(fold: WindowFold, plan: WindowPlan, seen: Reading, path: str) -> list[Windows]:
    """Return the windows by size: those with rows enough, in units that are plausible."""
    found = []
    for size, windows in enumerate(fold.finish()):
        kept = _full_enough(windows, plan, plan.windows_s[size], fold.period_s, seen, path)
        found.append(_scaled(kept, plan, seen, path) if len(kept.run) else kept)
    return found


def _full_enough(
    windows: Windows,
    plan: WindowPlan,
    window_s: float,
    period_s: float,
    seen: Reading,
    path: str,
) -> Windows:
    """Leave out windows with less than their share of rows or time: the ends of runs, and gaps.

    Several devices may have rows of their own; so rows alone say too little.
    """
    usual = max(1.0, np.floor(window_s / period_s + 0.5)) if period_s else 1.0
    covered_s = np.minimum(windows.span_s + period_s * (1 + _ROUNDING), window_s)
    kept = windows.rows >= plan.least_share * usual
    kept &= covered_s >= plan.least_share * min(window_s, usual * period_s)
    short = int((~kept).sum())
    seen.count(f"windows of {window_s:g} s with too few rows (ends of runs, gaps)", path, short)
    return _chosen(windows, kept)


def _chosen(windows: Windows, kept: NDArray[np.bool_]) -> Windows:
    return Windows(
        run=windows.run[kept],
        number=windows.number[kept],
        rows=windows.rows[kept],
        span_s=windows.span_s[kept],
        values=windows.values[kept] if len(windows.values) else windows.values,
    )


def _scaled(windows: Windows, plan: WindowPlan, seen: Reading, path: str) -> Windows:
    """Divide values by 100 in runs where a group is per cent although its unit is 1.

    That is where the values exceed what no true value does; such as IPC on some hosts.
    """
    values = windows.values
    for place in range(values.shape[1]):
        group = plan.groups[place % len(plan.groups)]
        if group.at_most is None or plan.statistics[place // len(plan.groups)] == "periodicity":
            continue
        limit = group.at_most * _TOLERATED
        column = np.abs(values[:, place])
        if not (column > limit).any():
            continue
        over = _runs_above(windows.run, column, limit)
        if len(over):
            rows = np.isin(windows.run, over)
            values[rows, place] /= np.float32(_PERCENT)
            fault = f"{group.name} is in per cent: divided by 100"
            seen.count(fault, path, len(over))
    return windows


def _runs_above(
    run: NDArray[np.int64], values: NDArray[np.float32], limit: float
) -> NDArray[np.int64]:
    """Return the runs of which a tenth of the windows, at least, is above a limit."""
    known = ~np.isnan(values)
    runs, place = np.unique(run[known], return_inverse=True)
    above = np.bincount(place, weights=values[known] > limit, minlength=len(runs))
    of = np.bincount(place, minlength=len(runs))
    return runs[above >= 0.1 * of]


def hardware_of(columns: Sequence[Column]) -> str:
    """Return a name for hosts that have the same columns: vendor, cores, GPUs."""
    names = [column.generic for column in columns]
    intel = any("l3_miss" in name or "Mem_trans" in name for name in names)
    amd = any(name.startswith("Perf:Ls_") for name in names)
    vendor = "intel" if intel else "amd" if amd else "host"
    cores = {c.device for c in columns if c.metric == "cpu.busy_share" and c.device}
    gpus = {c.device for c in columns if c.metric.startswith("gpu.") and c.device}
    some = any(c.metric.startswith("gpu.") for c in columns)
    return f"{vendor}-{len(cores)}cores-{len(gpus) or int(some)}gpus"
