"""Rows of request files in the forms that are known, before anything in them is checked.

CSV with the project's own columns, those of Azure, BurstGPT and Mooncake; JSON, one object per
line or one list of them, with Mooncake's names or the project's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.sim.traces.table import TraceTable, collected, first_lines, open_bytes, read_table

__all__ = ["HINT", "RequestRows", "rows_of"]

Floats = NDArray[np.float64]
HINT = (
    "known: t_s,input_tokens,output_tokens (also client_id, prefix_block_ids, class, model); "
    "input_tokens,output_tokens; TIMESTAMP,ContextTokens,GeneratedTokens (Azure); Timestamp,"
    "Request tokens,Response tokens (BurstGPT); timestamp,input_length,output_length,hash_ids "
    "(Mooncake, CSV or JSON lines); a folder with client_rates.csv and client_lengths.csv"
)
_OWN = ("t_s", "input_tokens", "output_tokens", "prefix_block_ids")
_MOONCAKE = ("timestamp", "input_length", "output_length", "hash_ids")
_MS = 1000.0  # Mooncake's times are milliseconds
_SHOWN = 90  # characters of a line
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRows:
    """What a file says, before anything is checked; NaN is missing or no number."""

    file: Path
    format: str
    arrival_s: Floats | None  # None: the file has lengths only
    prompt: Floats
    output: Floats
    lines: Callable[[list[int]], dict[int, str]]
    prefix: list[list[int] | None] | None = None  # None in it: not a list of whole numbers
    tenant: list[str] | None = None
    model: list[str] | None = None
    klass: list[str] | None = None


def rows_of(file: Path) -> RequestRows:
    """Read a file in whatever known form it is; raise StewardError if it is in none."""
    head = first_lines(file).removeprefix(_BOM).lstrip()
    if head.startswith((b"{", b"[")):
        return _objects(file, is_list=head.startswith(b"["))
    return _table(file)


# -- tables --------------------------------------------------------------------------------------


def _table(file: Path) -> RequestRows:
    table = read_table(file)
    cells = collected(table.scan, where=str(file))
    has = set(table.columns).issuperset
    if has(("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        arrival_s = _moments(cells["TIMESTAMP"])
        lengths = ("ContextTokens", "GeneratedTokens")
        return _rows(table, cells, "azure", arrival_s=arrival_s, lengths=lengths)
    if has(("Timestamp", "Request tokens", "Response tokens")):
        arrival_s = _numbers(cells["Timestamp"])
        lengths = ("Request tokens", "Response tokens")
        return _rows(table, cells, "burstgpt", arrival_s=arrival_s, lengths=lengths)
    if has(_MOONCAKE[:3]):
        arrival_s = _numbers(cells["timestamp"]) / _MS
        return _rows(table, cells, "mooncake", arrival_s=arrival_s, lengths=_MOONCAKE[1:3])
    if has(_OWN[1:3]):
        timed = "t_s" in table.columns
        return _rows(
            table,
            cells,
            "requests" if timed else "lengths",
            arrival_s=_numbers(cells["t_s"]) if timed else None,
            lengths=_OWN[1:3],
            more=True,
        )
    there = ", ".join(table.columns[:20])
    raise StewardError(f"holds no requests; its columns are {there}", where=str(file), hint=HINT)


def _rows(
    table: TraceTable,
    cells: pl.DataFrame,
    form: str,
    *,
    arrival_s: Floats | None,
    lengths: tuple[str, str],
    more: bool = False,
) -> RequestRows:
    """Return the rows of a table; `more` if the optional columns mean what ours do."""

    def words(*names: str) -> list[str] | None:
        name = next((each for each in names if each in table.columns), None)
        return None if name is None else cells[name].fill_null("").to_list()

    prefix = words("prefix_block_ids" if more else "hash_ids")
    return RequestRows(
        file=table.path,
        format=form,
        arrival_s=arrival_s,
        prompt=_numbers(cells[lengths[0]]),
        output=_numbers(cells[lengths[1]]),
        lines=table.lines,
        prefix=None if prefix is None else [_ids(each) for each in prefix],
        tenant=words("client_id", "tenant") if more else None,
        model=words("model") if more else None,
        klass=words("class") if more else None,
    )


def _numbers(cells: pl.Series) -> Floats:
    return cells.str.strip_chars().cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _moments(cells: pl.Series) -> Floats:
    """Return seconds of dates, or of plain seconds; a zone is taken as UTC, as Azure has it."""
    plain = cells.str.strip_chars().str.replace(r"(\+00:00|Z)$", "").str.replace("T", " ")
    moments = plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
    dates = moments.cast(pl.Int64).cast(pl.Float64) / 1e9
    return dates.fill_null(pl.Series(_numbers(cells))).fill_null(np.nan).to_numpy()


# -- JSON ----------------------------------------------------------------------------------------


def _objects(file: Path, *, is_list: bool) -> RequestRows:
    with open_bytes(file) as stream:
        text = stream.read().decode("utf-8-sig", "replace")
    kept, records = _listed(file, text) if is_list else _by_line(text)
    own = any("input_tokens" in each for each in records)
    time, prompt, output, prefix = _OWN if own else _MOONCAKE

    def column(name: str) -> Floats:
        return np.array([_as_number(each.get(name)) for each in records])

    def words(*names: str) -> list[str] | None:
        name = next((each for each in names if any(each in row for row in records)), None)
        if name is None or not own:
            return None
        found = [row.get(name) for row in records]
        return ["" if each is None else str(each) for each in found]

    timed = not own or any(time in each for each in records)
    prefixed = any(prefix in each for each in records)
    return RequestRows(
        file=file,
        format="requests" if own else "mooncake",
        arrival_s=column(time) / (1.0 if own else _MS) if timed else None,
        prompt=column(prompt),
        output=column(output),
        lines=lambda rows: {row: kept[row] for row in rows},
        prefix=[_ids(each.get(prefix) or []) for each in records] if prefixed else None,
        tenant=words("client_id", "tenant"),
        model=words("model"),
        klass=words("class"),
    )


def _by_line(text: str) -> tuple[list[str], list[dict[str, Any]]]:
    lines = [(at, line) for at, line in enumerate(text.splitlines(), start=1) if line.strip()]
    shown = [f"line {at}: {line[:_SHOWN]}" for at, line in lines]
    return shown, [_record(line) for _, line in lines]


def _listed(file: Path, text: str) -> tuple[list[str], list[dict[str, Any]]]:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as fault:
        hint = "give one JSON object per line, or a whole list of them"
        raise StewardError(f"is no whole JSON: {fault}", where=str(file), hint=hint) from None
    if not found:
        raise StewardError("is an empty list", where=str(file), hint=HINT)
    shown = [f"entry {at}: {json.dumps(each)[:_SHOWN]}" for at, each in enumerate(found, start=1)]
    return shown, [each if isinstance(each, dict) else {} for each in found]


def _record(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else np.nan
    except OverflowError:
        return np.nan


def _ids(values: object) -> list[int] | None:
    """Return block ids, from a list or from words such as `[4, 7]` or `4 7`."""
    if isinstance(values, str):
        values = values.strip("[] ").replace(",", " ").split()
    try:
        return [int(each) for each in values]  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        return None
