"""What a filter costs, as sums of powers of the length of what goes in.

`many` is how many outputs there are at most, `size` how long they are together as JSON, `work` what
it takes to make them. A step of work is a tenth of a microsecond, measured on the worst that was
found, and stands for at most 140 bytes of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

__all__ = ["NOTHING", "ONE", "STEP", "Cost", "Powers", "at", "plus", "scaled", "times"]

Powers = tuple[float, float, float, float]  # of the length: what is constant, linear, …

NOTHING: Powers = (0, 0, 0, 0)
ONE: Powers = (1, 0, 0, 0)
STEP: Powers = (2, 0, 0, 0)  # what the least filter takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a filter costs for one input."""

    many: Powers = ONE
    size: Powers
    work: Powers
    scalar: bool = False  # outputs are texts, numbers or less: comparing with them is cheap

    def then(self, after: Cost) -> Cost:
        """Return the cost of giving every output to another filter.

        What grows with the length grows at most as if all outputs were one.
        """
        return Cost(
            many=_over(after.many, self),
            size=_over(after.size, self),
            work=plus(self.work, _over(after.work, self)),
            scalar=after.scalar,
        )

    def beside(self, other: Cost) -> Cost:
        """Return the cost of the outputs of one and then those of the other."""
        return Cost(
            many=plus(self.many, other.many),
            size=plus(self.size, other.size),
            work=plus(self.work, other.work),
            scalar=self.scalar and other.scalar,
        )

    def instead(self, other: Cost) -> Cost:
        """Return the cost of the outputs of one or the other, where both may have to be tried."""
        return Cost(
            many=_most(self.many, other.many),
            size=_most(self.size, other.size),
            work=plus(self.work, other.work),
            scalar=self.scalar and other.scalar,
        )

    def across(self, other: Cost) -> Cost:
        """Return the cost of every output of one with every output of the other, put together."""
        again = plus(
            times(_more_than_one(self.many), other.work),
            times(_more_than_one(other.many), self.work),
        )
        return Cost(
            many=times(self.many, other.many),
            size=plus(times(self.size, other.many), times(other.size, self.many)),
            work=plus(self.work, other.work, again, times(STEP, times(self.many, other.many))),
        )

    def working(self, *more: Powers) -> Cost:
        """Return the same with more work."""
        return Cost(many=self.many, size=self.size, work=plus(self.work, *more), scalar=self.scalar)


def plus(*terms: Powers) -> Powers:
    """Add."""
    return _powers([sum(each) for each in zip(*terms, strict=True)])


def scaled(powers: Powers, factor: float) -> Powers:
    """Multiply by a number."""
    return _powers([each * factor if each else 0.0 for each in powers])


def times(one: Powers, other: Powers) -> Powers:
    """Multiply; what is beyond the third power is beyond all bounds."""
    found = [0.0] * len(NOTHING)
    for low, left in enumerate(one):
        for high, right in enumerate(other):
            if left and right:
                power = low + high
                found[min(power, 3)] += left * right if power <= 3 else inf
    return _powers(found)


def at(powers: Powers, length: float) -> float:
    """Return the sum for a length."""
    return sum(each * length**power for power, each in enumerate(powers) if each)


def _over(powers: Powers, given: Cost) -> Powers:
    """Return the sum over all outputs that are given."""
    found, power = scaled(given.many, powers[0]), ONE
    for each in powers[1:]:
        power = times(power, given.size)
        found = plus(found, scaled(power, each))
    return found


def _most(one: Powers, other: Powers) -> Powers:
    return _powers([max(pair) for pair in zip(one, other, strict=True)])


def _more_than_one(many: Powers) -> Powers:
    return (max(many[0] - 1, 0.0), *many[1:])


def _powers(each: Sequence[float]) -> Powers:
    constant, linear, square, cube = each
    return constant, linear, square, cube
