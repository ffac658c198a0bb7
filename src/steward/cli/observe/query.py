"""`steward observe query` and `tail`: questions to a store folder, and what is new in it."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json, read_settings
from steward.cli.output import clean, plain, print_json, print_note, print_table, print_warnings
from steward.cli.words import number, precise_moment
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.model.frame import Frame
    from steward.store.query import QueryResult

__all__ = ["query", "tail"]

_FORMULA = ("=", "+", "-", "@")
_FIRST_TIME_S = 1e8  # March 1973: less is a length of time, or a simulation that begins at 0

Question = Annotated[
    str,
    typer.Argument(
        metavar="QUESTION",
        help="SQL, or for example: mean(gpu.busy_share) by entity every 1m since 1h",
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of text.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write all rows to a .parquet or .csv file."),
]
Rows = Annotated[int, typer.Option("--limit", min=1, max=10_000_000, help="Show at most so many.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Give up after so many seconds.")
]
Memory = Annotated[
    int, typer.Option("--memory", min=100, metavar="MIB", help="How much memory it may take.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only the last 30m, 6h, 2d, … of samples."),
]


def query(  # noqa: PLR0913 - a command's options are its parameters
    question: Question,
    *,
    data: Data = None,
    config: Config = None,
    since: Since = None,
    as_json: Json = False,
    as_csv: Csv = False,
    out: Out = None,
    limit: Rows = 10_000,
    timeout_s: Timeout = 60.0,
    memory_mib: Memory = 2048,
) -> None:
    """Ask recorded telemetry: SQL (DuckDB) or a small form of our own.

    Tables: telemetry, telemetry_10s, telemetry_5m, other, logs, spans, events. The folder is only
    read, and nothing outside it can be. Samples that were not flushed yet are not seen.
    """
    from steward.store.query import Expression, Query, QueryLimits, is_sql, parse

    folder = _folder(data, config)
    limits = QueryLimits(memory_bytes=memory_mib << 20, timeout_s=timeout_s)
    with Query(folder, limits=limits) as whole:
        newest_s = whole.newest_s() if since or not is_sql(question) else 0.0
    expression = Expression() if is_sql(question) else parse(question)
    if since:
        since_s = _seconds(since)
        expression.since_s = min(since_s, expression.since_s or since_s)
    from_s, to_s = expression.time(newest_s)
    with Query(folder, from_s=from_s, to_s=to_s, limits=limits) as asked:
        asked.expect(expression.metrics)
        sql = question if is_sql(question) else expression.sql(newest_s)
        if out is not None:
            print_note(f"{asked.save(sql, out)} rows are in {out}")
        else:
            _show(asked.run(sql, limit=limit), as_json=as_json, as_csv=as_csv)
        print_warnings(asked.notes)


def _folder(data: Path | None, config: Path | None) -> Path:
    return data if data is not None else Path(read_settings(config, None).store.path)


def _seconds(text: str) -> float:
    from steward.store.query import parse

    try:
        since_s = parse(f"count(x) since {text}").since_s
    except StewardError as fault:
        raise StewardError(
            f"'{text}' is no time", where="--since", hint="write 500ms, 30s, 5m, 1h or 2d"
        ) from fault
    assert since_s is not None  # noqa: S101 - the parser gave it or raised
    return since_s


def _show(answer: QueryResult, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        names = _different(answer.columns)
        print_json([dict(zip(names, row, strict=True)) for row in answer.rows])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([_csv_cell(name) for name in answer.columns])
        writer.writerows([_csv_cell(value) for value in row] for row in answer.rows)
    else:
        times = [_is_time(name) for name in answer.columns]
        rows = (
            [_cell(value, is_time=time) for value, time in zip(row, times, strict=True)]
            for row in answer.rows
        )
        print_table(answer.columns, rows, empty="no rows")
    if answer.more:
        print_note(f"only the first {len(answer.rows)} rows are shown; --limit shows more")


def _different(columns: Sequence[str]) -> list[str]:
    """Return names of which none is there twice: an object would keep the last value only."""
    names: list[str] = []
    for column in columns:
        again = (f"{column}_{number}" for number in count(1))
        names.append(next(name for name in chain([column], again) if name not in names))
    return names


def _is_time(column: str) -> bool:
    """Return True for columns that hold a moment by the names of our tables."""
    return column in ("t_s", "from_s", "to_s")


def _csv_cell(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula and no terminal for a command."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(value: object, *, is_time: bool = False) -> str:
    if value is None:
        return "-"
    if is_time and isinstance(value, float) and value >= _FIRST_TIME_S:
        return precise_moment(value)
    if isinstance(value, float) and abs(value) < 1e9:
        return f"{value:.6g}" if value != int(value) else f"{value:.0f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


Metric = Annotated[str, typer.Argument(help="Which metrics; * stands for anything.")]
Entity = Annotated[str, typer.Option("--entity", help="Which entities; * stands for anything.")]
For = Annotated[
    float | None, typer.Option("--for", metavar="SECONDS", help="Stop after so long.", min=0.0)
]
Everything = Annotated[
    bool, typer.Option("--all", help="Begin with the newest hours that are there already.")
]


def tail(  # noqa: PLR0913 - a command's options are its parameters
    metric: Metric = "*",
    *,
    entity: Entity = "*",
    data: Data = None,
    config: Config = None,
    for_s: For = None,
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    """Print samples and log lines as they reach a store folder (when they are flushed there)."""
    from steward.store.query import Tail

    follow = Tail(_folder(data, config), entity=entity, metric=metric)
    if not everything:
        follow.skip()
        print_note("what is new shows when it is flushed: every 30 s or so")
    ends_s = float("inf") if for_s is None else time.monotonic() + for_s
    try:
        while True:
            for table, rows in follow.new():
                _print_new(table, rows, as_json=as_json)
            if time.monotonic() >= ends_s:
                break
            time.sleep(min(0.5, max(0.0, ends_s - time.monotonic())))
    except KeyboardInterrupt:
        pass  # that is how one stops looking
    print_warnings(follow.notes)


def _print_new(table: str, rows: Frame, *, as_json: bool) -> None:
    for row in rows.iter_rows(named=True):
        at = _cell(row["t_s"], is_time=True)
        known = {key: value for key, value in row.items() if value is not None}
        if as_json:
            line = json.dumps(plain({"table": table, **known}), ensure_ascii=False)
        elif table == "logs":
            line = f"{at}  {row['entity']}  {row['source']}: {row['text']}"
        else:
            values = [
                f"{key}={number(value) if isinstance(value, float) else value}"
                for key, value in known.items()
                if key not in ("t_s", "entity")
            ]
            line = f"{at}  {row['entity']}  {'  '.join(values)}"
        typer.echo(line if as_json else clean(line))
