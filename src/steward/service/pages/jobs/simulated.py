"""`/jobs` where steward runs no jobs itself: those of the cluster's view, to be read only."""

from __future__ import annotations

from collections.abc import Iterable

from steward.model.cluster_snapshot import ClusterSnapshot, QueuedJob, RunningJobRow
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html
from steward.service.pages.wording import about, plural

__all__ = ["lent_table", "seen_jobs_page", "seen_table"]

MOST = 100
SIMULATED = join(
    tag("span", "simulated", class_="st-chip"),
    " A demo runs no jobs of yours: these are the simulated cluster's. ",
    tag("code", "steward up"),
    " without ",
    tag("code", "--demo"),
    " runs jobs on this machine.",
)
ELSEWHERE = join(
    "This steward runs no jobs itself (",
    tag("code", "jobs.enabled"),
    " is off, or another engine is chosen): these are the jobs that it sees.",
)


def seen_jobs_page(visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    Html(SIMULATED if visit.live_state.simulated else ELSEWHERE, tag="p", classes="st-hint")
    with card("Jobs"):
        jobs = Html()
    with card("Who lent what to whom"):
        lent = Html()

    def show(snapshot: StateSnapshot) -> None:
        jobs.show(seen_table(snapshot.cluster))
        lent.show(lent_table(snapshot.cluster))

    return show


def seen_table(shown: ClusterSnapshot) -> Markup:
    """List the jobs of a view: those that run, then those that wait longest."""
    if not shown.running and not shown.queue:
        return empty("No jobs", "Jobs that a collector reports are listed here.")
    rows = [*map(_running, shown.running[:MOST]), *map(_waiting, shown.queue[:MOST])]
    more = max(len(shown.running) - MOST, 0) + max(len(shown.queue) - MOST, 0)
    rest = tag("p", f"and {plural(more, 'more job')}", class_="st-quiet") if more else None
    counts = f"{plural(len(shown.running), 'job')} run, {len(shown.queue):,} wait"
    return join(
        tag("p", counts, class_="st-quiet st-above"),
        _table(("Job", "User", "State", "GPUs", "Waited or where"), rows),
        rest,
    )


def _running(job: RunningJobRow) -> Markup:
    where = f"on {', '.join(job.nodes[:3])}" + (" …" if len(job.nodes) > 3 else "")
    return _row(job, tag("span", "runs", class_="st-chip st-chip-active"), where)


def _waiting(job: QueuedJob) -> Markup:
    return _row(job, tag("span", "waits", class_="st-chip st-chip-waiting"), about(job.waiting_s))


def _row(job: RunningJobRow | QueuedJob, state: Markup, last: str) -> Markup:
    name = tag("span", job.name, class_="st-quiet") if job.name else None
    tenant = tag("span", job.tenant, class_="st-quiet") if job.tenant else None
    return tag(
        "tr",
        tag("td", tag("b", job.id), name),
        tag("td", job.user, tenant),
        tag("td", state),
        tag("td", str(job.gpus), class_="st-number"),
        tag("td", last),
    )


def lent_table(shown: ClusterSnapshot) -> Markup:
    """List who has whose GPUs now."""
    loans: dict[str, list[str]] = {}
    whose: dict[str, tuple[str, str]] = {}
    for gpu in shown.gpus:
        if gpu.loan:
            loans.setdefault(gpu.loan, []).append(gpu.id)
            whose[gpu.loan] = (gpu.owner or "unknown", gpu.borrower or "unknown")
    if not loans:
        return empty("Nothing is lent", "GPUs that their jobs leave idle, and who has them.")
    rows = (
        tag(
            "tr",
            tag("td", whose[loan][0]),
            tag("td", whose[loan][1]),
            tag("td", str(len(gpus)), class_="st-number"),
            tag("td", tag("a", "Decision", href=f"/decisions/{loan}")),
        )
        for loan, gpus in loans.items()
    )
    return _table(("Owner", "Borrower", "GPUs", "Why"), rows)


def _table(heads: Iterable[str], rows: Iterable[Markup]) -> Markup:
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="st-table")
    return tag("div", table, class_="st-scroll")
