"""Puts a topology together from what was read, link by link and from both ends."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from steward.model.fabric.topology import (
    ENDPOINTS,
    NODE,
    NVLINK,
    NVSWITCH,
    UNKNOWN,
    UNKNOWN_LINK,
    FabricTopology,
    LinkTable,
    VertexTable,
)

__all__ = ["TopologyBuilder"]


@dataclass(slots=True, kw_only=True)
class _Cable:
    a: int
    b: int
    kind: int
    bytes_per_s: float
    delay_s: float
    rail: int
    up: bool
    ends: set[int] = field(default_factory=set)


class TopologyBuilder:
    """Collects vertices and cables; `build` returns the frozen topology.

    A cable with ports named is one cable however often and from whichever end it is told of. Cables
    without ports are told apart by `ports` alone: each call makes one.
    """

    def __init__(self, origin: str = "") -> None:
        self._origin = origin
        self._names: dict[str, int] = {}
        self._kind: list[int] = []
        self._tier: list[int] = []
        self._domain: list[int] = []
        self._domains: dict[str, int] = {}
        self._cables: list[_Cable] = []
        self._by_port: dict[tuple[int, str], _Cable] = {}
        self._unplaced: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def vertex(self, name: str, kind: int = UNKNOWN, *, tier: int = -1, domain: str = "") -> int:
        """Return the row of a vertex; what is said here adds to what was known of it."""
        row = self._names.get(name)
        if row is None:
            row = self._names[name] = len(self._kind)
            self._kind.append(kind)
            self._tier.append(tier)
            self._domain.append(-1)
        if kind != UNKNOWN:
            self._kind[row] = kind
        if tier >= 0:
            self._tier[row] = tier
        if domain:
            self._domain[row] = self._domains.setdefault(domain, len(self._domains))
        return row

    def kind_of(self, name: str) -> int:
        """Return the kind of a vertex, `UNKNOWN` for one that nobody has told of."""
        row = self._names.get(name)
        return UNKNOWN if row is None else self._kind[row]

    def unplaced(self, names: Iterable[str]) -> None:
        """Note nodes that no switch names: they are shown, without a path to any other."""
        for name in names:
            self.vertex(name, NODE)
            self._unplaced.append(name)

    def cable(  # noqa: PLR0913 - what is known of a cable
        self,
        a: str,
        b: str,
        *,
        kind: int = UNKNOWN_LINK,
        bytes_per_s: float = math.nan,
        delay_s: float = math.nan,
        rail: int = -1,
        ports: tuple[str, str] | None = None,
        told_by: Iterable[str] | None = None,
        up: bool = True,
    ) -> None:
        """Note a cable between two vertices, as one end or both have told of it."""
        rows = self.vertex(a), self.vertex(b)
        cable = self._known(rows, ports)
        if cable is None:
            cable = _Cable(
                a=rows[0],
                b=rows[1],
                kind=kind,
                bytes_per_s=bytes_per_s,
                delay_s=delay_s,
                rail=rail,
                up=up,
            )
            self._cables.append(cable)
        else:
            _complete(cable, kind=kind, bytes_per_s=bytes_per_s, rail=rail, up=up)
        cable.ends |= set(rows) if told_by is None else {self._names[each] for each in told_by}
        if ports is not None:
            for row, port in zip(rows, ports, strict=True):
                if port:
                    self._by_port[row, port] = cable

    def build(self) -> FabricTopology:
        """Return the topology; tiers that nobody said are hops from the nearest endpoint."""
        pairs = [pair for each in self._cables for pair in ((each.a, each.b), (each.b, each.a))]
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        twice = [each for each in self._cables for _ in range(2)]
        links = LinkTable(
            source=ends[:, 0].copy(),
            target=ends[:, 1].copy(),
            kind=np.array([each.kind for each in twice], np.int64),
            bytes_per_s=np.array([each.bytes_per_s for each in twice], np.float64),
            delay_s=np.array([each.delay_s for each in twice], np.float64),
            rail=np.array([each.rail for each in twice], np.int64),
            ends_seen=np.array([len(each.ends) for each in twice], np.int64),
            up=np.array([each.up for each in twice], np.bool_),
        )
        vertices = VertexTable(
            names=tuple(self._names),
            kind=np.array(self._kind, np.int64),
            tier=np.array(self._tiers(), np.int64),
            domain=np.array(self._domain, np.int64),
        )
        return FabricTopology(
            vertices=vertices,
            links=links,
            domains=tuple(self._domains),
            origin=self._origin,
            unplaced=tuple(dict.fromkeys(self._unplaced)),
        )

    def wire_domains(self, bytes_per_s: float = math.nan) -> None:
        """Give each NVLink domain a switch of its own that all its members are wired to."""
        for name, domain in list(self._domains.items()):
            members = [
                row
                for row, of in enumerate(self._domain)
                if of == domain and self._kind[row] in ENDPOINTS
            ]
            names = tuple(self._names)
            switch = f"nvlink:{name}"
            self.vertex(switch, NVSWITCH, tier=1, domain=name)
            for row in members:
                self.cable(names[row], switch, kind=NVLINK, bytes_per_s=bytes_per_s, delay_s=5e-7)

    def _known(self, rows: tuple[int, int], ports: tuple[str, str] | None) -> _Cable | None:
        if ports is None:
            return None
        for row, port in zip(rows, ports, strict=True):
            cable = self._by_port.get((row, port)) if port else None
            if cable is not None and {cable.a, cable.b} == set(rows):
                return cable
        return None

    def _tiers(self) -> list[int]:
        """Return hops from the nearest endpoint; what no endpoint reaches stays unknown."""
        near: list[list[int]] = [[] for _ in self._kind]
        for each in self._cables:
            near[each.a].append(each.b)
            near[each.b].append(each.a)
        hops = [0 if kind in ENDPOINTS else -1 for kind in self._kind]
        waiting = deque(row for row, hop in enumerate(hops) if hop == 0)
        while waiting:
            row = waiting.popleft()
            for other in near[row]:
                if hops[other] < 0:
                    hops[other] = hops[row] + 1
                    waiting.append(other)
        return [said if said >= 0 else found for said, found in zip(self._tier, hops, strict=True)]


def _complete(cable: _Cable, *, kind: int, bytes_per_s: float, rail: int, up: bool) -> None:
    """Add what the other end knows. Where they differ, the slower and the broken is true."""
    if kind != UNKNOWN_LINK:
        cable.kind = kind
    if not math.isnan(bytes_per_s):
        known = cable.bytes_per_s
        cable.bytes_per_s = bytes_per_s if math.isnan(known) else min(known, bytes_per_s)
    if rail >= 0:
        cable.rail = rail
    cable.up = cable.up and up
