"""What a report of a site changes in the record of a job. Pure."""

from __future__ import annotations

from dataclasses import replace

from steward.model.planning.calibration import RunError
from steward.model.planning.followed import (
    FollowedJob,
    JobEnd,
    Mark,
    RunState,
    SiteLook,
    SiteReport,
    SiteRun,
)

__all__ = ["error_of", "with_look"]

_ENDS = {
    RunState.COMPLETED: JobEnd.COMPLETED,
    RunState.FAILED: JobEnd.FAILED,
    RunState.STOPPED: JobEnd.CANCELLED,
}
UNNAMED = ("", "job")  # what plans are called that nobody named: they have nothing in common


def with_look(job: FollowedJob, look: SiteLook, report: SiteReport) -> FollowedJob:
    """Return a job with what its site showed of one run."""
    if look.run >= len(job.runs):
        return job
    run = _seen(job, job.runs[look.run], look, report)
    state = _state(run, look, silent=bool(report.problem))
    steps = job.steps if job.steps or not look.steps else look.steps
    job = replace(job, steps=steps)
    if not state.ended or state is RunState.LOST:
        return job.with_run(look.run, replace(run, state=state))
    ended_s = report.t_s if look.ended_s is None else look.ended_s
    why = look.why or run.why
    over = replace(run, state=state, ended_s=ended_s, to_end=False, held=False, why=why)
    current = job.run is not None and job.number_of(job.run) == look.run
    moved = state is RunState.STOPPED and job.coming is not None  # that stop is the move's
    job = job.with_run(look.run, over)
    ends = state is RunState.COMPLETED or (current and not moved and not run.to_end)
    if job.end is None and ends:
        return replace(job, end=_ENDS[state], ended_s=ended_s)
    return job


def _seen(job: FollowedJob, run: SiteRun, look: SiteLook, report: SiteReport) -> SiteRun:
    by_site = not report.problem
    seen_s = report.t_s if by_site else look.progress_s
    if seen_s is not None and run.seen_s is not None:
        seen_s = max(seen_s, run.seen_s)
    run = replace(
        run,
        began_s=look.began_s if look.began_s is not None else run.began_s,
        folder=look.folder or run.folder,
        can_save=look.can_save or run.can_save,
        seen_s=seen_s if seen_s is not None else run.seen_s,
    )
    steps = job.steps or look.steps
    if look.step is None or not steps or look.progress_s is None or look.step <= 0:
        return run
    return run.with_mark(Mark(t_s=min(look.progress_s, report.t_s), done_share=look.step / steps))


def _state(run: SiteRun, look: SiteLook, *, silent: bool) -> RunState:
    """Return the state of a run, as its site shows it."""
    if run.state.ended and run.state is not RunState.LOST:
        return run.state
    if silent:
        return RunState.COMPLETED if look.complete else run.state
    if look.state is None:
        return RunState.COMPLETED if look.complete else RunState.FAILED
    if look.state.ended or run.state is not RunState.LOST:
        held = look.state is RunState.HELD and not run.held
        return RunState.WAITING if held else look.state
    return RunState.LOST


def error_of(job: FollowedJob) -> RunError | None:
    """Return how far off the plan of a job was that completed where it began."""
    if job.end is not JobEnd.COMPLETED or len(job.runs) > 1 or job.name in UNNAMED:
        return None
    run = job.runs[0]
    if run.began_s is None or run.ended_s is None or run.ended_s <= run.began_s:
        return None
    factor = job.corrected.get(run.way.gpu_model, 1.0)
    return RunError(
        job=job.id,
        name=job.name,
        gpu_model=run.way.gpu_model,
        t_s=run.ended_s,
        planned_s=run.expected_run_s.times(1.0 / factor),
        took_s=run.ended_s - run.began_s,
    )
