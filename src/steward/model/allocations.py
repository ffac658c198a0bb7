"""Which job runs on which GPU, with which share and in which role: the table behind a view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.view import BORROWER, OWNER, AllocationColumns, frozen

__all__ = ["AllocationTable"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NONE = -1


class AllocationTable:
    """Rows of (job slot, GPU row). Reading costs what is there, writing costs what changes.

    `owner`, `borrower` and `users` are kept per GPU, for those who look at GPUs one by one.
    """

    def __init__(self, gpus: int) -> None:
        self.owner: Ints = np.full(gpus, NONE, dtype=np.int64)
        self.borrower: Ints = np.full(gpus, NONE, dtype=np.int64)
        self.users: Ints = np.zeros(gpus, dtype=np.int64)
        self._rows: dict[int, dict[int, int]] = {}  # GPU: job slot: row of the table
        self._free: list[int] = []
        self._job: Ints = np.full(0, NONE, dtype=np.int64)
        self._gpu: Ints = np.full(0, NONE, dtype=np.int64)
        self._role: Ints = np.full(0, NONE, dtype=np.int64)
        self._share: Floats = np.full(0, np.nan)
        self._busy: Floats = np.full(0, np.nan)

    def holds(self, job: int, gpu: int) -> bool:
        """Return whether a job has an allocation on a GPU."""
        return job in self._rows.get(gpu, {})

    def add(self, job: int, gpu: int, *, role: int, share: float = 1.0) -> None:
        """Put a job on a GPU. It must not be there yet."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows.setdefault(gpu, {})[job] = row
        self._job[row], self._gpu[row], self._role[row] = job, gpu, role
        self._share[row], self._busy[row] = share, np.nan
        self._derive(gpu)

    def remove(self, job: int, gpu: int) -> int:
        """Take a job off a GPU and return the role it had; NONE if it was not there."""
        row = self._rows.get(gpu, {}).pop(job, NONE)
        if row == NONE:
            return NONE
        role = int(self._role[row])
        self._job[row] = NONE
        self._free.append(row)
        if role == OWNER and self.owner[gpu] == job:
            self._promote(gpu)
        self._derive(gpu)
        return role

    def use(self, job: int, gpu: int, busy_share: float) -> None:
        """Record how much of a GPU's time a job used."""
        row = self._rows.get(gpu, {}).get(job)
        if row is not None:
            self._busy[row] = busy_share

    def columns(self, row_of: Ints, gpu_busy: Floats) -> AllocationColumns:
        """Return the table with jobs as rows of a view (`row_of`, by slot), in order of GPUs.

        A job that has a GPU for itself uses as much of it as the GPU is busy.
        """
        rows = np.flatnonzero(self._job != NONE)
        rows = rows[np.lexsort((self._job[rows], self._role[rows], self._gpu[rows]))]
        alone = self.users[self._gpu[rows]] == 1
        return AllocationColumns(
            job=frozen(row_of[self._job[rows]]),
            gpu=frozen(self._gpu[rows]),
            share=frozen(self._share[rows]),
            role=frozen(self._role[rows]),
            busy_share=frozen(np.where(alone, gpu_busy[self._gpu[rows]], self._busy[rows])),
        )

    def _promote(self, gpu: int) -> None:
        """Let a borrower that outstays the last owner hold the GPU in its own right."""
        rows = self._rows[gpu]
        if any(self._role[row] == OWNER for row in rows.values()):
            return
        for row in rows.values():
            self._role[row] = OWNER

    def _derive(self, gpu: int) -> None:
        rows = self._rows[gpu]
        self.users[gpu] = len(rows)
        self.owner[gpu] = next((job for job, row in rows.items() if self._role[row] == OWNER), NONE)
        self.borrower[gpu] = next(
            (job for job, row in rows.items() if self._role[row] == BORROWER), NONE
        )

    def _grow(self) -> None:
        size = len(self._job)
        more = max(64, size)
        self._job, self._gpu, self._role = (
            np.concatenate([each, np.full(more, NONE, dtype=np.int64)])
            for each in (self._job, self._gpu, self._role)
        )
        self._share, self._busy = (
            np.concatenate([each, np.full(more, np.nan)]) for each in (self._share, self._busy)
        )
        self._free.extend(range(size + more - 1, size - 1, -1))
