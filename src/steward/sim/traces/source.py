"""What a format makes of a file: one expression for each column of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from steward.model.trace import RowFault, Trace

__all__ = ["Sheet", "TraceHead", "TraceReader", "TraceSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHead:
    """The beginning of a file: enough to tell its format."""

    path: Path
    begins: bytes
    columns: tuple[str, ...]  # of the first line that is no comment; () where there are none

    def has(self, *columns: str) -> bool:
        """Say whether all these columns are there."""
        return set(columns) <= set(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """Which part of which file to read."""

    path: Path
    name: str
    picks: dict[str, str] = field(default_factory=dict)  # column -> the only value wanted
    limit: int | None = None  # rows of the file (that were picked) to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReader:
    """One format. `picks` are the columns that part a file into traces, with the usual choice."""

    name: str
    about: str
    recognises: Callable[[TraceHead], bool]
    read: Callable[[TraceSource], Trace]
    needs: tuple[str, ...] = ()  # columns without which it cannot be read, where it has a header
    picks: dict[str, str] = field(default_factory=dict)  # "" is: all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Rows of a file and what they say, before anything is checked.

    `cells` has `submit_s`, `duration_s` and `gpus`, and any other column of `Trace`: names as
    words, the rest as numbers (null is missing, NaN is no number); `after` as ids parted by `;`.
    """

    name: str
    origin: str
    rows: pl.LazyFrame  # with the column `table.ROW`
    cells: dict[str, pl.Expr]
    lines: Callable[[list[int]], dict[int, str]]  # where rows stand and what they say
    zoned: pl.Expr | None = None  # which submit times carried a time zone
    leave_out: tuple[tuple[str, pl.Expr], ...] = ()  # why, and which rows
    mended: tuple[tuple[str, pl.Expr], ...] = ()  # what was changed, and which rows
    notes: tuple[RowFault, ...] = ()
    cpu_jobs: bool = False  # jobs without a GPU belong to the trace
    own_start: bool = False  # times count from the first job read, ids are places
    synthetic: bool = False
