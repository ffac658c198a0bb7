"""The policy of the planning domain: where followed jobs go on, and what plans learn of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from steward.decide.planning.drift import corrections, drifted
from steward.decide.planning.moves import ANSWERS, Move, MoveRules, moves
from steward.model.actions import Action, EndCopy, MoveJob, Recalibrate, StartCampaign
from steward.model.actions.move_job import Stay
from steward.model.decision import NOTHING_EXPECTED, Decision, Expectation
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.planning.followed import FollowedJob, RunState, SiteRun
from steward.model.planning.plan import Choice, Range
from steward.model.planning.view import PlanningView

__all__ = ["FollowJobs"]

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
RETRY_S = 60.0  # what must be ended, and a site refused, is tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowJobs:
    """Ends copies first, then moves, then corrects plans.

    An id stays for an hour as long as its cause does: what failed or was rejected is not tried
    again at once.
    """

    rules: MoveRules = field(default_factory=MoveRules)
    check_after_s: float = 900.0
    campaign_every_s: float = 7 * DAY_S  # at most one of an application
    campaign_budget_s: float = 900.0
    campaign_runs: int = 12
    name: str = "follow-jobs"

    def decide(self, view: PlanningView) -> tuple[Decision, ...]:
        """Return what should be done, best first, each with its reason."""
        found = [
            *self._ends(view),
            *self._moves(view),
            *self._corrections(view),
            *self._campaigns(view),
        ]
        return tuple(each for each in found if view.reserved.isdisjoint(each.action.claims))

    def _ends(self, view: PlanningView) -> Iterator[Decision]:
        for job in view.jobs:
            for number, run in enumerate(job.runs):
                if run.job and _is_copy(job, run) and _answers(view, run.site):
                    place = f"{run.site}/{run.queue}"
                    why = f"{job.id} is over" if job.end is not None else "it goes on elsewhere"
                    action = EndCopy(job=job.id, run=number, place=place)
                    because = f"{run.site} answers; {why}"
                    yield self._decision(view, action, because, period_s=RETRY_S)

    def _moves(self, view: PlanningView) -> Iterator[Decision]:
        jobs = {each.id: each for each in view.jobs}
        for move in moves(view, self.rules):
            gain = move.gain_usd
            expects = Expectation(low=min(gain, 0.0), mid=gain, high=max(gain, 0.0))
            action = _action(view, jobs[move.job], move)
            yield self._decision(view, action, move.because, expects=expects)
        for job in view.jobs:
            coming = job.coming
            if job.end is None and job.run is None and coming is not None:
                why = "its move was not ended"
                yield self._decision(view, _resumed(job, coming), why, period_s=RETRY_S)

    def _corrections(self, view: PlanningView) -> Iterator[Decision]:
        for made in corrections(view.errors, view.calibrations):
            why = f"jobs took {made.factor:.2f} times as long as planned"
            yield self._decision(view, Recalibrate(calibration=made), why)

    def _campaigns(self, view: PlanningView) -> Iterator[Decision]:
        for name in sorted({each.campaign for each in view.jobs if each.campaign}):
            begun_s = view.campaigns.get(name, float("-inf"))
            runs = {each.id for each in view.jobs if each.campaign == name}
            why = drifted((each for each in view.errors if each.job in runs), since_s=begun_s)
            if why and view.t_s - begun_s >= self.campaign_every_s:
                action = StartCampaign(
                    application=name, budget_s=self.campaign_budget_s, runs=self.campaign_runs
                )
                yield self._decision(view, action, why)

    def _decision(
        self,
        view: PlanningView,
        action: Action,
        because: str,
        *,
        expects: Expectation = NOTHING_EXPECTED,
        period_s: float = HOUR_S,
    ) -> Decision:
        about = (action.type, *sorted(action.claims), _target(view, action))
        period = f"{period_s:g}:{int(view.t_s // period_s)}"
        return Decision(
            id=DecisionId(stable_id("d", self.name, *about, period)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            expects=expects,
            check_after_s=self.check_after_s,
            tenant=TenantId(view.tenant),
            subject=next(iter(sorted(action.claims)), ""),
        )


def _is_copy(job: FollowedJob, run: SiteRun) -> bool:
    """Return whether a run is one too many: its job is over, or goes on elsewhere."""
    if run.state is RunState.LOST:
        return run.to_end
    return not run.state.ended and (job.end is not None or run.to_end)


def _answers(view: PlanningView, site: str) -> bool:
    health = view.sites.get(site)
    return health is not None and health.state in ANSWERS


def _action(view: PlanningView, job: FollowedJob, move: Move) -> MoveJob:
    here, choice = view.expected.get(job.id), move.to.choice
    last = job.run or job.runs[-1]
    chance = None if here is None else here.deadline_chance
    late = 1.0 if move.lost else 1.0 - chance if chance is not None else 0.0
    return MoveJob(
        job=job.id,
        source=f"{last.site}/{last.queue}",
        site=choice.site,
        queue=choice.queue,
        endpoint=move.to.endpoint,
        way=choice.way,
        options=tuple(sorted(move.to.options.items())),
        run_s=_planned_run_s(job, choice),
        usd_per_h=_usd_per_h(choice),
        lost=move.lost,
        stay=Stay(
            usd=None if here is None or move.lost else here.usd_left,
            late_chance=late if job.request.deadline_s is not None else 0.0,
            usd_if_late=job.request.weights.usd_if_late,
        ),
    )


def _planned_run_s(job: FollowedJob, choice: Choice) -> Range:
    """Return what all of the work takes there: the choice is for what is left of it."""
    return choice.way.run_s.times(1.0 / max(1.0 - job.saved_share, 1e-3))


def _usd_per_h(choice: Choice) -> float | None:
    if choice.usd is None or choice.run_s.mid <= 0:
        return None
    return choice.usd.mid / (choice.run_s.mid / HOUR_S)


def _resumed(job: FollowedJob, coming: SiteRun) -> MoveJob:
    """Return the move that ends what another has begun."""
    last = job.runs[-2] if len(job.runs) > 1 else coming
    return MoveJob(
        job=job.id,
        source=f"{last.site}/{last.queue}",
        site=coming.site,
        queue=coming.queue,
        endpoint=coming.endpoint,
        way=coming.way,
        options=tuple(sorted(coming.options.items())),
        run_s=coming.expected_run_s,
        usd_per_h=coming.usd_per_h,
    )


def _target(view: PlanningView, action: Action) -> str:
    match action:
        case MoveJob():
            job = view.job(action.job)
            begun = sum(each.began_s is not None for each in job.runs) if job is not None else 0
            return f"{begun} {action.source}>{action.target}"
        case Recalibrate():
            return ",".join(action.calibration.jobs)
        case _:
            return ""
