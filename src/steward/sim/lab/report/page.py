"""The page of a comparison, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from steward import __version__
from steward.documents import document, escaped, table, write_document
from steward.sim.lab.compare import Comparison
from steward.sim.lab.report import charts
from steward.sim.lab.report.formatting import count, number, percent, span
from steward.sim.lab.report.order import COLOURED, highlighted, ranked
from steward.sim.lab.report.sections import fairness, gantts, over_time
from steward.sim.lab.report.style import STYLE
from steward.sim.lab.report.tables import all_figures, main_table, say

__all__ = ["page", "write_report"]


def write_report(comparison: Comparison, path: Path, *, command: str = "") -> None:
    """Write the page; a file that was there stays whole until the new one is."""
    write_document(page(comparison, command=command), path)


def page(comparison: Comparison, *, command: str = "") -> str:
    """Return the whole page."""
    order = ranked(comparison)
    parts = (
        *_summary(comparison, order),
        *_figures(comparison, order),
        *_distributions(comparison, order),
        *over_time(comparison, order),
        *gantts(comparison, order),
        *fairness(comparison, order),
        *_left_out(comparison),
        *_made(comparison, command),
    )
    return document(f"steward lab: {comparison.base.trace.name}", parts, style=STYLE)


# -- sections ----------------------------------------------------------------------------------


def _summary(comparison: Comparison, order: list[str]) -> Iterator[str]:
    trace, machines = comparison.base.trace, comparison.base.machines
    kind = "synthetic trace" if trace.synthetic else "trace"
    yield f"<h1>{escaped(trace.name)}: {count(len(order), 'policy').replace('policys', 'policies')}"
    yield "</h1>"
    yield (
        f'<p class="quiet">{count(len(trace), "job")} of the {kind}, '
        f"{number(trace.gpu_seconds / 3600)} GPU-hours, on {machines.total_gpus} GPUs in "
        f"{count(len(machines), 'node')}</p>"
    )
    if trace.synthetic:
        yield '<p class="note">Part of this trace is made up; it is not a recording.</p>'
    yield f'<p class="lead">{escaped(summary(comparison, order))}</p>'
    for each in comparison.failed:
        said = f"<b>{escaped(each.policy)}</b> could not run: {escaped(each.problem)}"
        yield f'<p class="note">{said}</p>'


def summary(comparison: Comparison, order: list[str]) -> str:
    """Say in a sentence or two what came out."""
    if not order:
        return "No policy could be run."
    whole = [name for name in order if not comparison.figures[name]["unfinished"]]
    if not whole:
        return "No policy ran all jobs to their end, so none is ahead of another."
    first = whole[0]
    mean = span(comparison.figures[first]["jct_mean_s"])
    cost = span(comparison.settings.checkpoint_s)
    said = f"{first} ends jobs soonest, where a stop costs {cost}: {mean} on average"
    found = comparison.differences.get(first, {}).get("jct_mean_s")
    if found is not None and np.isfinite(found.relative):
        sure = "" if found.p < 0.05 else ", which may be chance"
        said += f", {abs(found.relative) * 100:.0f} % less than {comparison.baseline}{sure}"
    kept = {name: comparison.figures[name]["fairness_compliance"] for name in whole}
    best = [name for name in whole if kept[name] == max(kept.values())]
    whose = best[0] if len(best) == 1 else f"{best[0]} and {len(best) - 1} more"
    often = percent(max(kept.values()))
    return f"{said}. Guarantees are kept best by {whose}: {often} of the time that tenants waited."


def _figures(comparison: Comparison, order: list[str]) -> Iterator[str]:
    yield "<h2>Figures</h2>"
    yield (
        '<p class="quiet">Beneath each figure where it lies with 95 % confidence: blocks of jobs '
        "(for shares: of time) drawn again, the same for all policies. Stars mark the best.</p>"
    )
    yield from main_table(comparison, order)
    for figure, title in (("jct_mean_s", "Mean completion time"), ("wait_mean_s", "Mean wait")):
        rows = [(name, *_with_interval(comparison, name, figure)) for name in order]
        yield f'<h3>{title}</h3><div class="scroll">'
        yield charts.ranking(
            rows, title=title, say=partial(say, figure), marked=comparison.baseline
        )
        yield "</div>"
    yield "<details><summary>All figures</summary>"
    yield from all_figures(comparison, order)
    yield "</details>"


def _with_interval(comparison: Comparison, name: str, figure: str) -> tuple[float, float, float]:
    low, high = comparison.intervals[name].get(figure, (np.nan, np.nan))
    return comparison.figures[name][figure], low, high


def _distributions(comparison: Comparison, order: list[str]) -> Iterator[str]:
    coloured = highlighted(comparison, order, COLOURED)
    names = [(name, coloured.index(name)) for name in coloured]
    yield "<h2>Distributions</h2>"
    for which, title in (("jct_s", "Completion time"), ("wait_s", "Wait")):
        series = []
        for name in order:
            values = getattr(comparison.judged[name][0].picture, which)
            colour = coloured.index(name) if name in coloured else -1
            shares = np.linspace(0, 1, max(len(values), 1))[: len(values)]
            series.append(charts.ChartSeries(name=name, x=values, y=shares, colour=colour))
        yield f"<h3>{title}: share of jobs that took no longer</h3>"
        yield from charts.legend(names, behind=len(order) - len(coloured))
        yield '<div class="scroll">'
        yield charts.distribution(series, title=f"{title}: share of jobs that took no longer")
        yield "</div>"


def _left_out(comparison: Comparison) -> Iterator[str]:
    yield "<h2>What was left out or changed</h2>"
    rows = [
        (
            number(each.rows),
            "changed" if each.kept else "left out",
            each.reason,
            "; ".join(each.examples[:3]),
        )
        for each in comparison.left_out
    ]
    if rows:
        yield from table(("rows", "what", "why", "for example"), rows)
    else:
        yield "<p>Nothing: every row of the trace was run.</p>"


def _made(comparison: Comparison, command: str) -> Iterator[str]:
    settings, plan = comparison.settings, comparison.plan
    yield "<h2>How this was made</h2>"
    if command:
        yield f"<p><code>{escaped(command)}</code></p>"
    rows = [
        ("trace", comparison.base.trace.origin or comparison.base.trace.name),
        ("placement", settings.placement),
        ("one preemption costs", f"{span(settings.checkpoint_s)} where the trace says nothing"),
        ("error of known durations", number(settings.forecast_error)),
        ("seeds", ", ".join(map(str, plan.seeds))),
        ("windows of the trace", str(plan.windows)),
        ("options of policies", ", ".join(f"{k}={v}" for k, v in settings.policy_options.items())),
        ("steward", __version__),
    ]
    yield from table(("what", "value"), [row for row in rows if row[1]])
    notes = {note for runs in comparison.judged.values() for run in runs for note in run.notes}
    yield from (f'<p class="quiet">{escaped(note)}</p>' for note in sorted(notes))
