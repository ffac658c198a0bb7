"""Logs in, incidents out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from steward.decide.health.fault_remedies import incidents
from steward.errors import StewardError
from steward.learn.faults import episodes, sensitivity, with_causes
from steward.learn.faults.episodes import GAP_S
from steward.model.faults import Incident
from steward.observe.faults import FaultLog, read_faults
from steward.observe.logs import Source

__all__ = ["Scan", "log_files", "scan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What logs hold."""

    log: FaultLog
    incidents: list[Incident]
    gap_s: float
    by_gap: dict[float, int]  # episodes, by the gap that ends one

    @property
    def fatal(self) -> list[Incident]:
        """Return what takes a GPU from its jobs."""
        return [each for each in self.incidents if each.fatal]


def scan(sources: Iterable[Source], *, now_s: float, gap_s: float = GAP_S, node: str = "") -> Scan:
    """Read logs, and say what happened and what should be done about it."""
    log = FaultLog()
    for source in sources:
        read_faults(source, log, node=node, now_s=_written_s(source, now_s))
    found = with_causes(episodes(log.faults, gap_s=gap_s, gpus=log.gpus))
    return Scan(
        log=log,
        incidents=incidents(found),
        gap_s=gap_s,
        by_gap=sensitivity(log.faults, log.gpus),
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
