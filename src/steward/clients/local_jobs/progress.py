"""Reads how far a job is, by the progress file in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steward.clients.local_jobs.exchange import number_of, read_reply
from steward.training.protocol import PROGRESS

__all__ = ["JobProgress", "read_progress"]

OLDEST_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How many steps a job had done at one time, by its own count."""

    step: float
    t_s: float


def read_progress(folder: Path, now_s: float) -> JobProgress | None:
    """Return what a job reports; None where there is nothing to read.

    A time that cannot be is replaced by the present one: the job's file is not to be trusted.
    """
    record = read_reply(folder / PROGRESS)
    if "step" not in record:
        return None
    written_s = number_of(record.get("written_s"))
    t_s = written_s if now_s - OLDEST_S <= written_s <= now_s else now_s
    return JobProgress(step=float(number_of(record["step"])), t_s=t_s)
