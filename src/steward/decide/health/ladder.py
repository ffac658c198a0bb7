"""Prices the rungs of the ladder: what each is expected to cost, in GPU-hours, until all is well.

A fault needs one of four things before its node is well again: a new start of the job, a reset, a
restart of the node, or another part. Which one is not known; the code of the fault, what was tried
in vain, and the node's history say how likely each is. A rung costs the time that the node is away.
If it was too mild, the fault comes back and costs the job that runs then, and the next rung.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from steward.model.faults import Part, Remedy

__all__ = ["NEEDS", "Belief", "Need", "Prices", "Rung", "Stakes", "price", "rung_names"]


class Need(IntEnum):
    """What a node needs before it is well again."""

    RESTART = 0
    RESET = 1
    REBOOT = 2
    REPLACE = 3


class Rung(IntEnum):
    """What can be done, mildest first. All but the first and the last end in a test."""

    LEAVE = 0  # in service; the job is started again
    DIAGNOSE = 1
    RESET = 2
    REBOOT = 3
    REPLACE = 4


_HEALS = {
    Rung.LEAVE: Need.RESTART,
    Rung.DIAGNOSE: Need.RESTART,
    Rung.RESET: Need.RESET,
    Rung.REBOOT: Need.REBOOT,
}
rung_names: Mapping[Rung, str] = {
    Rung.LEAVE: "leave it in service",
    Rung.DIAGNOSE: "drain and test it",
    Rung.RESET: "drain it and reset its GPUs",
    Rung.REBOOT: "drain and restart it",
    Rung.REPLACE: "drain it and return the part to its vendor",
}

PROGRAM = (0.997, 0.001, 0.001, 0.001)  # faults of programs are in every log, all day
_MILD = (0.98, 0.008, 0.007, 0.005)
_DIAGNOSE = (0.25, 0.20, 0.20, 0.35)
# How likely a fault needs what, by the remedy of its codes. A catalogue names a remedy, not how
# often it is enough. Anchors that are published: row remapping after a double-bit error works in
# half of the cases and all mitigations together in 71 % (Delta); of a host's faults in service,
# 19.5 % were recoverable and 41.5 % replaced (Crusoe, H200); Xid 119 ends in a state that needs a
# restart more often than not (Delta). The rest is between these; see docs/health_decisions.md.
NEEDS: Mapping[Remedy, tuple[float, float, float, float]] = {
    Remedy.NOTHING: _MILD,
    Remedy.FOLLOW: _MILD,
    Remedy.WATCH: _MILD,
    Remedy.RESTART_JOB: _MILD,
    Remedy.RESET_GPU: (0.20, 0.50, 0.20, 0.10),
    Remedy.REBOOT_NODE: (0.05, 0.05, 0.70, 0.20),
    Remedy.DIAGNOSE: _DIAGNOSE,
    Remedy.REPLACE: (0.01, 0.02, 0.02, 0.95),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """How long each rung takes a node from service, and what a test finds."""

    reset_h: float = 0.2
    reboot_h: float = 0.5
    test_h: float = 0.25
    replace_h: float = 72.0
    part_gpu_h: float = 100.0  # handling, freight and the vendor's test, in GPU-hours
    finds_share: float = 0.8  # of faults that are still there, a test finds so many
    alarm_share: float = 0.01  # a test fails on so many nodes that are well
    horizon_days: float = 30.0  # for how long a node's excess of faults is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What hangs on one node."""

    gpus: int  # of the node
    job_gpu_h: float  # what the job that runs there loses by a crash, over all of its GPUs
    excess_per_day: float = 0.0  # faults above those of a normal node, as its history says


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """How likely each need is."""

    shares: tuple[float, float, float, float]

    @classmethod
    def of(
        cls, remedy: Remedy, part: Part = Part.NONE, *, lemon_probability: float = 0.0
    ) -> Belief:
        """Begin with what the code says, moved to a bad part by the node's history.

        A lemon's faults are its part's: of what a lemon shows, half needs another part.
        """
        bad = 0.5 * lemon_probability
        program = part is Part.PROGRAM and remedy is Remedy.RESTART_JOB
        shares = [share * (1.0 - bad) for share in (PROGRAM if program else NEEDS[remedy])]
        shares[Need.REPLACE] += bad
        return cls(shares=(shares[0], shares[1], shares[2], shares[3]))

    def beyond(self, need: Need) -> float:
        """Return how likely it needs more than this."""
        return sum(self.shares[need + 1 :])

    def healed(self, need: Need) -> Belief:
        """Return the belief after a remedy: what needed that, or less, needs nothing any more."""
        a, b, c, d = self.shares
        rest = (0.0 if need >= Need.RESET else b, 0.0 if need >= Need.REBOOT else c)
        return replace(self, shares=(a + b + c - sum(rest), *rest, d))

    def seen(self, need: Need, *, if_more: float, if_not: float) -> Belief:
        """Return the belief after what is seen, by how likely that is if more is needed or not."""
        weighed = [
            share * (if_more if place > need else if_not) for place, share in enumerate(self.shares)
        ]
        total = sum(weighed)
        if total <= 0.0:
            return self
        a, b, c, d = (each / total for each in weighed)
        return replace(self, shares=(a, b, c, d))


def price(
    belief: Belief, stakes: Stakes, prices: Prices, rungs: Sequence[Rung] = tuple(Rung)
) -> dict[Rung, float]:
    """Return the expected cost of each rung with the best that can follow it, in GPU-hours.

    What follows a rung is harder than it: what was too mild once is not tried again.
    """
    return {rung: _cost(rung, belief, stakes, prices, rungs) for rung in sorted(rungs)}


def _cost(
    rung: Rung, belief: Belief, stakes: Stakes, prices: Prices, rungs: Sequence[Rung]
) -> float:
    if rung is Rung.REPLACE:
        return prices.replace_h * stakes.gpus + prices.part_gpu_h
    heals = _HEALS[rung]
    fails = belief.beyond(heals)
    future = (1.0 - fails) * _future(stakes, prices)
    if rung is Rung.LEAVE:
        return fails * (stakes.job_gpu_h + _next(rung, belief, stakes, prices, rungs)) + future
    crash = (1.0 - prices.finds_share) * stakes.job_gpu_h
    return (
        _away_h(rung, prices) * stakes.gpus
        + fails * (crash + _next(rung, belief, stakes, prices, rungs))
        + future
    )


def _next(
    rung: Rung, belief: Belief, stakes: Stakes, prices: Prices, rungs: Sequence[Rung]
) -> float:
    """Return what the best of the harder rungs costs, once it is known that this was not enough."""
    after = belief.seen(_HEALS[rung], if_more=1.0, if_not=0.0)
    harder = [each for each in rungs if each > rung] or [Rung.REPLACE]
    return min(_cost(each, after, stakes, prices, rungs) for each in harder)


def _future(stakes: Stakes, prices: Prices) -> float:
    """Return what the excess faults of a node that stays cost: each a job, and a restart."""
    each = stakes.job_gpu_h + (prices.reboot_h + prices.test_h) * stakes.gpus
    return max(0.0, stakes.excess_per_day) * prices.horizon_days * each


def _away_h(rung: Rung, prices: Prices) -> float:
    mending = {Rung.DIAGNOSE: 0.0, Rung.RESET: prices.reset_h, Rung.REBOOT: prices.reboot_h}
    return mending[rung] + prices.test_h
