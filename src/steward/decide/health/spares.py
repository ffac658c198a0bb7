"""How many spare nodes it takes so that enough are up: exact, also where groups fail together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.outcome import Interval

__all__ = ["GroupOutages", "SparePlan", "spares_for", "spares_from_counts"]

Floats = NDArray[np.float64]
_MOST_NODES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutages:
    """Groups of nodes (a rack, a switch) that are down as a whole for a share of the time."""

    nodes: int
    down_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SparePlan:
    """The fewest spares with which `needed` nodes are up for `target` of the time.

    `low` and `high` are what it takes if availability is at the ends of its interval.
    """

    needed: int
    target: float
    spares: int
    low: int
    high: int
    reached: float  # the share of time that it is so

    @property
    def share(self) -> float:
        """Return the spares as a share of the nodes that are needed."""
        return self.spares / self.needed


def spares_for(
    needed: int, available: Interval, *, target: float = 0.999, groups: GroupOutages | None = None
) -> SparePlan:
    """Return the spares for nodes that fail each by itself, and in groups where they do."""
    _check(needed, target)
    # The worst availability takes most spares.
    fewest, middle, most = (
        _fewest(needed, chance, target, groups)
        for chance in (available.high, available.mid, available.low)
    )
    reached = _chance_up(needed, needed + middle, available.mid, groups)
    return SparePlan(
        needed=needed, target=target, spares=middle, low=fewest, high=most, reached=reached
    )


def spares_from_counts(
    needed: int,
    nodes: int,
    days: list[tuple[Floats, Floats]],
    *,
    target: float = 0.999,
    seed: int = 0,
) -> SparePlan:
    """Return the spares that what really happened would have taken; outages came as they came.

    `days` has for each day how long (first) how many nodes (second) were down, of `nodes`; counts
    are scaled to `needed`. The interval draws days anew, since outages last for hours.
    """
    _check(needed, target)
    if not days or nodes < 1:
        raise StewardError("there is no time in which nodes were watched", where="spares")
    most = 1 + int(max(float(counts.max()) for _, counts in days))
    table = np.zeros((len(days), most))
    for row, (lasting, counts) in enumerate(days):
        table[row] = np.bincount(counts.astype(np.int64), lasting, most)
    rng = np.random.default_rng(seed)
    drawn = [
        _quantile(table[rng.integers(0, len(days), len(days))].sum(axis=0), target)
        for _ in range(500)
    ]
    scale = needed / nodes
    low, high = np.percentile(drawn, [2.5, 97.5])
    middle = _quantile(table.sum(axis=0), target)
    shares = np.cumsum(table.sum(axis=0)) / table.sum()
    return SparePlan(
        needed=needed,
        target=target,
        spares=_scaled(middle, scale),
        low=_scaled(float(low), scale),
        high=_scaled(float(high), scale),
        reached=float(shares[middle]),
    )


def _scaled(count: float, scale: float) -> int:
    return int(np.ceil(count * scale - 1e-9))


def _quantile(lasting: Floats, target: float) -> int:
    total = float(lasting.sum())
    reached = np.cumsum(lasting) >= target * total - 1e-9
    return int(np.argmax(reached))


def _check(needed: int, target: float) -> None:
    if not 1 <= needed <= _MOST_NODES:
        raise StewardError(
            f"{needed} nodes cannot be planned for", where="nodes", hint=f"1 to {_MOST_NODES:,}"
        )
    if not 0 < target < 1:
        raise StewardError(
            f"a target of {target:g} cannot be reached", where="target", hint="as 0.999"
        )


def _fewest(needed: int, chance: float, target: float, groups: GroupOutages | None) -> int:
    """Search for the fewest spares by halving; more of them are never worse."""
    if not 0 < chance <= 1:
        problem = f"nodes that are available for {chance:.3g} of the time can never be enough"
        raise StewardError(problem, where="availability", hint="above 0, at most 1")
    low, high = 0, 1
    while _chance_up(needed, needed + high, chance, groups) < target:
        low, high = high, high * 2
        if high > _MOST_NODES:
            raise StewardError(
                f"no number of spares up to {_MOST_NODES:,} is enough for {target:g}",
                where="spares",
                hint="nodes or groups are down too often for this target",
            )
    if _chance_up(needed, needed, chance, groups) >= target:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if _chance_up(needed, needed + middle, chance, groups) >= target:
            high = middle
        else:
            low = middle
    return high


def _chance_up(needed: int, nodes: int, chance: float, groups: GroupOutages | None) -> float:
    """Return the chance that at least `needed` of all nodes are up."""
    if groups is None or not groups.down_share:
        return _binomial_tail(nodes, chance, needed)
    whole, rest = divmod(nodes, groups.nodes)
    sizes, up_share = np.arange(whole + 1), 1 - groups.down_share
    # Of the whole groups that are up, all nodes are independent: a mixture of binomials.
    weights = _binomial(whole, up_share)
    parts = ((0, 1 - up_share), (rest, up_share)) if rest else ((0, 1.0),)
    return float(
        sum(
            part * weights[size] * _binomial_tail(int(size) * groups.nodes + more, chance, needed)
            for size in sizes
            for more, part in parts
            if weights[size] > 1e-15
        )
    )


def _binomial(count: int, chance: float) -> Floats:
    """Return the chance of each number of successes."""
    from scipy.special import gammaln, xlog1py, xlogy  # noqa: PLC0415 - heavy

    k = np.arange(count + 1)
    ways = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
    return np.asarray(np.exp(ways + xlogy(k, chance) + xlog1py(count - k, -chance)))


def _binomial_tail(count: int, chance: float, least: int) -> float:
    """Return the chance of at least so many successes."""
    from scipy.special import betainc  # noqa: PLC0415 - heavy

    if least > count:
        return 0.0
    return float(betainc(least, count - least + 1, chance))
