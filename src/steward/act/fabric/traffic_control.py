"""Caps jobs with the traffic control of the machines they run on.

One shaper per node and interface. What a job sends is known by a match: addresses and ports, or its
cgroup. A cap is of each node, as the decision says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.clients.linux.traffic import Match, TrafficShaper, class_number
from steward.errors import PermanentError
from steward.model.actions import Action, Release, Tell, Throttle
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability

__all__ = ["TrafficControl"]


@dataclass(slots=True, kw_only=True)
class TrafficControl:
    """`matches` says for each job which packets are its own; `shapers` are by node."""

    shapers: Mapping[str, TrafficShaper]
    matches: Mapping[str, Sequence[Match]]
    name: str = "traffic-control"

    def available(self) -> Availability:
        """Say on how many nodes traffic can be shaped."""
        bad = []
        for node, shaper in self.shapers.items():
            try:
                shaper.caps()
            except PermanentError as error:
                bad.append(f"{node}: {error}")
        usable = len(self.shapers) - len(bad)
        status = "ok" if usable and not bad else "limited" if usable else "missing"
        return Availability(
            status=status,
            reason="; ".join(bad) or f"{usable} interfaces can be shaped",
            hint="it needs iproute2 and the right to administer the network" if bad else "",
        )

    def actions(self) -> tuple[type[Action], ...]:
        """Return what can be done to traffic; advice is written down."""
        return (Throttle, Release, Tell)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Set or take off a cap on every node; how it is there is read, so twice is as once."""
        match decision.action:
            case Throttle() as action:
                matches = self._matches(action.job)
                for shaper in self.shapers.values():
                    shaper.cap(class_number(action.job), matches, action.bytes_per_s)
            case Release() as action:
                for shaper in self.shapers.values():
                    shaper.release(class_number(action.job))
            case Tell() as action:
                text = f"told {action.to}: {action.text}"
                return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)
            case action:
                raise PermanentError(f"traffic control cannot {action.type}")
        nodes = ", ".join(sorted(self.shapers))
        text = f"{action.sentence} (on {nodes})"
        return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return the same: a cap is set at once."""
        return self.carry_out(decision, t_s)

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:  # noqa: ARG002 - of the port
        """Return the commands for a decision as things are now; nothing is changed."""
        commands: list[str] = []
        match decision.action:
            case Throttle() as action:
                number, matches = class_number(action.job), self._matches(action.job)
                for shaper in self.shapers.values():
                    commands += shaper.shown(shaper.to_cap(number, matches, action.bytes_per_s))
                groups = [each.cgroup for each in matches if each.cgroup]
                also = f"; a BPF classifier leads {', '.join(groups)} there" if groups else ""
            case Release() as action:
                also, number = "", class_number(action.job)
                for shaper in self.shapers.values():
                    if number in shaper.caps():
                        commands += shaper.shown(shaper.to_release(number))
            case action:
                return ByHand(text=f"traffic control cannot {action.type}", possible=False)
        return ByHand(text=action.sentence + also, commands=tuple(commands))

    def _matches(self, job: str) -> Sequence[Match]:
        found = self.matches.get(job, ())
        if not found:
            raise PermanentError(f"it is not known which packets are those of {job}")
        return found
