"""Reads energy (RAPL), temperatures (hwmon) and memory errors (EDAC) where there are any."""

from __future__ import annotations

import math
import re
from pathlib import Path

from steward.clients.linux.files import (
    UNREADABLE,
    AbsentError,
    OpenFile,
    folders_in,
    number_in,
    numbers_of,
)
from steward.model.layout import Block

__all__ = ["Energy", "Errors", "Temperatures"]

_PROCESSOR_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


class Energy:
    """Energy of processors and of memory, summed over sockets: /sys/class/powercap.

    A zone starts again from nothing at its own limit, every few minutes on a busy machine.
    """

    changed = False
    blocks = (Block(entity="", names=("powercap.package", "powercap.dram")),)

    def __init__(self, sys: Path) -> None:
        kinds = [(folder, _kind(folder)) for folder in folders_in(sys / "class/powercap")]
        self._zones = [_Zone(folder, kind) for folder, kind in kinds if kind is not None]
        if not self._zones:
            raise AbsentError("nothing in /sys/class/powercap")

    def read(self) -> list[float]:
        sums = [math.nan, math.nan]
        for zone in self._zones:
            used = zone.used()
            sums[zone.kind] = used if math.isnan(sums[zone.kind]) else sums[zone.kind] + used
        return sums


class _Zone:
    """One energy counter, carried on beyond its limit."""

    __slots__ = ("_before", "_file", "_limit", "_used", "kind")

    def __init__(self, folder: Path, kind: int) -> None:
        self.kind = kind
        self._file = OpenFile(folder / "energy_uj")
        self._limit = number_in(folder / "max_energy_range_uj")
        self._before = self._file.number()  # only root may read it: raises
        self._used = 0.0

    def used(self) -> float:
        """Return the energy since this was made, NaN while it cannot be read."""
        (now,) = numbers_of([self._file])
        if math.isnan(now):
            return now
        grown, self._before = now - self._before, now
        self._used += grown if grown >= 0 else grown + self._limit
        return self._used


def _kind(zone: Path) -> int | None:
    try:
        name = (zone / "name").read_text(encoding="utf-8").strip()
    except UNREADABLE:
        return None
    if re.fullmatch(r"package-\d+(-die-\d+)?", name):
        return 0
    return 1 if name == "dram" else None


class Temperatures:
    """The hottest processor and the hottest chip of all: /sys/class/hwmon.

    Of each chip the first sensor is read, which is that of the whole: reading every core would
    wake every core.
    """

    changed = False
    blocks = (Block(entity="", names=("hwmon.cpu", "hwmon.hottest")),)

    def __init__(self, sys: Path) -> None:
        chips = [
            (_text(chip / "name"), OpenFile(chip / "temp1_input"))
            for chip in folders_in(sys / "class/hwmon")
            if (chip / "temp1_input").exists()
        ]
        if not chips:
            raise AbsentError("nothing in /sys/class/hwmon")
        self._files = [file for _, file in chips]
        self._processors = [name in _PROCESSOR_CHIPS for name, _ in chips]

    def read(self) -> list[float]:
        values = numbers_of(self._files)
        cpu = [value for value, is_cpu in zip(values, self._processors, strict=True) if is_cpu]
        return [_hottest(cpu), _hottest(values)]


class Errors:
    """Errors of memory that were corrected, and those that were not: EDAC, over all controllers."""

    changed = False
    blocks = (Block(entity="", names=("edac.ce_count/s", "edac.ue_count/s")),)

    def __init__(self, sys: Path) -> None:
        folders = [
            folder
            for folder in folders_in(sys / "devices/system/edac/mc")
            if (folder / "ce_count").exists()
        ]
        if not folders:
            raise AbsentError("nothing in /sys/devices/system/edac/mc")
        self._files = [
            [OpenFile(folder / name) for folder in folders] for name in ("ce_count", "ue_count")
        ]

    def read(self) -> list[float]:
        return [sum(numbers_of(files)) for files in self._files]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _hottest(values: list[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
