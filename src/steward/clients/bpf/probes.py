"""Loads the probe sets that are wanted and gives access to what they count.

A set that this kernel cannot run is left out with its reason; the others run.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.columns import NOTES
from steward.clients.bpf.counter_table import CounterTable
from steward.clients.bpf.loader import BpfMap, KernelTypes, LoadedObject, Loader, ProbeSettings
from steward.clients.bpf.probe_sets import PROGRAMS, ProbeSet
from steward.clients.bpf.syscall_table import TABLE_SIZE, call_table
from steward.errors import StewardError

__all__ = ["Probes", "find_refusals"]

_MAX_STRIPES = 8


def find_refusals(sets: Sequence[ProbeSet], types: KernelTypes) -> dict[str, str]:
    """Return the sets whose hooks this kernel lacks, each with the reason; nothing is loaded."""
    refused = {}
    for each in sets:
        missing = [name for name in each.tracepoints if name not in types.arguments]
        if missing:
            refused[each.name] = f"this kernel has no tracepoint {', '.join(missing)}"
    return refused


class Probes:
    """Running probe sets. `refused` has the reason of each set that is not running."""

    def __init__(
        self,
        loader: Loader,
        types: KernelTypes,
        sets: Sequence[ProbeSet],
        *,
        controller: int,
        slots: int,
        programs: Path = PROGRAMS,
    ) -> None:
        self._loader = loader
        self._programs = programs
        self._objects: dict[str, LoadedObject] = {}  # by source
        self._maps: dict[str, BpfMap] = {}  # of all objects together, by name
        self._settings = ProbeSettings(
            slots=slots,
            stripes=min(_MAX_STRIPES, 1 << max(0, (os.cpu_count() or 1) - 1).bit_length()),
            controller=controller,
            switch_has_state=types.arguments.get("sched_switch", 0) > 3,
        )
        self.refused = find_refusals(sets, types)
        for each in sets:
            self._attempt(each, self._load)
        if not self._objects:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.refused.items())
            raise StewardError(f"no probe set can run: {reasons}", where="bpf")
        try:
            self.table = CounterTable(self._maps, slots=slots, stripes=self._settings.stripes)
            self._notes = self._prepare_maps()
        except (StewardError, OSError) as fault:
            self.close()
            raise StewardError(
                f"cannot use the maps of the probes: {fault}", where="bpf"
            ) from fault
        for each in sets:
            self._attempt(each, self._attach)
        self.running = tuple(each for each in sets if each.name not in self.refused)

    def close(self) -> None:
        """Detach and unload everything."""
        for loaded in self._objects.values():
            loaded.close()
        for each in self._maps.values():
            each.close()
        self._objects.clear()
        self._maps.clear()

    def count_ongoing_waits(self) -> None:
        """Count the waits that still last, up to now."""
        if "sched" in self._objects:
            self._objects["sched"].run("count_ongoing")

    def note(self, name: str) -> int:
        """Return how often something of NOTES happened since the start."""
        return int(self._notes[NOTES.index(name)])

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return nanoseconds and runs of each program, while the kernel measures them."""
        return {
            name: cost for loaded in self._objects.values() for name, cost in loaded.costs().items()
        }

    def attach_uprobe(self, program: str, path: str, offset: int, *, at_return: bool) -> None:
        """Start a CUDA program at a function of a library."""
        self._objects["cuda"].attach_uprobe(program, path, offset, at_return=at_return)

    # -- inside ----------------------------------------------------------------------------------

    def _attempt(self, probe_set: ProbeSet, step: Callable[[ProbeSet], None]) -> None:
        """Do one step of starting a set, unless an earlier one failed."""
        if probe_set.name in self.refused:
            return
        try:
            step(probe_set)
        except StewardError as fault:
            self.refused[probe_set.name] = fault.problem

    def _load(self, probe_set: ProbeSet) -> None:
        source = probe_set.source
        if source in self._objects:
            return
        path = self._programs / f"{source}.bpf.o"
        try:
            code = path.read_bytes()
        except OSError as fault:
            raise StewardError(f"cannot read {path}: {fault.strerror}", where="bpf") from fault
        loaded = self._loader.load(source, code, settings=self._settings, maps=self._maps)
        self._objects[source] = loaded
        for name, each in loaded.maps.items():
            if self._maps.setdefault(name, each) is not each:
                each.close()

    def _attach(self, probe_set: ProbeSet) -> None:
        """Start all programs of a set; unload them if one cannot be started."""
        if not probe_set.tracepoints:
            return
        try:
            self._objects[probe_set.source].attach(probe_set.tracepoints)
        except StewardError:
            self._objects.pop(probe_set.source).close()
            raise

    def _prepare_maps(self) -> NDArray[np.uint64]:
        """Fill the table of system calls, and return the memory of the notes."""
        table = struct.pack(f"<{2 * TABLE_SIZE}I", *sum(call_table(platform.machine()), ()))
        self._maps["calls"].memory(len(table))[: len(table)] = table
        memory = self._maps["notes"].memory(8 * len(NOTES))
        return np.frombuffer(memory, dtype=np.uint64, count=len(NOTES))
