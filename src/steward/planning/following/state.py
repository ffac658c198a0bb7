"""The state of the planning domain: reports of sites are folded in, moments come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steward.decide.planning.moves import ANSWERS
from steward.errors import StewardError
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.planning.catalog import Catalog
from steward.model.planning.followed import Expected, FollowedJob, Offer, SiteReport
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Range
from steward.model.planning.view import PlanningView, SiteBudget
from steward.model.site import SiteHealth, SiteState
from steward.planning.following.forecasts import (
    Prospects,
    expected_of,
    no_waits,
    offers_of,
)
from steward.planning.following.reports import error_of, with_look
from steward.store.followed_jobs import FollowedJobs

__all__ = ["PlanningState", "Waits"]

DAY_S = 86_400.0
WAITS_EVERY_S = 120.0  # stewards are asked for their queues
SILENT_S = 60.0  # without a report, after which a site counts as silent
KEPT_S = 90 * DAY_S  # ended jobs are in the view for so long
Waits = Callable[[Catalog, frozenset[int]], Mapping[str, Range]]


@dataclass(slots=True, kw_only=True)
class _Endpoint:
    """What is known of one site's health."""

    answered_s: float | None = None  # last
    silent_s: float | None = None  # first, since then
    problem: str = ""


class PlanningState:
    """Records of jobs, and the health of the sites that they are at or could go to.

    `waits` asks the stewards of sites for their queues; `budgets` is USD a day by endpoint.
    """

    def __init__(
        self,
        store: FollowedJobs,
        endpoints: Sequence[str],
        *,
        waits: Waits = no_waits,
        budgets: Mapping[str, float] | None = None,
        outlook: Outlook | None = None,
        tenant: str = "",
    ) -> None:
        self._store = store
        self._endpoints = {name: _Endpoint() for name in endpoints}
        self._waits = waits
        self._asked: dict[str, tuple[float, Mapping[str, Range]]] = {}  # waits, by job
        self._budgets = dict(budgets or {})
        self._outlook = outlook or Outlook()
        self._tenant = tenant
        self._reserved: frozenset[str] = frozenset()
        self._from_s: float | None = None

    def fold(self, seen: Observation) -> None:
        """Take in what sites reported, and write down what is new about their jobs."""
        for report in seen.site_reports:
            self._note_health(report)
            for look in report.looks:
                before = self._store.job(look.job)
                after = with_look(before, look, report)
                self._store.save(after)
                error = error_of(after) if after.end is not before.end else None
                if error is not None:
                    self._store.add_error(error)

    def _note_health(self, report: SiteReport) -> None:
        endpoint = self._endpoints.setdefault(report.endpoint, _Endpoint())
        endpoint.problem = report.problem
        if report.problem:
            endpoint.silent_s = report.t_s if endpoint.silent_s is None else endpoint.silent_s
        else:
            endpoint.answered_s, endpoint.silent_s = report.t_s, None

    def apply(self, decision: Decision, receipt: Receipt) -> None:
        """Do nothing: the actuator writes the records that views are made of."""

    def reserve(self, claims: Iterable[str]) -> None:
        """Set about which jobs nothing new should be decided."""
        self._reserved = frozenset(claims)

    def view(self, t_s: float) -> PlanningView:
        """Return the moment as it is at `t_s`."""
        self._from_s = t_s if self._from_s is None else self._from_s
        plans = self._store.plans
        jobs = tuple(
            each
            for each in self._store.jobs()
            if each.ended_s is None or t_s - each.ended_s < KEPT_S
        )
        open_ = [each for each in jobs if each.end is None]
        sites = self._sites([each for each in jobs if each.end is None or each.has_copies], t_s)
        expected: dict[str, Expected] = {}
        offers: dict[str, tuple[Offer, ...]] = {}
        for job in open_:
            try:
                known = self._prospects(job, sites, t_s)
                here = expected_of(job, known)
                offers[job.id] = offers_of(job, known)
            except StewardError as fault:  # the others are followed all the same
                self._store.damaged[job.id] = str(fault)
                continue
            expected |= {} if here is None else {job.id: here}
        view = PlanningView(
            t_s=t_s,
            jobs=jobs,
            expected=expected,
            offers=offers,
            sites=sites,
            errors=plans.errors,
            calibrations=plans.calibrations,
            campaigns=plans.campaigns,
            tenant=self._tenant,
            reserved=self._reserved,
        )
        return replace(view, budgets=self._spent(view, open_))

    def _prospects(
        self, job: FollowedJob, sites: Mapping[str, SiteHealth], t_s: float
    ) -> Prospects:
        closed = {name for name, each in sites.items() if each.state not in ANSWERS}
        catalog = self._store.catalog(job.id)
        return Prospects(
            t_s=t_s,
            catalog=catalog,
            outlook=replace(self._outlook, waits=self._waits_for(job, catalog, t_s)),
            calibrations=self._store.plans.calibrations,
            closed=frozenset(closed),
            endpoints=frozenset(self._endpoints),
        )

    def _waits_for(self, job: FollowedJob, catalog: Catalog, t_s: float) -> Mapping[str, Range]:
        asked_s, found = self._asked.get(job.id, (float("-inf"), {}))
        if t_s - asked_s >= WAITS_EVERY_S:
            found = self._waits(catalog, frozenset(each.gpus for each in job.request.ways))
            self._asked[job.id] = t_s, found
        return found

    def _sites(self, jobs: Sequence[FollowedJob], t_s: float) -> dict[str, SiteHealth]:
        """Return the health of all sites by their names in catalogues."""
        found: dict[str, SiteHealth] = {}
        for job in jobs:
            for site in self._store.catalog(job.id).sites:
                found[site.name] = self._health(site.name, site.steward_site, t_s)
        return found

    def _health(self, name: str, endpoint: str, t_s: float) -> SiteHealth:
        known = self._endpoints.get(endpoint)
        if known is None:
            text = f"the configuration has no [sites.{endpoint}]"
            return SiteHealth(name=name, state=SiteState.STOPPED, text=text, since_s=self._from_s)
        since_s = known.silent_s
        if since_s is None:
            last_s = known.answered_s if known.answered_s is not None else self._from_s or t_s
            since_s = last_s if t_s - last_s > SILENT_S else None
        if since_s is not None:
            text = known.problem or "it does not answer"
            state = SiteState.UNREACHABLE
            return SiteHealth(name=name, state=state, text=text, since_s=since_s)
        state = SiteState.STARTING if known.answered_s is None else SiteState.FINE
        return SiteHealth(name=name, state=state)

    def _spent(self, view: PlanningView, jobs: Sequence[FollowedJob]) -> dict[str, SiteBudget]:
        """Return what is left of the budgets, with what is still to come of jobs that are there."""
        used: dict[str, float] = {}
        for job in view.jobs:
            for run in job.runs:
                if run.ended_s is None or view.t_s - run.ended_s < DAY_S:
                    used[run.site] = used.get(run.site, 0.0) + run.spent_usd(view.t_s)
            here = view.expected.get(job.id)
            if job.run is not None and here is not None and here.usd_left is not None:
                used[job.run.site] = used.get(job.run.site, 0.0) + here.usd_left.mid
        places = {
            site.name: site.steward_site
            for job in jobs
            for site in self._store.catalog(job.id).sites
        }
        return {
            name: SiteBudget(limit_usd=self._budgets[endpoint], used_usd=used.get(name, 0.0))
            for name, endpoint in places.items()
            if endpoint in self._budgets
        }
