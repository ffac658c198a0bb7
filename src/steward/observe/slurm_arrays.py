"""Arrays of jobs that may not run all at once: `sbatch --array=0-99%4`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from steward.clients.slurm import SlurmJob
from steward.clients.slurm.jobs import WAITING

__all__ = ["arrays_at_limit"]

_WAITING = re.compile(r"(?P<number>\d+)_\[.*%(?P<limit>\d+)\]")
_RUNS = frozenset({"RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED"})


def arrays_at_limit(jobs: Iterable[SlurmJob]) -> frozenset[str]:
    """Return the jobs that are waiting tasks of which none may start until another has ended.

    Slurm gives that as the reason only where they are not held as well. Tasks that were let go and
    wait by themselves count: they are to run first.
    """
    limits: dict[str, tuple[str, int]] = {}
    going: Counter[str] = Counter()
    for job in jobs:
        if found := _WAITING.fullmatch(job.array):
            limits[job.id] = (found["number"], int(found["limit"]))
        elif job.array and (
            not _RUNS.isdisjoint(job.states)
            or (not WAITING.isdisjoint(job.states) and job.priority > 0)  # 0: it is held
        ):
            going[job.array.partition("_")[0]] += 1
    return frozenset(id_ for id_, (number, limit) in limits.items() if going[number] >= limit)
