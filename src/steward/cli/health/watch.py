"""`steward health watch`: incidents as they happen."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import clean, plain, print_note
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.health.watch import LineSource, Watcher
    from steward.model.faults import FaultCase, Incident

__all__ = ["watch"]

STDIN = "-"
LOOK_S = 0.5
SETTLED_S = 60.0  # ahead of the end of what is read: nothing that could come changes it

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH...]",
        help="Logs that grow, or patterns; - is standard input. Without: the kernel's own log.",
    ),
]
Journal = Annotated[
    bool, typer.Option("--journal", help="The kernel's lines of systemd's journal.")
]
FromStart = Annotated[
    bool, typer.Option("--from-start", help="Begin with what the files have already.")
]
Every = Annotated[bool, typer.Option("--all", help="Also what only follows from another incident.")]
Stop = Annotated[
    float, typer.Option("--for", metavar="SECONDS", min=0.0, help="Stop then; 0 is never.")
]
Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="Where lines are from that name no host.")
]


def watch(  # noqa: PLR0913 - what can be typed
    paths: Paths = None,
    *,
    journal: Journal = False,
    from_start: FromStart = False,
    every: Every = False,
    stop: Stop = 0.0,
    node: Node = "",
    as_json: Json = False,
) -> None:
    """Print faults of GPUs and hosts as they happen, each with what should be done about it.

    A fault is printed some seconds late: what it follows from may stand in a later line. Ends with
    its input, after --for, or by Ctrl-C; exits 1 if a GPU or a node should leave service.
    """
    from steward.clients.host import hostname
    from steward.health.watch import Watcher

    where = node or hostname()
    watcher = Watcher(
        sources=_sources(list(paths or ()), journal=journal, from_start=from_start, node=where)
    )
    fatal = 0
    try:
        fatal = _follow(watcher, stop_s=stop, every=every, as_json=as_json)
    except KeyboardInterrupt:
        fatal = sum(each.fatal for each in watcher.book.incidents)
    repeated, old = watcher.lines.repeated, watcher.lines.old
    print_note(
        f"{watcher.read:,} lines, {len(watcher.book.incidents):,} incidents, {repeated:,} lines "
        f"came again, {old:,} faults are more than a day old"
    )
    raise typer.Exit(1 if fatal else 0)


def _sources(paths: list[Path], *, journal: bool, from_start: bool, node: str) -> list[LineSource]:
    from steward.health.watch import FileLog, JournalLog, KernelRing, PipedLog, files_of

    if journal and paths:
        raise StewardError("choose one of them", where="--journal PATH", hint="leave out one")
    if journal:
        return [JournalLog(node=node)]
    if paths == [Path(STDIN)]:
        return [PipedLog(node=node)]
    if paths:
        return [FileLog(files_of(paths), node=node, from_start=from_start)]
    return [KernelRing(node=node)]


def _follow(watcher: Watcher, *, stop_s: float, every: bool, as_json: bool) -> int:
    """Print until the end; return how many incidents take a GPU."""
    end_s = time.monotonic() + stop_s if stop_s else float("inf")
    fatal, over = 0, False
    while True:
        last = over or time.monotonic() >= end_s
        for incident, case in watcher.look(time.time(), ahead_s=SETTLED_S if last else 0.0):
            fatal += incident.fatal
            if incident.primary or every:
                typer.echo(_line(incident, case, as_json=as_json))
        if last:
            return fatal
        over = watcher.over  # one more look settles what came last
        time.sleep(0.0 if over else min(LOOK_S, max(0.0, end_s - time.monotonic())))


def _line(incident: Incident, case: FaultCase, *, as_json: bool) -> str:
    episode = incident.episode
    if as_json:
        record: dict[str, Any] = {
            "t_s": episode.t_s,
            "node": episode.node,
            "gpu": episode.device,
            "code": episode.code,
            "kind": episode.kind.value,
            "meaning": incident.meaning,
            "primary": incident.primary,
            "fatal": incident.fatal,
            "action": incident.remedy.value,
            "why": incident.why,
            "faults_of_node": case.known_faults,
            "together": case.together,
        }
        return json.dumps(plain(record))
    when = datetime.fromtimestamp(episode.t_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    mark = "FATAL" if incident.fatal else "fault" if incident.primary else "after"
    outage = f" ({case.together} nodes at once)" if case.together > 1 else ""
    text = (
        f"{when}  {mark}  {episode.node} {episode.device}: {incident.meaning}{outage} -> "
        f"{incident.remedy.value} ({incident.why})"
    )
    return clean(text)
