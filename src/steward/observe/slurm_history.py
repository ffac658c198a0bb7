"""Ended jobs of Slurm's accounting, for estimators that learn from them: each once, oldest first.

Accounting is read a day at a time, one day at each poll, so that months of history cost a busy
slurmdbd no more than a poll. How far it was read outlives a restart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steward.clients.slurm import SlurmError, SlurmJob, SlurmReader

__all__ = ["DAY_S", "PastJob", "SlurmHistory", "past_jobs"]

DAY_S = 86_400.0
RETRY_S = 600.0  # a site without accounting is asked so often whether it has some now
_AGAIN = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL"})  # may be followed by a run


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job that has ended, with all its runs, oldest first.

    Its `id` is Slurm's where no other job has that; Slurm gives ids again, and then the time of its
    submission tells it from the others: `17@1794980333`.
    """

    id: str
    runs: tuple[SlurmJob, ...]


def past_jobs(
    rows: Iterable[SlurmJob], *, from_s: float, to_s: float, listed: Mapping[str, float]
) -> list[PastJob]:
    """Return the jobs that ended in (`from_s`, `to_s`], by their ends.

    `listed` are the jobs that the queue has, with their times of submission: these are known.
    """
    by_id: defaultdict[str, list[SlurmJob]] = defaultdict(list)
    for row in sorted(rows, key=lambda each: each.submit_s):
        by_id[row.id].append(row)
    found = [
        PastJob(
            id=id_ if is_last and id_ not in listed else f"{id_}@{runs[0].submit_s:.0f}", runs=runs
        )
        for id_, several in by_id.items()
        for runs, is_last in _by_job(several)
        if runs[-1].submit_s != listed.get(id_) and _ended_in(runs[-1], from_s, to_s)
    ]
    return sorted(found, key=lambda each: (each.runs[-1].end_s or 0.0, each.id))


def _by_job(rows: list[SlurmJob]) -> list[tuple[tuple[SlurmJob, ...], bool]]:
    """Split the runs of one id by the jobs that had it; True for the last one."""
    jobs: list[list[SlurmJob]] = [[]]
    for row in rows:
        before = jobs[-1]
        if before and _AGAIN.isdisjoint(before[-1].states):
            jobs.append([])
        jobs[-1].append(row)
    return [(tuple(runs), i == len(jobs) - 1) for i, runs in enumerate(jobs)]


def _ended_in(row: SlurmJob, from_s: float, to_s: float) -> bool:
    waits_again = "REQUEUED" in row.states  # its next run is in the queue
    return not waits_again and row.end_s is not None and from_s < row.end_s <= to_s


class SlurmHistory:
    """Reads what accounting has from `lookback_s` before the first poll up to that poll."""

    def __init__(self, slurm: SlurmReader, *, lookback_s: float) -> None:
        self.read_to_s: float | None = None  # all that ended until then is known
        self._slurm = slurm
        self._lookback_s = lookback_s
        self._until_s: float | None = None  # of the first poll: later ends are seen in the queue
        self._due_s = float("-inf")

    @property
    def is_read(self) -> bool:
        """Whether there is nothing more to read."""
        read, until = self.read_to_s, self._until_s
        return read is not None and until is not None and read >= until

    def next(self, t_s: float, listed: Mapping[str, float]) -> list[PastJob]:
        """Return the jobs of the next day that was not read yet."""
        if self._until_s is None:
            self._until_s = t_s
            first_s = t_s - self._lookback_s
            self.read_to_s = max(first_s, min(self.read_to_s or first_s, t_s))
        if self.is_read or t_s < self._due_s:
            return []
        from_s = self.read_to_s or 0.0
        to_s = min(from_s + DAY_S, self._until_s)
        try:
            rows = self._slurm.ended(past_s=t_s - from_s, up_to_s=t_s - to_s, every_run=True)
        except SlurmError:  # many sites have no accounting; squeue is all there is
            self._due_s = t_s + RETRY_S
            return []
        self.read_to_s = to_s
        return past_jobs(rows, from_s=from_s, to_s=to_s, listed=listed)

    def seen_until(self, t_s: float) -> None:
        """Note that all that ended until `t_s` was seen in the queue, once history is read."""
        if self.is_read:
            self.read_to_s = t_s
