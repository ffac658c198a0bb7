"""Tables of both shapes as samples: one column per metric (wide), or a row per value (long)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_other
from steward.model.metrics.columns import ColumnNames, ImportedColumn
from steward.observe.importing.delimited_text import LINE
from steward.observe.importing.labels import LABELS, LabelSpans
from steward.observe.importing.source import ImportCounts, ImportSource
from steward.observe.normalise import DCGM_BLANKS, Normaliser
from steward.store.files.time_columns import LAST_S, seconds, time_column

__all__ = ["TableReader"]

_NODES = ("node", "host", "hostname", "instance", "nodename", "server", "machine")
_GPUS = ("gpu", "gpu_id", "gpu_index", "gpuid", "device_index", "index")
_METRICS, _VALUES = ("metric", "metric_name", "name", "__name__"), ("value", "val")
_NOTHING = ("", "nan", "null", "none", "n/a", "[n/a]", "na", "-", "[not supported]", "inf", "-inf")
_UNIT_BEHIND = r"\s*(%|MiB|GiB|KiB|W|MHz|C|J)$"
_NODE, _GPU = "\0node", "\0gpu"


@dataclass(slots=True, kw_only=True)
class TableReader:
    """Turns tables of one file into observations; remembers counters from block to block."""

    source: ImportSource
    tally: ImportCounts
    names: ColumnNames
    ignored: tuple[str, ...] = ()  # columns that are no values: the importer uses them itself
    _normalisers: dict[tuple[str, str], Normaliser] = field(default_factory=dict)
    _labels: LabelSpans = field(init=False)

    def __post_init__(self) -> None:
        self._labels = LabelSpans(source=self.source.path.name)

    def observations(self, table: pl.DataFrame, *, series: str = "") -> Iterator[Observation]:
        """Read a table. Counters go on within a series; another one begins anew."""
        placed = self._placed(table)
        lower = {name.lower(): name for name in reversed(placed.columns)}
        metric = next((lower[name] for name in _METRICS if name in lower), None)
        value = next((lower[name] for name in _VALUES if name in lower), None)
        if metric is not None and value is not None:
            yield from self._long(placed, metric, value, series)
        else:
            yield from self._wide(placed, series)

    def _placed(self, table: pl.DataFrame) -> pl.DataFrame:
        """Add time and node to each row; rows without a time are left out and counted."""
        lower = {name.lower(): name for name in reversed(table.columns)}
        time = time_column(table.columns)
        if time is None:
            there = ", ".join(name for name in table.columns if name != LINE)
            raise StewardError(
                f"no column is called like a time; there are: {there[:300]}",
                where=str(self.source.path),
                hint="call it t_s, timestamp or time (seconds, milliseconds, or ISO dates)",
            )
        node = next((lower[name] for name in _NODES if name in lower), None)
        gpu = next((lower[name] for name in _GPUS if name in lower), None)
        if LINE not in table.columns:
            table = table.with_row_index(LINE, offset=1).with_columns(pl.col(LINE).cast(pl.Int64))
        name = pl.lit(self.source.node) if node is None else pl.col(node).cast(pl.String)
        number = pl.lit(None, pl.String) if gpu is None else pl.col(gpu).cast(pl.String)
        placed = table.with_columns(
            seconds(table[time]).alias("\0t"),
            name.fill_null(self.source.node).str.replace(r":\d+$", "").alias(_NODE),
            number.str.extract(r"(\d+)$").alias(_GPU),
        ).drop(*{name for name in (time, node) if name is not None and name != "\0t"})
        placed = placed.rename({"\0t": T_S})
        usable = pl.col(T_S).is_between(0.0, LAST_S, closed="left").fill_null(value=False)
        self._refuse(placed.filter(~usable), f"the time in '{time}' cannot be read")
        return placed.filter(usable)

    def _refuse(self, rows: pl.DataFrame, reason: str) -> None:
        for line in rows[LINE].to_list():
            self.tally.refuse(reason, f"{self.source.path.name}, line {line}")

    def _wide(self, table: pl.DataFrame, series: str) -> Iterator[Observation]:
        labels = [name for name in LABELS if name in table.columns]
        skip = {T_S, ENTITY, LINE, _NODE, _GPU, *labels, *self.ignored}
        columns = [self.names.column(name) for name in table.columns if name not in skip]
        numbers = self._numbers(table, [column.name for column in columns])
        columns = [column for column in columns if column.name in numbers.columns]
        groups: dict[str, list[ImportedColumn]] = {}
        unknown: list[ImportedColumn] = []
        for column in columns:
            if column.metric is None:
                unknown.append(column)
            else:
                self.tally.known[column.name] = column.metric.name
                groups.setdefault(self._group(table, column), []).append(column)
        for group, members in groups.items():
            frame = _renamed(numbers, members, entity=_entity(table, group))
            yield self._normalised(frame, (series, group))
        yield Observation(other=self._other(numbers, unknown))
        if labels:
            rows = table.select(T_S, _entity(table, ""), *labels)
            yield Observation(spans=tuple(self._labels.of(rows)))

    def _group(self, table: pl.DataFrame, column: ImportedColumn) -> str:
        """Return the entity of a column: the row's, its node, or a device of its node."""
        of = "" if column.metric is None else column.metric.of
        if ENTITY in table.columns:
            return ENTITY
        if column.device:
            return column.device
        if of == "gpu":
            return "gpu"
        return "node"

    def _numbers(self, table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Return the table with these columns as numbers; a column of text alone is left out."""
        found: dict[str, pl.Series] = {}
        for name in names:
            values = table[name]
            if values.dtype.is_numeric() or values.dtype == pl.Boolean:
                found[name] = values.cast(pl.Float64)
                continue
            text = values.cast(pl.String).str.strip_chars()
            plain = text.str.replace(_UNIT_BEHIND, "")
            number = plain.cast(pl.Float64, strict=False)
            wrong = number.is_null() & text.is_not_null() & ~text.str.to_lowercase().is_in(_NOTHING)
            if wrong.any() and number.null_count() == len(number):
                self.tally.text.add(name)
                continue
            self._refuse(table.filter(wrong), f"'{name}' is no number")
            found[name] = number
        kept = [name for name in (T_S, ENTITY, LINE, _NODE, _GPU) if name in table.columns]
        return table.select(kept).with_columns(**found)

    def _normalised(self, frame: Frame, key: tuple[str, str]) -> Observation:
        if key not in self._normalisers:
            self._normalisers[key] = Normaliser(
                source="import", vocabulary="canonical", gap_after_s=float("inf")
            )
        once = frame.unique(subset=[T_S, ENTITY], keep="last", maintain_order=True)
        twice = frame.height - once.height
        if twice:
            reason = "a second row of the same entity and time"
            self.tally.refuse(reason, self.source.path.name, rows=twice)
        canonical, events = self._normalisers[key].normalise(once)
        return Observation(frame=canonical, events=events)

    def _other(self, numbers: pl.DataFrame, columns: list[ImportedColumn]) -> Frame:
        pieces = [empty_other()]
        for column in columns:
            self.tally.unknown.add(column.name)
            entity = _entity(numbers, ENTITY if ENTITY in numbers.columns else column.device or "")
            value = pl.col(column.name)
            pieces.append(
                numbers.filter(value.is_finite()).select(
                    T_S, entity, pl.lit(column.name).alias("metric"), value.alias("value")
                )
            )
        return pl.concat(pieces)

    def _long(
        self, table: pl.DataFrame, metric: str, value: str, series: str
    ) -> Iterator[Observation]:
        numbers = self._numbers(table, [value]).with_columns(table[metric].alias("metric"))
        if value not in numbers.columns:
            return
        unknown = [empty_other()]
        by_group: dict[str, list[pl.DataFrame]] = {}
        for name, rows in _by_name(numbers):
            column = self.names.column(name)
            group = self._group(table, column)
            if column.metric is None:
                self.tally.unknown.add(name)
                entity = _entity(rows, group if group != "node" else "")
                unknown.append(
                    rows.filter(pl.col(value).is_finite()).select(
                        T_S, entity, "metric", pl.col(value).alias("value")
                    )
                )
                continue
            self.tally.known[name] = column.metric.name
            same = ImportedColumn(name=value, metric=column.metric, scale=column.scale)
            frame = _renamed(rows, [same], entity=_entity(rows, group))
            by_group.setdefault(group, []).append(frame)
        for group, frames in by_group.items():
            yield self._normalised(_joined_columns(frames), (series, group))
        yield Observation(other=pl.concat(unknown))


def _by_name(numbers: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for (name,), rows in numbers.partition_by("metric", as_dict=True).items():
        if name is not None:
            yield str(name), rows


def _joined_columns(frames: list[Frame]) -> Frame:
    """Put the values of one entity and moment into one row."""
    united = pl.concat(frames, how="diagonal")
    metrics = [name for name in united.columns if name not in (T_S, ENTITY)]
    return united.group_by(T_S, ENTITY, maintain_order=True).agg(
        pl.col(name).drop_nulls().last() for name in metrics
    )


def _entity(table: pl.DataFrame, group: str) -> pl.Expr:
    """Return the entity of each row, for columns of this group."""
    if group == ENTITY:
        return pl.col(ENTITY)
    number = pl.col(_GPU).fill_null("0")
    device = pl.concat_str(pl.col(_NODE), pl.lit("/gpu"), number)
    if group == "gpu":
        return device.alias(ENTITY)
    if group == "node":
        return pl.col(_NODE).alias(ENTITY)
    if group:
        return pl.concat_str(pl.col(_NODE), pl.lit(f"/{group}")).alias(ENTITY)
    some_gpu = pl.when(pl.col(_GPU).is_not_null()).then(device).otherwise(pl.col(_NODE))
    return (pl.col(ENTITY) if ENTITY in table.columns else some_gpu).alias(ENTITY)


def _renamed(numbers: pl.DataFrame, columns: list[ImportedColumn], *, entity: pl.Expr) -> Frame:
    """Return a frame with our names and units; two columns of one metric complete each other."""
    by_metric: dict[str, list[pl.Expr]] = {}
    for column in columns:
        if column.metric is not None:
            value = pl.col(column.name)
            if column.vocabulary == "dcgm":
                for blank in DCGM_BLANKS:
                    value = pl.when(~value.is_between(blank, blank * 1.0000001)).then(value)
            scaled = value if column.scale == 1.0 else value * column.scale
            by_metric.setdefault(column.metric.name, []).append(scaled)
    return numbers.select(
        T_S, entity, *(pl.coalesce(each).alias(name) for name, each in by_metric.items())
    )
