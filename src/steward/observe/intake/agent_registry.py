"""Which agents send to this server, and how each is doing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from steward.model.event import Event
from steward.observe.agent.parcel import ParcelHeader

__all__ = ["SILENT_AFTER_S", "AgentRegistry", "AgentState"]

MOST_AGENTS = 20_000
SILENT_AFTER_S = 180.0  # agents send every few seconds; this outlasts a restart
HALF_LIFE_PARCELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """One agent, by its newest parcel."""

    node: str
    agent: str
    version: str
    heard_s: float  # by the server's clock
    newest_s: float  # the newest sample that it has sent
    offset_s: float | None  # how far the server's clock is ahead of its own
    round_trip_s: float | None
    shift_s: float
    buffered_bytes: int
    samples_per_s: float
    gaps: int  # parcels that it had to drop
    parcels: int


class AgentRegistry:
    """Agents by their node, since this server was started; thread-safe.

    Those that were silent for longest are forgotten.
    """

    def __init__(self, *, most: int = MOST_AGENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._agents: OrderedDict[str, AgentState] = OrderedDict()
        self._nodes: OrderedDict[str, str] = OrderedDict()  # agent: what its node was called

    def record(self, label: ParcelHeader, t_s: float) -> tuple[Event, ...]:
        """Record a parcel that was accepted; return events about its agent."""
        with self._lock:
            before = self._agents.pop(label.node, None)
            self._agents[label.node] = AgentState(
                node=label.node,
                agent=label.agent,
                version=label.version,
                heard_s=t_s,
                newest_s=label.to_s + label.shift_s,
                offset_s=label.offset_s,
                round_trip_s=label.round_trip_s,
                shift_s=label.shift_s,
                buffered_bytes=label.buffered_bytes,
                samples_per_s=_rate(before, label),
                gaps=label.gaps,
                parcels=1 if before is None else before.parcels + 1,
            )
            called = self._nodes.pop(label.agent, label.node)
            self._nodes[label.agent] = label.node
            self._forget()
        if called == label.node:
            return ()
        text = f"the agent that was on '{called}' is now on '{label.node}'"
        return (
            Event(t_s=t_s, kind="agent.renamed", subject=label.node, text=text, source="intake"),
        )

    def all(self) -> tuple[AgentState, ...]:
        """Return all agents by the name of their node."""
        with self._lock:
            return tuple(self._agents[node] for node in sorted(self._agents))

    def _forget(self) -> None:
        while len(self._agents) > self._most:
            self._agents.popitem(last=False)
        while len(self._nodes) > self._most:
            self._nodes.popitem(last=False)


def _rate(before: AgentState | None, label: ParcelHeader) -> float:
    """Return samples per second of the agent's own time, smoothed over a few parcels."""
    begin_s = label.from_s if before is None else before.newest_s - label.shift_s
    passed_s = label.to_s - begin_s
    if passed_s <= 0:
        return before.samples_per_s if before else 0.0
    now = label.samples / passed_s
    if before is None or not before.samples_per_s:
        return now
    return before.samples_per_s + (now - before.samples_per_s) / HALF_LIFE_PARCELS
