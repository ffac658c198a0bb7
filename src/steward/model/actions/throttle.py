"""Limit what a job may send, so that others wait less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_traffic import OnTraffic
from steward.model.fabric.view import FabricView
from steward.model.identity import DecisionId, JobId
from steward.model.yardstick import SPEED

if TYPE_CHECKING:
    from steward.model.actions.release import Release

__all__ = ["NEAR", "Throttle"]

NEAR = 0.02  # caps that differ by less are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(OnTraffic):
    """Let each endpoint of a job send at most so much, or tighten or loosen what it may."""

    job: JobId
    bytes_per_s: float  # of each endpoint
    before: float | None = None  # the cap that was there
    type: Literal["throttle"] = "throttle"

    returns: ClassVar = False
    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = SPEED

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        had = "" if self.before is None else f" ({_gbit(self.before)} before)"
        return f"Let each node of {self.job} send at most {_gbit(self.bytes_per_s)}{had}"

    def undo(self, _: DecisionId) -> Throttle | Release:
        """Return the way back: the cap that was there, or none."""
        from steward.model.actions.release import Release  # noqa: PLC0415 - they name each other

        if self.before is None:
            return Release(job=self.job, before=self.bytes_per_s)
        return Throttle(job=self.job, bytes_per_s=self.before, before=self.bytes_per_s)

    def unmet_in(self, view: FabricView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if self.job not in view.row:
            return f"{self.job} is not on the fabric any more"
        return "" if self.bytes_per_s > 0 else "a cap of nothing would stop the job"

    def seems_done_in(self, view: FabricView) -> bool:
        """Return whether the job has this cap."""
        row = view.row.get(self.job)
        if row is None:
            return False
        cap = float(view.applications.cap_bytes_per_s[row])
        return abs(cap - self.bytes_per_s) <= NEAR * self.bytes_per_s


def _gbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8 / 1e9:.3g} Gbit/s"
