"""Logs in, incidents out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steward.decide.health.fault_remedies import incidents
from steward.errors import StewardError
from steward.learn.faults import episodes, sensitivity, with_causes
from steward.learn.faults.episodes import GAP_S
from steward.learn.reliability.blackouts import blackouts
from steward.model.faults import (
    Blackout,
    Episode,
    FaultKind,
    GpuSighting,
    Incident,
    Inventory,
    inventory_of,
)
from steward.model.identity import stable_id
from steward.observe.faults import FaultLog, read_source
from steward.observe.logs import Source

__all__ = ["Scan", "log_files", "scan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What logs hold."""

    log: FaultLog
    incidents: list[Incident]
    gap_s: float
    by_gap: dict[float, int]  # episodes, by the gap that ends one
    inventory: Inventory = field(default_factory=Inventory)
    blackouts: list[Blackout] = field(default_factory=list)

    @property
    def fatal(self) -> list[Incident]:
        """Return what takes a GPU from its jobs."""
        return [each for each in self.incidents if each.fatal]

    @property
    def episodes(self) -> list[Episode]:
        """Return the episodes of the incidents."""
        return [each.episode for each in self.incidents]


def scan(
    sources: Iterable[Source],
    *,
    now_s: float,
    gap_s: float = GAP_S,
    node: str = "",
    inventory: Iterable[GpuSighting] = (),
) -> Scan:
    """Read logs, and say what happened and what should be done about it."""
    log = FaultLog()
    for source in sources:
        read_source(source, log, node=node, now_s=now_s, written_s=_written_s(source, now_s))
    known = inventory_of([*inventory, *log.sightings])
    silent = blackouts(log.answers)
    found = with_causes(episodes(log.faults, gap_s=gap_s, inventory=known))
    return Scan(
        log=log,
        incidents=incidents([*found, *(_silence(each) for each in silent)]),
        gap_s=gap_s,
        by_gap=sensitivity(log.faults, known),
        inventory=known,
        blackouts=silent,
    )


def _silence(each: Blackout) -> Episode:
    """Return a silence as an episode: one, however many nodes it has."""
    count = len(each.nodes)
    alone = count == 1
    text = (
        "stopped answering"
        if alone
        else f"{count:,} of {each.answering:,} nodes stopped answering at once"
    )
    return Episode(
        id=stable_id("f", "silence", each.t_s, *each.nodes),
        kind=FaultKind.SILENCE,
        code=None,
        node=each.nodes[0] if alone else "",
        device="" if alone else f"{count} nodes",
        t_s=each.t_s,
        until_s=each.t_s if each.until_s != each.until_s else each.until_s,
        count=count,
        text=text,
        detail={
            "nodes": " ".join(each.nodes[:20]),
            "steady": str(each.steady),
            "answered-again": str(each.back),
        },
    )


def log_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield files; of folders, all that are in them, by name. Raise for what is not there."""
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file())
            if not inside:
                raise StewardError(
                    "there is no file in this folder", where=str(path), hint="name logs"
                )
            yield from inside
        elif path.exists():
            yield path
        else:
            raise StewardError(
                "there is no such file", where=str(path), hint="name logs, or folders of them"
            )


def _written_s(source: Source, now_s: float) -> float:
    """Return when a file was last written to: times without a year lie before that."""
    if not isinstance(source, Path):
        return now_s
    try:
        return min(now_s, source.stat().st_mtime)
    except OSError:
        return now_s
