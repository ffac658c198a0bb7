"""Findings as terminal text: a table, then the meaning and evidence of each."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from steward.cli.output import clean, is_terminal
from steward.cli.words import log_time, moment, number, span

if TYPE_CHECKING:
    from steward.inspection.report import Diagnosis, EvidenceItem, RunReport
    from steward.model.rules import RuleSeverity

__all__ = ["as_text", "evidence_line"]

_COLUMNS = ("severity", "rule", "title", "entity", "hits", "first", "last")
_SHOWN = 50  # findings with their evidence
_PROOFS = 6
_WIDTH = 240  # of a line of evidence
_MIB = 2**20
_COLOURS = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": ""}


def as_text(report: RunReport, at_least: RuleSeverity) -> str:
    """Return the findings at or above a severity; and the number of those below it."""
    findings = report.at_least(at_least)
    rows = [_row(each) for each in findings]
    lines = [_table(rows)] if rows else []
    for each in findings[:_SHOWN]:
        lines += ["", *_about(each)]
    if len(findings) > _SHOWN:
        lines += ["", f"{len(findings) - _SHOWN} more findings have no details here: see --json"]
    lines += ["", *_summary(report, len(findings), at_least)]
    return "\n".join(lines).lstrip("\n")


def evidence_line(item: EvidenceItem) -> str:
    """Return one piece of evidence as a line: its place and text."""
    if item.metric:
        since = f", for {span(item.t - item.since)}" if item.since else ""
        said = " ".join(item.text.split())
        said = said if len(said) <= _WIDTH else f"{said[:_WIDTH]} … {number(item.value or 0.0)}"
        return f"{moment(item.t)} {item.entity}: {said}{since}"
    where = f"{item.stream.replace(chr(10), ' ')}:{item.line}" if item.stream else "event"
    first, *rest = item.text.splitlines() or [""]
    more = f" (and {len(rest)} more lines)" if rest else ""
    cut = first if len(first) <= _WIDTH else f"{first[:_WIDTH]} …"
    return f"{where}: {cut}{more}"


def _row(found: Diagnosis) -> tuple[str, ...]:
    rule = found.rule
    return (
        found.severity.word,
        rule.id,
        rule.title,
        found.entity,
        f"{found.hits:,}",
        log_time(found.first_t),
        log_time(found.last_t),
    )


def _about(found: Diagnosis) -> Iterator[str]:
    rule = found.rule
    entity = f" on {found.entity}" if found.entity else ""
    yield clean(f"{rule.id} {rule.title}{entity}")
    for name, text in (("cause", rule.cause), ("to do", _advice(found))):
        yield from _paragraph(name, text)
    for item in found.evidence[:_PROOFS]:
        yield clean(f"  > {evidence_line(item)}")
    if len(found.evidence) > _PROOFS:
        yield f"  > and {len(found.evidence) - _PROOFS} more"


def _advice(found: Diagnosis) -> str:
    treatment = found.rule.treatment
    return treatment.advice if treatment is not None else found.rule.mitigation


def _paragraph(name: str, text: str) -> Iterator[str]:
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    for at, line in enumerate(lines):
        yield clean(f"  {name if at == 0 else '':<6} {line}")


def _summary(report: RunReport, shown: int, at_least: RuleSeverity) -> Iterator[str]:
    below = len(report.findings) - shown
    hidden = f", {below} below {at_least.word} not shown" if below else ""
    read = [f"{report.lines:,} lines ({report.bytes / _MIB:,.1f} MiB)"] if report.streams else []
    read += [f"{report.samples:,} rows of telemetry"] if report.samples else []
    yield (
        f"{shown or 'no'} {'finding' if shown == 1 else 'findings'}{hidden}; {report.rules} rules "
        f"over {' and '.join(read) or 'nothing'} in {span(report.seconds)}"
    )
    if report.unparsed:
        yield f"{report.unparsed:,} lines have no time of their own"
    for each in [each for each in report.streams if each.format == "none" and each.lines][:10]:
        yield clean(f"{each.stream}: no time is known in it, so only the order of lines counts")


def _table(rows: Sequence[Sequence[str]]) -> str:
    safe = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
    if is_terminal():
        return _rich(safe)
    every = [list(_COLUMNS), *safe]
    widths = [max(len(row[i]) for row in every) for i in range(len(_COLUMNS))]
    padded = (zip(row, widths, strict=True) for row in every)
    return "\n".join("  ".join(cell.ljust(w) for cell, w in row).rstrip() for row in padded)


def _rich(rows: Sequence[Sequence[str]]) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*_COLUMNS, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    console = Console(file=io.StringIO(), force_terminal=True, width=Console().width)
    console.print(table)
    return str(console.file.getvalue()).rstrip("\n")  # type: ignore[attr-defined]  # a StringIO
