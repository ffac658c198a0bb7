"""What came out of the lab, as rows and lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steward.cli.words import number, span
from steward.sim.lab.compare import Comparison
from steward.sim.lab.judge import FIGURES
from steward.sim.lab.report.formatting import between
from steward.sim.lab.report.order import ranked
from steward.sim.lab.report.tables import say
from steward.sim.lab.sweep import Sweep
from steward.sim.lab.trials.variants import span_s

__all__ = [
    "COMPARE_COLUMNS",
    "compare_rows",
    "figure_lines",
    "heading",
    "left_out_lines",
    "legend_lines",
    "sweep_columns",
    "sweep_rows",
]

COMPARE_COLUMNS = (
    *("policy", "JCT", "95 %", "change", "p99", "wait", "used", "fair", "stops", "unfinished"),
)


_SHOWN = (
    *("jct_p99_s", "wait_mean_s", "utilisation", "fairness_compliance", "preemptions"),
    "unfinished",
)


def heading(found: Comparison) -> Iterator[str]:
    """Say what was replayed, on what."""
    trace, machines = found.base.trace, found.base.machines
    made_up = " (synthetic)" if trace.synthetic else ""
    yield (
        f"{trace.name}{made_up}: {number(len(trace))} jobs, "
        f"{number(trace.gpu_seconds / 3600)} GPU-hours within {span(span_s(trace))}, on "
        f"{machines.total_gpus} GPUs in {len(machines)} nodes"
    )
    costs = np.nan_to_num(trace.checkpoint_s, nan=found.settings.checkpoint_s)
    yield (
        f"one stop costs a job {span(float(costs.mean()) if len(costs) else 0.0)} on average "
        "(--checkpoint-s, where the trace says nothing)"
    )


def compare_rows(found: Comparison) -> Iterator[tuple[str, ...]]:
    """Return a row of `COMPARE_COLUMNS` per policy, shortest mean completion time first."""
    for name in ranked(found):
        figures = found.figures[name]
        low, high = found.intervals[name]["jct_mean_s"]
        yield (
            name,
            say("jct_mean_s", figures["jct_mean_s"]),
            between(low, high),
            _against(found, name),
            *(say(figure, figures[figure]) for figure in _SHOWN),
        )


def legend_lines(found: Comparison) -> Iterator[str]:
    """Say what the columns are, and who left jobs unfinished."""
    if not found.judged:
        return
    yield ""
    yield f"JCT: mean completion time, and its change against {found.baseline}; ? may be chance"
    yield "used: GPUs in use; fair: how often waiting tenants had at least their guarantee"
    for name, figures in found.figures.items():
        if figures["unfinished"]:
            yield (
                f"{name} left {number(figures['unfinished'])} jobs unfinished: its means are of "
                "the others, and it is not ranked"
            )


def left_out_lines(found: Comparison) -> Iterator[str]:
    """Say which rows were not used or changed, which policies could not run, and notes."""
    if found.left_out:
        yield ""
        yield "rows left out or changed"
    for each in found.left_out:
        what = "changed" if each.kept else "left out"
        yield f"  {number(each.rows)} {what}: {each.reason}"
        yield from (f"    {example}" for example in each.examples[:3])
    if found.failed:
        yield from ("", "policies that could not run")
    for failure in found.failed:
        yield f"  {failure.policy}: {failure.problem}"
    notes = {note for runs in found.judged.values() for run in runs for note in run.notes}
    if notes:
        yield from ("", "notes")
    yield from (f"  {note}" for note in sorted(notes))


def figure_lines(found: Comparison, policy: str) -> Iterator[str]:
    """Return every figure of one policy, with its interval."""
    yield policy
    for figure in FIGURES:
        said = say(figure, found.figures[policy][figure])
        low, high = found.intervals[policy].get(figure, (0.0, 0.0))
        between = f"  ({say(figure, low)} to {say(figure, high)})" if low < high else ""
        yield f"  {figure:<22} {said}{between}"


def sweep_columns(found: Sweep) -> tuple[str, ...]:
    """Return what varied, then the figures."""
    return (*found.points[0].varied, *COMPARE_COLUMNS)


def sweep_rows(found: Sweep) -> Iterator[tuple[str, ...]]:
    """Return a row per point and policy."""
    for point in found.points:
        for row in compare_rows(point.comparison):
            yield (*(str(value) for value in point.varied.values()), *row)


def _against(found: Comparison, name: str) -> str:
    if name == found.baseline:
        return "-"
    change = found.differences[name]["jct_mean_s"]
    sure = "" if change.p < 0.05 else " ?"
    return f"{change.relative * 100:+.1f} %{sure}"
