"""How answers and errors reach a person or a program.

On a terminal there are tables and colours; into a pipe goes plain text of full width; `--json`
prints one JSON value. Answers go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite

import typer

from steward.errors import StewardError

__all__ = [
    "clean",
    "is_terminal",
    "plain",
    "print_error",
    "print_json",
    "print_lines",
    "print_note",
    "print_table",
    "print_warnings",
    "waiting",
]

# Also what turns the direction of text around, or breaks lines where nobody sees why.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
Row = Sequence[str]


def is_terminal() -> bool:
    """Say whether a person sees stdout directly."""
    return sys.stdout.isatty()


def clean(text: object) -> str:
    """Make text from elsewhere safe to print: no control characters reach the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def plain(value: object) -> object:
    """Turn any of our values into what JSON knows. What is not finite is unknown: null."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)


def print_json(value: object) -> None:
    """Print one JSON value."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_table(columns: Row, rows: Iterable[Row], *, empty: str) -> None:
    """Print rows below their headings, or say that there are none."""
    lines = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
    if not lines:
        print_note(empty)
    elif is_terminal():
        _print_rich_table(columns, lines)
    else:
        _print_plain_table(columns, lines)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; those that do not begin with a space are headings."""
    if not is_terminal():
        typer.echo("\n".join(clean(line) for line in lines))
        return
    for line in lines:
        heading = bool(line) and not line.startswith(" ")
        typer.echo(typer.style(clean(line), bold=heading))


def print_note(text: str) -> None:
    """Say something beside the answer."""
    typer.echo(clean(text), err=True)


def print_warnings(problems: Iterable[str]) -> None:
    """Say what was found broken and what was done about it."""
    for problem in problems:
        typer.echo(f"warning: {clean(problem)}", err=True)


def print_error(fault: StewardError, *, as_json: bool) -> None:
    """Say what is wrong, where, what was possible, and what to do next."""
    if as_json:
        print_json({"error": fault.as_record()})
        return
    typer.echo(f"error: {clean(fault)}", err=True)
    if fault.hint:
        typer.echo(f"hint:  {clean(fault.hint)}", err=True)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something takes its time, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def _print_rich_table(columns: Row, rows: list[list[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def _print_plain_table(columns: Row, rows: list[list[str]]) -> None:
    every = [list(columns), *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    for row in every:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


_STYLES = {
    "ok": "green",
    "done": "green",
    "active": "green",
    "limited": "yellow",
    "waiting": "yellow",
    "waste": "yellow",
    "missing": "red",
    "failed": "red",
    "fault": "red",
}
