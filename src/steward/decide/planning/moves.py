"""Which followed jobs should go on elsewhere: late, dear, or at a site that does not answer."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.planning.formatting import way_name
from steward.model.planning.followed import FollowedJob, Offer, RunState, SiteRun
from steward.model.planning.plan import Choice
from steward.model.planning.view import PlanningView, SiteBudget
from steward.model.site import SiteState

__all__ = ["Move", "MoveRules", "moves", "unreachable_s"]

ANSWERS = (SiteState.FINE, SiteState.STARTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Stop a job where it is, with a save if its site answers, and submit it elsewhere."""

    job: str
    to: Offer
    because: str
    gain_usd: float = 0.0  # money, and lateness by what the request says it counts
    lost: bool = False  # its site does not answer: what it did since its last save is done again


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRules:
    """When moving is worth it."""

    least_chance: float = 0.9  # of meeting a deadline; below it a job is at risk
    least_gain: float = 0.05  # of that chance, by moving
    cheaper_share: float = 0.1  # of what is left to pay, the move included
    between_s: float = 3600.0  # two moves of one job
    lost_after_s: float = 900.0  # that neither a site nor the files of a job there showed anything


def moves(view: PlanningView, rules: MoveRules | None = None) -> tuple[Move, ...]:
    """Return at most one move for each job, in the order of jobs."""
    chosen = rules or MoveRules()
    found = (_move(view, job, chosen) for job in view.jobs if job.end is None)
    return tuple(each for each in found if each is not None)


def unreachable_s(view: PlanningView, site: str) -> float:
    """Return for how long a site has not answered; 0 where it does."""
    health = view.sites.get(site)
    if health is None or health.state in ANSWERS:
        return 0.0
    since_s = health.since_s if health.since_s is not None else view.t_s
    return max(view.t_s - since_s, 1.0)


def _move(view: PlanningView, job: FollowedJob, rules: MoveRules) -> Move | None:
    run = job.run
    here = None if run is None else run.place
    others = [
        each
        for each in view.offers.get(job.id, ())
        if (each.choice.site, each.choice.queue) != here and _is_open(view, each.choice)
    ]
    if run is None:
        return _stranded(job, others) if job.runs and job.coming is None else None
    if run.state is RunState.ASKED or not others:
        return None
    silent_s = _silent_s(view, run)
    if unreachable_s(view, run.site) > 0:
        return _away(job, run, silent_s, others) if silent_s >= rules.lost_after_s else None
    moved_s = [each.submitted_s for each in job.runs[1:]]
    if moved_s and view.t_s - moved_s[-1] < rules.between_s:
        return None
    if run.state is RunState.RUNNING and not (job.request.saves and run.can_save):
        return None  # all of its work would be done again
    return _in_time(view, job, others, rules) or _cheaper(view, job, others, rules)


def _is_open(view: PlanningView, choice: Choice) -> bool:
    """Return whether a site answers, and what is left costs no more than its budget has left."""
    budget: SiteBudget | None = view.budgets.get(choice.site)
    dear = budget is not None and choice.usd is not None and choice.usd.high > budget.left_usd
    return unreachable_s(view, choice.site) == 0.0 and not dear


def _silent_s(view: PlanningView, run: SiteRun) -> float:
    """Return for how long nothing was seen of a run, neither by its site nor by its own files."""
    away_s = unreachable_s(view, run.site)
    return away_s if run.seen_s is None else min(away_s, view.t_s - run.seen_s)


def _away(job: FollowedJob, run: SiteRun, silent_s: float, others: list[Offer]) -> Move:
    """Return where a job goes on; none of the others is at the site that does not answer."""
    why = f"{run.site} has not answered for {silent_s / 60:.0f} min; "
    return Move(job=job.id, to=others[0], because=why + _going_to(others[0]), lost=True)


def _stranded(job: FollowedJob, others: list[Offer]) -> Move | None:
    """Return where a job goes on that is nowhere: its site was lost, and the next refused it."""
    if not others:
        return None
    why = f"{job.id} is at no site; "
    return Move(job=job.id, to=others[0], because=why + _going_to(others[0]), lost=True)


def _in_time(
    view: PlanningView, job: FollowedJob, others: list[Offer], rules: MoveRules
) -> Move | None:
    here = view.expected.get(job.id)
    if here is None or here.deadline_chance is None or here.deadline_chance >= rules.least_chance:
        return None
    best = max(others, key=lambda each: (_chance(each), -each.choice.end_s.mid))
    gain = _chance(best) - here.deadline_chance
    if gain < rules.least_gain:
        return None
    why = (
        f"the deadline is met with {here.deadline_chance:.0%} here and {_chance(best):.0%} there; "
    )
    usd = _usd_gain(here.usd_left.mid if here.usd_left else None, best)
    worth = usd + gain * job.request.weights.usd_if_late
    return Move(job=job.id, to=best, because=why + _going_to(best), gain_usd=worth)


def _cheaper(
    view: PlanningView, job: FollowedJob, others: list[Offer], rules: MoveRules
) -> Move | None:
    here = view.expected.get(job.id)
    if here is None or here.usd_left is None:
        return None
    asked = job.request
    left_usd = here.usd_left.mid
    prices = {
        index: each.choice.usd.mid
        for index, each in enumerate(others)
        if each.choice.usd is not None
        and (each.choice.deadline_chance is None or _chance(each) >= asked.deadline_chance)
        and (each.choice.end_s.mid <= here.end_s.mid or asked.deadline_s is not None)
    }
    if not prices:
        return None
    index = min(prices, key=lambda at: (prices[at], others[at].choice.end_s.mid))
    best, usd = others[index], prices[index]
    saved = left_usd - usd
    if saved <= 0 or saved < rules.cheaper_share * left_usd:
        return None
    why = f"what is left costs {left_usd:.2f} USD here and {usd:.2f} there; "
    return Move(job=job.id, to=best, because=why + _going_to(best), gain_usd=saved)


def _chance(offer: Offer) -> float:
    return offer.choice.deadline_chance or 0.0


def _usd_gain(left_usd: float | None, to: Offer) -> float:
    return 0.0 if left_usd is None or to.choice.usd is None else left_usd - to.choice.usd.mid


def _going_to(offer: Offer) -> str:
    choice = offer.choice
    return f"{choice.site}/{choice.queue} with {way_name(choice.way)}"
