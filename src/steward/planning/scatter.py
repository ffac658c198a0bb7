"""The plan as a picture: time against money, a bubble's area by energy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from steward.decide.planning.formatting import amount, dollars, duration
from steward.decide.planning.front import money_of
from steward.documents import Axis, axis_of, escaped
from steward.documents.svg import line, picture, text, x_axis, y_axis
from steward.model.planning.plan import Choice, Plan
from steward.planning.rows import moment, money, nearest

__all__ = ["STYLE", "scatter"]

Floats = NDArray[np.float64]

STYLE = """
svg .lost { fill: var(--quiet); fill-opacity: .12; }
svg .good { fill: var(--line); fill-opacity: .55; stroke: var(--line); }
svg .best { fill: var(--best); fill-opacity: .8; stroke: var(--best); stroke-width: 2; }
svg .limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
svg text.on { fill: var(--ink); font-weight: 600; } svg text.limit-name { fill: var(--bad); }
:root { --best: #b45309; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --best: #f0a43a; --bad: #ff8a80; } }
"""
WIDTH, HEIGHT = 920, 430
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 30, 52
MOST_LOST = 2000
_RADII = (4.0, 22.0)
_WIDE = 12.0  # from the least to the most: a straight axis would have all on one side
_ROOM = 0.1
_LOG_ROOM = 1.5
_CELL_PX = 10
_NUMBER_PX = 12  # two numbers nearer than this cannot be read; the table has both
_MOST_TICKS = 8
_TIMES_S = tuple(
    size * each
    for size, parts in ((1, (1, 5, 15, 30)), (60, (1, 5, 15, 30)), (3600, (1, 2, 4, 8, 12)))
    for each in parts
) + tuple(86_400 * each for each in (1, 2, 4, 7, 14, 30, 60, 180, 365))


def scatter(plan: Plan) -> str:
    """Return the picture: what lost is grey, numbers are places in the table of the front.

    Where some prices are in units without one in money, only the commonest unit is drawn.
    """
    unit, front, lost = _drawn(plan)
    if not front:
        return "<p>There is nothing feasible to draw.</p>"
    every = [choice for _, choice in front] + lost
    ends = np.array([each.end_s.mid - plan.request.now_s for each in every])
    prices = np.array([money_of(each)[1] for each in every])
    x = _axis(ends, (LEFT, WIDTH - RIGHT))
    y = _axis(prices, (HEIGHT - BOTTOM, TOP))
    most = max(each.kwh.mid for each in every) or 1.0
    now_s = plan.request.now_s
    parts = [
        *_axes(x, y, unit),
        *_limits(plan, x, y, unit),
        *(_bubble(each, (x, y), most, now_s, kind="lost") for each in _apart(lost, (x, y), now_s)),
        *_numbered(front, (x, y), most, now_s),
    ]
    return picture(parts, width=WIDTH, height=HEIGHT, title="Time to the end against cost")


def _drawn(plan: Plan) -> tuple[str, list[tuple[int, Choice]], list[Choice]]:
    """Return the unit of money, the front with its places, and what lost, as far as drawn."""
    units = [money_of(each)[0] for each in plan.front]
    unit = max(dict.fromkeys(units), key=units.count, default="USD")
    front = [(i, each) for i, each in enumerate(plan.front, 1) if units[i - 1] == unit]
    found = (each.choice for each in nearest(plan)[:MOST_LOST] if each.choice is not None)
    return unit, front, [each for each in found if money_of(each)[0] == unit]


def _axis(values: Floats, px: tuple[float, float]) -> Axis:
    """Return an axis with some room at both ends, from 0 unless values lie far apart."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > _WIDE * low:
        return axis_of(np.array([low / _LOG_ROOM, high * _LOG_ROOM]), px=px, log=True)
    high = high or 1.0
    return Axis(low=-_ROOM * high, high=(1 + _ROOM) * high, from_px=px[0], to_px=px[1])


def _axes(x: Axis, y: Axis, unit: str) -> Iterator[str]:
    times = [(each, duration(each)) for each in _round_times(x)]
    yield from x_axis(x, times, top=TOP, bottom=HEIGHT - BOTTOM)
    write = _short_dollars if unit == "USD" else lambda each: amount(each, unit)
    prices = [(each, write(each)) for each in y.ticks() if each >= 0]
    yield from y_axis(y, prices, left=LEFT, right=WIDTH - RIGHT)
    yield text(WIDTH - RIGHT, HEIGHT - 10, "time until it has ended", anchor="end")
    yield text(8, 16, f"cost, {unit}")
    yield text(WIDTH - RIGHT, 16, "area: energy", anchor="end")


def _short_dollars(value: float) -> str:
    return dollars(value).removesuffix(".00")


def _round_times(x: Axis) -> list[float]:
    """Return a handful of round lengths of time."""
    if x.log:
        inside = [float(each) for each in _TIMES_S if x.low <= each <= x.high]
        return inside[:: max(1, ceil(len(inside) / _MOST_TICKS))]
    step = next((each for each in _TIMES_S if x.high / each <= _MOST_TICKS), x.high / 5)
    return [float(each) for each in np.arange(0.0, x.high, step)]


def _limits(plan: Plan, x: Axis, y: Axis, unit: str) -> Iterator[str]:
    """Draw the deadline and the budget."""
    request = plan.request
    deadline_s = (request.deadline_s or 0.0) - request.now_s
    if x.low < deadline_s < x.high:
        at = float(x.at(deadline_s))
        yield line(np.array([at, at]), np.array([TOP, HEIGHT - BOTTOM], np.float64), kind="limit")
        yield text(at - 4, TOP + 12, "deadline", anchor="end", kind="limit-name")
    budget = request.budget_usd
    if budget is not None and unit == "USD" and y.low < budget < y.high:
        at = float(y.at(budget))
        yield line(np.array([LEFT, WIDTH - RIGHT], np.float64), np.array([at, at]), kind="limit")
        yield text(LEFT + 6, at - 5, "budget", kind="limit-name")


def _numbered(
    front: Sequence[tuple[int, Choice]], axes: tuple[Axis, Axis], most: float, now_s: float
) -> Iterable[str]:
    """Draw the front, the recommended one last, so that it lies above all others."""
    for place, choice in reversed(front):
        kind = "best" if place == 1 else "good"
        yield _bubble(choice, axes, most, now_s, kind=kind)
    written: list[tuple[float, float]] = []
    for place, choice in front:
        x, y = _at(choice, axes, now_s)
        if all(abs(x - a) > _NUMBER_PX or abs(y - b) > _NUMBER_PX for a, b in written):
            written.append((x, y))
            yield text(x, y + 4, place, anchor="middle", kind="on")


def _apart(choices: Sequence[Choice], axes: tuple[Axis, Axis], now_s: float) -> Iterator[Choice]:
    """Leave out bubbles that would lie on another: hundreds of instance types are alike."""
    taken = set()
    for choice in choices:
        x, y = _at(choice, axes, now_s)
        cell = (round(x / _CELL_PX), round(y / _CELL_PX))
        if cell not in taken:
            taken.add(cell)
            yield choice


def _at(choice: Choice, axes: tuple[Axis, Axis], now_s: float) -> tuple[float, float]:
    return (
        float(axes[0].at(choice.end_s.mid - now_s)),
        float(axes[1].at(money_of(choice)[1])),
    )


def _bubble(
    choice: Choice, axes: tuple[Axis, Axis], most: float, now_s: float, *, kind: str
) -> str:
    x, y = _at(choice, axes, now_s)
    least, largest = _RADII
    radius = least + (largest - least) * sqrt(choice.kwh.mid / most)
    said = (
        f"{choice.site}/{choice.queue}: {moment(choice.end_s.mid)}, {money(choice)}, "
        f"{amount(choice.kwh.mid, 'kWh')}"
    )
    shape = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
    return f"{shape}<title>{escaped(said)}</title></circle>"
