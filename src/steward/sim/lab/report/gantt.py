"""Who ran on which GPUs, in one window, coloured by tenant."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from steward.documents import Axis, axis_of
from steward.documents.svg import picture, x_axis, y_axis
from steward.sim.lab.report.formatting import number
from steward.sim.lab.report.time_ticks import time_ticks
from steward.sim.lab.trials.trial import Gantt

__all__ = ["SEVERAL", "draw", "lanes", "tenants_by_colour"]

Piece = tuple[float, float]  # from, to, on the axis of GPUs
WIDTH, HEIGHT, LEFT, BOTTOM = 1000.0, 260.0, 48.0, 232.0
TENANT_COLOURS = 8
SEVERAL = 2  # one tenant, and one for jobs without: then jobs have colours, not tenants
NARROW_PX = 0.3  # what is narrower cannot be seen


def draw(gantt: Gantt, *, gpus: float, colours: Sequence[int], name: str) -> tuple[str, int]:
    """Return the picture, and how many spans found no GPU of their own (they share one).

    Lines of the axis are GPUs, not those of the cluster but as many: lowest free ones first.
    """
    x = Axis(low=0.0, high=gantt.to_s - gantt.from_s, from_px=LEFT, to_px=WIDTH - 8)
    y = axis_of(np.array([0.0, gpus]), px=(BOTTOM, 8.0))
    found, shared = lanes(gantt, gpus)
    paths: dict[int, list[str]] = {}
    for i, pieces in found:
        a, b = (float(x.at(t - gantt.from_s)) for t in (gantt.start_s[i], gantt.stop_s[i]))
        if b - a < NARROW_PX:
            continue
        one = len(colours) <= SEVERAL
        colour = int(gantt.job[i]) % TENANT_COLOURS if one else colours[int(gantt.tenant[i])]
        for low, high in pieces:
            top, bottom = float(y.at(high)), float(y.at(low))
            paths.setdefault(colour, []).append(f"M{a:.1f} {top:.1f}H{b:.1f}V{bottom:.1f}H{a:.1f}z")
    parts = [
        *x_axis(x, time_ticks(x, about=10), top=8, bottom=BOTTOM),
        *y_axis(y, [(t, number(t)) for t in y.ticks(about=4)], left=LEFT, right=WIDTH - 8),
        *(f'<path class="job f{colour}" d="{"".join(d)}"/>' for colour, d in sorted(paths.items())),
    ]
    title = f"jobs on GPUs over time under {name}"
    return picture(parts, width=WIDTH, height=HEIGHT, title=title), shared


def lanes(gantt: Gantt, gpus: float) -> tuple[list[tuple[int, list[Piece]]], int]:
    """Give every span pieces of the axis that are free at that time."""
    free: list[Piece] = [(0.0, float(gpus))]
    running: list[tuple[float, int, list[Piece]]] = []
    found, shared = [], 0
    for i in range(len(gantt.start_s)):
        while running and running[0][0] <= gantt.start_s[i] + 1e-9:
            free = _joined(free, heappop(running)[2])
        pieces = _taken(free, float(gantt.gpus[i]))
        if not pieces:
            shared += 1
            continue
        free = _without(free, pieces)
        heappush(running, (float(gantt.stop_s[i]), i, pieces))
        found.append((i, pieces))
    return found, shared


def tenants_by_colour(codes: np.ndarray, work: np.ndarray, tenants: int) -> list[int]:
    """Return the colour of each tenant code: the largest have their own, the rest share one.

    The last entry is for jobs without a tenant (code -1).
    """
    total = np.bincount(codes + 1, work, minlength=tenants + 1)
    largest = [int(i) for i in np.argsort(-total, kind="stable")[: TENANT_COLOURS - 1]]
    colours = [largest.index(i) if i in largest else TENANT_COLOURS - 1 for i in range(tenants + 1)]
    return [*colours[1:], colours[0]]


def _taken(free: Sequence[Piece], gpus: float) -> list[Piece]:
    """Return the lowest free pieces that add up to so many GPUs, or none."""
    taken: list[Piece] = []
    left = gpus
    for low, high in free:
        part = min(left, high - low)
        taken.append((low, low + part))
        left -= part
        if left <= 1e-9:
            return taken
    return []


def _without(free: Sequence[Piece], taken: Sequence[Piece]) -> list[Piece]:
    ends = dict(taken)
    left = [(ends.get(low, low), high) for low, high in free]
    return [(low, high) for low, high in left if high - low > 1e-9]


def _joined(free: list[Piece], back: Sequence[Piece]) -> list[Piece]:
    for piece in back:
        insort(free, piece)
    joined: list[Piece] = []
    for low, high in free:
        if joined and low - joined[-1][1] < 1e-9:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined
