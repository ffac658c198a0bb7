"""The rows of jobs behind a view: one slot per job that waits or runs, reused when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from steward.model.identity import JobId, TenantId
from steward.model.job import Job, JobState
from steward.model.view import QUEUED, RUNNING, JobColumns, frozen

__all__ = ["JOB_LEVELS", "PROGRESS_LEVELS", "JobRows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NONE = -1
# what the host side of a job says, and the column that it goes to
JOB_LEVELS = {
    "job.cpu.busy_cores": "cpu_busy_cores",
    "job.disk.read_bytes_per_s": "read_bytes_per_s",
    "job.disk.write_bytes_per_s": "write_bytes_per_s",
}
# what its training reports, and the column that it goes to
PROGRESS_LEVELS = {"job.progress.step_count": "step_count"}
_FLOATS = (
    "gpu_memory_bytes",
    "memory_bytes",
    "submit_s",
    "start_s",
    "deadline_s",
    "save_s",
    "restore_s",
    "ran_s",
    "queued_s",
    "began_s",
    *JOB_LEVELS.values(),
    *PROGRESS_LEVELS.values(),
    "step_s",
    "max_slowdown_share",
    "seen_s",
)
_INTS = ("tenant", "state", "gpus", "cpus", "model_mask", "priority", "stops")


class JobRows:
    """Columns with room to grow. Writing a job costs the same however many there are."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self._slot: dict[JobId, int] = {}
        self._free: list[int] = []
        self._ids = np.empty(0, dtype=object)
        self._floats = {name: np.empty(0) for name in _FLOATS}
        self._ints = {name: np.empty(0, dtype=np.int64) for name in _INTS}
        self._checkpointable = np.empty(0, dtype=bool)
        self._held = np.empty(0, dtype=bool)
        self._endable = np.empty(0, dtype=bool)
        self._live = np.empty(0, dtype=bool)

    def slot(self, job: JobId) -> int:
        """Return where a job's row is, NONE when there is none."""
        return self._slot.get(job, NONE)

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self.jobs.values()))

    def put(self, job: Job, *, tenant: int, model_mask: int) -> int:
        """Write a job's row, new or not, and return its slot."""
        self.jobs[job.id] = job
        slot = self._slot.get(job.id)
        if slot is None:
            slot = self._slot[job.id] = self._new_slot()
        floats, ints = self._floats, self._ints
        self._ids[slot] = job.id
        self._live[slot] = True
        self._checkpointable[slot] = job.checkpointing.able
        self._held[slot] = job.held
        self._endable[slot] = job.yielding.endable
        ints["tenant"][slot] = tenant
        ints["state"][slot] = RUNNING if job.state is JobState.RUNNING else QUEUED
        ints["gpus"][slot] = job.shape.gpus
        ints["cpus"][slot] = job.shape.cpus
        ints["model_mask"][slot] = model_mask
        ints["priority"][slot] = job.priority
        floats["gpu_memory_bytes"][slot] = job.shape.gpu_memory_bytes
        floats["memory_bytes"][slot] = job.shape.memory_bytes
        floats["submit_s"][slot] = job.submit_s
        floats["start_s"][slot] = np.nan if job.start_s is None else job.start_s
        floats["deadline_s"][slot] = np.nan if job.deadline_s is None else job.deadline_s
        floats["save_s"][slot] = job.checkpointing.save_s
        floats["restore_s"][slot] = job.checkpointing.restore_s
        floats["max_slowdown_share"][slot] = job.max_slowdown_share
        past = job.past
        ints["stops"][slot] = past.stops
        floats["ran_s"][slot] = past.ran_s
        floats["queued_s"][slot] = past.queued_s
        floats["began_s"][slot] = np.nan if past.began_s is None else past.began_s
        return slot

    def forget(self, job: JobId) -> None:
        """Free the row of a job that ended."""
        slot = self._slot.pop(job)
        del self.jobs[job]
        self._live[slot] = False
        self._free.append(slot)

    def retenant(self, rows: Mapping[TenantId, int]) -> None:
        """Point all jobs to their tenants' rows, after those have changed."""
        for id_, slot in self._slot.items():
            self._ints["tenant"][slot] = rows.get(self.jobs[id_].tenant, NONE)

    def hear(self, names: list[str], samples: Mapping[str, Floats], t_s: Floats) -> None:
        """Take in what the host sides of jobs and their trainings report (entities `job:ID`)."""
        groups = (JOB_LEVELS, "seen_s"), (PROGRESS_LEVELS, "step_s")
        heard = [(levels, time) for levels, time in groups if any(x in samples for x in levels)]
        if not heard:
            return
        slots = cast("Mapping[str, int]", self._slot)
        slot = np.array(
            [slots.get(name[4:], NONE) if name[:4] == "job:" else NONE for name in names]
        )
        told = [_is_told(levels, samples, len(names)) for levels, _ in heard]
        for (levels, time), mine in zip(heard, told, strict=True):
            # A row that reports nothing at all is a sensor that failed: unknown from now on.
            at = np.flatnonzero((slot >= 0) & (mine | ~np.any(told, axis=0)))
            at = at[~(t_s[at] < self._floats[time][slot[at]])]  # late: known better
            for metric, column in levels.items():
                if metric in samples:
                    self._floats[column][slot[at]] = samples[metric][at]
            self._floats[time][slot[at]] = t_s[at]

    def columns(self, reserved: Iterable[JobId]) -> tuple[JobColumns, Ints]:
        """Return read-only columns, and for each slot its row in them (the last entry is NONE).

        Held jobs are reserved, and those that are named.
        """
        kept = self._held.copy()
        kept[[self._slot[job] for job in reserved if job in self._slot]] = True
        slots = np.flatnonzero(self._live)
        row_of = np.full(len(self._live) + 1, NONE, dtype=np.int64)
        row_of[slots] = np.arange(len(slots))
        ids = self._ids[slots]
        columns = JobColumns(
            ids=frozen(ids),
            checkpointable=frozen(self._checkpointable[slots]),
            endable=frozen(self._endable[slots]),
            reserved=frozen(kept[slots]),
            **{name: frozen(values[slots]) for name, values in self._ints.items()},
            **{name: frozen(values[slots]) for name, values in self._floats.items()},
        )
        return columns, row_of

    def _new_slot(self) -> int:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        for values in self._floats.values():
            values[slot] = np.nan
        return slot

    def _grow(self) -> None:
        size = len(self._live)
        more = max(256, size)
        self._floats = {
            name: np.concatenate([values, np.full(more, np.nan)])
            for name, values in self._floats.items()
        }
        self._ints = {
            name: np.concatenate([values, np.full(more, NONE, dtype=np.int64)])
            for name, values in self._ints.items()
        }
        self._ids = np.concatenate([self._ids, np.full(more, "", dtype=object)])
        self._checkpointable = np.concatenate([self._checkpointable, np.zeros(more, dtype=bool)])
        self._held = np.concatenate([self._held, np.zeros(more, dtype=bool)])
        self._endable = np.concatenate([self._endable, np.zeros(more, dtype=bool)])
        self._live = np.concatenate([self._live, np.zeros(more, dtype=bool)])
        self._free.extend(range(size + more - 1, size - 1, -1))


def _is_told(
    levels: Mapping[str, str], samples: Mapping[str, Floats], rows: int
) -> NDArray[np.bool_]:
    """Return for each row whether it has any of these metrics: others are of another sensor."""
    found = np.zeros(rows, dtype=bool)
    for metric in levels:
        if metric in samples:
            found |= ~np.isnan(samples[metric])
    return found
