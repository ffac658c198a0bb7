"""The recogniser of hardware faults: lines of a turn in, findings about nodes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steward.health.cases import CaseBook, NodeState, Unit
from steward.health.live_faults import LiveFaults
from steward.learn.faults.lemons import RatePrior
from steward.model.cluster import Cluster
from steward.model.event import LogLine, Observation
from steward.model.faults import FaultCase, Incident
from steward.model.finding import Evidence, Finding, Quote, Recurrence, Severity
from steward.model.identity import FindingId, GpuId, NodeId, stable_id
from steward.model.view import ClusterView

__all__ = ["RULE", "FaultRecogniser", "FleetHealth", "NodeHealth"]

RULE = "hardware-fault"
SHOWN_INCIDENTS = 500
QUOTES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """What the faults of a node amount to, for people."""

    node: str
    faults: int
    days: float
    rate_per_day: float
    lemon_probability: float
    codes: tuple[tuple[str, int], ...] = ()  # most frequent first
    devices: tuple[tuple[str, int], ...] = ()
    case: FaultCase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHealth:
    """The whole fleet at one turn: what pages and the API show."""

    t_s: float = 0.0
    nodes: tuple[NodeHealth, ...] = ()  # that had a fault, most suspicious first
    incidents: tuple[Incident, ...] = ()  # newest first
    exposure_days: float = 0.0
    prior: RatePrior | None = None
    repeated_lines: int = 0


class FaultRecogniser:
    """Reads the kernel's lines of all nodes, and says which nodes have faults that are not over."""

    name = "hardware-faults"

    def __init__(self) -> None:
        self._lines = LiveFaults()
        self._book = CaseBook()
        self._weight = 0.5
        self._cluster: Cluster | None = None
        self._now: dict[str, tuple[str, ...]] = {}  # UUIDs of the GPUs of each node
        self._parts: dict[str, tuple[str, ...]] = {}  # the same, when they were last known
        self.fleet = FleetHealth()

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set how far its findings are trusted."""
        self._weight = weights.get(RULE, self._weight)

    def resume(self, found: Sequence[tuple[Finding, float]], lines: Sequence[LogLine]) -> None:
        """Go on with cases of an earlier run; its lines are known."""
        last: dict[str, Finding] = {}
        for finding, _ in found:
            if finding.fault is not None:
                last[finding.fault.node] = finding
                self._lines.know(finding.fault.node, finding.fault.last_s)
        for finding in last.values():
            if finding.fault is not None:
                self._book.restore(finding.fault, finding.title)
        self._lines.read(lines, max((each.t_s for each in lines), default=0.0))

    def recognise(self, seen: Observation, view: ClusterView) -> tuple[Finding, ...]:
        """Return one finding for each node with a case."""
        if view.cluster is not self._cluster:
            self._cluster = view.cluster
            self._now = {
                str(node.id): tuple(sorted(gpu.uuid for gpu in node.gpus if gpu.uuid))
                for node in view.cluster.nodes
            }
        states = _states(view, self._now)
        faults = self._lines.split_old(self._lines.read(seen.lines, view.t_s), view.t_s)
        for node in self._swapped(states):
            self._book.swapped(node, view.t_s)
        self._book.turn(faults, states, self._lines.verdicts, view.t_s, gpus=self._lines.gpus)
        self.fleet = self._drawn(view.t_s)
        return tuple(self._findings(view))

    def recurrences(self, t_s: float) -> tuple[Recurrence, ...]:
        """Return nothing: a case is one finding for as long as it lasts."""
        del t_s
        return ()

    def _swapped(self, states: Mapping[str, NodeState]) -> Iterator[str]:
        yield from self._lines.swapped
        for node, state in states.items():
            before = self._parts.get(node)
            if state.parts:
                self._parts[node] = state.parts
                if before is not None and before != state.parts:
                    yield node

    def _findings(self, view: ClusterView) -> Iterator[Finding]:
        for node, held in sorted(self._book.open.items()):
            case = held.case
            quotes = tuple(_quote(each) for each in held.incidents[-QUOTES:])
            says = f"{case.faults} faults since it began" if case.faults > 1 else held.title
            evidence = Evidence(
                entity=node,
                metric="log.faults",
                from_s=case.since_s,
                to_s=max(case.last_s, case.since_s),
                says=says,
            )
            yield Finding(
                id=FindingId(stable_id("f", RULE, node, case.since_s)),
                t_s=view.t_s,
                rule=RULE,
                subject=node,
                title=f"{node}: {held.title}",
                severity=Severity.FAULT if case.remedy.takes_gpu else Severity.NOTE,
                since_s=case.since_s,
                evidence=(evidence,),
                gpus=_gpus(case, view),
                quotes=quotes,
                hits=case.faults,
                weight=self._weight,
                fault=case,
            )

    def _drawn(self, t_s: float) -> FleetHealth:
        book = self._book
        nodes = [
            _node_health(node, unit, book)
            for node, unit in book.units.items()
            if unit.faults >= 0.5 or node in book.open
        ]
        nodes.sort(key=lambda each: (-each.lemon_probability, -each.faults, each.node))
        return FleetHealth(
            t_s=t_s,
            nodes=tuple(nodes),
            incidents=tuple(reversed(list(book.incidents)[-SHOWN_INCIDENTS:])),
            exposure_days=sum(each.days for each in book.units.values()),
            prior=book.prior,
            repeated_lines=self._lines.repeated,
        )


def _node_health(node: str, unit: Unit, book: CaseBook) -> NodeHealth:
    rate = book.prior.unit(round(unit.faults), unit.days)
    held = book.open.get(node)
    return NodeHealth(
        node=node,
        faults=round(unit.faults),
        days=unit.days,
        rate_per_day=rate.mean,
        lemon_probability=rate.lemon_probability,
        codes=tuple(unit.codes.most_common(4)),
        devices=tuple(unit.devices.most_common(4)),
        case=held.case if held is not None else None,
    )


def _states(view: ClusterView, parts: Mapping[str, tuple[str, ...]]) -> dict[str, NodeState]:
    columns = view.nodes
    times = np.stack([columns.drained_since_s, columns.reset_s, columns.rebooted_s])
    mended_s = np.where(np.isnan(times), -np.inf, times).max(axis=0).tolist()
    by_steward = (~np.isnan(columns.drained_since_s)).tolist()
    draining = columns.draining.tolist()
    return {
        str(node.id): NodeState(
            draining=draining[row],
            by_steward=by_steward[row],
            mended_s=mended_s[row],
            parts=parts.get(str(node.id), ()),
        )
        for row, node in enumerate(view.cluster.nodes)
    }


def _gpus(case: FaultCase, view: ClusterView) -> tuple[GpuId, ...]:
    """Return the GPUs of the view that a case is about, where their UUIDs are known."""
    row = view.node_row.get(NodeId(case.node))
    if row is None:
        return ()
    node = view.cluster.nodes[row]
    return tuple(gpu.id for gpu in node.gpus if gpu.uuid and gpu.uuid in case.devices)


def _quote(incident: Incident) -> Quote:
    episode = incident.episode
    code = "" if episode.code is None else f" {episode.code}"
    text = f"{episode.kind.value}{code} on {episode.device}: {episode.text}"
    return Quote(t_s=episode.t_s, text=text, stream="kernel", entity=episode.node)
