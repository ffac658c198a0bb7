"""A followed job as lines and as a record: where it is, when it ends, all its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from steward.cli.output import plain
from steward.cli.words import moment, span
from steward.decide.planning.formatting import way_name
from steward.model.planning.followed import FollowedJob, SiteRun
from steward.model.planning.view import PlanningView

__all__ = ["job_record", "run_lines"]


def job_record(job: FollowedJob, view: PlanningView, proposed: Sequence[str]) -> dict[str, Any]:
    """Return a job for programs."""
    run = job.run
    site = view.sites.get(run.site) if run is not None else None
    return {
        "id": job.id,
        "name": job.name,
        "end": plain(job.end),
        "ended_s": job.ended_s,
        "site": run.site if run is not None else None,
        "queue": run.queue if run is not None else None,
        "site_state": plain(site.state) if site is not None else None,
        "deadline_s": job.request.deadline_s,
        "expected": plain(view.expected.get(job.id)),
        "spent_usd": job.spent_usd(view.t_s),
        "saved_share": job.saved_share,
        "proposed": list(proposed),
        "runs": [
            {
                "site": each.site,
                "queue": each.queue,
                "endpoint": each.endpoint,
                "job": each.job,
                "state": plain(each.state),
                "began_s": each.began_s,
                "ended_s": each.ended_s,
                "from_share": each.from_share,
                "done_share": each.marks[-1].done_share if each.marks else None,
                "to_end": each.to_end,
                "why": each.why,
            }
            for each in job.runs
        ],
    }


def run_lines(job: FollowedJob, view: PlanningView, proposed: Sequence[str]) -> Iterator[str]:
    """Give one job with all its runs."""
    end = f": {job.end.value}" if job.end is not None else ""
    yield f"{job.id} ({job.name}){end}"
    here = view.expected.get(job.id)
    if job.request.deadline_s is not None:
        yield f"  deadline   {moment(job.request.deadline_s)}"
    if here is not None:
        early, late = here.end_s.low - view.t_s, here.end_s.high - view.t_s
        yield f"  ends       in {span(early)} to {span(late)}, by {here.basis}"
        if here.deadline_chance is not None:
            yield f"  in time    {here.deadline_chance:.0%}"
    for number, run in enumerate(job.runs, 1):
        yield f"  run {number}      {_run(run)}"
    yield from (f"  proposed   {each}" for each in proposed)


def _run(run: SiteRun) -> str:
    share = f", {run.marks[-1].done_share:.0%} done" if run.marks else ""
    begun = f", from {run.from_share:.0%} of the work" if run.from_share else ""
    to_end = ", to be ended there" if run.to_end else ""
    why = f": {run.why}" if run.why else ""
    name = f"job {run.job}" if run.job else "not submitted"
    place = f"{run.site}/{run.queue}"
    return f"{place}, {way_name(run.way)}, {name}, {run.state.value}{begun}{share}{to_end}{why}"
