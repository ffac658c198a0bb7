"""Faults out of the lines of one turn: each once, however often its line is dumped again."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import PurePath

from steward.model.event import LogLine
from steward.model.faults import Fault
from steward.model.frame import steps_of
from steward.observe.faults import fault_of, identity_of
from steward.observe.faults.line_heads import read_heads
from steward.observe.lines import KERNEL

__all__ = ["DIAGNOSIS", "LiveFaults", "Verdict"]

DIAGNOSIS = "steward-diagnose:"
_LITERALS = ("NVRM: ", "SXid (", "PCIe Bus Error", "[Hardware Error]", "EDAC ", "mlx5_core ")
_VERDICT = re.compile(rf"{DIAGNOSIS} (?P<verdict>well|bad) node=(?P<node>\S+)")
_STAMP = re.compile(r"\[ *\d+\.\d{6}\]")
_KERNEL_FILES = ("kern", "dmesg")
_REMEMBERED = 100_000
_OLD_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a diagnosis found, as root wrote it into the kernel's log."""

    node: str
    well: bool
    t_s: float
    text: str = ""


@dataclass(slots=True, kw_only=True)
class LiveFaults:
    """Reads lines of the kernel only: a program can write whatever it likes anywhere else.

    These are the kernel's own lines, and files of the name that syslog gives to its lines.
    """

    any_file: bool = False  # a person chose the files: all of them count
    gpus: dict[tuple[str, str], str] = field(default_factory=dict)  # node, place: UUID or serial
    repeated: int = 0
    old: int = 0  # faults of more than a day ago: they open no case
    untimed: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    swapped: list[str] = field(default_factory=list)  # nodes that have another GPU since
    _seen: OrderedDict[int, None] = field(default_factory=OrderedDict)
    _known_until_s: dict[str, float] = field(default_factory=dict)
    _bus: dict[str, str] = field(default_factory=dict)

    def know(self, node: str, until_s: float) -> None:
        """Take the faults of a node up to a time for known: an earlier run has read them."""
        self._known_until_s[node] = max(until_s, self._known_until_s.get(node, until_s))

    def read(self, lines: Iterable[LogLine], now_s: float) -> list[Fault]:
        """Return what is new, by time. Verdicts and identities are kept."""
        self.verdicts, self.swapped = [], []
        found = [fault for line in lines for fault in self._faults(line, now_s)]
        return sorted(found, key=lambda each: each.t_s)

    def _faults(self, line: LogLine, now_s: float) -> list[Fault]:
        told = DIAGNOSIS in line.text
        if not told and not any(literal in line.text for literal in _LITERALS):
            return []
        placed = _placed(line, now_s, any_file=self.any_file)
        if placed is None or self._is_repeated(placed):
            return []
        if told:
            self._take_verdict(placed)
            return []
        fault = fault_of(placed.text)
        if fault is None:
            self._identify(placed)
            return []
        return self._new(replace(fault, t_s=placed.t_s, node=placed.entity, file=line.source))

    def _new(self, fault: Fault) -> list[Fault]:
        if fault.t_s <= self._known_until_s.get(fault.node, -1.0):
            self.repeated += 1
            return []
        return [fault]

    def _is_repeated(self, line: LogLine) -> bool:
        """Return whether a line was read before: the same text with the same stamp, or time."""
        stamped = _STAMP.search(line.text)
        when = "" if stamped is not None else f"{line.t_s:.0f}"
        key = hash((line.entity, when, line.text))
        if key in self._seen:
            self.repeated += 1
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False

    def _take_verdict(self, line: LogLine) -> None:
        found = _VERDICT.search(line.text)
        if found is not None and found["node"] == line.entity:
            verdict = Verdict(
                node=line.entity, well=found["verdict"] == "well", t_s=line.t_s, text=line.text
            )
            self.verdicts.append(verdict)

    def _identify(self, line: LogLine) -> None:
        said = identity_of(line.text)
        if said is None:
            return
        node = line.entity
        if said.bus:
            self._bus[node] = said.bus
        key = (node, said.bus or self._bus.get(node, ""))
        name = said.uuid or said.serial
        before = self.gpus.get(key)
        if before is not None and before != name and said.uuid and before.startswith("GPU-"):
            self.swapped.append(node)
        if before is None or said.uuid:
            self.gpus[key] = name

    def split_old(self, faults: Iterable[Fault], now_s: float) -> list[Fault]:
        """Return those that are young enough to act on."""
        kept = []
        for each in faults:
            if isnan(each.t_s):
                self.untimed += 1
            elif each.t_s < now_s - _OLD_S:
                self.old += 1
            else:
                kept.append(each)
        return kept


def _placed(line: LogLine, now_s: float, *, any_file: bool) -> LogLine | None:
    """Return a line of the kernel with its node and time; None for what programs wrote."""
    node = steps_of(line.entity)[0]
    if line.source == KERNEL:
        return replace(line, entity=node)
    if not any_file and not PurePath(line.source).name.startswith(_KERNEL_FILES):
        return None
    head = read_heads([line.text.encode()], now_s=now_s)[0]
    since_boot = isnan(head.t_s) or head.t_s < 365 * _OLD_S
    t_s = float("nan") if since_boot else head.t_s  # a dump does not say when it was
    return replace(line, entity=head.host or node, t_s=t_s)
