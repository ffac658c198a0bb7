"""Reads this machine: cores, memory, disks, network and whatever else it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.host import HostSource
from steward.model.cluster import Cluster, Node
from steward.model.event import Availability, Event, Observation
from steward.model.identity import NodeId
from steward.model.layout import Block, Layout

__all__ = ["Host"]


class Host:
    """Processors, memory, disks, network, pressure, sockets, ports and sensors of this machine.

    `node` is the machine's name; empty means its own host name. `cores`: whether each
    core has numbers of its own. `proc` and `sys` are where a container has those of its host.
    """

    name = "host"
    vocabulary = "linux"

    def __init__(
        self,
        *,
        node: str = "",
        cores: bool = True,
        proc: str = "/proc",
        sys: str = "/sys",
        source: HostSource | None = None,
    ) -> None:
        self._source = source or HostSource(proc=Path(proc), sys=Path(sys), cores=cores)
        self._name_now = self._source.named()
        self.node = NodeId(node or self._name_now)
        self._blocks: tuple[Block, ...] = ()
        self._layout = Layout(blocks=())
        self._last_node: Node | None = None
        self._parts: frozenset[str] = frozenset()

    def available(self) -> Availability:
        hidden = self._source.hidden()
        present = self._source.present()
        if not present:
            return Availability(
                status="missing", reason=_list(hidden), hint="is /proc mounted? steward needs it"
            )
        what = f"{self._source.cpus()} cores, {self.node}: {', '.join(present)}"
        if hidden:
            hint = "in a container, mount /proc and /sys of the host; energy counters need root"
            return Availability(
                status="limited", reason=f"{what}; not readable: {_list(hidden)}", hint=hint
            )
        return Availability(status="ok", reason=what)

    def layout(self) -> Layout:
        blocks = self._source.blocks()
        if blocks is not self._blocks:
            self._blocks = blocks
            self._layout = Layout(
                blocks=tuple(
                    Block(entity=f"{self.node}{block.entity}", names=block.names)
                    for block in blocks
                )
            )
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        self._source.read(into)

    def collect(self, t_s: float) -> Observation:
        node = Node(
            id=self.node, cpus=self._source.cpus(), memory_bytes=self._source.memory_bytes()
        )
        known, self._last_node = self._last_node, node
        events = (*self._renamed(t_s), *self._moved(t_s, first=known is None))
        return Observation(
            cluster=Cluster(id=self.node, nodes=(node,)) if node != known else None, events=events
        )

    def close(self) -> None:
        """Close the files of all parts."""
        self._source.close()

    def _renamed(self, t_s: float) -> list[Event]:
        """Report that the machine was renamed; its samples keep the first name."""
        before, self._name_now = self._name_now, self._source.named()
        if self._name_now == before:
            return []
        text = f"'{before}' calls itself '{self._name_now}' now; it stays '{self.node}' here"
        return [self._event(t_s, "host.renamed", self.node, text)]

    def _moved(self, t_s: float, *, first: bool) -> list[Event]:
        """Return events for parts that came or went since the last turn.

        The layout is that of the last tick: making a new one here would be in a tick's way.
        """
        before = self._parts
        layout = self._layout if self._layout.blocks else self.layout()
        self._parts = frozenset(block.entity for block in layout.blocks)
        if first:
            return []
        return [
            *(
                self._event(t_s, "host.part-gone", part, "it is not there any more")
                for part in sorted(before - self._parts)
            ),
            *(
                self._event(t_s, "host.part-came", part, "it was not there before")
                for part in sorted(self._parts - before)
            ),
        ]

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source=self.name)


def _list(hidden: dict[str, str]) -> str:
    return "; ".join(f"{name} ({why})" for name, why in hidden.items())
