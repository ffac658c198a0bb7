"""`steward jobs plans` and `follow`: jobs that were submitted by a plan, over all sites."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json, read_main_draft
from steward.cli.output import print_json, print_lines, print_note, print_table, print_warnings
from steward.cli.words import moment, span

if TYPE_CHECKING:
    from steward.config import Draft
    from steward.model.planning.catalog import Catalog, CatalogSite
    from steward.model.planning.followed import FollowedJob
    from steward.model.planning.plan import Range
    from steward.model.planning.view import PlanningView
    from steward.planning.following.state import Waits
    from steward.service.job_outlook import Waits as PageWaits

__all__ = ["add_following", "ask_queues", "queue_waits"]

COLUMNS = ("id", "name", "where", "state", "done", "ends", "in time", "spent", "to pay")


def add_following(app: typer.Typer) -> None:
    """Add the commands about followed jobs."""
    app.command()(plans)
    app.command()(follow)


def plans(
    job: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Show one with all its runs.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List jobs that were submitted by a plan: where they are, when they end, what is proposed."""
    from steward.cli.views.followed import job_record, run_lines
    from steward.config.planning_loop import followed_jobs, planning_state, policy_of, sites_of

    draft = read_main_draft(config, data)
    store = followed_jobs(draft.settled())
    state = planning_state(draft, store, list(sites_of(draft)))
    view = state.view(time.time())
    print_warnings(f"{file}: {why}" for file, why in store.damaged.items())
    shown = (store.job(job),) if job is not None else _shown(view, everything=everything)
    proposed = _proposed(draft, policy_of(draft.settings), view)
    if as_json:
        records = [job_record(each, view, proposed.get(each.id, [])) for each in shown]
        print_json(records[0] if job is not None else records)
        return
    if job is not None:
        print_lines(run_lines(shown[0], view, proposed.get(job, [])))
        return
    print_table(COLUMNS, [_row(each, view) for each in shown], empty="no followed job is open")
    for each in shown:
        print_lines(f"  {each.id}: {text}" for text in proposed.get(each.id, []))
    if any(each.end is None for each in shown) and not store.is_followed():
        print_note("nobody follows them now: `steward up` does, or `steward jobs follow`")


def follow(
    *,
    once: Annotated[bool, typer.Option("--once", help="One look, then end.")] = False,
    config: Config = None,
    data: Data = None,
) -> None:
    """Follow jobs until stopped, where no `steward up` does: look, forecast, propose or move.

    What it may do by itself is `loop.autonomy`: by default it proposes. Stopped, also by kill -9,
    and started again, it goes on where it was; the jobs run on without it.
    """
    from steward.clock import WallClock
    from steward.config.planning_loop import following

    draft = read_main_draft(config, data)
    draft.settled()
    stop = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stop.set())
    with following(draft, clock=WallClock(), waits=queue_waits(config, data)) as loop:
        try:
            if once:
                loop.turn()
            else:
                print_note(f"following jobs of {draft.settings.store.path}; Ctrl-C ends that")
                loop.run(stop)
        finally:
            loop.close()
        print_warnings(f"{each.where}: {each.problem}" for each in loop.status.faults)


def ask_queues(config: Path | None, data: Path | None) -> PageWaits:
    """Return what asks the stewards of sites for their queues, and says which do not answer."""

    def ask(
        sites: Sequence[CatalogSite], counts: frozenset[int]
    ) -> tuple[Mapping[str, Range], tuple[str, ...]]:
        from steward.cli.estimate.plan_sources import waits_at

        return waits_at(sites, counts, config, data)

    return ask


def queue_waits(config: Path | None, data: Path | None) -> Waits:
    """Return what asks the stewards of sites for their queues."""

    def ask(catalog: Catalog, counts: frozenset[int]) -> dict[str, Range]:
        from steward.cli.estimate.plan_sources import waits_at

        return waits_at(catalog.sites, counts, config, data)[0]

    return ask


def _shown(view: PlanningView, *, everything: bool) -> tuple[FollowedJob, ...]:
    return tuple(each for each in view.jobs if everything or each.end is None)


def _proposed(draft: Draft, policy: Any, view: PlanningView) -> dict[str, list[str]]:  # noqa: ANN401
    """Return what is proposed for each job, with the command that lets steward do it.

    From the journal, where the process that follows them has it; else as decided now.
    """
    open_ids = _open_ids(draft)
    found: dict[str, list[str]] = {}
    for each in policy.decide(view):
        job = getattr(each.action, "job", "")
        how = f"steward decisions approve {each.id}" if each.id in open_ids else "not proposed yet"
        found.setdefault(job, []).append(f"{each.action.sentence}: {each.because} ({how})")
    return found


def _open_ids(draft: Draft) -> set[str]:
    from steward.model.decision import DecisionState
    from steward.store.journal import open_journal

    store = draft.settings.store
    if not store.path.exists():
        return set()
    journal = open_journal(store.journal_url, read_only_ok=True)
    try:
        over = (DecisionState.DONE, DecisionState.FAILED, DecisionState.REJECTED)
        return {
            story.decision.id
            for _, story in journal.stories(limit=200)
            if story.state not in (*over, DecisionState.EXPIRED)
        }
    finally:
        journal.close()


def _row(job: FollowedJob, view: PlanningView) -> tuple[str, ...]:
    return tuple(_cells(job, view))


def _cells(job: FollowedJob, view: PlanningView) -> Iterator[str]:
    run = job.run or (job.runs[-1] if job.runs else None)
    here = view.expected.get(job.id)
    yield from (job.id, job.name)
    yield f"{run.site}/{run.queue}" if run is not None else ""
    yield job.end.value if job.end is not None else run.state.value if run is not None else ""
    if here is None:
        ended = "" if job.ended_s is None else moment(job.ended_s)
        yield from ("", ended, "", f"{job.spent_usd(view.t_s):.2f} USD", "")
        return
    yield "" if here.done_share is None else f"{here.done_share:.0%}"
    early, late = here.end_s.low - view.t_s, here.end_s.high - view.t_s
    yield f"in {span(early)} to {span(late)}"
    yield "" if here.deadline_chance is None else f"{here.deadline_chance:.0%}"
    yield f"{job.spent_usd(view.t_s):.2f} USD"
    yield "unknown" if here.usd_left is None else f"{here.usd_left.mid:.2f} USD"
