"""The parcel, an agent's message: an observation as bytes, with a label for its origin.

    STWP, version, length of the label | label (JSON) | tables and news, compressed

The label can be written anew without opening the rest: when a parcel is sent, perhaps hours after
it was packed, the agent knows its clock better. Everything is checked when a parcel is opened,
since it comes from another machine: sizes before anything is allocated, names, types, times.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

import cramjam
import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from steward.model.cluster import Cluster, Health
from steward.model.event import Event, LogLine, Observation
from steward.model.frame import ENTITY, OTHER_SCHEMA, T_S, Frame
from steward.model.identity import GpuId, NodeId
from steward.model.job import Job, Tenant
from steward.model.span import Span
from steward.observe.agent.table_codec import (
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    PackedTable,
    bad,
    columns_of,
    frame_of,
    pack,
    unpack,
)

__all__ = [
    "MAX_NEWS",
    "MAX_PARCEL_BYTES",
    "Parcel",
    "ParcelHeader",
    "open_parcel",
    "pack_parcel",
    "read_header",
    "replace_header",
]

MAX_PARCEL_BYTES = 16 * 2**20
MAX_OPEN_BYTES = 128 * 2**20
MAX_LABEL_BYTES = 16_384
MAX_PARTS = 256
MAX_NEWS = 10_000  # events, spans or jobs
_START = struct.Struct("<4sBI")
_KIND, _VERSION = b"STWP", 1
_LINES = {
    T_S: pl.Float64,
    ENTITY: pl.String,
    "source": pl.String,
    "text": pl.String,
    "level": pl.Float64,
}
_LAST_S = 253_402_300_800.0  # the year 10000: no calendar goes further


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelHeader:
    """What is written on a parcel. `shift_s` is added to every time in it when it is opened.

    One agent numbers the parcels of one run 1, 2, 3, ...: receiving one implies those
    before it. `boot` and `booted_s` are the time of packing by a clock that is never set.
    """

    agent: str  # an id that outlives restarts and changes of the host's name
    run: str
    sequence: int
    node: str
    version: str = ""
    packed_s: float = 0.0
    boot: str = ""
    booted_s: float = 0.0  # seconds since then when it was packed
    from_s: float = 0.0
    to_s: float = 0.0
    samples: int = 0
    sent_s: float = 0.0
    shift_s: float = 0.0
    offset_s: float | None = None  # how far the agent's clock is behind the server's
    round_trip_s: float | None = None
    buffered_bytes: int = 0
    gaps: int = 0  # parcels that were dropped since the run began
    parts: tuple[tuple[str, int], ...] = ()  # what is inside, and its bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A parcel that was opened, with the server's times. `rest` is all but the tables of samples.

    The tables are not frames yet: many parcels become one frame per set of columns.
    """

    label: ParcelHeader
    tables: tuple[PackedTable, ...]
    rest: Observation

    @property
    def observation(self) -> Observation:
        """All of it, a frame per table."""
        return replace(self.rest, frames=tuple(frame_of((table,)) for table in self.tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """All of an observation that is not a table."""

    events: tuple[Event, ...] = ()
    spans: tuple[Span, ...] = ()
    jobs: tuple[Job, ...] = ()
    cluster: Cluster | None = None
    tenants: tuple[Tenant, ...] | None = None
    health: dict[GpuId, Health] = field(default_factory=dict)
    draining: dict[NodeId, bool] = field(default_factory=dict)


_LABEL = TypeAdapter(ParcelHeader)
_NEWS = TypeAdapter(_News)


def pack_parcel(label: ParcelHeader, seen: Observation) -> bytes:
    """Pack an observation; the label's figures about what is inside are filled in."""
    tables = [("frame", columns_of(table)) for table in seen.tables]
    if seen.other.height:
        tables.append(("other", columns_of(seen.other)))
    samples = sum(int(np.isfinite(each.matrix).sum()) - each.rows for _, each in tables)
    times = [each.column(T_S) for _, each in tables]
    if seen.lines:
        tables.append(("lines", columns_of(_lines_table(seen.lines))))
    parts = [(kind, pack(table)) for kind, table in tables]
    news = _news_of(seen)
    if news != _News():
        parts.append(("news", _NEWS.dump_json(news)))
    label = replace(
        label,
        from_s=min((float(each.min()) for each in times), default=label.packed_s),
        to_s=max((float(each.max()) for each in times), default=label.packed_s),
        samples=samples,
        parts=tuple((kind, len(data)) for kind, data in parts),
    )
    packed = bytes(cramjam.zstd.compress(b"".join(data for _, data in parts), level=1))
    return _labelled(label) + packed


def read_header(body: bytes) -> ParcelHeader:
    """Read the label without opening the parcel."""
    return _read(body)[0]


def replace_header(body: bytes, label: ParcelHeader) -> bytes:
    """Return the parcel with another label; `parts` has to be as it was."""
    return _labelled(label) + body[_read(body)[1] :]


def open_parcel(body: bytes) -> Parcel:
    """Read a parcel back, with its times shifted. Raises `StewardError` for anything wrong."""
    label, at = _read(body)
    found = _Contents()
    for kind, data in _parts(label, memoryview(body)[at:]):
        found.add(kind, data)
    return Parcel(
        label=label,
        tables=tuple(_later(table, label.shift_s) for table in found.tables),
        rest=_shifted(found.rest(), label.shift_s),
    )


def _labelled(label: ParcelHeader) -> bytes:
    text = _LABEL.dump_json(label)
    return _START.pack(_KIND, _VERSION, len(text)) + text


def _read(body: bytes) -> tuple[ParcelHeader, int]:
    if len(body) > MAX_PARCEL_BYTES:
        raise bad(f"it has {len(body)} bytes; {MAX_PARCEL_BYTES} are possible")
    if len(body) < _START.size or not body.startswith(_KIND):
        raise bad("these bytes are no parcel")
    _, version, length = _START.unpack_from(body)
    if version != _VERSION:
        raise bad(f"it has version {version}; only {_VERSION} is known")
    at = _START.size + length
    if length > MAX_LABEL_BYTES or at > len(body):
        raise bad("its label is cut off or too long")
    try:
        label = _LABEL.validate_json(body[_START.size : at])
    except ValidationError as fault:
        raise bad(f"its label is wrong: {_validation_text(fault)}") from fault
    _check_label(label)
    return label, at


def _check_label(label: ParcelHeader) -> None:
    names = (label.agent, label.run, label.node)
    if not all(name.isprintable() and 0 < len(name) <= MAX_NAME_CHARS for name in names):
        raise bad(f"agent, run and node need names of 1 to {MAX_NAME_CHARS} characters")
    if any(mark in label.node for mark in "/@:* "):
        raise bad(f"'{label.node}' cannot be a node: / @ : * and spaces have a meaning in entities")
    if label.sequence < 1 or label.sequence >= 2**63:
        raise bad(f"its number is {label.sequence}; they begin at 1")
    sizes = [size for _, size in label.parts]
    if len(sizes) > MAX_PARTS or min(sizes, default=0) < 0 or sum(sizes) > MAX_OPEN_BYTES:
        raise bad(f"it has more than {MAX_PARTS} parts or {MAX_OPEN_BYTES} bytes inside")
    if not abs(label.shift_s) < _LAST_S:
        raise bad(f"its times are shifted by {label.shift_s} s")


def _parts(label: ParcelHeader, packed: memoryview) -> Iterator[tuple[str, memoryview]]:
    inside = bytearray(sum(size for _, size in label.parts))
    if inside:
        try:
            filled = cramjam.zstd.decompress_into(packed, inside)
        except cramjam.DecompressionError as fault:
            raise bad("what is inside cannot be unpacked") from fault
        if filled != len(inside):
            raise bad("it is shorter than its label states")
    at = 0
    for kind, size in label.parts:
        yield kind, memoryview(inside)[at : at + size]
        at += size


class _Contents:
    """Takes the parts of a parcel one by one."""

    def __init__(self) -> None:
        self.tables: list[PackedTable] = []
        self._other: Frame | None = None
        self._lines: tuple[LogLine, ...] = ()
        self._news = _News()

    def add(self, kind: str, data: memoryview) -> None:
        match kind:
            case "frame":
                self.tables.append(_checked(unpack(data)))
            case "other":
                self._other = _shaped(_checked(unpack(data)), OTHER_SCHEMA)
            case "lines":
                self._lines = _lines(_shaped(_checked(unpack(data)), _LINES))
            case "news":
                self._news = _opened_news(data)
            case _:
                raise bad(f"unknown part '{kind}'; known: frame, other, lines, news")

    def rest(self) -> Observation:
        news = self._news
        seen = Observation(
            lines=self._lines,
            events=news.events,
            spans=news.spans,
            jobs=news.jobs,
            cluster=news.cluster,
            tenants=news.tenants,
            health=news.health,
            draining=news.draining,
        )
        return seen if self._other is None else replace(seen, other=self._other)


def _news_of(seen: Observation) -> _News:
    return _News(
        events=seen.events,
        spans=seen.spans,
        jobs=seen.jobs,
        cluster=seen.cluster,
        tenants=seen.tenants,
        health=dict(seen.health),
        draining=dict(seen.draining),
    )


def _opened_news(data: memoryview) -> _News:
    try:
        news = _NEWS.validate_json(bytes(data))
    except ValidationError as fault:
        raise bad(f"its news are wrong: {_validation_text(fault)}") from fault
    if max(len(news.events), len(news.spans), len(news.jobs)) > MAX_NEWS:
        raise bad(f"it has more than {MAX_NEWS} events, spans or jobs")
    times = [event.t_s for event in news.events]
    times += [span.from_s for span in news.spans]
    times += [span.to_s for span in news.spans if span.to_s is not None]
    if not all(isfinite(t_s) and abs(t_s) < _LAST_S for t_s in times):
        raise bad("an event or a span has no time of this age")
    return news


def _validation_text(fault: ValidationError) -> str:
    first = fault.errors(include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:300]


def _checked(table: PackedTable) -> PackedTable:
    """Return the table if each row has a time and an entity that can be kept."""
    if T_S not in table.numbers or ENTITY not in table.texts:
        raise bad(f"a table has no {T_S} or no {ENTITY}")
    times = table.column(T_S)
    if not ((times >= 0.0) & (times < _LAST_S)).all():
        raise bad("a row has no time of this age")
    entities = table.texts[ENTITY].distinct
    if not all(0 < len(each) <= MAX_NAME_CHARS and each.isprintable() for each in entities):
        raise bad(f"a row has no entity of 1 to {MAX_NAME_CHARS} characters")
    return table


def _shaped(table: PackedTable, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> Frame:
    texts = {name for name, kind in schema.items() if kind == pl.String}
    if set(table.texts) != texts or set(table.numbers) != set(schema) - texts:
        raise bad(f"a table has columns {', '.join(table.names)}, not {', '.join(schema)}"[:500])
    return frame_of((table,)).select(list(schema))


def _lines_table(lines: tuple[LogLine, ...]) -> Frame:
    columns = {
        T_S: [line.t_s for line in lines],
        ENTITY: [_plain(line.entity) for line in lines],
        "source": [_plain(line.source) for line in lines],
        "text": [_plain(line.text)[:MAX_TEXT_CHARS] for line in lines],
        "level": [float(line.level) for line in lines],
    }
    return pl.DataFrame(columns, schema=_LINES)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _lines(table: Frame) -> tuple[LogLine, ...]:
    return tuple(
        LogLine(
            t_s=t_s,
            entity=entity,
            source=source,
            text=text,
            level=int(level) if level is not None and 0 <= level <= 7 else 6,
        )
        for t_s, entity, source, text, level in table.iter_rows()
    )


def _later(table: PackedTable, by_s: float) -> PackedTable:
    if not by_s:
        return table
    matrix = table.matrix.copy()
    matrix[table.numbers.index(T_S)] += by_s
    return replace(table, matrix=matrix)


def _shifted(seen: Observation, by_s: float) -> Observation:
    """Move all times that the agent's clock has given; those of jobs come from the scheduler."""
    if not by_s:
        return seen
    return replace(
        seen,
        other=seen.other.with_columns(pl.col(T_S) + by_s),
        events=tuple(replace(each, t_s=each.t_s + by_s) for each in seen.events),
        lines=tuple(replace(each, t_s=each.t_s + by_s) for each in seen.lines),
        spans=tuple(
            replace(
                each,
                from_s=each.from_s + by_s,
                to_s=None if each.to_s is None else each.to_s + by_s,
            )
            for each in seen.spans
        ),
    )
