"""When a followed job ends where it is, and what it could go on with elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.learn.estimators.finish_times import RunPosterior, run_posterior
from steward.model.planning.calibration import Calibration, calibrated
from steward.model.planning.catalog import Catalog
from steward.model.planning.followed import (
    Expected,
    FollowedJob,
    Offer,
    RunState,
    SiteRun,
)
from steward.model.planning.outlook import Outlook
from steward.model.planning.plan import Choice, PlanRequest, Range, Way
from steward.planning.submission import submission_of

__all__ = ["Prospects", "expected_of", "offers_of"]

HOUR_S = 3600.0
SHARED = 0.5  # of how far off a plan was, as a logarithm, that is the work's and not the site's
LEAST_SHARE = 1e-3
ANY_CHANCE = 1e-6  # of meeting the deadline: the best of late choices is a choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """What is known beside a job itself: sites, the hours ahead, and what plans were off by."""

    t_s: float
    catalog: Catalog
    outlook: Outlook = field(default_factory=Outlook)
    calibrations: tuple[Calibration, ...] = ()
    closed: frozenset[str] = frozenset()  # sites that do not answer
    endpoints: frozenset[str] | None = None  # that can be submitted to; None: any


def expected_of(job: FollowedJob, known: Prospects) -> Expected | None:
    """Return when a job ends where it is; None where nothing can be said."""
    run = job.run
    if run is None:
        return None
    if run.state is RunState.RUNNING and run.began_s is not None:
        return _running(job, run, known)
    return _waiting(job, run, known)


def _running(job: FollowedJob, run: SiteRun, known: Prospects) -> Expected:
    posterior = posterior_of(job, run, known)
    assert posterior is not None  # noqa: S101 - it has begun
    elapsed_s = max(known.t_s - (run.began_s or known.t_s), 0.0)
    left_s, deadline_s = posterior.left_s, job.request.deadline_s
    chance = None
    if deadline_s is not None:
        chance = posterior.chance_within(deadline_s - known.t_s, elapsed_s)
    return Expected(
        end_s=left_s.after(known.t_s),
        left_s=left_s,
        usd_left=None if run.usd_per_h is None else left_s.times(run.usd_per_h / HOUR_S),
        deadline_chance=chance,
        basis=posterior.basis,
        outside=posterior.outside,
        done_share=_done_share(job, run, known),
    )


def posterior_of(job: FollowedJob, run: SiteRun, known: Prospects) -> RunPosterior | None:
    """Return what is believed of the run time of all of its work where it runs."""
    if run.began_s is None:
        return None
    until_s = known.t_s if run.ended_s is None else run.ended_s
    return run_posterior(
        calibrated(run.expected_run_s, _correction(job, run.way, known)),
        elapsed_s=max(until_s - run.began_s, 1e-3),
        marks=run.marks,
        began_s=run.began_s,
        from_share=run.from_share,
    )


def _waiting(job: FollowedJob, run: SiteRun, known: Prospects) -> Expected | None:
    """Return what is expected of a job that waits: what a plan for that queue alone says now."""
    site = next((each for each in known.catalog.sites if each.name == run.site), None)
    if site is None:
        return None
    here = replace(site, queues=tuple(each for each in site.queues if each.name == run.queue))
    ratios = _ratios(job, known)
    off = ratios.get(run.place, list(ratios.values())[-1] ** SHARED if ratios else 1.0)
    choices = _choices(job, replace(known, catalog=Catalog(sites=(here,))), (run.way,), off)
    if not choices:
        return None
    best = choices[0]
    return Expected(
        end_s=best.end_s,
        left_s=best.run_s,
        usd_left=best.usd,
        deadline_chance=best.deadline_chance,
        basis="its plan: it waits",
        done_share=job.saved_share,
    )


def offers_of(job: FollowedJob, known: Prospects) -> tuple[Offer, ...]:
    """Return where what is left of a job could go on, what meets its limits first."""
    here = None if job.run is None else job.run.place
    ratios = _ratios(job, known)
    shared = list(ratios.values())[-1] ** SHARED if ratios else 1.0
    choices = list(_choices(job, _open(known, but={*ratios, here}), job.request.ways, shared))
    for place, ratio in ratios.items():
        if place != here:
            choices += _choices(job, _open(known, only=place), job.request.ways, ratio)
    found = []
    for choice in choices:
        try:
            made = submission_of(choice, replace(job.request, now_s=known.t_s), known.catalog)
        except StewardError:
            continue  # a chain, or what is rented: nothing here submits that
        found.append(Offer(choice=choice, endpoint=made.site, options=made.options))
    asked = job.request.deadline_chance
    return tuple(sorted(found, key=lambda each: not _meets(each.choice, asked)))


def _can_submit(endpoint: str, known: Prospects) -> bool:
    return known.endpoints is None or endpoint in known.endpoints


def _meets(choice: Choice, asked: float) -> bool:
    return choice.deadline_chance is None or choice.deadline_chance >= asked


def _choices(
    job: FollowedJob, known: Prospects, ways: tuple[Way, ...], off: float
) -> tuple[Choice, ...]:
    """Return the good plans for what is left of a job, late ones too."""
    left = 1.0 - _kept_share(job, known)
    request = job.request
    asked = replace(
        request,
        ways=tuple(_rest(job, each, left * off, known) for each in ways),
        now_s=known.t_s,
        sites=(),  # the catalogue has no others
        may_start_later=False,
        deadline_chance=ANY_CHANCE,
        budget_usd=_budget_left(job, request, known.t_s),
    )
    outlook = replace(known.outlook, waits={**job.waits, **known.outlook.waits})
    found = plan(asked, known.catalog, outlook).front
    if found or asked.deadline_s is None:
        return found
    late = plan(replace(asked, deadline_s=None), known.catalog, outlook).front
    return tuple(replace(each, deadline_chance=0.0) for each in late)


def _rest(job: FollowedJob, way: Way, left: float, known: Prospects) -> Way:
    """Return what is left of a way: so many times all of its run time."""
    run_s = calibrated(way.run_s, _correction(job, way, known)).times(max(left, 1e-6))
    begun = any(each.began_s is not None for each in job.runs)
    return replace(way, run_s=run_s.after(job.request.save_s if begun else 0.0))


def _ratios(job: FollowedJob, known: Prospects) -> dict[tuple[str, str], float]:
    """Return how many times as long as planned a job takes, by the places where it has run."""
    found: dict[tuple[str, str], float] = {}
    for run in job.runs:
        planned = next((each for each in job.request.ways if _is_same(each, run.way)), None)
        posterior = posterior_of(job, run, known)
        if planned is None or posterior is None or not (run.marks or run is job.run):
            continue
        whole_s = posterior.total_s.mid / max(1.0 - run.from_share, LEAST_SHARE)
        found.pop(run.place, None)  # the newest is last
        found[run.place] = whole_s / planned.run_s.mid
    return found


def _open(
    known: Prospects,
    *,
    but: Collection[tuple[str, str] | None] = (),
    only: tuple[str, str] | None = None,
) -> Prospects:
    """Return what is known with the places that can be submitted to, without some, or one alone."""
    sites = tuple(
        replace(
            site,
            queues=tuple(
                each
                for each in site.queues
                if (site.name, each.name) not in but and only in (None, (site.name, each.name))
            ),
        )
        for site in known.catalog.sites
        if site.name not in known.closed and _can_submit(site.steward_site, known)
    )
    return replace(known, catalog=Catalog(sites=sites))


def _is_same(one: Way, two: Way) -> bool:
    return (one.gpu_model, one.gpus, one.batch) == (two.gpu_model, two.gpus, two.batch)


def _budget_left(job: FollowedJob, request: PlanRequest, t_s: float) -> float | None:
    if request.budget_usd is None:
        return None
    return max(request.budget_usd - job.spent_usd(t_s), 0.0)


def _kept_share(job: FollowedJob, known: Prospects) -> float:
    """Return the share of the work that a move would keep."""
    run = job.run
    if run is None or run.site in known.closed:
        return job.saved_share
    if run.state is not RunState.RUNNING:
        return max(job.saved_share, run.from_share)
    return _done_share(job, run, known) if job.request.saves and run.can_save else job.saved_share


def _done_share(job: FollowedJob, run: SiteRun, known: Prospects) -> float:
    posterior = posterior_of(job, run, known)
    if posterior is None or run.began_s is None:
        return run.from_share
    elapsed_s = max(known.t_s - run.began_s, 0.0)
    whole_s = elapsed_s + posterior.left_s.mid
    share = elapsed_s / whole_s if whole_s > 0 else 0.0
    return min(run.from_share + (1.0 - run.from_share) * share, 1.0 - LEAST_SHARE)


def _correction(job: FollowedJob, way: Way, known: Prospects) -> Calibration | None:
    """Return the correction of a plan that does not hold it yet."""
    for each in known.calibrations:
        if (each.name, each.gpu_model) == (job.name, way.gpu_model) and job.id not in each.jobs:
            before = job.corrected.get(way.gpu_model, 1.0)
            return replace(each, factor=each.factor / before)
    return None


def no_waits(_: Catalog, __: frozenset[int]) -> Mapping[str, Range]:
    """Return that no steward was asked for its queue."""
    return {}
