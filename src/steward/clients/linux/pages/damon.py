"""What DAMON monitors on this machine: its sysfs layout, which is only ever read.

Whoever set a kdamond up owns it: a host may watch its own machines with it. Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steward.model.event import Availability

__all__ = ["DamonRegion", "Kdamond", "availability", "read_kdamonds"]

DAMON = Path("/sys/kernel/mm/damon/admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class DamonRegion:
    """One region that a scheme has tried, with how often it was found accessed."""

    start: int
    end: int
    accesses: int  # of so many samples as fit into an aggregation
    age: int  # aggregations since that changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Kdamond:
    """One monitoring thread."""

    number: int
    state: str  # on, off
    operations: tuple[str, ...]  # of its contexts: vaddr, fvaddr, paddr
    targets: tuple[int, ...]  # pids
    sample_s: float
    aggregation_s: float
    regions: tuple[DamonRegion, ...]

    def access_share(self, region: DamonRegion) -> float:
        """Return the share of samples that found a region accessed.

        A region whose counter is above what fits was read while it was reset: it counts as all.
        """
        fitting = self.aggregation_s / self.sample_s if self.sample_s > 0 else 0.0
        return min(1.0, region.accesses / fitting) if fitting > 0 else 0.0


def read_kdamonds(folder: Path = DAMON) -> list[Kdamond]:
    """Return the monitoring threads that there are; files that cannot be read count as nothing."""
    return [_kdamond(each) for each in _numbered(folder / "kdamonds")]


def availability(folder: Path = DAMON) -> Availability:
    """Return whether DAMON tells anything here."""
    if not folder.is_dir():
        return Availability(
            status="missing",
            reason="this kernel has no DAMON",
            hint="writes are told by PAGEMAP_SCAN instead",
        )
    found = read_kdamonds(folder)
    running = [each for each in found if each.state == "on"]
    regions = sum(len(each.regions) for each in running)
    if regions:
        return Availability(status="ok", reason=f"{regions} regions of {len(running)} kdamonds")
    return Availability(
        status="limited",
        reason=f"{len(found)} kdamonds, {len(running)} running, none with regions",
        hint="whoever owns a kdamond starts it and updates its tried regions; steward only reads",
    )


def _kdamond(folder: Path) -> Kdamond:
    contexts = _numbered(folder / "contexts")
    first = contexts[0] / "monitoring_attrs" / "intervals" if contexts else Path("/dev/null")
    return Kdamond(
        number=int(folder.name),
        state=_text(folder / "state"),
        operations=tuple(_text(each / "operations") for each in contexts),
        targets=tuple(
            pid
            for context in contexts
            for target in _numbered(context / "targets")
            if (pid := _number(target / "pid_target")) > 0
        ),
        sample_s=_number(first / "sample_us") / 1e6,
        aggregation_s=_number(first / "aggr_us") / 1e6,
        regions=tuple(
            region
            for context in contexts
            for scheme in _numbered(context / "schemes")
            for place in _numbered(scheme / "tried_regions")
            if (region := _region(place)) is not None
        ),
    )


def _region(folder: Path) -> DamonRegion | None:
    start, end = _number(folder / "start"), _number(folder / "end")
    if end <= start:
        return None
    accesses, age = _number(folder / "nr_accesses"), _number(folder / "age")
    return DamonRegion(start=start, end=end, accesses=max(0, accesses), age=max(0, age))


def _numbered(folder: Path) -> list[Path]:
    try:
        found = [each for each in folder.iterdir() if each.name.isdigit()]
    except OSError:
        return []
    return sorted(found, key=lambda each: int(each.name))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(file: Path) -> int:
    text = _text(file)
    return int(text) if text.lstrip("-").isdigit() else 0
