"""`steward health scan`: incidents in kernel logs."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_note, print_table, print_warnings, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.health.scan import Scan
    from steward.model.faults import Incident
    from steward.observe.logs import Source

__all__ = ["scan"]

STDIN = "-"
_YEAR_S = 365 * 86_400.0  # a time in the first year of all times counts from the machine's start

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Kernel logs, packed or not: dmesg, syslog, journalctl (-o short-iso or json); "
        "folders of them; - is standard input.",
    ),
]
Gap = Annotated[
    float,
    typer.Option("--gap", metavar="SECONDS", help="Faults no further apart are one incident."),
]
Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="Where lines are from that name no host.")
]
Every = Annotated[bool, typer.Option("--all", help="Also what only follows from another incident.")]


def scan(
    paths: Paths,
    *,
    gap: Gap = 5.0,
    node: Node = "",
    every: Every = False,
    as_json: Json = False,
) -> None:
    """Find faults of GPUs and hosts in logs, with their causes and what should be done.

    Exits 1 if a GPU or a node should be taken out of service for one.
    """
    from steward.health.scan import log_files
    from steward.health.scan import scan as scanned

    if not gap >= 0:
        raise StewardError(f"a gap of {gap:g} s is not possible", where="--gap", hint="0 or more")
    sources: list[Source] = [sys.stdin.buffer] if paths == [Path(STDIN)] else list(log_files(paths))
    with waiting("reading"):
        found = scanned(sources, now_s=time.time(), gap_s=gap, node=node)
    print_warnings(found.log.notes)
    if as_json:
        print_json(record(found))
    else:
        _print(found, every=every)
    raise typer.Exit(1 if found.fatal else 0)


def record(found: Scan) -> dict[str, object]:
    """Return the whole answer as JSON values."""
    log = found.log
    return {
        "incidents": [_row(each) for each in found.incidents],
        "summary": {
            "lines": log.lines,
            "bytes": log.bytes,
            "faults": len(log.faults),
            "repeated_lines": log.repeated,
            "faults_without_time": log.untimed,
            "incidents": len(found.incidents),
            "primary": sum(each.primary for each in found.incidents),
            "fatal": len(found.fatal),
            "gap_s": found.gap_s,
            "incidents_by_gap_s": {f"{gap:g}": count for gap, count in found.by_gap.items()},
        },
    }


def _row(each: Incident) -> dict[str, object]:
    episode = each.episode
    return {
        "id": episode.id,
        "kind": episode.kind.value,
        "code": episode.code,
        "gpu": episode.device,
        "node": episode.node,
        "t_s": episode.t_s,
        "until_s": episode.until_s,
        "count": episode.count,
        "primary": each.primary,
        "cause": episode.cause or None,
        "fatal": each.fatal,
        "action": each.remedy.value,
        "why": each.why,
        "meaning": each.meaning,
        "part": each.part.value,
        "detail": dict(episode.detail),
        "text": episode.text,
        "places": list(episode.places),
    }


def _print(found: Scan, *, every: bool) -> None:
    shown = [each for each in found.incidents if every or each.primary]
    columns = ("when", "node", "GPU", "what", "times", "action", "why")
    rows = [
        (
            _when(each.episode.t_s),
            each.episode.node,
            each.episode.device,
            each.meaning,
            f"{each.episode.count:,}",
            each.remedy.value,
            each.why,
        )
        for each in shown
    ]
    print_table(columns, rows, empty="no fault of hardware in these logs")
    log = found.log
    secondary = sum(not each.primary for each in found.incidents)
    said = f"{log.lines:,} lines, {len(log.faults):,} faults, {len(found.incidents):,} incidents"
    if secondary:
        said += f", of which {secondary:,} follow from others (--all shows them)"
    if log.repeated:
        said += f"; {log.repeated:,} lines were dumped more than once and count once"
    if log.untimed:
        said += f"; {log.untimed:,} faults are in lines without a time"
    print_note(said)


def _when(t_s: float) -> str:
    if isnan(t_s):
        return "unknown"
    if t_s < _YEAR_S:
        return f"start + {t_s:,.0f} s"
    return datetime.fromtimestamp(t_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
