"""Which followed jobs should go on elsewhere: late, dear, or at a site that does not answer."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.planning.formatting import way_name
from steward.model.planning.followed import FollowedJob, PlanningView, RunState
from steward.model.planning.plan import Choice
from steward.model.site import SiteState

__all__ = ["Move", "MoveRules", "moves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Stop a job where it is, with a save if its site answers, and submit it elsewhere."""

    job: str
    to: Choice
    because: str
    lost: bool = False  # its site does not answer: what it did since its last save is done again


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRules:
    """When moving is worth it."""

    least_chance: float = 0.9  # of meeting a deadline; below it a job is at risk
    least_gain: float = 0.05  # of that chance, by moving
    cheaper_share: float = 0.1  # of what is left to pay, the move included
    between_s: float = 3600.0  # two moves of one job
    lost_after_s: float = 900.0  # that a site has not answered for


def moves(view: PlanningView, rules: MoveRules | None = None) -> tuple[Move, ...]:
    """Return at most one move for each job, in the order of jobs."""
    chosen = rules or MoveRules()
    found = (_move(view, job, chosen) for job in view.jobs)
    return tuple(each for each in found if each is not None)


def _move(view: PlanningView, job: FollowedJob, rules: MoveRules) -> Move | None:
    run, plan = job.run, view.elsewhere.get(job.id)
    if run is None or run.state is RunState.ASKED or plan is None:
        return None
    others = [each for each in plan.front if (each.site, each.queue) != (run.site, run.queue)]
    away = _unreachable_s(view, run.site)
    if away >= rules.lost_after_s:
        at_other_sites = [each for each in others if each.site != run.site]
        if not at_other_sites:
            return None
        why = f"{run.site} has not answered for {away / 60:.0f} min; "
        return Move(
            job=job.id, to=at_other_sites[0], because=why + _going_to(at_other_sites[0]), lost=True
        )
    moved_s = [each.submitted_s for each in job.runs[1:]]
    if away > 0 or (moved_s and view.t_s - moved_s[-1] < rules.between_s):
        return None
    if run.state is RunState.RUNNING and not job.request.saves:
        return None  # all of its work would be done again
    return _in_time(view, job, others, rules) or _cheaper(view, job, others, rules)


def _in_time(
    view: PlanningView, job: FollowedJob, others: list[Choice], rules: MoveRules
) -> Move | None:
    here = view.expected.get(job.id)
    if here is None or here.deadline_chance is None or here.deadline_chance >= rules.least_chance:
        return None
    best = max(
        others, key=lambda each: (each.deadline_chance or 0.0, -each.end_s.mid), default=None
    )
    gain = 0.0 if best is None else (best.deadline_chance or 0.0) - here.deadline_chance
    if best is None or gain < rules.least_gain:
        return None
    why = (
        f"the deadline is met with {here.deadline_chance:.0%} here and "
        f"{best.deadline_chance or 0.0:.0%} there; "
    )
    return Move(job=job.id, to=best, because=why + _going_to(best))


def _cheaper(
    view: PlanningView, job: FollowedJob, others: list[Choice], rules: MoveRules
) -> Move | None:
    here = view.expected.get(job.id)
    if here is None or here.usd_left is None:
        return None
    asked = job.request
    fine = [
        each
        for each in others
        if each.usd is not None
        and (each.deadline_chance is None or each.deadline_chance >= asked.deadline_chance)
        and (each.end_s.mid <= here.end_s.mid or asked.deadline_s is not None)
    ]
    best = min(
        fine, key=lambda each: (each.usd.mid if each.usd else 0.0, each.end_s.mid), default=None
    )
    if best is None or best.usd is None:
        return None
    saved = here.usd_left.mid - best.usd.mid
    if saved <= 0 or saved < rules.cheaper_share * here.usd_left.mid:
        return None
    why = f"what is left costs {here.usd_left.mid:.2f} USD here and {best.usd.mid:.2f} there; "
    return Move(job=job.id, to=best, because=why + _going_to(best))


def _unreachable_s(view: PlanningView, site: str) -> float:
    health = view.sites.get(site)
    if health is None or health.state in (SiteState.FINE, SiteState.STARTING):
        return 0.0
    since_s = health.since_s if health.since_s is not None else view.t_s
    return max(view.t_s - since_s, 1.0)


def _going_to(choice: Choice) -> str:
    return f"{choice.site}/{choice.queue} with {way_name(choice.way)}"
