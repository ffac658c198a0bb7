"""What the health page and its API show: drawn from the recogniser of faults and the view.

A thin layer: what is known of faults is the recogniser's, intervals are `learn.faults`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan

from steward.health.live import FaultRecogniser, FleetHealth, NodeHealth
from steward.learn.faults.lemons import Interval, poisson_interval
from steward.loop import Loop
from steward.model.cluster import Health
from steward.model.faults import Incident, Remedy
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = [
    "STATES",
    "CodeRate",
    "FleetSummary",
    "GpuCell",
    "IncidentRow",
    "NodeCells",
    "UnitRow",
    "fleet_summary",
]

MOST_ROWS = 200
# From what is well to what is worst: name, mark, and what it means.
STATES: Mapping[str, tuple[str, str]] = {
    "well": ("", "no fault that is not over"),
    "watched": ("~", "a fault that is watched, in service"),
    "faulty": ("!", "a fault that takes the GPU, in service still"),
    "drained": ("d", "drained by steward for a fault"),
    "proven": ("v", "drained, and its test has passed"),
    "away": ("-", "drained by somebody else"),
    "failed": ("x", "the GPU does not answer"),
    "unknown": ("?", "nothing is known of the GPU"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCell:
    """One GPU of the map."""

    id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCells:
    """A row of the map; `text` is what is wrong, for people."""

    node: str
    gpus: tuple[GpuCell, ...]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident of the timeline."""

    id: str
    t_s: float
    until_s: float
    node: str
    gpu: str
    code: int | None
    meaning: str
    primary: bool
    fatal: bool
    action: str
    why: str
    part: str  # program: no fault of the hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """A node that had faults: its rate a day with its interval, and how suspicious it is."""

    node: str
    faults: int
    days: float
    low: float
    mid: float
    high: float
    lemon_probability: float
    devices: tuple[str, ...]
    state: str  # of its case: none, open, drained


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRate:
    """How often a code came, a thousand node-days."""

    code: str
    count: int
    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """All of the page."""

    t_s: float
    enabled: bool  # somebody reads the kernel's lines for faults
    nodes: tuple[NodeCells, ...] = ()
    states: Mapping[str, int]  # GPUs by state
    incidents: tuple[IncidentRow, ...] = ()  # newest first
    units: tuple[UnitRow, ...] = ()  # most suspicious first
    rates: tuple[CodeRate, ...] = ()  # most frequent first
    exposure_days: float = 0.0
    repeated_lines: int = 0


def fleet_summary(loop: Loop[ClusterView]) -> FleetSummary:
    """Return what is known now; without a recogniser, the map alone."""
    recogniser = next(
        (each for each in loop.stages.recognisers if isinstance(each, FaultRecogniser)), None
    )
    fleet = recogniser.fleet if recogniser is not None else FleetHealth()
    view = loop.view
    cases = {each.node: each for each in fleet.nodes if each.case is not None}
    nodes = tuple(_cells(view, cases))
    return FleetSummary(
        t_s=view.t_s,
        enabled=recogniser is not None,
        nodes=nodes,
        states=Counter(gpu.state for node in nodes for gpu in node.gpus),
        incidents=tuple(_incident(each) for each in fleet.incidents[:MOST_ROWS]),
        units=tuple(_unit(each, view) for each in fleet.nodes[:MOST_ROWS]),
        rates=tuple(_rates(fleet)),
        exposure_days=fleet.exposure_days,
        repeated_lines=fleet.repeated_lines,
    )


def _cells(view: ClusterView, cases: Mapping[str, NodeHealth]) -> Iterator[NodeCells]:
    for row, node in enumerate(view.cluster.nodes):
        found = cases.get(node.id)
        state = _node_state(view, row, found)
        devices = found.case.devices if found is not None and found.case is not None else ()
        known = {gpu.uuid for gpu in node.gpus} & set(devices)
        cells = tuple(
            GpuCell(
                id=gpu.id,
                state=_gpu_state(view, gpu.id, state, named=not known or gpu.uuid in known),
            )
            for gpu in node.gpus
        )
        yield NodeCells(node=node.id, gpus=cells, text=_text(found))


def _node_state(view: ClusterView, row: int, found: NodeHealth | None) -> str:
    case = found.case if found is not None else None
    if bool(view.nodes.draining[row]):
        if isnan(float(view.nodes.drained_since_s[row])):
            return "away"
        return "proven" if case is not None and case.is_proven else "drained"
    if case is None:
        return "well"
    return "faulty" if case.remedy.takes_gpu else "watched"


def _gpu_state(view: ClusterView, gpu: str, node: str, *, named: bool) -> str:
    """Return a GPU's own state; a fault is that of the GPUs that are known to have it, or all."""
    health = int(view.gpus.health[view.gpu_row[gpu]]) if gpu in view.gpu_row else -1  # type: ignore[index]
    if health == HEALTH_CODES[Health.BAD]:
        return "failed"
    if node in ("faulty", "watched") and not named:
        return "well"
    if node == "well" and health == HEALTH_CODES[Health.UNKNOWN]:
        return "unknown"
    return node


def _text(found: NodeHealth | None) -> str:
    case = found.case if found is not None else None
    if found is None or case is None:
        return ""
    outage = f", {case.together} nodes at once" if case.together > 1 else ""
    return f"{case.remedy.value}{outage}; {found.faults} faults in {found.days:,.1f} days"


def _incident(each: Incident) -> IncidentRow:
    episode = each.episode
    return IncidentRow(
        id=episode.id,
        t_s=episode.t_s,
        until_s=episode.until_s,
        node=episode.node,
        gpu=episode.device,
        code=episode.code,
        meaning=each.meaning,
        primary=each.primary,
        fatal=each.fatal,
        action=each.remedy.value if each.primary else Remedy.FOLLOW.value,
        why=each.why,
        part=each.part.value,
    )


def _unit(each: NodeHealth, view: ClusterView) -> UnitRow:
    interval = poisson_interval(each.faults, each.days)
    row = view.node_row.get(each.node)  # type: ignore[call-overload]
    drained = row is not None and bool(view.nodes.draining[row])
    return UnitRow(
        node=each.node,
        faults=each.faults,
        days=each.days,
        low=interval.low,
        mid=interval.mid,
        high=interval.high,
        lemon_probability=each.lemon_probability,
        devices=tuple(name for name, _ in each.devices),
        state="drained" if drained else "open" if each.case is not None else "none",
    )


def _rates(fleet: FleetHealth) -> Iterator[CodeRate]:
    counts: Counter[str] = Counter()
    for each in fleet.nodes:
        counts.update(dict(each.codes))
    for code, count in counts.most_common(20):
        found: Interval = poisson_interval(count, fleet.exposure_days / 1000.0)
        yield CodeRate(code=code, count=count, low=found.low, mid=found.mid, high=found.high)
