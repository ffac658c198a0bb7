"""What follows what: on one GPU, and on another GPU of the node, beside what chance would give.

The null hypothesis shifts the times of all that may follow, node by node, around the record: it
keeps how often and in which bursts they come, and breaks only that they come after something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from steward.learn.reliability.intervals import share
from steward.model.faults import Episode
from steward.model.outcome import Interval

__all__ = ["Edge", "ends", "propagation"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WITHIN_S = 5.0
_DRAWS = 100
_CHANCE = 0.05
_MOST_KINDS = 24
_TIE_S = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """After how many of the first kind the second came, and how many that would be by chance."""

    first: str
    then: str
    where: str  # same-gpu, other-gpu
    count: int
    of: int
    share: Interval
    by_chance: float  # expected count
    p: float

    @property
    def lift(self) -> float:
        """Return how many times as often as by chance; half a draw's resolution at least."""
        return self.count / max(self.by_chance, 0.5 / _DRAWS)


@dataclass(frozen=True, slots=True)
class _Times:
    """Times of one kind, on one scale per device and one per node."""

    t_s: Floats
    device: Ints
    node: Ints


def propagation(
    episodes: Sequence[Episode], *, within_s: float = WITHIN_S, seed: int = 0
) -> list[Edge]:
    """Return the edges that chance does not explain, the strongest first."""
    kinds, length_s = _kinds(episodes)
    if not kinds or not length_s > 2 * within_s:
        return []
    seen = {(a, b): _after(kinds[a], kinds[b], within_s, length_s) for a in kinds for b in kinds}
    null = dict.fromkeys(((pair, i) for pair in seen for i in (0, 1)), 0.0)
    most = dict.fromkeys(null, 0)
    rng = np.random.default_rng(seed)
    nodes = 1 + max(int(each.node.max()) for each in kinds.values())
    for _ in range(_DRAWS):
        shift = rng.uniform(within_s, length_s - within_s, nodes)
        shifted = {name: _shifted(each, shift, length_s) for name, each in kinds.items()}
        for a, b in seen:
            for i, count in enumerate(_after(kinds[a], shifted[b], within_s, length_s)):
                null[(a, b), i] += count / _DRAWS
                most[(a, b), i] = max(most[(a, b), i], count)
    found = []
    for (a, b), counts in seen.items():
        for i, count in enumerate(counts):
            mean = null[(a, b), i]
            p = _tail(count, mean)
            if count > most[(a, b), i] and p < _CHANCE / (2 * len(seen)):
                found.append(
                    Edge(
                        first=a,
                        then=b,
                        where=("same-gpu", "other-gpu")[i],
                        count=count,
                        of=len(kinds[a].t_s),
                        share=share(count, len(kinds[a].t_s)),
                        by_chance=mean,
                        p=p,
                    )
                )
    return sorted(found, key=lambda each: (-each.count, each.first, each.then, each.where))


def ends(episodes: Sequence[Episode], *, within_s: float = WITHIN_S) -> dict[str, Interval]:
    """Return for each kind the share after which nothing more came on its node."""
    kinds, length_s = _kinds(episodes)
    if not kinds:
        return {}
    rest = [np.concatenate([getattr(each, name) for each in kinds.values()]) for name in _FIELDS]
    anything = _Times(*rest)
    found = {}
    for name, each in kinds.items():
        same, _ = _counts(each, anything, within_s, length_s)
        found[name] = share(int((same == 0).sum()), len(each.t_s))
    return found


_FIELDS = ("t_s", "device", "node")


def label(each: Episode) -> str:
    """Return the name of a kind of episode, as people call it."""
    return f"{each.kind.value} {each.code}" if each.code is not None else each.kind.value


def _kinds(episodes: Sequence[Episode]) -> tuple[dict[str, _Times], float]:
    """Return the times of each kind, the most frequent ones, from the first of all."""
    timed = sorted((each for each in episodes if each.is_timed), key=_order)
    if not timed:
        return {}, 0.0
    begin_s = timed[0].t_s
    length_s = timed[-1].t_s - begin_s
    times = _apart([each.t_s - begin_s for each in timed])
    nodes = {name: i for i, name in enumerate(sorted({each.node for each in timed}))}
    pairs = sorted({(each.node, each.device) for each in timed})
    devices = {pair: i for i, pair in enumerate(pairs)}
    groups: dict[str, list[int]] = {}
    for i, each in enumerate(timed):
        groups.setdefault(label(each), []).append(i)
    frequent = sorted(groups, key=lambda name: (-len(groups[name]), name))[:_MOST_KINDS]
    found = {
        name: _Times(
            times[groups[name]],
            np.array([devices[timed[i].node, timed[i].device] for i in groups[name]], np.int64),
            np.array([nodes[timed[i].node] for i in groups[name]], np.int64),
        )
        for name in frequent
    }
    return found, length_s


def _order(each: Episode) -> tuple[float, str, int]:
    """Sort by time, and by lines where logs have whole seconds."""
    file, _, number = (each.places[0] if each.places else "").rpartition(":")
    return each.t_s, file, int(number) if number.isdecimal() else 0


def _apart(times: Sequence[float]) -> Floats:
    """Return times of which no two are the same, in their order."""
    found = np.asarray(times, np.float64)
    ties = np.concatenate([[False], np.diff(found) == 0])
    run = np.arange(len(found)) - np.maximum.accumulate(np.where(ties, 0, np.arange(len(found))))
    return np.asarray(found + run * _TIE_S)


def _after(first: _Times, then: _Times, within_s: float, length_s: float) -> tuple[int, int]:
    """Return after how many of the first there was one on the same device, and on another."""
    on_node, on_device = _counts(first, then, within_s, length_s)
    return int((on_device > 0).sum()), int((on_node > on_device).sum())


def _counts(first: _Times, then: _Times, within_s: float, length_s: float) -> tuple[Ints, Ints]:
    """Return how many came soon after each of the first, on its node and on its device."""
    stride = 2 * length_s + 2 * within_s + 1.0  # groups lie apart on one axis
    found = []
    for group, other in ((first.node, then.node), (first.device, then.device)):
        axis = np.sort(other * stride + then.t_s)
        at = group * stride + first.t_s
        count = np.searchsorted(axis, at + within_s, "right") - np.searchsorted(axis, at, "right")
        found.append(count)
    return found[0], found[1]


def _shifted(each: _Times, shift: Floats, length_s: float) -> _Times:
    return _Times((each.t_s + shift[each.node]) % length_s, each.device, each.node)


def _tail(count: int, mean: float) -> float:
    """Return the chance of at least so many; no draw at all counts as half of one."""
    return float(gammainc(count, max(mean, 0.5 / _DRAWS))) if count else 1.0
