"""How good is recorded telemetry? What is missing, still, doubtful or in the wrong unit.

Belongs here: finding and naming flaws. Does not: mending them, or what the values mean.
A folder of any size is read one column of one file at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.frame import ENTITY
from steward.observe.quality.checks import judge
from steward.observe.quality.clocks import clock_flaws
from steward.observe.quality.column_statistics import figures, load, merged
from steward.observe.quality.counters import counter_flaws
from steward.observe.quality.flaw import Flaw, FlawSeverity, QualityReport
from steward.observe.quality.series import assess_series
from steward.observe.quality.stuck import WORKS_SHARE, hanging
from steward.observe.quality.times import SampleTimes, gap_flaws
from steward.store.files.damage import BROKEN, NoteOnly, intact, panics_as_errors
from steward.store.files.events import read_events
from steward.store.files.kinds import kind_of
from steward.store.files.other import OTHER
from steward.store.files.parquet import Partitions, TableSchema, columns_of, live_files
from steward.store.files.spans import read_spans

__all__ = ["Flaw", "FlawSeverity", "QualityReport", "assess", "assess_series"]

_SHAPE = TableSchema()
_KIND = "\0kind"


def assess(folder: Path, *, progress: Callable[[str], None] = lambda _what: None) -> QualityReport:
    """Check all telemetry of a store folder."""
    notes: list[str] = []
    if folder.exists() and not folder.is_dir():
        hint = "name the folder that `steward observe record` or `import` has written"
        raise StewardError("this is a file, not a store folder", where=str(folder), hint=hint)
    files = _files(folder / "telemetry", _SHAPE, notes)
    others = _files(folder / "other", OTHER, notes)
    if not files and not others:
        raise StewardError(
            "there is no telemetry here",
            where=str(folder),
            hint="name a folder that `steward observe record` or `import` has written",
        )
    families = _families(files)
    try:
        with panics_as_errors():
            flaws = [*counter_flaws(others), *clock_flaws(folder, files)]
            for family in families:
                flaws += _family_flaws(folder, family, progress)
            rows, entities, from_s, to_s = _extent(files)
    except BROKEN as fault:
        raise StewardError(
            f"a file is broken: {' '.join(str(fault).split())[:300]}",
            where=str(folder),
            hint="remove it (the error names it), or find it with `steward observe query`",
        ) from fault
    return QualityReport(
        flaws=tuple(
            sorted(_with_kinds(flaws), key=lambda f: (-f.severity, f.kind, f.metric, f.entity))
        ),
        files=len(files) + len(others),
        rows=rows,
        entities=entities,
        metrics=sum(len(_columns(family)) for family in families),
        from_s=from_s,
        to_s=to_s,
        notes=tuple(notes),
    )


def _families(files: Sequence[Path]) -> list[list[Path]]:
    """Put files together that share a metric: what a file lacks, another of its family may have."""
    families: list[tuple[set[str], list[Path]]] = []
    for file in files:
        columns = {*columns_of(file, _SHAPE)}
        near = [family for family in families if not columns.isdisjoint(family[0])]
        families = [family for family in families if family not in near]
        united = columns.union(*(has for has, _ in near))
        families.append((united, [*(each for _, some in near for each in some), file]))
    return [sorted(some) for _, some in families]


def _columns(files: Sequence[Path]) -> list[str]:
    return sorted({name for file in files for name in columns_of(file, _SHAPE)})


def _family_flaws(
    folder: Path, files: Sequence[Path], progress: Callable[[str], None]
) -> Iterator[Flaw]:
    columns = _columns(files)
    tables: dict[str, pl.DataFrame] = {}
    for metric in columns:
        progress(metric)
        having = [file for file in files if metric in columns_of(file, _SHAPE)]
        table = merged([figures(load(file, metric)) for file in having])
        tables[metric] = table.with_columns(kind_of().alias(_KIND))
    active = _active(tables)
    for metric, table in tables.items():
        others = [each for each in columns if each != metric]
        yield from hanging(metric, table, files, others)
        for (kind,), group in table.partition_by(_KIND, as_dict=True).items():
            found = judge(metric, str(kind), group, active=active)
            yield from (replace(flaw, of=str(kind)) for flaw in found)
    times = SampleTimes()
    for hour, in_hour in groupby(files, key=lambda file: file.parent):
        progress(f"times in {hour.name}")
        times.add(list(in_hour))
    ignored: list[str] = []
    events = read_events(folder, ignored.append).to_dicts()
    spans = read_spans(folder, ignored.append)
    yield from gap_flaws(times, events, spans, columns)


def _with_kinds(flaws: Sequence[Flaw]) -> list[Flaw]:
    """Return the flaws with the kind of their entity."""
    kinds = pl.DataFrame({ENTITY: [flaw.entity for flaw in flaws]}, schema={ENTITY: pl.String})
    selected = kinds.select(kind_of()).to_series().to_list()
    return [
        replace(flaw, of=flaw.of or str(kind)) for flaw, kind in zip(flaws, selected, strict=True)
    ]


def _active(tables: Mapping[str, pl.DataFrame]) -> set[str]:
    """Return the active entities: by their shares, or by any value that changed."""
    shares = [table for metric, table in tables.items() if metric.endswith("_share")]
    works = pl.col("q95") >= WORKS_SHARE if shares else pl.col("min") != pl.col("max")
    found = [table.filter(works)[ENTITY].to_list() for table in shares or tables.values()]
    return {entity for each in found for entity in each}


def _files(root: Path, shape: TableSchema, notes: list[str]) -> list[Path]:
    parts = Partitions(root)
    folders = [parts.folder(part) for part in parts.between(0.0, float("inf"))]
    note = NoteOnly(notes.append)
    listed = [file for each in folders for file in live_files(each, shape, note)]
    return intact(listed, note)


def _extent(files: Sequence[Path]) -> tuple[int, int, float | None, float | None]:
    """Return how many rows and entities there are, and from when to when."""
    if not files:
        return 0, 0, None, None
    rows = pl.scan_parquet(
        list(files), missing_columns="insert", extra_columns="ignore", glob=False
    )
    selected = rows.select(
        pl.len().alias("rows"),
        pl.col(ENTITY).n_unique().alias("entities"),
        pl.col("t_s").min().alias("from_s"),
        pl.col("t_s").max().alias("to_s"),
    ).collect(engine="streaming")
    return selected.row(0)
