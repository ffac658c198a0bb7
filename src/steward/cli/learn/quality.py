"""`steward learn quality`: what of telemetry is not as it seems, before patterns are made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.learn.progress import byte_progress
from steward.cli.observe.quality import AtLeast, Each, print_report
from steward.cli.options import Json

if TYPE_CHECKING:
    from steward.learn.patterns.inputs import Input
    from steward.learn.patterns.table_blocks import Reading
    from steward.model.frame import Frame
    from steward.observe.quality import QualityReport

__all__ = ["quality"]

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Tables, folders of them, or recorded folders."),
]
Rows = Annotated[
    int, typer.Option("--rows", min=0, help="Look at so many rows of each table; 0 is all.")
]


def quality(
    paths: Paths,
    *,
    rows: Rows = 20_000,
    at_least: AtLeast = "warning",
    each: Each = False,
    as_json: Json = False,
) -> None:
    """Judge telemetry: missing, stuck, clipped, doubled, in the wrong unit, with text for numbers.

    Exits 1 when something at or above --at-least is found.
    """
    from dataclasses import replace

    from steward.learn.patterns.inputs import find_inputs
    from steward.observe.quality import assess

    inputs = find_inputs(paths)
    folders = list(dict.fromkeys(found.path for found in inputs if found.hour >= 0))
    tables = [found for found in inputs if found.hour < 0]
    reports = [assess(Path(folder)) for folder in folders]
    if tables:
        report = _of_tables(tables, rows)
        if rows:
            note = f"the first {rows:,} rows of each table were looked at; --rows 0 takes all"
            report = replace(report, notes=(*report.notes, note))
        reports.append(replace(report, files=len(tables)))
    print_report(_together(reports), at_least=at_least, each=each, as_json=as_json)


def _of_tables(tables: Sequence[Input], rows: int) -> QualityReport:
    from steward.learn.patterns.table_blocks import Reading
    from steward.learn.patterns.table_series import series_of
    from steward.observe.quality import assess_series

    seen = Reading()
    total = sum(table.size_bytes for table in tables)
    with byte_progress("looking") as progress:

        def pieces() -> Iterator[tuple[str, Frame]]:
            done = 0
            for table in tables:
                yield from series_of(table, seen, rows=rows)
                done += table.size_bytes
                progress(done, total)

        return assess_series(pieces(), notes=_said(seen))


def _said(seen: Reading) -> Iterator[str]:
    """Yield what could not be used, once all has been read."""
    for fault, times in sorted(seen.faults.items()):
        yield f"{times:,} times: {fault} (first: {seen.examples[fault]})"


def _together(reports: Sequence[QualityReport]) -> QualityReport:
    from steward.observe.quality import QualityReport

    flaws = [flaw for report in reports for flaw in report.flaws]
    begins = [report.from_s for report in reports if report.from_s is not None]
    ends = [report.to_s for report in reports if report.to_s is not None]
    return QualityReport(
        flaws=tuple(sorted(flaws, key=lambda f: (-f.severity, f.kind, f.metric, f.entity))),
        files=sum(report.files for report in reports),
        rows=sum(report.rows for report in reports),
        entities=sum(report.entities for report in reports),
        metrics=sum(report.metrics for report in reports),
        from_s=min(begins, default=None),
        to_s=max(ends, default=None),
        notes=tuple(note for report in reports for note in report.notes),
    )
