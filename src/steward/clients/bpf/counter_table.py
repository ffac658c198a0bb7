"""Reads the rows of counters that programs fill, and adds them up by group (a job, a disk).

A slot's owner is a cgroup or a disk. When the owner is gone, its counts are added to the total of
those that are gone, so that totals never fall, and its slot is free for another owner.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.columns import WIDTH
from steward.clients.bpf.loader import BpfMap

__all__ = ["CounterTable"]

Counts = NDArray[np.uint64]
Totals = NDArray[np.float64]
GroupsByOwner = Mapping[int, str | None]  # None: the owner exists and belongs to no group


class CounterTable:
    """Rows of counters, one per slot and stripe, added up by group.

    `groups` are those that have counters now, in order.
    """

    def __init__(self, maps: Mapping[str, BpfMap], *, slots: int, stripes: int) -> None:
        self.groups: tuple[str, ...] = ()
        self._slots, self._free = maps["slots"], maps["free_slots"]
        self._max_owners = 16 * slots
        memory = maps["rows"].memory(8 * WIDTH * slots * stripes)
        flat = np.frombuffer(memory, dtype=np.uint64, count=WIDTH * slots * stripes)
        self.rows = flat.reshape(stripes, slots, WIDTH)
        self._group: dict[int, str] = {}  # of each slot that belongs to one
        self._returned: dict[str, Counts] = {}  # counts of slots that a group no longer has
        self._leaving: list[int] = []
        self._departed = np.zeros(WIDTH, dtype=np.uint64)  # counts of groups that are gone
        self._index()
        self._slots.update(_key(0), _slot(0))
        for slot in range(slots - 1, 0, -1):  # low ones are taken first: fewer rows to read
            self._free.update(b"", _slot(slot))

    def reserve_shared(self, owners: GroupsByOwner) -> None:
        """Assign slot 0 to owners without a group, before they take a slot of their own."""
        for owner, group in owners.items():
            if group is None:
                self._slots.update(_key(owner), _slot(0))

    def refresh(self, list_owners: Callable[[], GroupsByOwner]) -> None:
        """Update which slot belongs to which group, and free slots of owners that are gone."""
        for slot in self._leaving:
            self._release(slot)
        self._leaving = []
        taken = self._taken()  # before listing: an owner that comes in between keeps its slot
        known = list_owners()
        for owner, slot in taken.items():
            self._assign(owner, slot, known)
        self._drop_groups({group for group in known.values() if group is not None})
        self.reserve_shared({owner: known[owner] for owner in known.keys() - taken.keys()})
        self._index()

    def totals(self, columns: slice, *, out: Totals | None = None) -> Totals:
        """Return a row per group, in order of `groups`, and one for all together at the end.

        Only these columns are read: everything that is touched comes from memory, because other
        work has emptied the caches since the last reading. For the same reason each call counts.
        """
        rows = np.add.reduce(self.rows[:, : self._used, columns], axis=0, dtype=np.float64)
        totals: Totals = np.add(self._membership @ rows, self._past[:, columns], out=out)
        return totals

    # -- inside ----------------------------------------------------------------------------------

    def _taken(self) -> dict[int, int]:
        raw = self._slots.items(key=8, value=4, entries=self._max_owners)
        taken = {int.from_bytes(k, "little"): int.from_bytes(v, "little") for k, v in raw.items()}
        taken.pop(0, None)
        return taken

    def _assign(self, owner: int, slot: int, known: GroupsByOwner) -> None:
        group = known.get(owner)
        if group is not None and slot:
            self._group[slot] = group
        elif group is not None or owner not in known:
            # gone; or still in the shared slot, because none was free: it may try again
            self._slots.delete(_key(owner))
            if slot:
                self._release(slot)
        elif slot:  # a program may be writing to the row at this moment: release it next time
            self._slots.update(_key(owner), _slot(0))
            self._leaving.append(slot)

    def _release(self, slot: int) -> None:
        """Empty a slot that no program writes to any more, and free it."""
        counted = self.rows[:, slot].sum(axis=0)
        group = self._group.pop(slot, None)
        if group is None:
            self._departed += counted
        else:
            self._returned[group] = self._returned.get(group, 0) + counted
        self.rows[:, slot] = 0
        self._free.update(b"", _slot(slot))

    def _index(self) -> None:
        """Compute once what every reading needs: the slots and past counts of each group.

        Sums are those of a matrix product, in floating point: exact up to 2**53, and a hundred
        threads need a day of waiting to get there in nanoseconds.
        """
        self.groups = tuple(sorted({*self._group.values(), *self._returned}))
        self._used = 1 + max((*self._group, *self._leaving, 0))
        index = {group: row for row, group in enumerate(self.groups)}
        self._membership = np.zeros((len(self.groups) + 1, self._used))
        self._membership[-1] = 1.0
        for slot, group in self._group.items():
            self._membership[index[group], slot] = 1.0
        nothing = np.zeros(WIDTH, dtype=np.uint64)
        past = [self._returned.get(group, nothing) for group in self.groups]
        self._past = np.array([*past, sum(past, self._departed)], dtype=np.float64)

    def _drop_groups(self, present: set[str]) -> None:
        """Drop groups that are gone altogether; their counts stay in the total."""
        for group in self._returned.keys() - present:
            self._departed += self._returned.pop(group)


def _key(owner: int) -> bytes:
    return struct.pack("<Q", owner)


def _slot(slot: int) -> bytes:
    return struct.pack("<I", slot)
