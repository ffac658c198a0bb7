"""Reads energy (RAPL), temperatures (hwmon) and memory errors (EDAC) where there are any."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from steward.clients.linux.files import (
    UNREADABLE,
    OpenFile,
    Row,
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
        self._zones: list[tuple[int, OpenFile, float]] = []
        for folder in folders_in(sys / "class/powercap"):
            kind = _kind(folder)
            file = OpenFile(folder / "energy_uj")
            if kind is not None:
                file.number()  # only root may read it: say so by raising
                self._zones.append((kind, file, number_in(folder / "max_energy_range_uj")))
        if not self._zones:
            raise FileNotFoundError(sys / "class/powercap")
        self._before = [math.nan] * len(self._zones)
        self._used = [0.0] * len(self._zones)

    def read(self, into: Row) -> None:
        into[:] = np.nan
        for i, now in enumerate(numbers_of([file for _, file, _ in self._zones])):
            kind, _, limit = self._zones[i]
            grown = now - self._before[i]
            if grown < 0:
                grown += limit
            self._before[i] = now
            self._used[i] += 0.0 if math.isnan(grown) else grown
            known = self._used[i] if not math.isnan(now) else math.nan
            into[kind] = known if math.isnan(into[kind]) else into[kind] + known


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

    Of each chip the first sensor is read, which is that of the whole: asking every core would
    wake every core.
    """

    changed = False
    blocks = (Block(entity="", names=("hwmon.cpu", "hwmon.hottest")),)

    def __init__(self, sys: Path) -> None:
        chips = [
            (_word(chip / "name"), OpenFile(chip / "temp1_input"))
            for chip in folders_in(sys / "class/hwmon")
            if (chip / "temp1_input").exists()
        ]
        if not chips:
            raise FileNotFoundError(sys / "class/hwmon")
        self._files = [file for _, file in chips]
        self._processors = [name in _PROCESSOR_CHIPS for name, _ in chips]

    def read(self, into: Row) -> None:
        values = numbers_of(self._files)
        cpu = [value for value, is_cpu in zip(values, self._processors, strict=True) if is_cpu]
        into[0], into[1] = _hottest(cpu), _hottest(values)


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
            raise FileNotFoundError(sys / "devices/system/edac/mc")
        self._files = [
            [OpenFile(folder / name) for folder in folders] for name in ("ce_count", "ue_count")
        ]

    def read(self, into: Row) -> None:
        into[:] = [sum(numbers_of(files)) for files in self._files]


def _word(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _hottest(values: list[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
