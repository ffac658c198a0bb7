"""Telemetry from files for the rule engine: frames and events, oldest first.

A file of any format that `observe import` knows, a folder of such files, or a folder that steward
recorded itself. Whatever does not fit into memory goes through a store folder that is deleted.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import polars as pl

from steward.decide.rules.metric import phase_frame, span_events
from steward.errors import StewardError
from steward.model.event import Event, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame
from steward.model.metrics import METRICS
from steward.model.span import Span
from steward.observe.export import ExportSelection, frames
from steward.observe.importing import IMPORTERS, ImportSource, ImportTask, task_for
from steward.observe.importing.source import FileHead, ImportCounts
from steward.store.files.events import read_events
from steward.store.files.other import OtherMetrics
from steward.store.files.spans import labelled, read_spans
from steward.store.recording import Recording
from steward.store.telemetry import Telemetry

__all__ = ["recorded_observations", "telemetry_frames"]

MOST_ROWS = 1_000_000  # that are kept in memory; a longer file goes through the disk
_WINDOW_ROWS = 200_000
_WINDOW_S = 600
_SHOWN = 10
_MOST_CUTS = 500  # of one window, between events
_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".prom", ".om")  # in a folder with other things
_HINT = "give CSV, Parquet or OpenMetrics files, or a folder that steward recorded"
_KNOWN = frozenset(each.name for each in METRICS)

Reading = Frame | tuple[Event, ...]


def telemetry_frames(
    path: Path, columns: frozenset[str], *, tally: ImportCounts | None = None
) -> Iterator[Reading]:
    """Read telemetry: frames with the wanted columns, and events between them, by time.

    `columns` are names as in `MetricWatch.metrics`: ours, or those of untranslated metrics. Frames
    also have the job that held an entity (`job_id`) and the phases that lasted. Unusable rows are
    counted in `tally`.
    """
    tally = ImportCounts() if tally is None else tally
    if not path.exists():
        raise StewardError(
            "there is no such file or folder", where=str(path), hint="check the name"
        )
    if (path / "telemetry").is_dir() or (path / "other").is_dir():
        yield from _recorded(path, columns, tally)
        return
    works = [_work(file) for file in _files(path, tally)]
    collected = _Collected(columns=columns)
    seen = _observations(works, tally)
    for observation in seen:
        collected.add(observation)
        if collected.rows > MOST_ROWS:
            yield from _through_disk(collected, seen, tally)
            return
    if not collected.rows:
        has = ", ".join(sorted({*tally.known.values(), *tally.unknown})[:_SHOWN])
        tally.note(f"{path.name}: no rule looks at any metric of it; it has {has or 'none'}")
    yield from _with_events(collected.windows(), collected.spans, collected.events, columns)


def recorded_observations(path: Path, tally: ImportCounts) -> Iterator[Observation]:
    """Read all samples of a file, of the files of a folder, or of a folder of steward's own."""
    if not path.exists():
        raise StewardError(
            "there is no such file or folder", where=str(path), hint="check the name"
        )
    if not ((path / "telemetry").is_dir() or (path / "other").is_dir()):
        yield from _observations([_work(file) for file in _files(path, tally)], tally)
        return
    telemetry = Telemetry(path / "telemetry", keep_days=None)
    try:
        for frame in _tallied(frames(telemetry, ExportSelection()), tally):
            yield Observation(frame=frame)
        for said in telemetry.damage():
            tally.note(said)
    finally:
        telemetry.close()
    if (path / "other").is_dir():
        other = OtherMetrics(path / "other", keep_days=None)
        try:
            for hour in sorted(other.table.partitions.between(0.0, 1e12)):
                rows = other.read(from_s=hour * 3600, to_s=(hour + 1) * 3600 - 1e-6)
                tally.rows += rows.height
                yield Observation(other=rows)
        finally:
            other.table.close()


def _files(path: Path, tally: ImportCounts) -> list[Path]:
    """Return the files to read: one, or those of a folder that are of any format."""
    if not path.is_dir():
        return [path]
    found = []
    for file in sorted(each for each in path.iterdir() if each.is_file()):
        if file.name.removesuffix(".gz").endswith(_ENDINGS) and _is_telemetry(file):
            found.append(file)
        else:
            tally.note(f"{file.name} is no telemetry")
    if not found:
        raise StewardError(
            "no file in it is telemetry",
            where=str(path),
            hint=_HINT,
        )
    return found


def _work(file: Path) -> ImportTask:
    try:
        return task_for(ImportSource(path=file))
    except StewardError as fault:  # its hint is for `observe import`
        raise StewardError(fault.problem, where=fault.where, hint=_HINT) from None


def _is_telemetry(file: Path) -> bool:
    head = FileHead.of(file)
    return any(each.recognises(head) for each in IMPORTERS.values())


def _observations(works: Sequence[ImportTask], tally: ImportCounts) -> Iterator[Observation]:
    """Read files; raise where no row of any is a sample, and note files without samples.

    A table without rows is fine: nothing was recorded.
    """
    empty = []
    for work in works:
        before, rows, found = tally.bad.copy(), tally.rows, False
        for seen in work.importer.read(work.source, tally):
            found = found or _has_content(seen)
            yield seen
        if not found:
            empty.append(
                (tally.rows - rows, _empty_problem(work, tally.bad - before, tally.rows - rows))
            )
    if len(empty) == len(works) and any(rows for rows, _ in empty):
        raise max(empty, key=lambda each: each[0])[1]
    for _, fault in empty:
        tally.note(f"{fault.where}: {fault.problem}")


def _has_content(seen: Observation) -> bool:
    tables = any(table.height for table in seen.tables)
    return tables or bool(seen.other.height or seen.spans or seen.events)


def _empty_problem(work: ImportTask, bad: Counter[str], rows: int) -> StewardError:
    """Return the error for a file without samples."""
    why = "; ".join(f"{reason}: {often}" for reason, often in bad.most_common())
    problem = f"it was read as {work.importer.name}, and has no sample in {rows:,} rows"
    problem += f" ({why})" if why else ""
    return StewardError(problem, where=str(work.source.path), hint=_HINT)


@dataclass(slots=True, kw_only=True)
class _Collected:
    """Rows read into memory, with the needed columns only."""

    columns: frozenset[str]
    rows: int = 0
    tables: list[Frame] = field(default_factory=list)
    other: list[Frame] = field(default_factory=list)
    grown: dict[str, Span] = field(default_factory=dict)  # by id: a span is repeated as it grows
    events: tuple[Event, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(self.grown.values())

    def add(self, seen: Observation) -> None:
        for table in seen.tables:
            kept = [name for name in table.columns if name in self.columns]
            if kept:
                self.tables.append(table.select(T_S, ENTITY, *kept))
                self.rows += table.height
        if seen.other.height:
            other = seen.other.filter(pl.col("metric").is_in(list(self.columns)))
            self.other.append(other)
            self.rows += other.height
        self.grown |= {span.id: span for span in seen.spans}
        self.events += seen.events

    def windows(self) -> Iterator[Frame]:
        """Yield rows by time, in windows that never split rows of one moment."""
        whole = _join_columns(self.tables, pl.concat([_no_other(), *self.other])).sort(T_S, ENTITY)
        begin = 0
        while begin < whole.height:
            end = min(begin + _WINDOW_ROWS, whole.height)
            last_s = whole[T_S][end - 1]
            end = begin + int((whole[T_S].slice(begin) <= last_s).sum())
            yield whole.slice(begin, end - begin)
            begin = end

    def into(self, recording: Recording) -> None:
        """Write all rows into a store folder."""
        for table in self.tables:
            recording.telemetry.append(table)
        for other in self.other:
            recording.other.keep(other)
        recording.spans.keep(self.spans)


def _no_other() -> Frame:
    return Observation().other


def _join_columns(tables: Sequence[Frame], other: Frame) -> Frame:
    """Return known and other metrics as columns of one frame."""
    parts = [*tables]
    if other.height:
        wide = other.group_by(T_S, ENTITY, "metric").agg(pl.col("value").last())
        parts.append(wide.pivot("metric", index=[T_S, ENTITY], values="value"))
    return pl.concat([empty_frame(), *parts], how="diagonal")


def _through_disk(
    collected: _Collected, rest: Iterator[Observation], tally: ImportCounts
) -> Iterator[Reading]:
    with tempfile.TemporaryDirectory(prefix="steward-telemetry-") as name:
        folder = Path(name)
        with closing(Recording(folder, keep_days=float("inf"))) as recording:
            collected.into(recording)
            events = collected.events
            for seen in rest:
                only = _Collected(columns=collected.columns)
                only.add(seen)
                only.into(recording)
                events += seen.events
            recording.settle()
        collected.tables, collected.other = [], []
        yield from _recorded(folder, collected.columns, tally, events=events)


# -- recorded by steward --------------------------------------------------------------------------


def _recorded(
    folder: Path, columns: frozenset[str], tally: ImportCounts, *, events: tuple[Event, ...] = ()
) -> Iterator[Reading]:
    spans = read_spans(folder, tally.note)
    events += tuple(Event(**row) for row in read_events(folder, tally.note).iter_rows(named=True))
    telemetry = Telemetry(folder / "telemetry", keep_days=None)
    other = OtherMetrics(folder / "other", keep_days=None) if (folder / "other").is_dir() else None
    try:
        windows = _stored_windows(telemetry, other, columns, tally)
        yield from _with_events(windows, spans, events, columns)
    finally:
        telemetry.close()
        if other is not None:
            other.table.close()
    for said in telemetry.damage():
        tally.note(said)


def _stored_windows(
    telemetry: Telemetry, other: OtherMetrics | None, columns: frozenset[str], tally: ImportCounts
) -> Iterator[Frame]:
    """Yield known and other metrics by the same windows of time."""
    known = tuple(sorted(columns & _KNOWN))
    strangers = sorted(columns - _KNOWN)
    if not strangers or other is None:
        if known:
            yield from _tallied(
                frames(telemetry, ExportSelection(metrics=known), window_s=_WINDOW_S), tally
            )
        return
    hours = {
        *telemetry.table.partitions.between(0.0, 1e12),
        *other.table.partitions.between(0.0, 1e12),
    }
    for hour in sorted(hours):
        for begin_s in range(hour * 3600, (hour + 1) * 3600, _WINDOW_S):
            end_s = begin_s + _WINDOW_S - 1e-6
            rows = [telemetry.read(metrics=known, from_s=begin_s, to_s=end_s)] if known else []
            more = other.read(from_s=begin_s, to_s=end_s)
            more = more.filter(pl.col("metric").is_in(strangers))
            yield from _tallied([_join_columns(rows, more).sort(T_S, ENTITY)], tally)


def _tallied(windows: Iterator[Frame] | list[Frame], tally: ImportCounts) -> Iterator[Frame]:
    for frame in windows:
        tally.rows += frame.height
        if frame.height:
            yield frame.sort(T_S, ENTITY)


# -- both ----------------------------------------------------------------------------------------


def _with_events(
    windows: Iterator[Frame],
    spans: Sequence[Span],
    events: Sequence[Event],
    columns: frozenset[str],
) -> Iterator[Reading]:
    """Yield frames with holders and phases from spans, split at events."""
    phases = "steward_phase" in columns
    starts = [span.from_s for span in spans] + [event.t_s for event in events]
    done_s = min(starts, default=0.0)
    for frame in windows:
        done_s = min(done_s, float(frame[T_S][0]))
        end_s = float(frame[T_S][-1]) + 1e-6
        rows = _held(frame, spans)
        if phases:
            lasting = phase_frame(spans, from_s=done_s, to_s=end_s)
            rows = pl.concat([rows, lasting], how="diagonal").sort(T_S, ENTITY)
        yield from _cut(rows, _happened(spans, events, done_s, end_s))
        done_s = end_s
    rest = _happened(spans, events, done_s, float("inf"))
    if rest:
        yield rest


def _held(frame: Frame, spans: Sequence[Span]) -> Frame:
    """Add to each row the job that held its entity, if any."""
    jobs = [span for span in spans if span.kind == "job"]
    return labelled(frame, jobs, "job").rename({"job": "job_id"}) if jobs else frame


def _happened(
    spans: Sequence[Span], events: Sequence[Event], from_s: float, to_s: float
) -> tuple[Event, ...]:
    own = [event for event in events if from_s <= event.t_s < to_s]
    both = [*own, *span_events(spans, from_s=from_s, to_s=to_s)]
    return tuple(sorted(both, key=lambda event: event.t_s))


def _cut(frame: Frame, events: Sequence[Event]) -> Iterator[Reading]:
    """Yield rows and events in the order of their times; many events are grouped."""
    size = max(1, -(-len(events) // _MOST_CUTS))
    groups = [tuple(events[i : i + size]) for i in range(0, len(events), size)]
    edges = [frame[T_S].search_sorted(group[0].t_s, side="left") for group in groups]
    places = [0, *(int(edge) for edge in edges), frame.height]
    for number, (begin, end) in enumerate(pairwise(places)):
        if end > begin:
            yield frame.slice(begin, end - begin)
        if number < len(groups):
            yield groups[number]
