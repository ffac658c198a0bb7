"""Loads the probe sets that are wanted and keeps what they count within reach.

A set that this kernel cannot run is left out with its reason; the others go on.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

import numpy as np

from steward.clients.bpf.assembler import Code
from steward.clients.bpf.btf import Btf
from steward.clients.bpf.programs import PROBE_SETS
from steward.clients.bpf.programs.calls import TABLE_SIZE, call_table
from steward.clients.bpf.programs.shared import NOTES, Kit, ProbeSet, Program
from steward.clients.bpf.rows import Rows
from steward.clients.bpf.syscalls import (
    ITERATOR,
    RAW_TRACEPOINT,
    Kernel,
    MapKind,
    ProgramKind,
)
from steward.errors import StewardError, unknown_name

__all__ = ["Probes", "chosen"]

_REQUESTS = 16384  # on their way to disks at one time
_MOST_STRIPES = 8


def chosen(names: Iterable[str]) -> tuple[ProbeSet, ...]:
    """Return the sets of these names, or say which there are."""
    names = list(names)
    for name in names:
        if name not in PROBE_SETS:
            raise unknown_name("probe set", name, PROBE_SETS, where="collector ebpf")
    return tuple(each for each in PROBE_SETS.values() if each.name in names)


class Probes:
    """Running probe sets. `refused` says which are not, and why."""

    def __init__(
        self,
        kernel: Kernel,
        types: Btf,
        sets: tuple[ProbeSet, ...],
        *,
        controller: str,
        machine: str,
        places: int,
    ) -> None:
        self.refused: dict[str, str] = {}
        self._kernel = kernel
        self._open: list[int] = []
        self._programs: dict[str, int] = {}
        self._walk = -1
        sets = tuple(each for each in sets if self._fits(each, types))
        stripes = min(_MOST_STRIPES, 1 << max(0, (os.cpu_count() or 1) - 1).bit_length())
        counters = {name: count for each in sets for name, count in each.counters.items()}
        self.rows = Rows(kernel, counters, slots=places, stripes=stripes)
        self.kit = self._kit(types, sets, controller, machine)
        self.running = tuple(each.name for each in sets if self._start(each))

    def close(self) -> None:
        """Take everything off the kernel."""
        for fd in reversed(self._open):
            self._kernel.close(fd)
        self._open.clear()
        self.rows.close()
        self._walk = -1

    def book_waits(self) -> None:
        """Book the waits that still last, up to now."""
        if self._walk >= 0:
            self._kernel.run_through(self._walk)

    def note(self, name: str) -> int:
        """Return how often something of NOTES happened since the start."""
        return int(self._notes[NOTES.index(name)])

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return nanoseconds and runs of each program, while the kernel measures them."""
        return {name: self._kernel.cost(fd) for name, fd in self._programs.items()}

    def probe(self, code: Code) -> int:
        """Load a program for functions of libraries."""
        fd = self._kept(self._kernel.load(ProgramKind.PROBE, code.name, code.encoded()))
        self._programs[code.name] = fd
        return fd

    def attach_to(self, program: int, path: str, offset: int, *, returning: bool) -> None:
        """Start a loaded program at a place of a file."""
        self._kept(self._kernel.uprobe(program, path, offset, returning=returning))

    # -- inside ----------------------------------------------------------------------------------

    def _fits(self, probe_set: ProbeSet, types: Btf) -> bool:
        try:
            probe_set.check(types)
        except StewardError as fault:
            self.refused[probe_set.name] = fault.problem
            return False
        return True

    def _kit(self, types: Btf, sets: tuple[ProbeSet, ...], controller: str, machine: str) -> Kit:
        remembered = list(dict.fromkeys(word for each in sets for word in each.remembers))
        size = 8 * max(1, len(remembered))
        map_, kept = self._kernel.map, self._kept
        notes = kept(map_(MapKind.ARRAY, "notes", key=4, value=8 * len(NOTES), entries=1))
        memory = self._kernel.shared(notes, 8 * len(NOTES))
        self._notes = np.frombuffer(memory, dtype=np.uint64, count=len(NOTES))
        calls = kept(map_(MapKind.ARRAY, "calls", key=4, value=8, entries=TABLE_SIZE))
        table = struct.pack(f"<{2 * TABLE_SIZE}I", *sum(call_table(machine), ()))
        self._kernel.shared(calls, len(table))[: len(table)] = table
        return Kit(
            types=types,
            machine=machine,
            controller=controller,
            places=self.rows.places,
            tasks=kept(map_(MapKind.TASK_STORAGE, "tasks", key=4, value=size, entries=0)),
            task_offsets={word: 8 * place for place, word in enumerate(remembered)},
            calls=calls,
            requests=kept(map_(MapKind.HASH, "requests", key=8, value=8, entries=_REQUESTS)),
            notes=notes,
        )

    def _start(self, probe_set: ProbeSet) -> bool:
        """Load all programs of a set before the first one runs; take them off if one fails."""
        before = len(self._open)
        try:
            programs = probe_set.build(self.kit)
            loaded = [(each, self._load(each)) for each in programs]
            for program, fd in loaded:
                self._attach(program, fd)
        except StewardError as fault:
            self.refused[probe_set.name] = str(fault.problem)
            for fd in reversed(self._open[before:]):
                self._kernel.close(fd)
            del self._open[before:]
            return False
        self._programs.update({program.name: fd for program, fd in loaded})
        return True

    def _load(self, program: Program) -> int:
        types = self.kit.types
        if program.iterator:
            hook, attach = types.function(f"bpf_iter_{program.iterator}"), ITERATOR
        else:
            hook, attach = types.hook(program.tracepoint), RAW_TRACEPOINT
        code = program.code.encoded()
        return self._kept(
            self._kernel.load(ProgramKind.TRACING, program.name, code, hook=hook, attach=attach)
        )

    def _attach(self, program: Program, fd: int) -> None:
        if program.iterator:
            self._walk = self._kept(self._kernel.iterator(fd))
        else:
            self._kept(self._kernel.attach(fd))

    def _kept(self, fd: int) -> int:
        self._open.append(fd)
        return fd
