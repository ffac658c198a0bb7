"""Measure an application anew, with a few small runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_followed import OnFollowed
from steward.model.identity import JobId
from steward.model.planning.view import PlanningView, followed_claim
from steward.model.yardstick import PLANS

__all__ = ["StartCampaign"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCampaign(OnFollowed):
    """Start a small campaign of an application whose run times have drifted."""

    application: str
    budget_s: float  # of GPUs, or slots
    runs: int
    type: Literal["start-campaign"] = "start-campaign"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = PLANS

    @property
    def affects(self) -> JobId | None:
        """No job is disturbed."""
        return None

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset({followed_claim(f"campaign:{self.application}")})

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return (
            f"Measure {self.application} anew with at most {self.runs} runs and "
            f"{self.budget_s / 60:.0f} minutes of GPUs or slots"
        )

    def unmet_in(self, view: PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""
        known = any(each.campaign == self.application for each in view.jobs)
        return "" if known else f"no followed job is a run of {self.application}"

    def seems_done_in(self, view: PlanningView) -> bool:
        """Return whether a campaign of it has just begun."""
        return view.t_s - view.campaigns.get(self.application, float("-inf")) < 3600.0
