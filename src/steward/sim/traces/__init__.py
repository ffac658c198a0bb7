"""Recorded workloads, whatever their format, as one `Trace`.

Belongs here: reading job logs and the public traces, and saying what of them could not be used.
Does not belong here: making up jobs (`sim/lab/generate.py`), or judging whether they fit anywhere.
"""

from __future__ import annotations

from pathlib import Path

from steward.errors import StewardError, unknown_name
from steward.model.trace import Trace
from steward.sim.traces.formats import TRACE_READERS, about, head_of, read_nodes, read_pods
from steward.sim.traces.locate import JOB_FILES, TraceLocation, files_of, find, short_name
from steward.sim.traces.selection import choices, picks_of
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource

__all__ = ["TRACE_READERS", "TraceReader", "read_nodes", "read_pods", "read_trace", "trace_names"]


def read_trace(path: str | Path, *, format: str | None = None, limit: int | None = None) -> Trace:  # noqa: A002 - the word that users know
    """Read a trace from a file, a folder, or by its name in the data folder.

    `path` may choose a part: `philly/103959`, `pollux/1.0/6`, or `FILE#COLUMN=VALUE,…`. The
    format is told from the columns unless `format` names it. `limit` is how many rows to look at.
    """
    if limit is not None and limit < 1:
        raise StewardError(f"limit is {limit}", where=str(path), hint="at least one row")
    place, reader = _resolved(path, format)
    picks = picks_of(place, reader)
    return reader.read(TraceSource(path=place.path, name=place.name, picks=picks, limit=limit))


def trace_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of all traces in a folder, each one readable by `read_trace`.

    `pollux` gives `pollux/1.0/6` and so on; parts that are usually read together (the virtual
    clusters of `philly`) are not listed.
    """
    place = find(path)
    folder = place.path if place.path.is_dir() else place.path.parent
    if place.parts or (place.path.name not in JOB_FILES and not place.path.is_dir()):
        return (str(path),)
    names = []
    for file in files_of(folder):
        reader = _reader_of(file)
        if reader is not None:
            usual = file.name in JOB_FILES
            stem = str(path) if usual else f"{path}/{short_name(file).rpartition('_')[2]}"
            names += ["/".join((stem, *part)) for part in choices(file, reader)]
    return tuple(names)


def _reader_of(file: Path) -> TraceReader | None:
    try:
        head = head_of(file)
        return next((r for r in TRACE_READERS.values() if r.recognises(head)), None)
    except StewardError:
        return None


def _resolved(path: str | Path, named: str | None) -> tuple[TraceLocation, TraceReader]:
    if named is not None and named not in TRACE_READERS:
        raise unknown_name("trace format", named, TRACE_READERS, where=str(path))
    place = find(path)
    if place.path.is_dir():
        place = _job_file(place)
    head = head_of(place.path)
    if named is not None:
        _check(TRACE_READERS[named], head)
        return place, TRACE_READERS[named]
    reader = next((r for r in TRACE_READERS.values() if r.recognises(head)), None)
    if reader is None:
        raise about(head)
    return place, reader


def _check(reader: TraceReader, head: TraceHead) -> None:
    """Refuse a file that lacks what the named format needs."""
    lacking = [column for column in reader.needs if column not in head.columns]
    if lacking:
        there = ", ".join(column[:40] for column in head.columns[:20])
        problem = f"as {reader.name} it lacks {', '.join(lacking)}; it has: {there}"
        raise StewardError(problem, where=str(head.path), hint=reader.about)


def _job_file(place: TraceLocation) -> TraceLocation:
    """Return the one file of a folder that has jobs, or say what the files are."""
    jobs = [file for file in files_of(place.path) if _reader_of(file) is not None]
    where = str(place.path)
    if len(jobs) == 1:
        return TraceLocation(path=jobs[0], name=place.name, parts=place.parts, picks=place.picks)
    if jobs:
        listed = ", ".join(short_name(file) for file in jobs)
        raise StewardError(f"holds {len(jobs)} traces: {listed}", where=where, hint="name one file")
    told = "; ".join(_what(file) for file in files_of(place.path)) or "it is empty"
    hint = "folders with jobs: philly, gavel, pollux, sia, muri, chronus, shockwave, tiresias, …"
    raise StewardError(f"holds no job rows ({told})", where=where, hint=hint)


def _what(file: Path) -> str:
    try:
        return f"{file.name}: {about(head_of(file)).problem}"
    except StewardError as fault:
        return f"{file.name}: {fault.problem}"
