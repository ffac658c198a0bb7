"""Silence as a signal: many nodes that stop answering in one moment are one incident.

Nodes that stop alone are reported where they had answered steadily; how regularly a node answers
is not known before it has done so for hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import nan

import numpy as np

from steward.model.faults import AnswerSpan, Blackout

__all__ = ["STEADY_S", "blackouts"]

TOGETHER_S = 90.0  # polls of all nodes are spread over a minute
STEADY_S = 6 * 3600.0
_FEWEST = 5
_FEWEST_SHARE = 0.02  # of the nodes that answered


def blackouts(spans: Iterable[AnswerSpan], *, together_s: float = TOGETHER_S) -> list[Blackout]:
    """Return who fell silent when, by time; the end of the record is no silence."""
    by_node = _by_node(spans)
    if not by_node:
        return []
    end_s = max(each.to_s for group in by_node.values() for each in group)
    starts = np.sort([each.from_s for group in by_node.values() for each in group])
    ends = np.sort([each.to_s for group in by_node.values() for each in group])
    stops = sorted(
        (each.to_s, node, place)
        for node, group in by_node.items()
        for place, each in enumerate(group)
        if each.to_s < end_s - together_s
    )
    begin_s = float(starts[0])
    found = []
    for group in _together(stops, together_s):
        # Counted before the first of them stopped, so that they are among those that answered.
        at_s = group[0][0]
        answering = int(
            np.searchsorted(starts, at_s, "right") - np.searchsorted(ends, at_s, "left")
        )
        many = len(group) >= max(_FEWEST, _FEWEST_SHARE * answering)
        steady = [each for each in group if _is_steady(by_node, each)]
        if many:
            found.append(_blackout(group, by_node, begin_s, answering))
        elif steady:
            found += [_blackout([each], by_node, begin_s, answering) for each in steady]
    return found


Stop = tuple[float, str, int]
Spans = dict[str, list[AnswerSpan]]


def _by_node(spans: Iterable[AnswerSpan]) -> Spans:
    found: Spans = defaultdict(list)
    for each in sorted(spans, key=lambda each: (each.from_s, each.to_s)):
        group = found[each.node]
        if group and each.from_s <= group[-1].to_s:  # told twice: by two tables, say
            longer = max(group[-1].to_s, each.to_s)
            group[-1] = AnswerSpan(node=each.node, from_s=group[-1].from_s, to_s=longer)
        else:
            group.append(each)
    return found


def _together(stops: Sequence[Stop], together_s: float) -> Iterable[list[Stop]]:
    """Split stops where more than `together_s` lies between the first and the next.

    A group is not longer than that: a fleet that wears away slowly is not one moment.
    """
    group: list[Stop] = []
    for each in stops:
        if group and each[0] - group[0][0] > together_s:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _is_steady(by_node: Spans, stop: Stop) -> bool:
    _, node, place = stop
    return by_node[node][place].to_s - by_node[node][place].from_s >= STEADY_S


def _blackout(group: Sequence[Stop], by_node: Spans, begin_s: float, answering: int) -> Blackout:
    returns = [
        by_node[node][place + 1].from_s
        for _, node, place in group
        if place + 1 < len(by_node[node])
    ]
    since_begin = sum(
        by_node[node][place].from_s <= begin_s or _is_steady(by_node, (t_s, node, place))
        for t_s, node, place in group
    )
    return Blackout(
        t_s=group[0][0],
        until_s=min(returns, default=nan),
        nodes=tuple(sorted(node for _, node, _ in group)),
        steady=since_begin,
        answering=answering,
        back=len(returns),
    )
