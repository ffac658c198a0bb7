"""`steward observe quality`: what of recorded telemetry is not as it seems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table, print_warnings

if TYPE_CHECKING:
    from steward.observe.quality import Flaw, QualityReport

__all__ = ["AtLeast", "Each", "print_report", "quality"]

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The store folder to judge.")]
AtLeast = Annotated[
    Literal["info", "warning", "error"],
    typer.Option("--at-least", help="Exit 1 when something this bad, or worse, is found."),
]
Each = Annotated[bool, typer.Option("--all", help="A line for each metric, not for each kind.")]

_NAMED = 3  # metrics, or entities, of a line; the others are counted


def quality(
    folder: Folder, *, at_least: AtLeast = "warning", each: Each = False, as_json: Json = False
) -> None:
    """Judge recorded telemetry: missing, stuck, clipped, in the wrong unit, with gaps.

    Exits 1 when something at or above --at-least is found.
    """
    from steward.observe.quality import assess

    with _progress() as progress:
        report = assess(folder, progress=progress)
    print_report(report, at_least=at_least, each=each, as_json=as_json)


def print_report(
    report: QualityReport,
    *,
    at_least: Literal["info", "warning", "error"],
    each: bool,
    as_json: bool,
) -> None:
    """Print what was found, and exit 1 if some of it is at least so bad."""
    from steward.observe.quality import FlawSeverity

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
        _show(report.flaws, each=each)
        print_note(
            f"{report.rows} rows of {report.entities} entities and {report.metrics} metrics "
            f"in {report.files} files were looked at"
        )
        print_warnings(report.notes)
    bad = any(flaw.severity >= FlawSeverity[at_least.upper()] for flaw in report.flaws)
    raise typer.Exit(1 if bad else 0)


def _show(flaws: Sequence[Flaw], *, each: bool) -> None:
    """Print what was found, worst first, then what to do about each kind, once."""
    groups = [[flaw] for flaw in flaws] if each else _alike(flaws)
    columns = ["severity", "kind", "entity", "metric", "meaning"]
    print_table(columns, map(_line, groups), empty="nothing is wrong with it")
    hints = dict.fromkeys((flaw.kind, flaw.hint) for flaw in flaws)
    if hints:
        print_lines(["", "what to do", *(f"  {kind}: {hint}" for kind, hint in hints)])
    if len(groups) < len(flaws):
        print_note(f"{len(flaws)} findings; --all shows each, --json with its figures")


def _alike(flaws: Sequence[Flaw]) -> list[list[Flaw]]:
    """Group what differs in the metric, or in which entity of a kind, only."""
    groups: dict[tuple[int, str, str], list[Flaw]] = {}
    for flaw in flaws:
        groups.setdefault((flaw.severity, flaw.kind, flaw.of), []).append(flaw)
    return list(groups.values())


def _line(group: Sequence[Flaw]) -> list[str]:
    first = group[0]
    entities = [f"every {flaw.of}" if flaw.entity == "*" else flaw.entity for flaw in group]
    alike = len({flaw.meaning for flaw in group}) == 1
    meaning = first.meaning if alike else f"for example: {first.meaning}"
    metrics = _few([flaw.metric for flaw in group])
    return [first.severity.word, first.kind, _few(entities), metrics, meaning]


def _few(names: Sequence[str]) -> str:
    """Return the first names and how many more there are."""
    different = list(dict.fromkeys(names))
    more = len(different) - _NAMED
    return ", ".join(different[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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
