"""Which episodes only follow from another one, by what is known of NVIDIA's codes.

A secondary fault is never a reason to take a GPU out of service: its cause is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from steward.model.faults import NVLINK5, Episode, FaultKind

__all__ = ["with_causes"]

TEARDOWN, RECOVERY = 45, 154
DETAILS = (171, 172)
DBE, REMAPPED, NOT_REMAPPED, CONTAINED, UNCONTAINED = 48, 63, 64, 94, 95
MMU, PMU, STOPPED, LOST, NVLINK = 31, (122, 123), 43, 79, 74
PROGRAM = (8, 11, 13, 25, 31, 32, 69, 80, 109)
NVLINKS = (NVLINK, 136, 137, 155, *NVLINK5)
_MEMORY = (DBE, UNCONTAINED, CONTAINED, NOT_REMAPPED)  # the first of them that is there is it
_NEVER_CAUSES = (TEARDOWN, RECOVERY, *DETAILS, 162, 106, 107)

Test = Callable[[Episode], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What may follow from what: `within_s` after its begin, or so much before it."""

    follows: Test
    causes: Test
    within_s: float
    before_s: float = 2.0  # lines of one moment are not always in the order of events
    same_device: bool = True


def _xid(*codes: int) -> Test:
    return lambda each: each.kind is FaultKind.XID and each.code in codes


def _is_lost(each: Episode) -> bool:
    return each.kind is FaultKind.LOST or (each.kind is FaultKind.XID and each.code == LOST)


def _is_cause(each: Episode) -> bool:
    if each.kind is FaultKind.XID:
        return each.code not in _NEVER_CAUSES
    return each.kind in (FaultKind.LOST, FaultKind.FIRMWARE) or (
        each.kind is FaultKind.SXID and each.fatal is not False
    )


def _is_link(each: Episode) -> bool:
    return each.kind is FaultKind.XID and each.code in NVLINKS


def _is_gpu(each: Episode) -> bool:
    return each.kind in (FaultKind.XID, FaultKind.FIRMWARE, FaultKind.DRIVER, FaultKind.PCIE)


_MINUTES_10 = 600.0
_RULES = (
    # A GPU that is off the bus answers nothing: all else on it follows.
    _Rule(follows=_is_gpu, causes=_is_lost, within_s=_MINUTES_10),
    _Rule(follows=_xid(*DETAILS), causes=_xid(DBE, UNCONTAINED, 140), within_s=10.0),
    *(
        _Rule(follows=_xid(*_MEMORY[place + 1 :], REMAPPED), causes=_xid(code), within_s=30.0)
        for place, code in enumerate(_MEMORY)
    ),
    _Rule(follows=_xid(MMU), causes=_xid(*PMU), within_s=5.0),
    _Rule(follows=_xid(STOPPED), causes=_xid(*PROGRAM), within_s=30.0),
    # The other end of a link reports it, too; a switch between them is nearer to the cause.
    _Rule(
        follows=_is_link,
        causes=lambda each: each.kind is FaultKind.SXID,
        within_s=10.0,
        before_s=5.0,
        same_device=False,
    ),
    _Rule(follows=_is_link, causes=_is_lost, within_s=30.0, same_device=False),
    _Rule(follows=_is_link, causes=_is_link, within_s=5.0, before_s=0.0, same_device=False),
    _Rule(follows=_xid(RECOVERY), causes=_is_cause, within_s=60.0, before_s=5.0),
    # One program runs on several GPUs: where it is torn down, all of them report it.
    _Rule(follows=_xid(TEARDOWN), causes=_is_cause, within_s=60.0, before_s=5.0),
    _Rule(follows=_xid(TEARDOWN), causes=_is_cause, within_s=60.0, before_s=5.0, same_device=False),
)


def with_causes(episodes: Iterable[Episode]) -> list[Episode]:
    """Return the episodes in their order, secondary ones with the id of their first cause.

    Chains lead to their root: what follows from a secondary episode follows from its cause.
    """
    given = list(episodes)
    by_node: dict[str, list[Episode]] = defaultdict(list)
    for each in given:
        if each.is_timed:
            by_node[each.node].append(each)
    cause: dict[str, str] = {}
    for group in by_node.values():
        group.sort(key=lambda each: (each.t_s, each.id))
        causes = [_Causes.of(rule, group) for rule in _RULES]
        for each in group:
            found = next((found for rule in causes if (found := rule.nearest(each))), None)
            if found is not None:
                cause[each.id] = found.id
    return [
        replace(each, cause=_root(each.id, cause)) if each.id in cause else each for each in given
    ]


@dataclass(frozen=True, slots=True)
class _Causes:
    """What on one node may be a cause by one rule, by time."""

    rule: _Rule
    episodes: list[Episode]
    starts_s: list[float]

    @classmethod
    def of(cls, rule: _Rule, group: Sequence[Episode]) -> _Causes:
        """Choose them out of the episodes of a node."""
        chosen = [each for each in group if rule.causes(each)]
        return cls(rule, chosen, [each.t_s for each in chosen])

    def nearest(self, each: Episode) -> Episode | None:
        """Return the cause of an episode that is nearest in time, None without any."""
        rule = self.rule
        if not self.episodes or not rule.follows(each):
            return None
        first = bisect_left(self.starts_s, each.t_s - rule.within_s)
        last = bisect_right(self.starts_s, each.t_s + rule.before_s)
        near = [
            other
            for other in self.episodes[first:last]
            if other.id != each.id
            and (not rule.same_device or other.device == each.device)
            and (other.t_s, other.id) < (each.t_s + rule.before_s, each.id)
        ]
        return min(near, key=lambda other: (abs(other.t_s - each.t_s), other.id), default=None)


def _root(episode: str, cause: dict[str, str]) -> str:
    """Follow the chain to its end; where it closes into a ring, its first member is the root."""
    seen = [episode]
    while (above := cause.get(seen[-1], "")) and above not in seen:
        seen.append(above)
    if above:  # a ring: all of it is one moment
        root = min(seen[seen.index(above) :])
        return "" if episode == root else root
    return seen[-1] if len(seen) > 1 else ""
