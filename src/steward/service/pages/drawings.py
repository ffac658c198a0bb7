"""Parts of pages as HTML: tables, bars and curves. Pure: the same snapshot, the same markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steward.model.cluster_snapshot import ClusterSnapshot, QueuedJob, TenantRow
from steward.model.decision import DecisionState
from steward.model.finding import Finding
from steward.model.outcome import Story
from steward.model.yardstick import YARDSTICKS
from steward.service.live_state import StateSnapshot
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.wording import (
    SEVERITY_WORDS,
    STATE_WORDS,
    about,
    clock,
    gpu_hours,
    plural,
)
from steward.service.sparklines import Spark

__all__ = [
    "empty",
    "faults",
    "found_list",
    "moment",
    "news",
    "queue_table",
    "severity_chip",
    "sparkline",
    "state_chip",
    "tenant_bars",
    "tenant_colours",
    "tile",
]

SHOWN_JOBS = 10
SHOWN_NEWS = 6
COLOURS = 8
WIDTH, HEIGHT = 180, 36


def tenant_colours(tenants: Sequence[TenantRow]) -> dict[str, int]:
    """Give each tenant one of the few colours, the same on every page."""
    return {tenant.id: row % COLOURS for row, tenant in enumerate(tenants)}


def empty(title: str, text: str) -> Markup:
    """Explain what will appear in an empty place, and when."""
    return tag("div", tag("b", title), tag("p", text), class_="st-empty")


def tile(name: str, value: str, beside: str, kind: str = "") -> Markup:
    """Show one figure with its name above and what it means below."""
    return tag(
        "div",
        tag("span", name, class_="st-quiet"),
        tag("b", value, class_="st-number"),
        tag("small", beside, class_="st-quiet"),
        class_=f"st-figure st-is-{kind}" if kind else "st-figure",
        title=beside,
    )


def state_chip(state: DecisionState) -> Markup:
    """Show where a decision is; never by colour alone."""
    return tag("span", STATE_WORDS[state], class_=f"st-chip st-chip-{state.value}")


def severity_chip(finding: Finding) -> Markup:
    """Show how much a finding matters."""
    word = SEVERITY_WORDS[finding.severity]
    return tag("span", word, class_=f"st-chip st-chip-{finding.severity.value}")


def found_list(findings: Sequence[Finding], now_s: float) -> Markup:
    """List findings in one line each."""
    return join(
        *(
            tag(
                "a",
                severity_chip(each),
                tag("span", each.title),
                tag("span", f"{about(now_s - each.t_s)} ago", class_="st-quiet st-number"),
                class_="st-news",
                href=f"/findings/{each.id}",
            )
            for each in findings
        )
    )


# -- the cluster page --------------------------------------------------------------------------


def queue_table(shown: ClusterSnapshot) -> Markup:
    """List the jobs that wait longest."""
    if not shown.queue:
        return empty("No jobs wait", "Jobs that wait for GPUs are listed here.")
    colours = tenant_colours(shown.tenants)
    heads = ("Job", "Tenant", "GPUs", "Waits for")
    head = tag("tr", join(*(tag("th", text, scope="col") for text in heads)))
    rows = (_queue_row(job, colours) for job in shown.queue[:SHOWN_JOBS])
    more = len(shown.queue) - SHOWN_JOBS
    rest = tag("p", f"and {plural(more, 'more job')} behind them", class_="st-quiet")
    table = tag("table", tag("thead", head), tag("tbody", join(*rows)), class_="st-table")
    return join(table, rest if more > 0 else None)


def _queue_row(job: QueuedJob, colours: dict[str, int]) -> Markup:
    tenant = job.tenant or "unknown"
    dot = tag("i", class_=f"st-dot st-t{colours[tenant]}") if tenant in colours else None
    name = tag("span", job.name, class_="st-quiet") if job.name else None
    return tag(
        "tr",
        tag("td", tag("b", job.id), name),
        tag("td", dot, tenant),
        tag("td", str(job.gpus), class_="st-number"),
        tag("td", about(job.waiting_s), class_="st-number"),
    )


def tenant_bars(shown: ClusterSnapshot) -> Markup:
    """Draw what each tenant has against what it is due."""
    if not shown.tenants:
        return empty("No tenants", "Tenants are set in the configuration: [tenants.NAME].")
    most = max(
        1.0,
        *(max(t.held + t.borrowed, t.guaranteed, t.fair_share) for t in shown.tenants),
    )
    return join(
        *(_tenant_bar(tenant, most, row % COLOURS) for row, tenant in enumerate(shown.tenants))
    )


def _tenant_bar(tenant: TenantRow, most: float, colour: int) -> Markup:
    def part(gpus: float) -> str:
        return f"{100 * gpus / most:.2f}%"

    said = ", ".join(
        (
            f"{tenant.held} held",
            f"{tenant.borrowed} borrowed",
            f"{tenant.waiting} waited for",
            f"{tenant.guaranteed} guaranteed",
            f"fair share {tenant.fair_share:.1f}",
        )
    )
    held = tag("i", class_="st-held", style=f"width:{part(tenant.held)}")
    borrowed = tag("i", class_="st-borrowed", style=f"width:{part(tenant.borrowed)}")
    guaranteed = tag("i", class_="st-guaranteed", style=f"left:{part(tenant.guaranteed)}")
    fair = tag("i", class_="st-fair", style=f"left:{part(tenant.fair_share)}")
    bar = tag(
        "div",
        held,
        borrowed,
        guaranteed if tenant.guaranteed else None,
        fair,
        class_=f"st-bar st-t{colour}",
        role="img",
        aria_label=f"{tenant.id}: {said}",
    )
    name = tag("div", tag("i", class_=f"st-dot st-t{colour}"), tag("b", tenant.id))
    figures = tag(
        "div",
        tag("b", str(tenant.held)),
        f" of {tenant.fair_share:.1f}",
        f" + {tenant.borrowed} borrowed" if tenant.borrowed else None,
        f" · waits for {tenant.waiting}" if tenant.waiting else None,
        class_="st-quiet st-number",
    )
    return tag("div", tag("div", name, figures, class_="st-split"), bar, class_="st-tenant")


def news(snapshot: StateSnapshot) -> Markup:
    """List the newest decisions in one line each."""
    if not snapshot.stories:
        return empty(
            "No decisions yet",
            "When GPUs are held but idle for a while and jobs wait, decisions appear here.",
        )
    now_s = snapshot.cluster.t_s
    return join(*(_news_line(each.story, now_s) for each in snapshot.stories[:SHOWN_NEWS]))


def _news_line(story: Story, now_s: float) -> Markup:
    decision = story.decision
    saves = YARDSTICKS[decision.action.yardstick].saves
    worth = f" · {gpu_hours(story.gained)} gained" if saves and story.outcomes else None
    return tag(
        "a",
        state_chip(story.state),
        tag("span", decision.action.sentence),
        tag("span", f"{about(now_s - decision.t_s)} ago", worth, class_="st-quiet st-number"),
        class_="st-news",
        href=f"/decisions/{decision.id}",
    )


def faults(snapshot: StateSnapshot) -> Markup:
    """Show the newest fault of the loop, if it is one of the last turn."""
    status = snapshot.status
    fresh = [fault for fault in status.faults if fault.t_s >= status.t_s]
    if not fresh:
        return Markup("")
    newest = fresh[-1]
    others = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else None
    return tag(
        "div",
        tag("b", f"{newest.where}: "),
        newest.problem,
        others,
        tag("p", newest.hint) if newest.hint else None,
        class_="st-notice",
        role="status",
    )


# -- curves ------------------------------------------------------------------------------------


def sparkline(values: Spark, says: str) -> Markup:
    """Draw shares from 0 to 1, or any positive figure, with gaps where nothing is known."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return tag("span", "no samples kept", class_="st-quiet")
    top = max(1.0, *known)
    lines = join(*(_line(run, len(values), top) for run in _runs(values)))
    return tag(
        "svg",
        lines,
        class_="st-spark",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=says,
    )


def _runs(values: Spark) -> Iterable[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for at, value in enumerate(values):
        if value is not None:
            run.append((at, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _line(run: list[tuple[int, float]], count: int, top: float) -> Markup:
    points = " ".join(
        f"{WIDTH * at / (count - 1):.1f},{HEIGHT - 2 - (HEIGHT - 4) * value / top:.1f}"
        for at, value in run
    )
    return tag("polyline", points=points)


def moment(t_s: float, now_s: float) -> Markup:
    """Show when, and how long ago that is."""
    return tag("time", f"{about(now_s - t_s)} ago", title=f"{clock(t_s)} UTC")
