"""What people change by hand about jobs of which steward has decided something: it is respected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from steward.clients.slurm import SlurmJob
from steward.model.event import Event

__all__ = ["changes_by_hand"]


def changes_by_hand(
    before: Mapping[str, SlurmJob], jobs: Iterable[SlurmJob], t_s: float, *, source: str
) -> Iterator[Event]:
    """Yield that a person held or cancelled a job after a decision about it, once for each."""
    for job in jobs:
        did, last = job.mark.did, before.get(job.id)
        if did is None or last is None:
            continue
        if job.is_held_by_hand and not last.is_held_by_hand:
            what, kind = f"held by a person ({job.reason})", "job.held"
        elif "CANCELLED" in job.states and "CANCELLED" not in last.states:
            what, kind = "cancelled by a person", "job.cancelled"
        else:
            continue
        text = f"{what} after {did.id}: steward leaves it"
        yield Event(t_s=t_s, kind=kind, subject=f"job:{job.id}", text=text, source=source)
