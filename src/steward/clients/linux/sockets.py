"""Reads the memory of each socket (NUMA node): /sys/devices/system/node."""

from __future__ import annotations

import math
import re
from pathlib import Path

from steward.clients.linux.files import UNREADABLE, AbsentError, KeyedFile, folders_in
from steward.model.layout import Block

__all__ = ["Sockets"]

_MEMORY = ("MemTotal", "MemFree", "FilePages", "AnonPages")
_PAGES = ("numa_hit", "numa_miss", "numa_foreign", "other_node")
_NAMES = (*(f"numa.{key}" for key in _MEMORY), *(f"numastat.{key}/s" for key in _PAGES))


class Sockets:
    """Memory by socket, and how often a page was not got where it was wanted."""

    changed = False

    def __init__(self, sys: Path) -> None:
        folders = [
            folder
            for folder in folders_in(sys / "devices/system/node")
            if re.fullmatch(r"node\d+", folder.name)
        ]
        if not folders:
            raise AbsentError("nothing in /sys/devices/system/node")
        self._files = [
            KeyedFile(folder / file, keys)
            for folder in folders
            for file, keys in (
                ("meminfo", [f"{key}:".encode() for key in _MEMORY]),
                ("numastat", [key.encode() for key in _PAGES]),
            )
        ]
        self.blocks = tuple(
            Block(entity=f"/numa{folder.name.removeprefix('node')}", names=_NAMES)
            for folder in folders
        )

    def read(self) -> list[float]:
        values: list[float] = []
        for file in self._files:
            try:
                values += file.numbers()
            except UNREADABLE:
                values += [math.nan] * 4
        return values
