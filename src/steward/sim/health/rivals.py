"""What else a site could do about faults: simple rules, and one that knows the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set

from steward.model.event import LogLine
from steward.model.faults import XIDS, FaultKind, Remedy
from steward.model.faults.xids import FATAL_XIDS
from steward.observe.faults import fault_of
from steward.sim.health.fleet import DAY_S, NOTHING, REBOOT, REPLACE, RESET, Fleet
from steward.sim.health.orders import Order, OrderKind

__all__ = ["DrainOnFatal", "NeverDrain", "Oracle", "ThreeStrikes"]


def _fatal(
    lines: Sequence[LogLine], fleet: Fleet, also: Set[int] = frozenset()
) -> dict[int, Remedy]:
    """Return the nodes that wrote a fatal code, with the hardest remedy of their codes."""
    rows = {node.name: node.row for node in fleet.nodes}
    found: dict[int, Remedy] = {}
    for line in lines:
        fault = fault_of(line.text)
        if fault is None or fault.kind is not FaultKind.XID or fault.code is None:
            continue
        if fault.code not in FATAL_XIDS | also:
            continue
        remedy = XIDS[fault.code].remedy
        row = rows[line.entity]
        found[row] = max(found.get(row, remedy), remedy, key=lambda each: each.rank)
    return found


class NeverDrain:
    """Restarts a node in place where its code asks for that, resets GPUs, and keeps it."""

    name = "never-drain"

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        """Mend at once what the code names; no test, no drain, no new part."""
        for row, remedy in _fatal(lines, fleet).items():
            if fleet.nodes[row].busy_until_s > t_s:
                continue
            hard = remedy.rank >= Remedy.REBOOT_NODE.rank
            yield Order(kind=OrderKind.REBOOT if hard else OrderKind.RESET, node=row)


class _Workshop:
    """What happens to a drained node: its mending, then tests, then a new part or its return."""

    def __init__(self) -> None:
        self._next: dict[int, list[OrderKind]] = {}

    def take(self, row: int, steps: list[OrderKind]) -> Iterator[Order]:
        yield Order(kind=OrderKind.DRAIN, node=row)
        self._next[row] = steps

    def go_on(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        bad = {line.entity for line in lines if line.text.startswith("steward-diagnose: bad")}
        for row, steps in list(self._next.items()):
            node = fleet.nodes[row]
            if node.name in bad:
                steps[:] = [OrderKind.REPLACE, OrderKind.UNDRAIN]
            if node.busy_until_s > t_s or node.running is not None:
                continue
            step = steps.pop(0)
            yield Order(kind=step, node=row)
            if step is OrderKind.UNDRAIN:
                del self._next[row]

    def has(self, row: int) -> bool:
        return row in self._next


class DrainOnFatal:
    """Drains a node for any fatal code, mends and tests it; a test that fails costs the part."""

    def __init__(self, *, also: Set[int] = frozenset()) -> None:
        self._shop = _Workshop()
        self._also = also  # codes that are held to be fatal besides
        self.name = "-and-".join(["drain-on-any-fatal", *map(str, sorted(also))])

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        """Drain first, then go on with what is drained."""
        for row, remedy in _fatal(lines, fleet, self._also).items():
            if not self._shop.has(row):
                hard = remedy.rank >= Remedy.REBOOT_NODE.rank
                mend = OrderKind.REBOOT if hard else OrderKind.RESET
                yield from self._shop.take(row, [mend, OrderKind.TEST, OrderKind.UNDRAIN])
        yield from self._shop.go_on(fleet, lines, t_s)


class ThreeStrikes:
    """Leaves a node in service for two fatal codes; the third in 30 days costs its part.

    Between, it is mended in place as `never-drain` does.
    """

    name = "three-strikes"

    def __init__(self) -> None:
        self._shop = _Workshop()
        self._strikes: dict[int, list[float]] = defaultdict(list)
        self._in_place = NeverDrain()

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        """Count strikes, one for a turn."""
        quiet = []
        for row in _fatal(lines, fleet):
            if self._shop.has(row):
                continue
            strikes = self._strikes[row]
            strikes[:] = [each for each in strikes if each > t_s - 30 * DAY_S] + [t_s]
            if len(strikes) >= 3:
                strikes.clear()
                yield from self._shop.take(row, [OrderKind.REPLACE, OrderKind.UNDRAIN])
            else:
                quiet.append(fleet.nodes[row].name)
        yield from self._in_place.react(
            fleet, [line for line in lines if line.entity in quiet], t_s
        )
        yield from self._shop.go_on(fleet, lines, t_s)


class Oracle:
    """Knows what each node needs, and which are lemons, from the first moment on."""

    name = "oracle"

    def __init__(self, *, replaces_lemons: bool = True) -> None:
        self._shop = _Workshop()
        self._replaces_lemons = replaces_lemons

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterator[Order]:
        """Do exactly what is needed, without a test."""
        mends = {RESET: OrderKind.RESET, REBOOT: OrderKind.REBOOT, REPLACE: OrderKind.REPLACE}
        for node in fleet.nodes:
            if self._shop.has(node.row):
                continue
            lemon = self._replaces_lemons and node.lemon_rate > 0
            if lemon or node.level > NOTHING:
                step = OrderKind.REPLACE if lemon else mends[node.level]
                yield from self._shop.take(node.row, [step, OrderKind.UNDRAIN])
        yield from self._shop.go_on(fleet, lines, t_s)
