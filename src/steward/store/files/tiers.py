"""Coarser copies of telemetry: least, greatest, mean and number of values per 10 s and per 5 min.

They are worked out when an hour, or a day, is over. A tier's file names the files it was made
from; whatever no tier's file names is computed when it is read. So the newest hour, late
samples and a crash between two files need no special care, and extremes are never lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.compaction import LEVEL, by_columns, column_batches
from steward.store.files.compactor import remove_old
from steward.store.files.damage import BROKEN, Note, intact, panics_as_errors
from steward.store.files.parquet import (
    DAY_S,
    HOUR_S,
    Partitions,
    TableSchema,
    columns_of,
    lazy_scan,
    live_files,
    made_from,
    replaced_by,
    rows_of,
    set_broken_aside,
    write_frame,
)

__all__ = [
    "STATISTICS",
    "TIERS",
    "Cover",
    "Tier",
    "Tiers",
    "cover",
    "extremes",
    "metrics_of",
    "read_steps",
]

STATISTICS = ("min", "max", "mean", "count")
_SCHEMA = TableSchema()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One row per entity and `step_s`, in files of one partition each."""

    name: str
    step_s: int
    period_s: int

    def partitions(self, raw: Path) -> Partitions:
        """Return where this tier of the telemetry in `raw` lies: beside it."""
        return Partitions(raw.with_name(f"{raw.name}_{self.name}"), self.period_s)


TIERS = (
    Tier(name="10s", step_s=10, period_s=HOUR_S),
    Tier(name="5m", step_s=300, period_s=DAY_S),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Files that together hold every sample once: raw ones first, then each tier's."""

    levels: tuple[tuple[Path, ...], ...]
    stale: tuple[Path, ...] = ()  # of the last tier: others hold these rows by now


def cover(
    raw: Path,
    tiers: Sequence[Tier],
    *,
    from_s: float,
    to_s: float,
    note: Note,
    damaged: Set[Path] = frozenset(),
) -> Cover:
    """Choose the coarsest files of these tiers for a time; finer ones where nothing else has it.

    All of them are intact, as far as checksums tell, and none is one of `damaged`.
    """
    while True:
        known = _cover(raw, tiers, from_s=from_s, to_s=to_s, note=note, damaged=damaged)
        files = {file for level in known.levels for file in level}
        broken = files.difference(intact([*files], note))
        if not broken:
            return known
        damaged = damaged | broken  # some cannot be moved away


def _cover(
    raw: Path,
    tiers: Sequence[Tier],
    *,
    from_s: float,
    to_s: float,
    note: Note,
    damaged: Set[Path],
) -> Cover:
    levels = [_files(Partitions(raw), from_s, to_s, note, damaged)]
    stale: list[Path] = []
    for tier in tiers:
        below = levels[-1]
        replaced = {name for file in below for name in replaced_by(file, _SCHEMA)}
        mine = _files(tier.partitions(raw), from_s, to_s, note, damaged)
        stale = [file for file in mine if not replaced.isdisjoint(made_from(file, _SCHEMA))]
        good = [file for file in mine if file not in stale]
        used = {name for file in good for name in made_from(file, _SCHEMA)}
        levels[-1] = [file for file in below if file.name not in used]
        levels.append(good)
    return Cover(levels=tuple(map(tuple, levels)), stale=tuple(stale))


def _files(
    partitions: Partitions, from_s: float, to_s: float, note: Note, damaged: Set[Path]
) -> list[Path]:
    folders = [partitions.folder(part) for part in partitions.between(from_s, to_s)]
    files = [file for folder in folders for file in live_files(folder, _SCHEMA, note)]
    return [file for file in files if file not in damaged]


def metrics_of(columns: Sequence[str]) -> list[str]:
    """Return the metrics behind the columns of a tier."""
    ends = tuple(f".{each}" for each in STATISTICS)
    return list(dict.fromkeys(c.rpartition(".")[0] for c in columns if c.endswith(ends)))


def coarser(
    rows: pl.LazyFrame, metrics: Sequence[str], *, step_s: float, summed: bool
) -> pl.LazyFrame:
    """Return one row per entity and step; `summed`: the rows are a tier's already."""
    step = (pl.col(T_S) // step_s * step_s).alias(T_S)
    values = [each for name in metrics for each in (_of_tier(name) if summed else _of_raw(name))]
    return rows.group_by(step, ENTITY).agg(values).sort(ENTITY, T_S)


def _of_raw(name: str) -> list[pl.Expr]:
    value = pl.col(name)
    return [
        value.min().alias(f"{name}.min"),
        value.max().alias(f"{name}.max"),
        value.mean().alias(f"{name}.mean"),
        value.count().cast(pl.Float64).alias(f"{name}.count"),
    ]


def _of_tier(name: str) -> list[pl.Expr]:
    count = pl.col(f"{name}.count")
    total = (pl.col(f"{name}.mean") * count).sum()
    return [
        pl.col(f"{name}.min").min(),
        pl.col(f"{name}.max").max(),
        pl.when(count.sum() > 0).then(total / count.sum()).alias(f"{name}.mean"),
        count.sum(),
    ]


class Tiers:
    """Makes the tiers of one telemetry folder, and forgets them when they are too old."""

    def __init__(self, raw: Path, *, keep_days: Sequence[float], note: Note) -> None:
        self._raw = raw
        self._note = note
        self._keep_days = tuple(keep_days)
        self.now_s = float("inf")  # of the last upkeep; what never has one gets every day at once

    def make(self, hour: int) -> None:
        """Compute the tiers of an hour that is over; of a day when its last hour is there."""
        self._build(1, from_s=hour * HOUR_S)
        day = hour * HOUR_S // DAY_S
        of_day = Partitions(self._raw).between(day * DAY_S, (day + 1) * DAY_S - 1)
        if hour == max(of_day, default=hour) and (day + 1) * DAY_S <= self.now_s:
            self._build(2, from_s=day * DAY_S)

    def remove_old(self, newest_s: float) -> None:
        """Remove files that are older than their tier's retention."""
        for tier, days in zip(TIERS, self._keep_days, strict=True):
            remove_old(tier.partitions(self._raw), newest_s=newest_s, keep_s=days * DAY_S)

    def _build(self, count: int, *, from_s: float) -> None:
        """Make what the last of the first `count` tiers lacks in one partition."""
        tier = TIERS[count - 1]
        partitions = tier.partitions(self._raw)
        to_s = from_s + tier.period_s - 1e-6
        known = cover(self._raw, TIERS[:count], from_s=from_s, to_s=to_s, note=self._note)
        folder = partitions.folder(int(from_s // tier.period_s))
        summed = count > 1
        stale = {file: metrics_of(columns_of(file, _SCHEMA)) for file in known.stale}
        for columns, files in by_columns(known.levels[count - 1], _SCHEMA).items():
            metrics = metrics_of(columns) if summed else list(columns)
            replaces = [file.name for file, has in stale.items() if sorted(has) == sorted(metrics)]
            names = [file.name for file in files]
            try:
                steps = _by_turns(files, columns, step_s=tier.step_s, summed=summed)
            except BROKEN:
                types = {name: _SCHEMA.kind(name) for name in (T_S, ENTITY, *columns)}
                set_broken_aside(files, types, self._note)
                raise
            write_frame(
                folder,
                _slim(steps, metrics),
                made_from=names,
                replaces=replaces,
                level=LEVEL,
            )
        for file in known.stale:
            file.unlink(missing_ok=True)


def _by_turns(
    files: Sequence[Path], columns: Sequence[str], *, step_s: float, summed: bool
) -> Frame:
    """Return one row per entity and step; read one file and a few metrics at a time."""
    metrics = metrics_of(columns) if summed else list(columns)
    rows = max(map(rows_of, files)) * (len(STATISTICS) if summed else 1)
    done: dict[str, pl.Series] = {}
    for few in [*column_batches(metrics, rows)] or [()]:
        opened = (_opened([file], columns, summed=summed) for file in files)
        with panics_as_errors():
            steps = [coarser(each, few, step_s=step_s, summed=summed).collect() for each in opened]
        united = coarser(pl.concat(steps).lazy(), few, step_s=step_s, summed=True).collect()
        done |= united.to_dict()
    return pl.DataFrame(done)


def _slim(frame: Frame, metrics: Sequence[str]) -> Frame:
    """Leave out what is the same: where no step has two values, each is its own extreme."""
    if any((frame[f"{name}.count"] > 1).any() for name in metrics):
        return frame
    return frame.drop(f"{name}.{each}" for name in metrics for each in ("min", "max"))


def _opened(files: Sequence[Path], columns: Sequence[str], *, summed: bool) -> pl.LazyFrame:
    """Return the rows of files with these columns; a tier's with the extremes that it left out."""
    rows = lazy_scan(files, {name: _SCHEMA.kind(name) for name in (T_S, ENTITY, *columns)})
    if not summed:
        return rows
    missing = {new: old for new, old in extremes(columns).items() if new not in columns}
    return rows.with_columns(pl.col(old).alias(new) for new, old in missing.items())


def extremes(columns: Sequence[str]) -> dict[str, str]:
    """Return the columns of least and greatest values, and which column has them."""
    wanted = [f"{name}.{each}" for name in metrics_of(columns) for each in ("min", "max")]
    return {new: new if new in columns else f"{new[:-4]}.mean" for new in wanted}


def read_steps(
    known: Cover,
    waiting: Sequence[Frame],
    where: pl.Expr,
    *,
    metrics: Sequence[str] | None,
    step_s: float,
) -> Frame:
    """Return one row per entity and step, from the files of a cover and what waits in memory."""
    raw, *tiers = known.levels
    pieces: list[Frame] = []
    for rows, there in _raw_rows(raw, waiting):
        chosen = [name for name in there if metrics is None or name in metrics]
        if chosen:
            once = rows.filter(where).select(T_S, ENTITY, *chosen).unique()
            steps = coarser(once, chosen, step_s=step_s, summed=False)
            pieces.append(steps.collect(engine="streaming"))
    for columns, same in by_columns([file for files in tiers for file in files], _SCHEMA).items():
        chosen = [name for name in metrics_of(columns) if metrics is None or name in metrics]
        if chosen:
            rows = _opened(same, columns, summed=True)
            steps = coarser(rows.filter(where), chosen, step_s=step_s, summed=True)
            pieces.append(steps.collect(engine="streaming"))
    return _merged(pieces, step_s=step_s)


def _raw_rows(
    files: Sequence[Path], waiting: Sequence[Frame]
) -> Iterator[tuple[pl.LazyFrame, list[str]]]:
    """Yield samples that no tier has, by their columns: those in files and those in the buffer."""
    sets = by_columns(files, _SCHEMA)
    buffered = {tuple(sorted({*table.columns} - {T_S, ENTITY})): table for table in waiting}
    for columns in dict.fromkeys((*sets, *buffered)):
        names = (T_S, ENTITY, *columns)
        pieces = []
        if columns in sets:
            pieces.append(lazy_scan(sets[columns], {name: _SCHEMA.kind(name) for name in names}))
        if columns in buffered:
            pieces.append(buffered[columns].lazy().select(names))
        yield pl.concat(pieces), list(columns)


def _merged(pieces: Sequence[Frame], *, step_s: float) -> Frame:
    """Put steps of several tables together: one row per entity and step."""
    if not pieces:
        return pl.DataFrame(schema={T_S: pl.Float64, ENTITY: pl.String})
    united = pl.concat(pieces, how="diagonal")
    metrics = sorted(metrics_of(united.columns))
    return coarser(united.lazy(), metrics, step_s=step_s, summed=True).collect()
