"""The parts of the page that show what happened over time, and to whom."""

from __future__ import annotations

from collections.abc import Iterator

from steward.documents import escaped, table
from steward.documents.svg import picture, text
from steward.sim.lab.compare import Comparison
from steward.sim.lab.judge.measures import TenantMeasures
from steward.sim.lab.report import charts
from steward.sim.lab.report.formatting import count, number, percent, span
from steward.sim.lab.report.gantt import SEVERAL, draw, tenants_by_colour
from steward.sim.lab.report.order import COLOURED, highlighted
from steward.sim.lab.report.tables import say

__all__ = ["fairness", "gantts", "over_time"]

GANTTS = 6
TENANTS = 24  # in one picture


def over_time(comparison: Comparison, order: list[str]) -> Iterator[str]:
    """Show the queue and the GPUs in use, a panel per policy."""
    lines = {name: comparison.judged[name][0].measures.timeline for name in order}
    most = max((float(each.queue_max.max()) for each in lines.values()), default=1.0)
    last = max((float(each.edges_s[-1]) for each in lines.values()), default=1.0)
    yield "<h2>Queue and GPUs over time</h2>"
    yield (
        '<p class="quiet">Above: waiting jobs (logarithmic; pale: the most at any time). Below: '
        "GPUs in use; dashed: GPUs there. All panels have the same axes.</p>"
    )
    yield '<div class="two">'
    for name in order:
        yield charts.queue_panel(lines[name], name=name, most_queued=most, to_s=last)
    yield "</div>"


def gantts(comparison: Comparison, order: list[str]) -> Iterator[str]:
    """Show who ran on the busiest day, for the policies that stand out."""
    trace = comparison.base.trace
    colours = tenants_by_colour(trace.tenant, trace.gpus * trace.duration_s, len(trace.tenants))
    shown = highlighted(comparison, order, GANTTS)
    first = comparison.judged[shown[0]][0].picture.gantt if shown else None
    if first is None:
        return
    yield "<h2>Who ran when</h2>"
    by = "tenant" if len(colours) > SEVERAL else "job"
    yield (
        f'<p class="quiet">The day with most work waiting: from {span(first.from_s)} to '
        f"{span(first.to_s)} of the trace. One line per GPU, jobs on the lowest lines free, "
        f"coloured by {by}.</p>"
    )
    named = [(name, colours[i]) for i, name in enumerate(trace.tenants)]
    own = sorted((each for each in named if each[1] < COLOURED - 1), key=lambda each: each[1])
    others = len(named) - len(own)
    if by == "tenant":
        yield from charts.legend([*own, *([(f"{others} others", COLOURED - 1)] if others else [])])
    for name in shown:
        gantt = comparison.judged[name][0].picture.gantt
        gpus = float(comparison.judged[name][0].measures.timeline.capacity_gpus.max())
        drawn, shared = draw(gantt, gpus=gpus, colours=colours, name=name)
        yield f'<h3>{escaped(name)}</h3><div class="scroll">{drawn}</div>'
        if gantt.left_out + shared:
            yield (
                f'<p class="quiet">{count(gantt.left_out, "small span")} not drawn'
                f"{f', {shared} share GPUs with others' if shared else ''}</p>"
            )


def fairness(comparison: Comparison, order: list[str]) -> Iterator[str]:
    """Show how well tenants were served."""
    yield "<h2>Fairness</h2>"
    yield (
        '<p class="quiet">How often tenants with waiting jobs had what is theirs: the guarantee, '
        "and their weighted part of what others left.</p>"
    )
    rows = [
        (
            name,
            *(say(figure, comparison.figures[name][figure]) for figure in _FAIR),
        )
        for name in order
    ]
    yield from table(("policy", *_FAIR.values()), rows)
    for name in highlighted(comparison, order, 4):
        tenants = comparison.judged[name][0].measures.tenants
        if len(tenants) < 2:
            continue
        largest = sorted(tenants, key=lambda each: -each.quota_gpus)[:TENANTS]
        yield f"<h3>{escaped(name)}: GPUs held (bar) and guaranteed (mark) by tenant</h3>"
        yield '<p class="quiet">Short: part of its waiting time below the guarantee.</p>'
        yield '<div class="scroll">'
        yield _held(largest, name)
        yield "</div>"


_FAIR = {
    "fairness_compliance": "guarantees kept",
    "share_compliance": "fair share kept",
    "rho_unfair_share": "jobs with rho > 1",
    "rho_max": "largest rho",
    "slowdown_mean": "mean slowdown",
}


def _held(tenants: list[TenantMeasures], policy: str) -> str:
    most = max([1e-9, *(max(each.quota_gpus, each.held_gpus) for each in tenants)])
    left, right, row = 170.0, 720.0, 20.0
    parts = []
    for i, each in enumerate(tenants):
        y = 6 + i * row
        width = each.held_gpus / most * (right - left)
        mark = left + each.quota_gpus / most * (right - left)
        name = each.tenant or "no tenant"
        said = (
            f"{number(each.held_gpus)} of {number(each.quota_gpus)} GPUs, short for "
            f"{percent(each.short_share)}"
        )
        parts += [
            text(left - 8, y + 13, name if len(name) < 20 else f"{name[:18]}…", anchor="end"),
            f'<rect class="bar" x="{left:g}" y="{y + 3:g}" width="{width:.1f}" height="12"/>',
            f'<line class="mark" x1="{mark:.1f}" x2="{mark:.1f}" y1="{y:g}" y2="{y + 18:g}"/>',
            text(right + 10, y + 13, said),
        ]
    title = f"GPUs held and guaranteed by tenant under {policy}"
    return picture(parts, width=1000, height=12 + row * len(tenants), title=title)
