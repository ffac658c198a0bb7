"""Moves followed jobs between sites, step by step; the record of a job says which step is next.

Never two runs of a job: the new one is held until the old one has ended. What a site is asked to do
is written down before it is asked, under a token that the site knows a submission by, so that a
crash at any moment is followed by the same step again, which changes nothing where it was done.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from steward.clients.site_jobs.job_folder import Saved
from steward.clients.site_jobs.site import Order, Site
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import (
    PLANNING_ACTIONS,
    Action,
    EndCopy,
    MoveJob,
    Recalibrate,
    StartCampaign,
)
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.planning.followed import FollowedJob, JobEnd, RunState, SiteRun
from steward.store.followed_jobs import FollowedJobs

__all__ = ["PlanningActuator", "order_of"]

STEP_S = 1.0  # between two steps of a move
SAVE_TOLERANCE_S = 2.0  # clocks of a site and of this machine may differ by so much

Step = tuple[Literal["begun", "done", "failed"], str]  # a result, and what was done
Campaigns = Callable[[StartCampaign], str]  # starts one, and returns what was started


class PlanningActuator:
    """All sites by their endpoint, and the records of the jobs."""

    name = "sites"

    def __init__(
        self,
        sites: Mapping[str, Site],
        store: FollowedJobs,
        *,
        save_within_s: float = 300.0,
        lost_after_s: float = 900.0,
        campaigns: Campaigns | None = None,
    ) -> None:
        self._sites, self._store = sites, store
        self._save_within_s, self._lost_after_s = save_within_s, lost_after_s
        self._campaigns = campaigns
        self._next_s: float | None = None

    def available(self) -> Availability:
        """Say which sites there are."""
        names = ", ".join(sorted(each or "the main one" for each in self._sites))
        return Availability(status="ok" if self._sites else "missing", reason=f"sites: {names}")

    def actions(self) -> tuple[type[Action], ...]:
        """Return what is done about followed jobs."""
        return PLANNING_ACTIONS

    def next_s(self) -> float | None:
        """Return when the next step of a move is due."""
        return self._next_s

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next."""
        self._next_s = None
        try:
            result, text = self._step(decision, t_s)
        except TemporaryError:
            raise
        except StewardError as fault:
            raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault
        if result == "begun":
            self._next_s = t_s + STEP_S
        gpus = () if result == "failed" else decision.action.gpus
        return Receipt(decision=decision.id, t_s=t_s, result=result, gpus=gpus, text=text)

    def _step(self, decision: Decision, t_s: float) -> Step:
        match decision.action:
            case MoveJob() as action:
                return self._move(decision, action, t_s)
            case EndCopy() as action:
                return self._end(action, t_s)
            case Recalibrate() as action:
                self._store.calibrate(action.calibration)
                return "done", action.sentence
            case StartCampaign() as action:
                return self._measure(action, t_s)
            case action:
                raise PermanentError(f"sites cannot {action.type}")

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next: the records say how far it is."""
        return self.carry_out(decision, t_s)

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:
        """Return the command that lets steward do it, or what a person would type."""
        del t_s
        approve = f"steward decisions approve {decision.id}"
        action = decision.action
        if isinstance(action, EndCopy):
            run = self._store.job(action.job).runs[action.run]
            return ByHand(text="ends that run alone", commands=(_typed("cancel", run),))
        if isinstance(action, PLANNING_ACTIONS):
            return ByHand(text=f"lets steward do it: {action.sentence}", commands=(approve,))
        return ByHand(text="sites cannot do that", possible=False)

    # -- moving ----------------------------------------------------------------------------------

    def _move(self, decision: Decision, action: MoveJob, t_s: float) -> Step:
        job = self._store.job(action.job)
        if job.end is not None:
            return "done", f"{job.id} has ended: {job.end.value}"
        here = job.run
        if here is not None and here.place == (action.site, action.queue):
            return ("done", "it is there") if here.job else self._submitted(job, here, t_s)
        coming = job.coming
        if coming is None and not action.lost and here is not None:
            early = self._saved(job, here, t_s)
            if early is not None:
                return early
            job = self._store.job(job.id)
        if coming is None:
            job, coming = self._written(job, action, decision, t_s)
        if not coming.job:
            result, text = self._submitted(job, coming, t_s)
            if result == "failed" or not coming.held:
                return result, text
            job = self._store.job(job.id)
        return self._exchanged(job, t_s)

    def _saved(self, job: FollowedJob, here: SiteRun, t_s: float) -> Step | None:
        """Let a run save, and keep the checkpoint; return a result while, or if, it has none."""
        if here.state is not RunState.RUNNING:
            return None
        site = self._site(here)
        if job.save_asked_s is None:
            site.engine.change(here.job, "save")
            self._store.save(replace(job, save_asked_s=t_s))  # what is newer than this counts
            return "begun", f"{job.id} was asked to save at {here.site}"
        saved = site.checkpoint(here)
        if saved is None or saved.created_s < job.save_asked_s - SAVE_TOLERANCE_S:
            if t_s - job.save_asked_s <= self._save_within_s:
                return "begun", f"{job.id} is saving at {here.site}"
            self._store.save(replace(job, save_asked_s=None))
            text = f"{job.id} did not save within {self._save_within_s:.0f} s, and goes on"
            return "failed", text
        try:
            kept = site.keep(saved, self._store.checkpoints(job.id))
        except PermanentError as fault:
            self._store.save(replace(job, save_asked_s=None))
            return "failed", f"{fault.problem}; {job.id} goes on where it is"
        share = share_of(saved, job, here)
        self._store.save(replace(job, checkpoint=str(kept), saved_share=share))
        return None

    def _written(
        self, job: FollowedJob, action: MoveJob, decision: Decision, t_s: float
    ) -> tuple[FollowedJob, SiteRun]:
        """Write down a run at the new site, before that is asked."""
        number = len(job.runs)
        here = job.run
        if action.lost and here is not None:
            text = "its site did not answer"
            job = self._rescued(job, here)
            lost = replace(here, state=RunState.LOST, ended_s=t_s, to_end=True, why=text)
            job = job.with_run(job.number_of(here), lost)
        run = SiteRun(
            site=action.site,
            queue=action.queue,
            way=action.way,
            expected_run_s=action.run_s,
            submitted_s=t_s,
            endpoint=action.endpoint,
            options=dict(action.options),
            token=f"{job.id}-{number}",
            usd_per_h=action.usd_per_h,
            held=not action.lost and here is not None,
            checkpoint=job.checkpoint,
            from_share=job.saved_share if job.checkpoint else 0.0,
            decision=decision.id,
            why=decision.because,
        )
        made = replace(job.with_run(number, run), save_asked_s=None)
        self._store.save(made)
        return made, run

    def _rescued(self, job: FollowedJob, here: SiteRun) -> FollowedJob:
        """Return a job with what it saved at a site that does not answer, if that can be read."""
        site = self._site(here)
        saved = site.checkpoint(here)
        if saved is None:
            return job
        share = share_of(saved, job, here)
        if share < job.saved_share:
            return job
        try:
            kept = site.keep(saved, self._store.checkpoints(job.id))
        except PermanentError:  # damaged: it goes on from the one that was kept before
            return job
        return replace(job, checkpoint=str(kept), saved_share=share)

    def _submitted(self, job: FollowedJob, run: SiteRun, t_s: float) -> Step:
        """Submit a run that is written down."""
        number = job.number_of(run)
        try:
            id_ = self._site(run).engine.submit(order_of(self._store, job, number))
        except TemporaryError:
            raise
        except StewardError as fault:
            refused = replace(run, state=RunState.FAILED, held=False, ended_s=t_s, why=str(fault))
            self._store.save(job.with_run(number, refused))
            return "failed", f"{run.site} refused it: {fault}"
        state = RunState.HELD if run.held else RunState.WAITING
        self._store.save(job.with_run(number, replace(run, job=id_, state=state)))
        return "done", f"{job.id} is job {id_} at {run.site}/{run.queue}"

    def _exchanged(self, job: FollowedJob, t_s: float) -> Step:
        """End the run where the job was, then release the one that is held."""
        here, coming = job.run, job.coming
        assert coming is not None  # noqa: S101 - written down before
        if here is not None:
            state = self._over(here, coming, t_s)
            if state is None:
                return "begun", f"{job.id} is ending at {here.site}"
            lost = state is RunState.LOST
            ended = replace(here, state=state, ended_s=t_s, to_end=lost, why="it goes on elsewhere")
            job = job.with_run(job.number_of(here), ended)
            if state is RunState.COMPLETED:
                dropped = replace(coming, to_end=True)
                job = job.with_run(job.number_of(coming), dropped)
                self._store.save(replace(job, end=JobEnd.COMPLETED, ended_s=t_s))
                return "done", f"{job.id} had completed at {here.site} meanwhile"
            self._store.save(job)
        self._site(coming).engine.change(coming.job, "release")
        released = replace(coming, held=False, state=RunState.WAITING)
        self._store.save(job.with_run(job.number_of(coming), released))
        return "done", f"{job.id} goes on as job {coming.job} at {coming.site}/{coming.queue}"

    def _over(self, here: SiteRun, coming: SiteRun, t_s: float) -> RunState | None:
        """End the run where a job was; one whose site has been silent for too long is lost."""
        if not here.job:
            return RunState.STOPPED
        try:
            return self._site(here).over(here)
        except TemporaryError:
            seen_s = max(coming.submitted_s, here.seen_s or 0.0)
            if t_s - seen_s < self._lost_after_s:
                raise
            return RunState.LOST

    # -- the other actions -----------------------------------------------------------------------

    def _end(self, action: EndCopy, t_s: float) -> Step:
        job = self._store.job(action.job)
        run = job.runs[action.run]
        state = self._site(run).over(run)
        if state is None:
            return "begun", f"run {action.run + 1} of {job.id} is ending at {action.place}"
        first = state is RunState.COMPLETED and job.end is None
        job = job.with_run(
            action.run, replace(run, state=state, to_end=False, held=False, ended_s=t_s)
        )
        if first:  # it got to its end before it was found again: the other copy is ended next
            job = replace(job, end=JobEnd.COMPLETED, ended_s=t_s)
        self._store.save(job)
        return "done", f"run {action.run + 1} of {job.id} at {action.place}: {state.value}"

    def _measure(self, action: StartCampaign, t_s: float) -> Step:
        if self._campaigns is None:
            return "failed", "nothing here starts campaigns"
        text = self._campaigns(action)
        self._store.note_campaign(action.application, t_s)
        return "done", text

    def _site(self, run: SiteRun) -> Site:
        if run.endpoint not in self._sites:
            hint = f"give the configuration a table [sites.{run.endpoint}] again"
            raise PermanentError(f"nobody here knows the site {run.endpoint!r}", hint=hint)
        return self._sites[run.endpoint]


def order_of(store: FollowedJobs, job: FollowedJob, number: int) -> Order:
    """Return how a run is submitted."""
    run, program = job.runs[number], store.program(job.id)
    # What a person chose for the first site, as its partition, holds there alone.
    own = {name: each for name, each in program.options.items() if name in _ANYWHERE}
    return Order(
        token=run.token,
        name=job.name,
        launcher=store.launcher(job.id, number, checkpoint=run.checkpoint),
        argv=_inline(program.script, program.argv),
        environment=program.environment,
        folder=program.folder or str(Path.home()),
        options={**own, **run.options},
        hold=run.held,
        image=program.image,
        volumes=program.volumes,
    )


_ANYWHERE = ("cpus-per-task", "mem", "slots", "requeue", "saves", "output", "error")


def _inline(script: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    return ("sh", "-c", script, "script", *argv) if script else argv


def share_of(saved: Saved, job: FollowedJob, run: SiteRun) -> float:
    """Return which share of the work a checkpoint holds."""
    if job.steps:
        return min(saved.step / job.steps, 1.0)
    before = [each.done_share for each in run.marks if each.t_s <= saved.created_s]
    return before[-1] if before else run.from_share


def _typed(what: str, run: SiteRun) -> str:
    site = f" --site {shlex.quote(run.endpoint)}" if run.endpoint else ""
    return f"steward jobs {what} {shlex.quote(run.job)}{site}"
