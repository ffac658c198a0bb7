"""The pictures of a comparison: who is better, distributions, the queue over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.documents import Axis, axis_of, escaped
from steward.documents.svg import area, line, picture, stairs, text, x_axis, y_axis
from steward.sim.lab.judge.measures import Timeline
from steward.sim.lab.report.formatting import number
from steward.sim.lab.report.time_ticks import time_ticks

__all__ = ["COLOURS", "WIDTH", "ChartSeries", "distribution", "legend", "queue_panel", "ranking"]

Floats = NDArray[np.float64]

COLOURS = 8
WIDTH = 1000.0
ROW_PX = 22.0
NAME_PX = 190.0
CHAR_PX = 7.6  # of 12 px text, on the wide side


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChartSeries:
    """A curve with its name; colour -1 is one of the many behind."""

    name: str
    x: Floats
    y: Floats
    colour: int = -1


def ranking(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    title: str,
    say: Callable[[float], str],
    marked: str = "",
    log: bool = True,
) -> str:
    """Draw a dot with its interval per row (name, value, low, high), in the order given."""
    known = np.array([each for row in rows for each in row[1:] if np.isfinite(each)])
    width, top = WIDTH, 4.0
    name_px = min(NAME_PX, 12 + CHAR_PX * max((len(row[0]) for row in rows), default=0))
    bottom = top + ROW_PX * len(rows)
    axis = axis_of(known, px=(name_px, width - 90), log=log and bool((known > 0).any()))
    ticks = time_ticks(axis) if log else [(t, say(t)) for t in axis.ticks()]
    parts = [*x_axis(axis, ticks, top=top, bottom=bottom)]
    for i, (name, value, low, high) in enumerate(rows):
        y = top + (i + 0.5) * ROW_PX
        kind = "strong" if name == marked else ""
        parts.append(text(name_px - 8, y + 4, _short(name, 26), anchor="end", kind=kind))
        if not np.isfinite(value):
            continue
        x, a, b = (float(axis.at(each)) for each in (value, low, high))
        if np.isfinite(low) and np.isfinite(high):
            parts.append(f'<line class="whisker" x1="{a:.1f}" x2="{b:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="dot" r="4" cx="{x:.1f}" cy="{y}"/>')
        parts.append(text(width - 82, y + 4, say(value), kind=kind))
    return picture(parts, width=width, height=bottom + 24, title=title)


def distribution(series: Sequence[ChartSeries], *, title: str) -> str:
    """Draw which share of jobs took no longer than a time; times are logarithmic."""
    width, height, left, bottom = WIDTH, 320.0, 48.0, 292.0
    times = np.concatenate([np.maximum(each.x, 1.0) for each in series] or [np.ones(1)])
    x = axis_of(times, px=(left, width - 10), log=True)
    y = Axis(low=0.0, high=1.0, from_px=bottom, to_px=10.0)
    shares = [(each, f"{each:.0%}") for each in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts = [
        *x_axis(x, time_ticks(x, about=8), top=10, bottom=bottom),
        *y_axis(y, shares, left=left, right=width - 10),
    ]
    for each in sorted(series, key=lambda one: one.colour >= 0):
        kind = f"curve c{each.colour}" if each.colour >= 0 else "behind"
        parts.append(line(x.at(np.maximum(each.x, 1.0)), y.at(each.y), kind=kind))
    return picture(parts, width=width, height=height, title=title)


def queue_panel(line_: Timeline, *, name: str, most_queued: float, to_s: float) -> str:
    """Draw one policy's queue (logarithmic) above its GPUs, on axes that all panels share."""
    width, left, right = 360.0, 40.0, 354.0
    wide = _coarser(line_)
    begin_s = float(line_.edges_s[0])
    x = Axis(low=begin_s, high=max(to_s, begin_s + 1.0), from_px=left, to_px=right)
    queue = Axis(low=0.8, high=max(10.0, most_queued), from_px=84.0, to_px=20.0, log=True)
    gpus = axis_of(line_.capacity_gpus, px=(150.0, 100.0))
    edges = x.at(wide.edges_s)
    marks = [(each, number(each)) for each in queue.ticks(about=3)]
    parts = [
        text(left, 12, _short(name, 40), kind="strong"),
        *y_axis(queue, marks, left=left, right=right),
        area(edges, queue.at(wide.queue_max), 84.0, kind="most"),
        area(edges, queue.at(wide.queue_mean), 84.0, kind="queue"),
        *y_axis(gpus, [(t, number(t)) for t in gpus.ticks(about=2)], left=left, right=right),
        area(edges, gpus.at(wide.allocated_gpus), 150.0, kind="used"),
        stairs(edges, gpus.at(wide.capacity_gpus), kind="there"),
        *x_axis(x, time_ticks(x, about=4), top=146, bottom=150),
    ]
    title = f"queue and GPUs in use over time under {name}"
    return picture(parts, width=width, height=170, title=title)


def legend(names: Sequence[tuple[str, int]], *, behind: int = 0) -> Iterator[str]:
    """Say which colour is whose."""
    yield '<p class="legend">'
    for name, colour in names:
        yield f'<span class="item"><span class="key k{colour}"></span>{escaped(name)}</span> '
    if behind:
        yield f'<span class="item"><span class="key kx"></span>{behind} others</span> '
    yield "</p>"


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _coarser(line_: Timeline) -> Timeline:
    """Join buckets: a small panel shows about a hundred, and keeps the extremes."""
    many = len(line_.queue_mean)
    by = max(1, many // 125)
    starts = np.arange(0, many, by)
    sizes = np.diff(np.append(starts, many))

    def mean(values: Floats) -> Floats:
        return np.add.reduceat(values, starts) / sizes

    return Timeline(
        edges_s=np.append(line_.edges_s[starts], line_.edges_s[-1]),
        queue_mean=mean(line_.queue_mean),
        queue_min=np.minimum.reduceat(line_.queue_min, starts),
        queue_max=np.maximum.reduceat(line_.queue_max, starts),
        allocated_gpus=mean(line_.allocated_gpus),
        capacity_gpus=mean(line_.capacity_gpus),
        demand_s=np.add.reduceat(line_.demand_s, starts),
        short_s=np.add.reduceat(line_.short_s, starts),
        share_short_s=np.add.reduceat(line_.share_short_s, starts),
    )
