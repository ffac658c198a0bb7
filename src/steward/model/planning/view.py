"""One moment of the planning domain: followed jobs, their sites, and where they could go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from steward.model.finding import Finding
from steward.model.forecast import ForecastColumn
from steward.model.identity import DecisionId, JobId
from steward.model.planning.calibration import Calibration, RunError
from steward.model.planning.followed import Expected, FollowedJob, Offer
from steward.model.site import SiteHealth

__all__ = ["FOLLOWED", "PlanningView", "SiteBudget", "followed_claim"]

FOLLOWED = "followed:"
_NOTHING_LASTS: Mapping[DecisionId, JobId] = MappingProxyType({})


def followed_claim(job: str) -> str:
    """Return the name under which a followed job can be claimed by one open decision."""
    return f"{FOLLOWED}{job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBudget:
    """What followed jobs may cost at a site in a day, and what they did."""

    limit_usd: float
    used_usd: float  # in the last day, with what is still to come of those that are there

    @property
    def left_usd(self) -> float:
        return max(self.limit_usd - self.used_usd, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningView:
    """Read-only. Mappings are by job, or by site as the catalogue calls it."""

    t_s: float
    jobs: tuple[FollowedJob, ...]
    expected: Mapping[str, Expected] = field(default_factory=dict)
    offers: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)  # what is left of a job
    sites: Mapping[str, SiteHealth] = field(default_factory=dict)
    budgets: Mapping[str, SiteBudget] = field(default_factory=dict)  # of sites that have one
    errors: tuple[RunError, ...] = ()  # oldest first
    calibrations: tuple[Calibration, ...] = ()  # in force
    campaigns: Mapping[str, float] = field(default_factory=dict)  # application: last begun
    tenant: str = ""
    reserved: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()
    forecasts: tuple[ForecastColumn, ...] = ()

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Return nothing: what a move brings about is seen, not noted."""
        return _NOTHING_LASTS

    def job(self, id_: str) -> FollowedJob | None:
        """Return the followed job of that id."""
        return next((each for each in self.jobs if each.id == id_), None)

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> PlanningView:
        """Return this moment with more forecasts."""
        return replace(self, forecasts=(*self.forecasts, *columns))

    def with_findings(self, findings: tuple[Finding, ...]) -> PlanningView:
        """Return this moment with its findings."""
        return replace(self, findings=findings)

    def unmet(self, action: object) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        from steward.model.actions.on_followed import OnFollowed  # noqa: PLC0415 - a cycle

        if not isinstance(action, OnFollowed):
            return "it is not about followed jobs, and this is a moment of them"
        return action.unmet_in(self)

    def may_be_done(self, action: object) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        from steward.model.actions.on_followed import OnFollowed  # noqa: PLC0415 - a cycle

        return isinstance(action, OnFollowed) and action.seems_done_in(self)

    def is_lost(self, _: object) -> bool:
        """Return False: a site that is lost may come back."""
        return False

    def claims_of(self, affected: JobId) -> frozenset[str]:
        """Return what is reserved while a job is left alone."""
        return frozenset({followed_claim(affected)})
