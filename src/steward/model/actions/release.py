"""Let a job send what it likes again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_traffic import OnTraffic
from steward.model.actions.throttle import Throttle
from steward.model.fabric.view import FabricView
from steward.model.identity import DecisionId, JobId
from steward.model.yardstick import SPEED

__all__ = ["Release"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(OnTraffic):
    """Take the cap off what the endpoints of a job send."""

    job: JobId
    before: float  # bytes a second that the cap was at
    type: Literal["release"] = "release"

    returns: ClassVar = True
    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = SPEED

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Let {self.job} send freely again"

    def undo(self, _: DecisionId) -> Throttle:
        """Return the cap that was there."""
        return Throttle(job=self.job, bytes_per_s=self.before)

    def unmet_in(self, view: FabricView) -> str:
        """Return why it cannot be done now, or an empty text."""
        return "" if self.job in view.row else f"{self.job} is not on the fabric any more"

    def seems_done_in(self, view: FabricView) -> bool:
        """Return whether the job has no cap."""
        row = view.row.get(self.job)
        return row is not None and math.isinf(view.applications.cap_bytes_per_s[row])
