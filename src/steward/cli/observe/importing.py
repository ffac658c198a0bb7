"""`steward observe import`: files that others recorded, as a store folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_warnings
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.observe.importing import Imported

__all__ = ["import_files"]

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="What to import; .gz is fine.", show_default=False),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="csv, h200, parquet, prometheus or reveal; told from each file when left out.",
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The new folder to write.")]
Node = Annotated[
    str | None,
    typer.Option(
        "--node", help="Whose samples these are where a file does not say; else the file's name."
    ),
]
Marks = Annotated[
    list[Path] | None,
    typer.Option(
        "--marks", metavar="FILE", help="h200: marks of runs and phases, if not events.jsonl."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS[*SCALE]",
        help="What a column is, e.g. util=gpu.busy_share*0.01; may be given often.",
    ),
]


def import_files(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    out: Out,
    format_: Format = None,
    node: Node = None,
    marks: Marks = None,
    map_: Map = None,
    as_json: Json = False,
) -> None:
    """Import recorded telemetry: our names and units, rates instead of counters, runs as spans.

    The folder is written as a whole or not at all. Columns that nobody knows are kept under their
    own names; rows that cannot be used are counted. Exits 1 when no number was found at all.
    """
    from steward.observe.importing import ImportSource, import_all, task_for

    columns = dict(_mapped(text) for text in map_ or ())
    for file in (*files, *(marks or ())):
        if not file.exists():
            raise StewardError("there is no such file", where=str(file), hint="check the name")
    with _progress(files, quiet=as_json) as progress:
        sources = [
            ImportSource(
                path=file,
                node=node or "",
                companions=tuple(marks or ()),
                columns=columns,
                progress=progress,
            )
            for file in files
        ]
        imported = import_all([task_for(source, format_) for source in sources], out)
    if as_json:
        print_json(imported)
    else:
        _show(imported)
    raise typer.Exit(0 if imported.samples + imported.other else 1)


def _mapped(text: str) -> tuple[str, tuple[str, float]]:
    from steward.model.metrics import metric

    theirs, equals, ours = text.partition("=")
    name, _, scale = ours.partition("*")
    try:
        factor = float(scale) if scale else 1.0
    except ValueError:
        factor = float("nan")
    if not equals or not theirs or isnan(factor):
        raise StewardError(
            f"'{text}' says nothing about a column",
            where="--map",
            hint="write THEIRS=OURS or THEIRS=OURS*SCALE, e.g. util=gpu.busy_share*0.01",
        )
    return theirs, (metric(name).name, factor)


@contextmanager
def _progress(files: Sequence[Path], *, quiet: bool) -> Iterator[Callable[[int], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda _read_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("importing"), BarColumn(), DownloadColumn())
    total = sum(file.stat().st_size for file in files)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda read_bytes: bar.advance(task, read_bytes)


def _show(imported: Imported) -> None:
    from steward.cli.words import moment

    lines = [f"{each['file']}: read as {each['format']}" for each in imported.files]
    lines.append(
        f"  {imported.rows} rows, {imported.samples} samples of {imported.entities} entities, "
        f"{len(imported.columns)} columns known"
    )
    if imported.from_s is not None and imported.to_s is not None:
        lines.append(f"  from {moment(imported.from_s)} to {moment(imported.to_s)}")
    if imported.spans:
        said = ", ".join(f"{count} {kind}" for kind, count in imported.spans.items())
        lines.append(f"  spans: {said}")
    if imported.unknown:
        lines.append(f"  unknown, kept in other/: {', '.join(imported.unknown)}"[:500])
    if imported.text:
        lines.append(f"  without numbers, left out: {', '.join(imported.text)}"[:500])
    what = "what could be read" if imported.bad else "all of it"
    print_lines([*lines, f"{what} is in {imported.out}"])
    print_warnings(
        f"{count} times: {reason} ({'; '.join(imported.examples.get(reason, ()))})"
        for reason, count in imported.bad.items()
    )
    for note in imported.notes:
        print_note(f"note: {note}")
