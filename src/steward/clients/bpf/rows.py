"""Rows of counters that the kernel fills and this process reads: slots, owners, totals.

A slot's owner is a cgroup or a disk. When it is gone, what it counted goes to the total of those
that are gone, so that totals never fall, and its slot can be taken again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.programs.shared import Places
from steward.clients.bpf.syscalls import Kernel, MapKind

__all__ = ["HISTOGRAM", "Rows"]

HISTOGRAM = ".histogram"  # how the name of a counter with many numbers ends

Numbers = NDArray[np.uint64]
Totals = NDArray[np.float64]


class Owners(Protocol):
    """Says to which group (a job, a disk) an owner belongs now; None: to nobody in particular."""

    def __call__(self) -> Mapping[int, str | None]: ...


class Rows:
    """Rows of counters, added up by group."""

    def __init__(
        self, kernel: Kernel, counters: Mapping[str, int], *, slots: int, stripes: int
    ) -> None:
        self.groups: tuple[str, ...] = ()  # who has counters now, in order
        self.width = max(1, sum(counters.values()))
        self.columns = _columns(counters)
        plain = sum(n for name, n in counters.items() if not name.endswith(HISTOGRAM))
        self.plain, self.buckets = slice(0, plain), slice(plain, sum(counters.values()))
        self.count = slots
        self._kernel = kernel
        self._most = 16 * slots  # owners without a slot of their own are in the map too
        self._slots = kernel.map(MapKind.HASH, "slots", key=8, value=4, entries=self._most)
        self._free = kernel.map(MapKind.STACK, "free", key=0, value=4, entries=slots)
        size = 8 * self.width
        self._counters = kernel.map(
            MapKind.ARRAY, "rows", key=4, value=size, entries=slots * stripes
        )
        memory = kernel.shared(self._counters, size * slots * stripes)
        flat = np.frombuffer(memory, dtype=np.uint64, count=self.width * slots * stripes)
        self._rows = flat.reshape(stripes, slots, self.width)
        self._group: dict[int, str] = {}  # of each slot that is somebody's
        self._gone: dict[str, Numbers] = {}  # what slots of a group counted that it has no more
        self._leaving: list[int] = []
        self._nobodys = np.zeros(self.width, dtype=np.uint64)  # of those who are gone for good
        self._arrange()
        self.places = Places(
            slots=self._slots,
            free=self._free,
            counters=self._counters,
            count=slots,
            stripes=stripes,
            offsets={key: 8 * place.start for key, place in self.columns.items()},
        )
        kernel.update(self._slots, _key(0), _slot(0))
        for slot in range(slots - 1, 0, -1):  # low ones first: fewer rows to read
            kernel.update(self._free, b"", _slot(slot))

    def close(self) -> None:
        for fd in (self._slots, self._free, self._counters):
            self._kernel.close(fd)

    def prepare(self, owners: Mapping[int, str | None]) -> None:
        """Keep slots free of those who belong to nobody, before they take one."""
        for owner, group in owners.items():
            if group is None:
                self._kernel.update(self._slots, _key(owner), _slot(0))

    def refresh(self, owners: Owners) -> None:
        """Learn whose slots are whose now, and take back those of owners that are gone."""
        for slot in self._leaving:
            self._take_back(slot)
        self._leaving = []
        taken = self._taken()  # before asking who is there: who comes in between is kept
        known = owners()
        for owner, slot in taken.items():
            self._settle(owner, slot, known)
        self._forget({group for group in known.values() if group is not None})
        self.prepare({owner: known[owner] for owner in known.keys() - taken.keys()})
        self._arrange()

    def totals(self, part: slice) -> Totals:
        """Return a row per group, in order of `groups`, and one for all together at the end.

        `part` is which of the columns: all that is touched has to come from memory anew, after the
        work of others.
        """
        rows: Numbers = np.add.reduce(self._rows[:, : self._used, part], axis=0)
        totals: Totals = self._belongs @ rows.astype(np.float64)
        totals += self._past[:, part]
        return totals

    # -- inside ----------------------------------------------------------------------------------

    def _taken(self) -> dict[int, int]:
        raw = self._kernel.items(self._slots, key=8, value=4, entries=self._most)
        taken = {int.from_bytes(k, "little"): int.from_bytes(v, "little") for k, v in raw.items()}
        taken.pop(0, None)
        return taken

    def _settle(self, owner: int, slot: int, known: Mapping[int, str | None]) -> None:
        group = known.get(owner)
        if group is not None and slot:
            self._group[slot] = group
        elif group is not None or owner not in known:
            # gone; or without a slot, because there was none or it was nobody's: it may try again
            self._kernel.delete(self._slots, _key(owner))
            if slot:
                self._take_back(slot)
        elif slot:  # a program may be writing to it this very moment
            self._kernel.update(self._slots, _key(owner), _slot(0))
            self._leaving.append(slot)

    def _take_back(self, slot: int) -> None:
        """Empty a slot that nobody writes to any more, and let another have it."""
        counted = self._rows[:, slot].sum(axis=0)
        group = self._group.pop(slot, None)
        if group is None:
            self._nobodys += counted
        else:
            self._gone[group] = self._gone.get(group, 0) + counted
        self._rows[:, slot] = 0
        self._kernel.update(self._free, b"", _slot(slot))

    def _arrange(self) -> None:
        """Work out once what every reading needs: which slots, and what of the past, a group has.

        Sums are those of a matrix product, in floating point: exact up to 2**53, and a hundred
        threads need a day of waiting to get there in nanoseconds.
        """
        self.groups = tuple(sorted({*self._group.values(), *self._gone}))
        self._used = 1 + max((*self._group, *self._leaving, 0))
        self._belongs = np.zeros((len(self.groups) + 1, self._used))
        self._belongs[-1] = 1.0
        for slot, group in self._group.items():
            self._belongs[self.groups.index(group), slot] = 1.0
        nothing = np.zeros(self.width, dtype=np.uint64)
        past = [self._gone.get(group, nothing) for group in self.groups]
        self._past = np.array([*past, sum(past, self._nobodys)], dtype=np.float64)

    def _forget(self, here: set[str]) -> None:
        """Forget groups that are gone altogether; what they counted stays in the total."""
        for group in self._gone.keys() - here:
            self._nobodys += self._gone.pop(group)


def _columns(counters: Mapping[str, int]) -> dict[str, slice]:
    """Give each counter its place: histograms last, for they are read less often."""
    columns, at = {}, 0
    for name in sorted(counters, key=lambda name: name.endswith(HISTOGRAM)):
        columns[name] = slice(at, at + counters[name])
        at += counters[name]
    return columns


def _key(owner: int) -> bytes:
    return struct.pack("<Q", owner)


def _slot(slot: int) -> bytes:
    return struct.pack("<I", slot)
