"""`steward observe quality`: what of recorded telemetry is not as it seems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, print_warnings

__all__ = ["quality"]

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The store folder to judge.")]
AtLeast = Annotated[
    Literal["info", "warning", "error"],
    typer.Option("--at-least", help="Exit 1 when something this bad, or worse, is found."),
]


def quality(folder: Folder, *, at_least: AtLeast = "warning", as_json: Json = False) -> None:
    """Judge recorded telemetry: missing, stuck, clipped, in the wrong unit, with gaps.

    Exits 1 when something at or above --at-least is found.
    """
    from steward.observe.quality import Severity, assess

    with _progress() as progress:
        report = assess(folder, progress=progress)
    if as_json:
        flaws = [{**_record(flaw), "severity": flaw.severity.word} for flaw in report.flaws]
        print_json(
            {
                "flaws": flaws,
                "files": report.files,
                "rows": report.rows,
                "entities": report.entities,
                "metrics": report.metrics,
                "from_s": report.from_s,
                "to_s": report.to_s,
                "notes": report.notes,
            }
        )
    else:
        rows = (
            [f.severity.word, f.kind, f.entity, f.metric, f"{f.meaning} ({f.hint})"]
            for f in report.flaws
        )
        columns = ["severity", "kind", "entity", "metric", "meaning"]
        print_table(columns, rows, empty="nothing is wrong with it")
        print_note(
            f"{report.rows} rows of {report.entities} entities and {report.metrics} metrics "
            f"in {report.files} files were looked at"
        )
        print_warnings(report.notes)
    bad = any(flaw.severity >= Severity[at_least.upper()] for flaw in report.flaws)
    raise typer.Exit(1 if bad else 0)


def _record(flaw: object) -> dict[str, object]:
    from dataclasses import fields

    return {each.name: getattr(flaw, each.name) for each in fields(flaw)}  # type: ignore[arg-type]


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking") as status:
        yield lambda what: status.update(f"looking at {what}")
