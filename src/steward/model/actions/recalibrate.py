"""Correct plans of an application by what its runs really took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_followed import OnFollowed
from steward.model.identity import JobId
from steward.model.planning.calibration import Calibration
from steward.model.planning.view import PlanningView, followed_claim
from steward.model.yardstick import PLANS

__all__ = ["Recalibrate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalibrate(OnFollowed):
    """Multiply planned run times of an application on a kind of GPU from now on."""

    calibration: Calibration
    type: Literal["recalibrate"] = "recalibrate"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = PLANS

    @property
    def affects(self) -> JobId | None:
        """No job is disturbed."""
        return None

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        found = self.calibration
        return frozenset({followed_claim(f"calibration:{found.name}:{found.gpu_model}")})

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        found = self.calibration
        where = f" on {found.gpu_model}" if found.gpu_model else ""
        times = f"{found.factor:.2f} times as long as planned"
        return f"Expect {found.name}{where} to run {times}: {len(found.jobs)} jobs did"

    def unmet_in(self, view: PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""
        known = {each.job for each in view.errors}
        gone = [each for each in self.calibration.jobs if each not in known]
        return f"it rests on jobs that are not known any more: {', '.join(gone)}" if gone else ""

    def seems_done_in(self, view: PlanningView) -> bool:
        """Return whether the correction is in force."""
        return self.calibration in view.calibrations
