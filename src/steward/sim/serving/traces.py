"""Reads requests from files: the project's own columns, and those of Azure, Mooncake, BurstGPT.

Rows that cannot be used are left out and told about, with their line; nothing is dropped in
silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.model.serving.requests import (
    BATCH,
    INTERACTIVE,
    DeadlineClass,
    RequestTrace,
    requests_of,
)
from steward.model.trace import RowFault
from steward.sim.serving.arrivals import draw_arrivals, generate_clients
from steward.sim.traces.locate import data_folder
from steward.sim.traces.table import collected, first_lines, read_table

__all__ = ["RequestOptions", "read_requests", "request_folder"]

USUAL_RATE = 5.0  # requests a second where a file has lengths only
USUAL_COUNT = 20_000  # requests drawn where a folder describes clients
MOONCAKE_BLOCK_TOKENS = 512
_BATCH_NAMES = ("arxiv", "summar", "batch")
_FILES = ("requests.csv", "lengths.csv", "requests.jsonl", "client_rates.csv")
_EXAMPLES = 3
_HINT = (
    "known: t_s,input_tokens,output_tokens (also client_id, prefix_block_ids, class, model); "
    "input_tokens,output_tokens; TIMESTAMP,ContextTokens,GeneratedTokens (Azure); Timestamp,"
    "Request tokens,Response tokens (BurstGPT); JSON lines with timestamp, input_length, "
    "output_length, hash_ids (Mooncake); a folder with client_rates.csv and client_lengths.csv"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """How to read a trace.

    Without a column `class`, all requests of a file are of `deadline_class`; without that, they
    are batch if its name holds "arxiv", "summar" or "batch", else interactive. `batch_share` of
    them, drawn by seed, are batch then.
    """

    limit: int | None = None  # requests, from the first on
    rate: float | None = None  # requests a second, on average; None: as recorded
    burst_cv: float | None = None  # of the gaps between arrivals, drawn anew; None: as recorded
    deadline_class: str = ""
    batch_share: float = 0.0
    classes: tuple[DeadlineClass, ...] = (INTERACTIVE, BATCH)
    seed: int = 0


def request_folder() -> Path:
    """Return the folder of named request traces, beside the one of job traces."""
    return data_folder().parent / "llm_traces"


def read_requests(path: str | Path, options: RequestOptions | None = None) -> RequestTrace:
    """Read a file or folder, or a name in the data folder."""
    asked = options or RequestOptions()
    file = _find(path)
    if file.name in ("client_rates.csv", "client_lengths.csv"):
        count = asked.limit or USUAL_COUNT
        found = generate_clients(file.parent, count=count, seed=asked.seed, rate=asked.rate)
        return _classified(found, None, asked)
    rows = _mooncake(file) if first_lines(file).lstrip().startswith(b"{") else _table(file)
    name = (file.parent.name if file.name in _FILES else "") or file.stem
    return _trace(rows, name, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What a file says, before anything is checked; NaN is missing or no number."""

    file: Path
    format: str
    arrival_s: NDArray[np.float64] | None
    prompt: NDArray[np.float64]
    output: NDArray[np.float64]
    lines: Callable[[list[int]], dict[int, str]]
    prefix: list[list[int] | None] | None = None  # None in it: not a list of whole numbers
    tenant: list[str] | None = None
    model: list[str] | None = None
    klass: list[str] | None = None


def _find(path: str | Path) -> Path:
    for place in (Path(path), request_folder() / path):
        if place.is_file():
            return place
        inside = [place / name for name in _FILES if (place / name).is_file()]
        if inside:
            return inside[0]
    folder = request_folder()
    known = (
        sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    )
    nothing = f"give a file, or set STEWARD_DATA: {folder} holds no named traces"
    named = f"named traces: {', '.join(known)}" if known else nothing
    hint = did_you_mean(str(path), known) or named
    raise StewardError("there is no such request trace", where=str(path), hint=hint)


def _table(file: Path) -> _Rows:
    table = read_table(file)
    cells = collected(table.scan, where=str(file))
    has = set(table.columns).issuperset
    optional = {name: cells[name].fill_null("").to_list() for name in table.columns}
    if has(("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        return _Rows(
            file=file,
            format="azure",
            arrival_s=_dates(cells["TIMESTAMP"]),
            prompt=_numbers(cells["ContextTokens"]),
            output=_numbers(cells["GeneratedTokens"]),
            lines=table.lines,
        )
    if has(("Timestamp", "Request tokens", "Response tokens")):
        return _Rows(
            file=file,
            format="burstgpt",
            arrival_s=_numbers(cells["Timestamp"]),
            prompt=_numbers(cells["Request tokens"]),
            output=_numbers(cells["Response tokens"]),
            lines=table.lines,
        )
    if has(("input_tokens", "output_tokens")):
        timed = "t_s" in table.columns
        prefix = optional.get("prefix_block_ids")
        return _Rows(
            file=file,
            format="requests" if timed else "lengths",
            arrival_s=_numbers(cells["t_s"]) if timed else None,
            prompt=_numbers(cells["input_tokens"]),
            output=_numbers(cells["output_tokens"]),
            lines=table.lines,
            prefix=None if prefix is None else [_ids(each.split()) for each in prefix],
            tenant=optional.get("client_id") or optional.get("tenant"),
            model=optional.get("model"),
            klass=optional.get("class"),
        )
    there = ", ".join(table.columns[:20])
    raise StewardError(f"holds no requests; its columns are {there}", where=str(file), hint=_HINT)


def _mooncake(file: Path) -> _Rows:
    texts = file.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    records = [_record(text) for _, text in kept]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([_as_number(each.get(name)) for each in records])

    def lines(rows: list[int]) -> dict[int, str]:
        return {row: f"line {kept[row][0]}: {kept[row][1][:90]}" for row in rows}

    return _Rows(
        file=file,
        format="mooncake",
        arrival_s=column("timestamp") / 1000.0,
        prompt=column("input_length"),
        output=column("output_length"),
        lines=lines,
        prefix=[_ids(each.get("hash_ids", [])) for each in records],
    )


def _record(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _as_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _ids(values: object) -> list[int] | None:
    try:
        return [int(each) for each in values]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return None


def _numbers(cells: pl.Series) -> NDArray[np.float64]:
    return cells.str.strip_chars().cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _dates(cells: pl.Series) -> NDArray[np.float64]:
    """Return seconds; a time zone is taken as UTC, as Azure's files have it."""
    plain = cells.str.strip_chars().str.replace(r"(\+00:00|Z)$", "")
    moments = plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
    return (moments.cast(pl.Int64).cast(pl.Float64) / 1e9).fill_null(np.nan).to_numpy()


def _trace(rows: _Rows, name: str, asked: RequestOptions) -> RequestTrace:
    wrong = _wrong(rows, asked)
    usable = ~np.logical_or.reduce([mask for _, mask in wrong])
    faults = tuple(_fault(reason, mask, rows) for reason, mask in wrong if mask.any())
    keep = np.flatnonzero(usable)
    if rows.arrival_s is not None:
        keep = keep[np.argsort(rows.arrival_s[keep], kind="stable")]
    keep = keep[: asked.limit]
    if not len(keep):
        reasons = "; ".join(f"{each.reason} ({each.examples[0]})" for each in faults)
        raise StewardError(f"no row can be used: {reasons}", where=str(rows.file), hint=_HINT)
    found = requests_of(
        name,
        arrival_s=_arrivals(rows, keep, asked),
        prompt_tokens=rows.prompt[keep].astype(np.int64),
        output_tokens=rows.output[keep].astype(np.int64),
        tenant=None if rows.tenant is None else [rows.tenant[row] for row in keep],
        model=None if rows.model is None else [rows.model[row] for row in keep],
        prefix=None if rows.prefix is None else [rows.prefix[row] or [] for row in keep],
        prefix_block_tokens=MOONCAKE_BLOCK_TOKENS if rows.prefix is not None else 0,
        origin=f"{rows.file} ({rows.format})",
        synthetic=rows.arrival_s is None or asked.burst_cv is not None,
        faults=faults,
    )
    recorded = rows.arrival_s is not None and asked.burst_cv is None
    if recorded and asked.rate is not None:
        found = found.at_rate(asked.rate)
    return _classified(found, None if rows.klass is None else [rows.klass[r] for r in keep], asked)


def _wrong(rows: _Rows, asked: RequestOptions) -> list[tuple[str, NDArray[np.bool_]]]:
    checks = [
        ("the prompt's tokens are not a number above 0", ~(rows.prompt >= 1)),
        ("the output's tokens are not a number above 0", ~(rows.output >= 1)),
        ("the lengths are beyond any model's", (rows.prompt > 1e8) | (rows.output > 1e8)),
    ]
    if rows.arrival_s is not None:
        checks.append(("the time is not a number", ~np.isfinite(rows.arrival_s)))
    if rows.prefix is not None:
        bad = np.array([each is None for each in rows.prefix], bool)
        checks.append(("the prefix blocks are not whole numbers", bad))
    if rows.klass is not None:
        known = {"", *(each.name for each in asked.classes)}
        bad = np.array([each not in known for each in rows.klass], bool)
        checks.append((f"the class is none of {', '.join(sorted(known - {''}))}", bad))
    return checks


def _fault(reason: str, mask: NDArray[np.bool_], rows: _Rows) -> RowFault:
    shown = np.flatnonzero(mask)[:_EXAMPLES].tolist()
    examples = tuple(rows.lines(shown).values())
    return RowFault(reason=reason, rows=int(mask.sum()), examples=examples)


def _arrivals(rows: _Rows, keep: NDArray[np.int64], asked: RequestOptions) -> NDArray[np.float64]:
    if rows.arrival_s is not None and asked.burst_cv is None:
        recorded: NDArray[np.float64] = rows.arrival_s[keep] - rows.arrival_s[keep[0]]
        return recorded
    rate = asked.rate or USUAL_RATE
    if asked.rate is None and rows.arrival_s is not None:
        span_s = float(rows.arrival_s[keep[-1]] - rows.arrival_s[keep[0]])
        rate = len(keep) / span_s if span_s > 0 else USUAL_RATE
    return draw_arrivals(len(keep), rate=rate, cv=asked.burst_cv or 1.0, seed=asked.seed)


def _classified(
    trace: RequestTrace, given: list[str] | None, asked: RequestOptions
) -> RequestTrace:
    """Give each request its class: see `RequestOptions`."""
    by_name = {each.name: each for each in asked.classes}
    if given is not None and not asked.deadline_class:
        names = list(by_name)
        codes = [names.index(each) if each else 0 for each in given]
        return replace(trace, classes=asked.classes, deadline_class=np.array(codes, np.int64))
    batch_like = any(word in trace.name.lower() for word in _BATCH_NAMES)
    usual = BATCH.name if batch_like else INTERACTIVE.name
    found = trace.in_class(by_name[asked.deadline_class or usual])
    if asked.batch_share > 0:
        draw = np.random.default_rng((asked.seed, 1))
        found = found.with_share(by_name[BATCH.name], draw.random(len(trace)) < asked.batch_share)
    return found
