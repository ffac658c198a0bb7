"""Exports recorded telemetry: to other monitoring systems, or into files, larger than memory."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from itertools import chain
from pathlib import Path
from typing import IO

import polars as pl

from steward.clients.delivery import DeliveryStats, QueuedSender
from steward.clients.web import Endpoint
from steward.clients.wire.exposition import shown_labels
from steward.errors import TemporaryError
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.label import exposed_name, labels_of
from steward.observe.forwarding.transport import SENT_FORMATS, open_transport, parts
from steward.observe.translate.outgoing import MetricSeries, series_of
from steward.store.telemetry import Telemetry

__all__ = [
    "FILE_FORMATS",
    "SENT_FORMATS",
    "ExportSelection",
    "export_file",
    "export_sent",
    "frames",
    "text_head",
    "text_lines",
]

FILE_FORMATS = ("prometheus", "csv", "parquet", "json-lines")
WINDOW_S = 300  # series are sent together for so long: receivers do not take what is too old
HOUR_S = 3600
MOST_ROWS = 2_000_000  # of one metric in memory at once
PATIENCE_S = 60.0  # a user waits at a terminal

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """What to give away. Entities may be patterns, as `n01/*`; nothing named means all."""

    entities: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    from_s: float = 0.0
    to_s: float = 1e12


def frames(
    telemetry: Telemetry, choice: ExportSelection, *, window_s: int = HOUR_S
) -> Iterator[Frame]:
    """Read what was chosen, oldest first, so much at a time that it fits into memory."""
    wanted = re.compile("|".join(translate(each) for each in choice.entities) or ".*")
    for hour in telemetry.table.partitions.between(choice.from_s, choice.to_s):
        for start_s in range(hour * HOUR_S, (hour + 1) * HOUR_S, window_s):
            end_s = min(start_s + window_s - 1e-6, choice.to_s)
            frame = telemetry.read(
                metrics=choice.metrics or None, from_s=max(start_s, choice.from_s), to_s=end_s
            )
            if choice.entities:
                known = [e for e in frame[ENTITY].unique() if wanted.fullmatch(e)]
                frame = frame.filter(pl.col(ENTITY).is_in(known))
            if frame.height:
                yield frame


# -- to other systems --------------------------------------------------------------------------


def export_sent(
    telemetry: Telemetry,
    choice: ExportSelection,
    *,
    endpoint: Endpoint,
    format_: str,
    progress: Progress = lambda _samples: None,
    trouble: Callable[[str], None] = lambda _text: None,
) -> DeliveryStats:
    """Send what was chosen; return the totals. Respects a receiver's Retry-After.

    `trouble` is called with the first temporary fault. A receiver that stays away for a minute gets
    nothing more: what comes after would be dropped in the same way.
    """
    way = open_transport(format_, endpoint)
    sender = QueuedSender(_telling(way.send, trouble), most_waiting=8, patience_s=PATIENCE_S)
    stats = DeliveryStats()
    try:
        for part in chain.from_iterable(
            parts(series_of(frame)) for frame in frames(telemetry, choice, window_s=WINDOW_S)
        ):
            if sender.stats.given_up:
                break
            count = sum(len(each.values) for each in part)
            sender.offer(way.encode(part), count, wait=True)
            progress(count)
    finally:
        stats = sender.close(within_s=0.0 if sender.stats.given_up else PATIENCE_S)
        way.close()
    return stats


def _telling(
    send: Callable[[bytes], object], trouble: Callable[[str], None]
) -> Callable[[bytes], None]:
    """Return `send` with a report of the first retry's reason."""
    reported = False

    def once(body: bytes) -> None:
        nonlocal reported
        try:
            send(body)
        except TemporaryError as fault:
            if not reported:
                trouble(f"{fault}; trying again for {PATIENCE_S:.0f} s")
            reported = True
            raise

    return once


# -- into files --------------------------------------------------------------------------------


def export_file(
    telemetry: Telemetry,
    choice: ExportSelection,
    *,
    out: IO[bytes],
    format_: str,
    progress: Progress = lambda _samples: None,
    most_rows: int = MOST_ROWS,
) -> int:
    """Write what was chosen and return how many samples that was, whatever their number.

    An hour of samples is in memory at once; of `prometheus`, about `most_rows` of one metric.
    """
    if format_ == "parquet":
        return _parquet(telemetry, choice, out, progress)
    if format_ == "prometheus":
        return _text(telemetry, choice, out, progress, most_rows)
    total, first = 0, True
    for frame in frames(telemetry, choice):
        long = _long(frame)
        if format_ == "csv":
            out.write(long.write_csv(include_header=first).encode())
            first = False
        else:
            out.writelines(_json_lines(frame))
        total += long.height
        progress(long.height)
    return total


def _long(frame: Frame) -> Frame:
    long = frame.unpivot(index=[T_S, ENTITY], variable_name="metric", value_name="value")
    return long.drop_nulls("value").sort(T_S, ENTITY, "metric")


def _json_lines(frame: Frame) -> Iterator[bytes]:
    for row in frame.sort(T_S, ENTITY).iter_rows(named=True):
        known = {name: value for name, value in row.items() if value is not None}
        yield json.dumps(known, ensure_ascii=False).encode() + b"\n"


def _text(
    telemetry: Telemetry,
    choice: ExportSelection,
    out: IO[bytes],
    progress: Progress,
    most_rows: int = MOST_ROWS,
) -> int:
    """Write metric by metric, since OpenMetrics needs all samples of one name together."""
    total = 0
    for name in choice.metrics or _names(telemetry, choice):
        written = 0
        for frame in _by_entity(telemetry, replace(choice, metrics=(name,)), most_rows):
            for series in series_of(frame):
                head = "" if written else text_head(series)
                out.writelines(line.encode() for line in (head, *text_lines(series)))
                written += len(series.values)
        total += written
        progress(written)
    out.write(b"# EOF\n")
    return total


def _by_entity(telemetry: Telemetry, choice: ExportSelection, most_rows: int) -> Iterator[Frame]:
    """Yield one metric with all rows of an entity together, about `most_rows` at a time."""
    rows: Counter[str] = Counter()
    kept: list[Frame] = []
    for frame in _known(telemetry, choice):
        rows.update(dict(frame[ENTITY].value_counts().iter_rows()))
        kept.append(frame)
        if rows.total() > most_rows:
            kept.clear()  # too many at once: they are read again, some entities at a time
    if rows.total() <= most_rows:
        yield from _sorted(kept)
        return
    for group in _groups(rows, most_rows):
        some = (frame.filter(pl.col(ENTITY).is_in(group)) for frame in _known(telemetry, choice))
        if len(group) == 1:  # its rows are in order already, however many they are
            yield from (frame for frame in some if frame.height)
        else:
            yield from _sorted([frame for frame in some if frame.height])


def _known(telemetry: Telemetry, choice: ExportSelection) -> Iterator[Frame]:
    """Yield rows that have a value of the chosen metric."""
    (name,) = choice.metrics
    for frame in frames(telemetry, choice):
        known = frame.filter(pl.col(name).is_not_null()).select(T_S, ENTITY, name).sort(T_S)
        if known.height:
            yield known


def _sorted(pieces: list[Frame]) -> Iterator[Frame]:
    if pieces:
        yield pl.concat(pieces).sort(ENTITY, T_S)


def _groups(rows: Mapping[str, int], most_rows: int) -> Iterator[list[str]]:
    """Put entities together as long as their rows are not too many; a large one stays alone."""
    group: list[str] = []
    size = 0
    for entity in sorted(rows):
        if group and size + rows[entity] > most_rows:
            yield group
            group, size = [], 0
        group.append(entity)
        size += rows[entity]
    if group:
        yield group


def text_head(series: MetricSeries) -> str:
    """Return what comes before the lines of a metric."""
    name = exposed_name(series.name)
    meaning = series.metric.meaning if series.metric else series.name
    return f"# HELP {name} {meaning}\n# TYPE {name} gauge\n"


def text_lines(series: MetricSeries) -> Iterator[str]:
    """Return lines of OpenMetrics with their times, as `promtool` takes them for the past."""
    labelled = f"{exposed_name(series.name)}{shown_labels(labels_of(series.entity))}"
    for t_s, value in zip(series.t_s.tolist(), series.values.tolist(), strict=True):
        yield f"{labelled} {value!r} {t_s:.3f}\n"


def _names(telemetry: Telemetry, choice: ExportSelection) -> list[str]:
    found: set[str] = set()
    for frame in frames(telemetry, choice):
        found |= set(frame.columns)
    return sorted(found - {T_S, ENTITY})


def _parquet(
    telemetry: Telemetry, choice: ExportSelection, out: IO[bytes], progress: Progress
) -> int:
    """Write one file through pieces on disk, so that it may be larger than memory."""
    total = 0
    with tempfile.TemporaryDirectory(prefix="steward-export-") as folder:
        pieces = []
        for number, frame in enumerate(frames(telemetry, choice)):
            pieces.append(Path(folder) / f"{number}.parquet")
            frame.write_parquet(pieces[-1])
            samples = frame.width * frame.height - sum(frame.null_count().row(0)) - 2 * frame.height
            total += samples
            progress(samples)
        whole = Path(folder) / "whole.parquet"
        lazy = [pl.scan_parquet(piece) for piece in pieces]
        (pl.concat(lazy, how="diagonal") if lazy else pl.LazyFrame()).sink_parquet(whole)
        with whole.open("rb") as file:
            shutil.copyfileobj(file, out)
    return total
