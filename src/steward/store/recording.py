"""A store folder as one thing: samples, other values, lines, spans and events of one site.

`telemetry/`, `other/`, `logs/`, `spans/`, `events/`, and `recording.json`, which describes the
recording. `observe record`, `observe import` and `steward up` write it; `observe query` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from steward.errors import StewardError
from steward.model.event import Observation
from steward.store.atomic import make_folder, write_atomic
from steward.store.files.events import EventTable
from steward.store.files.logs import Logs
from steward.store.files.other import OtherMetrics
from steward.store.files.parquet import cannot_write, suppress_full_disk
from steward.store.files.spans import SpanStore
from steward.store.files.table import ParquetTable
from steward.store.telemetry import KEEP_TIERS_DAYS, Telemetry

__all__ = ["Recording"]

_FEW_VALUES = 500_000  # 4 MB


class Recording:
    """Stores the observations of collectors. One process writes; `store/query` may read meanwhile.

    `events=False` is for callers with a journal of events. `about` may be changed at any time;
    the next flush writes it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        flush_every_s: float = 30.0,
        keep_days: float = 30.0,
        keep_tiers_days: Sequence[float] = KEEP_TIERS_DAYS,
        events: bool = True,
        about: Mapping[str, object] | None = None,
    ) -> None:
        try:
            with suppress_full_disk(lambda _text: None):  # its tables note it
                make_folder(folder)
        except OSError as fault:
            raise cannot_write(folder, fault) from fault
        self.folder = folder
        self._about_file = folder / "recording.json"
        self.about: dict[str, object] = {**self._known(), **(about or {})}
        self.positions: Mapping[str, object] = {}  # how far the lines that were kept were read
        self.telemetry = Telemetry(
            folder / "telemetry",
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            keep_tiers_days=keep_tiers_days,
        )
        self.other = OtherMetrics(
            folder / "other", flush_every_s=flush_every_s, keep_days=keep_days
        )
        self.logs = Logs(folder / "logs", flush_every_s=flush_every_s, keep_days=keep_days)
        self.spans = SpanStore(folder / "spans", flush_every_s=flush_every_s, keep_days=keep_days)
        self._events = (
            EventTable(folder / "events", flush_every_s=flush_every_s, keep_days=keep_days)
            if events
            else None
        )
        for table in self._sparse_tables():
            table.compactor.also_trusted = (self.telemetry.table.compactor,)
        self._flush_every_s = flush_every_s
        self._flushed_s: float | None = None
        self._reported: frozenset[str] = frozenset()

    def limit_memory(self, between: Callable[[], None] = lambda: None) -> None:
        """Limit the memory of compaction: merge few values at a time, into more files.

        `between` is called between these merges.
        """
        for table in (self.telemetry.table, *self._sparse_tables()):
            table.compactor.max_values = _FEW_VALUES
            table.compactor.between = between

    def keep(self, observation: Observation) -> None:
        """Add one observation; the next flush makes it durable."""
        for table in observation.tables:
            self.telemetry.append(table)
        self.other.keep(observation.other)
        self.logs.keep(observation.lines)
        self.spans.keep(observation.spans)
        if self._events is not None:
            self._events.keep(observation.events)

    def flush(self) -> None:
        """Make everything durable. One part that fails does not keep the others from it."""
        others = [each.flush for each in self._sparse_tables() if each is not self.logs.table]
        _all_of(self.telemetry.flush, *others, self._flush_logs, self._write_about)

    def upkeep(self, now_s: float) -> None:
        """Do what is due by sample time: flush, compact, remove what is too old."""
        due = [self._flush_logs, self._write_about] if self._is_due(now_s) else []
        events = [] if self._events is None else [self._events.table]
        _all_of(
            lambda: self.telemetry.upkeep(now_s),
            lambda: self.spans.upkeep(now_s),
            *(partial(each.upkeep, now_s) for each in (self.other.table, *events)),
            *due,
            lambda: self.logs.table.upkeep(now_s),
        )

    def settle(self) -> None:
        """Flush and merge everything now: nothing more will come for a long time."""
        self.flush()
        for table in (self.telemetry.table, *self._sparse_tables()):
            table.compactor.compact_all()

    def damage(self) -> tuple[str, ...]:
        """Return what was lost or set aside since this was opened."""
        events = () if self._events is None else (self._events.table,)
        parts = (self.telemetry, self.other.table, self.logs, self.spans.table, *events)
        return tuple(text for part in parts for text in part.damage())

    def new_damage(self) -> tuple[str, ...]:
        """Return which files were set aside since the last call."""
        notes = [
            text for table in (self.telemetry.table, *self._sparse_tables()) for text in table.notes
        ]
        new = tuple(text for text in notes if text not in self._reported)
        self._reported = frozenset(notes)
        return new

    def close(self) -> None:
        """Flush, and release the folder for other processes."""
        _all_of(
            self.telemetry.close,
            self._flush_logs,
            *(each.close for each in self._sparse_tables()),
            self._write_about,
        )

    def _sparse_tables(self) -> list[ParquetTable]:
        """Return the tables that may have no rows for hours."""
        events = [] if self._events is None else [self._events.table]
        return [self.other.table, self.logs.table, self.spans.table, *events]

    def _flush_logs(self) -> None:
        """Make lines durable before how far they were read: after a crash none may be missing."""
        positions = self.positions
        self.logs.table.flush()
        if positions:
            self.about["positions"] = positions

    def _is_due(self, now_s: float) -> bool:
        due = self._flushed_s is None or not 0 <= now_s - self._flushed_s < self._flush_every_s
        if due:
            self._flushed_s = now_s
        return due

    def _known(self) -> dict[str, object]:
        with suppress(OSError, ValueError):
            content = json.loads(self._about_file.read_bytes())
            return content if isinstance(content, dict) else {}
        return {}

    def _write_about(self) -> None:
        if not self.about or self.about == self._known():
            return
        text = json.dumps(self.about, indent=1, default=str) + "\n"
        try:
            write_atomic(self._about_file, text.encode())
        except OSError as fault:
            raise cannot_write(self._about_file, fault) from fault


def _all_of(*works: Callable[[], None]) -> None:
    """Do all of it, then raise the first thing that went wrong."""
    faults: list[StewardError] = []
    for work in works:
        try:
            work()
        except StewardError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
