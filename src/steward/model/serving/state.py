"""What the serving domain knows: snapshots of a gateway are folded in, moments come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steward.model.actions import StartInstance
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.serving.arrival_log import ArrivalLog
from steward.model.serving.moment import INSTANCE, ScalableType, ServingMoment, Sought
from steward.model.serving.snapshot import ServingSnapshot
from steward.model.serving.snapshot_view import Place, view_of

__all__ = ["ServingState"]

SEEN_WITHIN_S = 60.0  # what was registered is in the gateway's status at the latest after this time
_NOTHING_YET = ServingSnapshot(t_s=0.0, seen_s=float("-inf"))


@dataclass(slots=True, kw_only=True)
class _Numbers:
    """When the number of instances of a type changed, and which they were."""

    names: frozenset[str]
    changed_s: float


class ServingState:
    """The state of one gateway and of what may be scaled behind it.

    An instance is on its way while an open decision claims its name, and for a minute after: its
    name says of which type it is, as `chat-2`. So a restart forgets none.
    """

    def __init__(
        self,
        scalable: Sequence[ScalableType],
        *,
        tenant: str = "",
        stale_after_s: float = 60.0,
        prompt_tokens: int = 512,
    ) -> None:
        self._scalable = {each.type.name: each for each in scalable}
        self._tenant = tenant
        self._stale_after_s = stale_after_s
        self._prompt_tokens = prompt_tokens
        self._snapshot = _NOTHING_YET
        self._before: ServingSnapshot | None = None
        self._log = ArrivalLog()
        self._reserved: frozenset[str] = frozenset()
        self._since_s: dict[str, float] = {}  # when a name was first reserved
        self._done_s: dict[str, float] = {}  # when the start of an instance was over
        self._down_s: dict[str, float] = {}
        self._numbers: dict[str, _Numbers] = {}

    def fold(self, seen: Observation) -> None:
        """Take in one observation."""
        if seen.serving is None:
            return
        self._before = None if self._snapshot is _NOTHING_YET else self._snapshot
        self._snapshot = snapshot = seen.serving
        self._log.take(snapshot)
        now_s = snapshot.seen_s
        down = {each.name for each in snapshot.servers if each.state == "down"}
        self._down_s = {name: self._down_s.get(name, now_s) for name in down}
        for type_ in self._scalable:
            names = frozenset(each.name for each in snapshot.servers if each.type == type_)
            before = self._numbers.get(type_)
            if before is None or before.names != names:
                self._numbers[type_] = _Numbers(names=names, changed_s=now_s)

    def apply(self, decision: Decision, receipt: Receipt) -> None:
        """Note that an instance was started: the gateway shows it at its next status."""
        action = decision.action
        if isinstance(action, StartInstance) and receipt.result == "done":
            self._done_s[action.instance] = receipt.t_s

    def reserve(self, claims: Iterable[str]) -> None:
        """Set about which instances nothing new should be decided."""
        self._reserved = frozenset(claims)

    def view(self, t_s: float) -> ServingMoment:
        """Return the moment as it is at `t_s`."""
        sought = self._sought(t_s)
        view, rows = view_of(
            self._snapshot,
            [each.type for each in self._scalable.values()],
            t_s=t_s,
            places=self._places(sought),
            log=self._log,
            before=self._before,
            prompt_tokens=self._prompt_tokens,
        )
        return ServingMoment(
            t_s=t_s,
            snapshot=self._snapshot,
            view=view,
            rows=rows,
            scalable=self._scalable,
            tenant=self._tenant,
            sought=sought,
            down_since_s=self._down_s,
            changed_s={name: each.changed_s for name, each in self._numbers.items()},
            reserved=self._reserved,
            unknown=self._unknown(t_s),
        )

    def _places(self, sought: Sequence[Sought]) -> list[Place]:
        """Return what is on its way, and one place for each instance that may be started."""
        coming = [Place(name=each.name, type=each.type) for each in sought]
        for name, kind in self._scalable.items():
            there = sum(each.type == name for each in self._snapshot.servers)
            on_its_way = sum(each.type == name for each in sought)
            coming += [Place(type=name)] * max(0, kind.most - there - on_its_way)
        return coming

    def _unknown(self, t_s: float) -> str:
        silent_s = t_s - self._snapshot.seen_s
        if self._snapshot is _NOTHING_YET:
            return "the gateway has not answered yet"
        stale = silent_s > self._stale_after_s
        return f"the gateway has not answered for {silent_s:.0f} s" if stale else ""

    def _sought(self, t_s: float) -> tuple[Sought, ...]:
        """Return what is on its way: claimed or just done, and not in the gateway."""
        self._done_s = {name: s for name, s in self._done_s.items() if t_s - s <= SEEN_WITHIN_S}
        claimed = (each.removeprefix(INSTANCE) for each in self._reserved)
        names = {*claimed, *self._done_s} - {each.name for each in self._snapshot.servers}
        self._since_s = {name: self._since_s.get(name, t_s) for name in names}
        return tuple(
            Sought(name=name, type=type_, since_s=self._since_s[name])
            for name in sorted(names)
            if (type_ := self._type_of(name))
        )

    def _type_of(self, name: str) -> str:
        type_ = name.rpartition("-")[0]
        return type_ if type_ in self._scalable else ""
