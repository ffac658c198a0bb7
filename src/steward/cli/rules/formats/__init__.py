"""Output formats of the findings of a run: table, JSON, SARIF, or HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from steward.cli.output import print_error, print_note, print_warnings
from steward.cli.rules.formats import records
from steward.errors import StewardError, unknown_name
from steward.store.atomic import whole_file

if TYPE_CHECKING:
    from steward.inspection.report import RunReport
    from steward.model.rules import RuleSeverity

__all__ = ["FORMS", "ReportFormat", "report_format", "write"]


class ReportFormat(Enum):
    """Output format of findings."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"
    HTML = "html"


FORMS = tuple(each.value for each in ReportFormat)
_ENDINGS = {
    ".json": ReportFormat.JSON,
    ".sarif": ReportFormat.SARIF,
    ".html": ReportFormat.HTML,
    ".htm": ReportFormat.HTML,
}
_ENDINGS |= dict.fromkeys(("", ".txt", ".log", ".out"), ReportFormat.TABLE)


def report_format(given: str | None, out: Path | None, *, as_json: bool) -> ReportFormat:
    """Return the requested format, or that of the file name's suffix."""
    if out is not None and not out.absolute().parent.is_dir():  # fail before the run, not after it
        raise StewardError("there is no such folder", where=str(out.parent), hint="make it first")
    if as_json and given not in (None, ReportFormat.JSON.value):
        raise StewardError(f"--json and --format {given} exclude each other", hint="give one")
    if as_json:
        return ReportFormat.JSON
    if given is None:
        return _format_of_suffix(out) if out else ReportFormat.TABLE
    if given not in FORMS:
        raise unknown_name("format", given, FORMS, where="--format")
    return ReportFormat(given)


def _format_of_suffix(out: Path) -> ReportFormat:
    """Return the format of a file name's suffix; pipes and devices have none."""
    if out.exists() and not out.is_file():
        return ReportFormat.TABLE
    if out.suffix.lower() not in _ENDINGS:
        problem = f"'{out.suffix}' does not tell what to write"
        hint = f"end it in .txt, .json, .sarif or .html, or give --format {'|'.join(FORMS)}"
        raise StewardError(problem, where=str(out), hint=hint)
    return _ENDINGS[out.suffix.lower()]


def write(
    report: RunReport,
    form: ReportFormat,
    out: Path | None,
    *,
    at_least: RuleSeverity,
    telemetry: Sequence[Path] = (),
    followed: bool = False,
) -> None:
    """Write findings to a file or to stdout, and warnings to stderr."""
    text = (
        records.as_json(report, one_line=True)
        if followed and form is ReportFormat.JSON
        else _text(report, form, at_least, telemetry)
    )
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        _put(text, out)
        print_note(f"{len(report.findings)} findings written to {out}")
    if form is not ReportFormat.JSON:
        print_warnings(_warnings(report))
    for each in report.unreadable:
        print_error(each, as_json=False)


def _text(
    report: RunReport, form: ReportFormat, at_least: RuleSeverity, telemetry: Sequence[Path]
) -> str:
    if form is ReportFormat.TABLE:
        from steward.cli.rules.formats.text import as_text

        return as_text(report, at_least)
    if form is ReportFormat.JSON:
        return records.as_json(report)
    if form is ReportFormat.SARIF:
        from steward.cli.rules.formats.sarif import as_sarif

        return as_sarif(report)
    from steward.cli.rules.formats.page import as_page
    from steward.inspection.series.curves import curves_of

    return as_page(report, curves_of(report.findings, telemetry))


def _warnings(report: RunReport) -> list[str]:
    errors = {str(each) for each in report.unreadable}
    notes = (note for each in report.streams for note in each.notes)
    warnings = [*report.notes, *(note for note in notes if note not in errors)]
    cut = sum(each.cut for each in report.streams)
    if cut:
        warnings.append(
            f"{cut:,} lines or entries were too long, and only their beginning was read"
        )
    late = sum(each.late for each in report.streams)
    if late:
        late_note = (
            "entries are older than ones before them: --preq leaves these out, unless a rule "
        )
        warnings.append(
            f"{late:,} {late_note}has one condition; --strict takes them by their own time"
        )
    lost = {
        "evicted": "matched lines were evicted before their windows were over",
        "evicted_states": "entities were evicted with their matched lines",
        "set_back": "times a clock went back by an hour or more; pending matches were decided",
        "too_long": "lines of JSON were too long for a jq term, and were not tested",
        "unjoined": "matched lines lack what their rule is joined on (`correlations`)",
        "late_samples": "samples were older than ones before them, and were left out",
        "untimed_samples": "samples have no time, and were left out",
        "evicted_series": "series were evicted, since there were too many",
    }
    return warnings + [
        f"{report.counts[name]:,} {text}" for name, text in lost.items() if report.counts[name]
    ]


def _put(text: str, out: Path) -> None:
    """Write a file, or raise with a hint."""
    try:
        with whole_file(out) as file:
            file.write(text.encode(errors="replace"))
    except OSError as fault:
        problem = f"the file cannot be written: {(fault.strerror or str(fault)).lower()}"
        hint = "name a file in a folder that exists and that you may write to"
        raise StewardError(problem, where=str(out), hint=hint) from fault
