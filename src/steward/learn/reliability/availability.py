"""How much of the time nodes serve, how long until they fail, and how long until they are back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from steward.learn.reliability.intervals import poisson_rate
from steward.model.faults import NodeSpell, short_host
from steward.model.outcome import Interval

__all__ = ["NodeAvailability", "availability", "down_counts"]

_HOUR_S = 3600.0
_DRAWS = 1000
Spans = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAvailability:
    """Of all nodes in a window of time. Intervals: 95 %."""

    nodes: int
    hours: float  # of the window
    failures: int  # times that a node left service
    open_spells: int  # nodes that had not come back at the end
    available: Interval
    mttf_h: Interval
    mttr_h: Interval
    worst: tuple[tuple[str, int, float], ...]  # nodes that left oftenest: times, hours away


def availability(
    spells: Iterable[NodeSpell],
    nodes: Sequence[str],
    window_s: tuple[float, float],
    *,
    seed: int = 0,
) -> NodeAvailability:
    """Return the availability of nodes; spells that overlap are one, and end with the window."""
    from_s, to_s = window_s
    by_node = _merged(spells, window_s)
    names = sorted({short_host(each) for each in nodes} | set(by_node))
    away_s = np.array([sum(b - a for a, b in by_node.get(name, [])) for name in names])
    left = np.array([sum(a > from_s for a, _ in by_node.get(name, [])) for name in names])
    span_s = to_s - from_s
    failures = int(left.sum())
    up_h = float((span_s - away_s).sum()) / _HOUR_S
    rate = poisson_rate(failures, up_h)
    repairs = [b - a for group in by_node.values() for a, b in group if b < to_s]
    open_spells = sum(b >= to_s for group in by_node.values() for _, b in group)
    rng = np.random.default_rng(seed)
    order = np.argsort(-left, kind="stable")[:10]
    return NodeAvailability(
        nodes=len(names),
        hours=span_s / _HOUR_S,
        failures=failures,
        open_spells=open_spells,
        available=_available(away_s, span_s, rng),
        mttf_h=Interval(low=_inverse(rate.high), mid=_inverse(rate.mid), high=_inverse(rate.low)),
        mttr_h=_mean(np.array(repairs) / _HOUR_S, rng),
        worst=tuple(
            (names[i], int(left[i]), float(away_s[i]) / _HOUR_S) for i in order if left[i] > 0
        ),
    )


def down_counts(
    spells: Iterable[NodeSpell], window_s: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return edges of time, and how many nodes were out of service between them."""
    by_node = _merged(spells, window_s)
    changes = [
        (t, step) for group in by_node.values() for a, b in group for t, step in ((a, 1), (b, -1))
    ]
    changes = [(window_s[0], 0), *sorted(changes)]
    times = np.array([t for t, _ in changes] + [window_s[1]])
    counts = np.cumsum([step for _, step in changes])
    kept = np.diff(times) > 0
    return np.append(times[:-1][kept], window_s[1]), counts[kept].astype(np.int64)


def _merged(spells: Iterable[NodeSpell], window_s: tuple[float, float]) -> Spans:
    """Return when each node was away, within the window, without overlaps."""
    found: Spans = defaultdict(list)
    for each in sorted(spells, key=lambda each: each.from_s):
        begin_s = max(each.from_s, window_s[0])
        end_s = window_s[1] if isnan(each.to_s) else min(each.to_s, window_s[1])
        if end_s <= begin_s:
            continue
        group = found[short_host(each.node)]
        if group and begin_s <= group[-1][1]:
            group[-1] = (group[-1][0], max(group[-1][1], end_s))
        else:
            group.append((begin_s, end_s))
    return dict(found)


def _available(away_s: NDArray[np.float64], span_s: float, rng: np.random.Generator) -> Interval:
    """Return the share of time in service; nodes are drawn anew.

    A fleet that was never seen to fail is not believed perfect.
    """
    if not len(away_s) or not span_s > 0:
        return Interval(low=0.0, mid=float("nan"), high=1.0)
    mid = 1 - float(away_s.mean()) / span_s
    draws = 1 - rng.choice(away_s, (_DRAWS, len(away_s))).mean(axis=1) / span_s
    low, high = (float(each) for each in np.percentile(draws, [2.5, 97.5]))
    if not away_s.any():
        low = 1 - 3.0 / (len(away_s) * max(1.0, span_s / _HOUR_S))  # an hour each in rule of three
    return Interval(low=max(0.0, low), mid=mid, high=high)


def _mean(values: NDArray[np.float64], rng: np.random.Generator) -> Interval:
    if not len(values):
        return Interval(low=0.0, mid=float("nan"), high=float("inf"))
    if len(values) == 1:  # nothing is known of how they differ: as of an exponential time
        one = float(values[0])
        return Interval(low=one / 3.69, mid=one, high=one / 0.0253)
    draws = rng.choice(values, (_DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(low=float(low), mid=float(values.mean()), high=float(high))


def _inverse(rate: float) -> float:
    return float("inf") if not rate else 1 / rate
