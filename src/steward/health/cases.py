"""Cases: nodes whose faults are not over, what their history says, and when they are closed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, isnan

from steward.decide.health.fault_remedies import incidents
from steward.health.live_faults import Verdict
from steward.learn.faults import episodes, with_causes
from steward.learn.faults.episodes import GAP_S
from steward.learn.faults.lemons import PUBLISHED, RatePrior, fit
from steward.model.faults import (
    Episode,
    Fault,
    FaultCase,
    GpuSighting,
    Incident,
    Inventory,
    Part,
    Remedy,
    inventory_of,
)

__all__ = ["CaseBook", "NodeState", "Unit"]

DAY_S = 86_400.0
SETTLE_S = 5.0  # the cause of a fault may stand in a later line
BUFFER_S = 900.0
HISTORY_S = 30 * DAY_S
MOST_EPISODES = 200  # of one node
MOST_FAULTS = 5_000  # of one node in the buffer
MOST_INCIDENTS = 2_000
ONE_EVENT_S = 600.0  # several codes of one event count once against a node
TOGETHER_S = 120.0
LEAST_TOGETHER = 3
IMPROBABLE = 1e-6
REFIT_S = 7 * DAY_S
MEMORY_DAYS = 180.0  # after which a fault, and a day without one, weigh a third
QUIET_S = 1800.0  # a mild case is over
QUIET_IN_SERVICE_S = DAY_S  # one that was left in service


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """How a node stands with its engine."""

    draining: bool = False
    by_steward: bool = False
    mended_s: float = float("-inf")  # when steward last drained, reset or restarted it
    parts: tuple[str, ...] = ()  # UUIDs of its GPUs, where they are known


@dataclass(slots=True, kw_only=True)
class Unit:
    """What a node has had: faults that count, and for how long it was in service."""

    faults: float = 0.0
    days: float = 0.0
    last_event_s: float = float("-inf")
    devices: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Open:
    case: FaultCase
    title: str
    incidents: list[Incident]
    was_draining: bool = False


class CaseBook:
    """Faults in, cases out. All that it keeps is bounded."""

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}
        self.open: dict[str, _Open] = {}
        self.incidents: deque[Incident] = deque(maxlen=MOST_INCIDENTS)
        self.prior: RatePrior = PUBLISHED
        self._buffer: dict[str, list[Fault]] = {}
        self._history: dict[str, list[Episode]] = {}
        self._recent: deque[tuple[float, str]] = deque(maxlen=10_000)
        self._nodes = 0
        self._turn_s = float("nan")
        self._fitted_s = float("-inf")

    # -- what comes in -------------------------------------------------------------------------

    def restore(self, case: FaultCase, title: str) -> None:
        """Go on with the case of an earlier run."""
        unit = self.units.setdefault(case.node, Unit())
        unit.faults, unit.days = float(case.known_faults), case.known_days
        unit.last_event_s = case.last_s
        self.open[case.node] = _Open(case, title, [])

    def turn(
        self,
        faults: Iterable[Fault],
        nodes: Mapping[str, NodeState],
        verdicts: Iterable[Verdict],
        now_s: float,
        *,
        gpus: Mapping[tuple[str, str], str],
    ) -> None:
        """Take in one turn."""
        self._expose(nodes, now_s)
        for each in faults:
            self._buffer.setdefault(each.node, []).append(each)
        known = _inventory(gpus) if self._buffer else Inventory()
        found = [
            incident
            for node in list(self._buffer)
            for incident in self._settled(node, now_s, inventory=known)
        ]
        # Of one moment, a cause comes before what follows from it.
        self._take(sorted(found, key=lambda each: (each.episode.t_s, not each.primary)))
        for verdict in verdicts:
            self._prove(verdict, nodes.get(verdict.node, NodeState()))
        self._close(nodes, now_s)

    def swapped(self, node: str, now_s: float) -> None:
        """Forget what a node has had: it has another part, which did nothing of it."""
        self.units.pop(node, None)
        self._history.pop(node, None)
        held = self.open.get(node)
        if held is not None:
            unit = self.prior.unit(0, 0.0)
            held.case = replace(
                held.case,
                swapped_s=now_s,
                known_faults=0,
                known_days=0.0,
                rate_per_day=unit.mean,
                lemon_probability=unit.lemon_probability,
                excess_per_day=unit.excess,
            )

    def _expose(self, nodes: Mapping[str, NodeState], now_s: float) -> None:
        """Add the time since the last turn to each node that was in service."""
        passed_s = now_s - self._turn_s
        self._turn_s = now_s
        self._nodes = len(nodes)
        if isnan(passed_s) or passed_s <= 0.0:
            return
        days = passed_s / DAY_S
        fade = exp(-days / MEMORY_DAYS)
        for node, state in nodes.items():
            unit = self.units.get(node)
            if unit is None:
                unit = self.units[node] = Unit()
            unit.faults *= fade
            unit.days *= fade
            if not state.draining:
                unit.days += days
        if now_s - self._fitted_s >= REFIT_S:
            self._fitted_s = now_s
            self.prior = self._fit(nodes)

    def _fit(self, nodes: Mapping[str, NodeState]) -> RatePrior:
        known = [self.units[node] for node in nodes]
        return fit([round(each.faults) for each in known], [each.days for each in known])

    # -- from faults to incidents --------------------------------------------------------------

    def _settled(self, node: str, now_s: float, *, inventory: Inventory) -> list[Incident]:
        """Return incidents of a node that are new, and old enough that their cause is known."""
        buffer = self._buffer[node][-MOST_FAULTS:]
        known = self._history.setdefault(node, [])
        found = with_causes(episodes(buffer, inventory=inventory))
        new = [each for each in found if each.t_s <= now_s - SETTLE_S]
        new = [each for each in new if not self._goes_on(each, known)]
        kept = [each for each in buffer if each.t_s > now_s - BUFFER_S]
        if kept:
            self._buffer[node] = kept
        else:
            del self._buffer[node]
        if not new:
            return []
        known += new
        known[:] = [each for each in known if each.t_s > now_s - HISTORY_S][-MOST_EPISODES:]
        fresh = {each.id for each in new}
        return [each for each in incidents(known) if each.episode.id in fresh]

    def _goes_on(self, episode: Episode, known: list[Episode]) -> bool:
        """Return whether an episode is known, and note how long it has lasted by now."""
        for place in range(len(known) - 1, -1, -1):
            before = known[place]
            if _key(before) != _key(episode) or episode.t_s > before.until_s + GAP_S:
                continue
            if episode.until_s > before.until_s:
                known[place] = replace(before, until_s=episode.until_s)
                held = self.open.get(episode.node)
                if held is not None and not before.cause:
                    last_s = max(held.case.last_s, episode.until_s)
                    held.case = replace(held.case, last_s=last_s)
            return True
        return False

    def _take(self, found: Sequence[Incident]) -> None:
        self.incidents.extend(found)
        counted = [each for each in found if _counts(each)]
        self._recent.extend((each.episode.t_s, each.episode.node) for each in counted)
        for each in counted:
            near = self._near(each.episode.t_s)
            alone = len(near) < LEAST_TOGETHER
            self._count(each, alone=alone)
            self._add(each, len(near))
            if not alone:
                self._acquit(near - {each.episode.node}, each.episode.t_s, len(near))

    def _acquit(self, nodes: Iterable[str], t_s: float, together: int) -> None:
        """Take back what was counted against nodes before more of them failed in that moment."""
        for node in nodes:
            held = self.open.get(node)
            if held is None or abs(held.case.last_s - t_s) > TOGETHER_S:
                continue
            if held.case.together < LEAST_TOGETHER:
                self.units[node].faults = max(0.0, self.units[node].faults - 1.0)
            held.case = replace(held.case, together=max(together, held.case.together))
            self._weigh(held)

    def _near(self, t_s: float) -> set[str]:
        """Return the nodes that failed around a moment; one at most where that is coincidence."""
        near = {node for at_s, node in self._recent if abs(at_s - t_s) <= TOGETHER_S}
        rate = self.prior.normal + self.prior.lemon_share * self.prior.lemon
        expected = max(1, self._nodes) * rate * 2 * TOGETHER_S / DAY_S
        if len(near) < LEAST_TOGETHER or _tail(len(near), expected) > IMPROBABLE:
            return set(list(near)[:1])
        return near

    def _count(self, incident: Incident, *, alone: bool) -> None:
        """Count a fault against its node: once for an event, and not where many fail at once."""
        episode = incident.episode
        unit = self.units.setdefault(episode.node, Unit())
        unit.devices[episode.device] += 1
        unit.codes[_code(episode)] += 1
        if alone and episode.t_s - unit.last_event_s > ONE_EVENT_S:
            unit.faults += 1.0
        unit.last_event_s = max(unit.last_event_s, episode.t_s)

    def _add(self, incident: Incident, together: int) -> None:
        """Open a case, or add to the one that is open."""
        episode, held = incident.episode, self.open.get(incident.episode.node)
        if held is None:
            case = FaultCase(
                node=episode.node,
                devices=(episode.device,),
                remedy=incident.remedy,
                part=incident.part,
                since_s=episode.t_s,
                last_s=episode.until_s,
                together=together,
            )
            held = self.open[episode.node] = _Open(case, incident.meaning, [])
        else:
            held.case = self._with(held.case, incident, together)
        held.incidents = [*held.incidents, incident][-5:]
        held.title = _worst(held.incidents).meaning
        self._weigh(held)

    def _with(self, case: FaultCase, incident: Incident, together: int) -> FaultCase:
        episode = incident.episode
        again = episode.t_s - case.last_s > ONE_EVENT_S
        harder = incident.remedy.rank > case.remedy.rank
        devices = dict.fromkeys((*case.devices, episode.device))
        return replace(
            case,
            devices=tuple(devices)[:8],
            remedy=incident.remedy if harder else case.remedy,
            part=incident.part if harder else case.part,
            previous_s=case.last_s if again else case.previous_s,
            last_s=max(case.last_s, episode.until_s),
            faults=case.faults + again,
            together=together if again else max(together, case.together),
            tests_well=0 if again else case.tests_well,
            tests_bad=0 if again else case.tests_bad,
        )

    def _weigh(self, held: _Open) -> None:
        unit = self.units[held.case.node]
        rate = self.prior.unit(round(unit.faults), unit.days)
        held.case = replace(
            held.case,
            known_faults=round(unit.faults),
            known_days=unit.days,
            rate_per_day=rate.mean,
            lemon_probability=rate.lemon_probability,
            excess_per_day=rate.excess,
        )

    # -- when a case is over -------------------------------------------------------------------

    def _prove(self, verdict: Verdict, state: NodeState) -> None:
        """Count a test; those before the node was last mended say nothing of how it is now."""
        held = self.open.get(verdict.node)
        if held is None or verdict.t_s < max(held.case.last_s, state.mended_s):
            return
        case = held.case
        since_s = max(state.mended_s, case.swapped_s if case.swapped_s == case.swapped_s else 0.0)
        goes_on = case.tested_s >= since_s
        held.case = replace(
            case,
            tests_well=verdict.well + (case.tests_well if goes_on else 0),
            tests_bad=(not verdict.well) + (case.tests_bad if goes_on else 0),
            tested_s=verdict.t_s,
        )

    def _close(self, nodes: Mapping[str, NodeState], now_s: float) -> None:
        for node, held in list(self.open.items()):
            state = nodes.get(node, NodeState())
            if _is_over(held, state, now_s):
                del self.open[node]
            else:
                held.was_draining = state.draining


def _inventory(gpus: Mapping[tuple[str, str], str]) -> Inventory:
    """Return who is at which slot now: what a log told before a swap is forgotten with it."""
    return inventory_of(
        GpuSighting(node=node, slot=slot, uuid=name)
        if name.startswith("GPU-")
        else GpuSighting(node=node, slot=slot, serial=name)
        for (node, slot), name in gpus.items()
    )


def _is_over(held: _Open, state: NodeState, now_s: float) -> bool:
    case = held.case
    if state.draining and state.by_steward:  # a node comes back only when it was proven well
        return case.is_proven and case.tested_s >= max(case.last_s, state.mended_s)
    if held.was_draining and not state.draining:
        return True  # somebody brought it back: that is their judgement
    quiet_s = QUIET_IN_SERVICE_S if case.remedy.takes_gpu else QUIET_S
    return now_s - case.last_s >= quiet_s


def _counts(incident: Incident) -> bool:
    """Return whether an incident says something about the node, and not about a program."""
    hard = incident.remedy.rank >= Remedy.RESTART_JOB.rank
    program = incident.part in (Part.PROGRAM, Part.NONE) and not incident.remedy.takes_gpu
    return incident.primary and hard and not program and bool(incident.episode.node)


def _worst(found: Sequence[Incident]) -> Incident:
    return max(found, key=lambda each: (each.remedy.rank, each.episode.t_s))


def _key(episode: Episode) -> tuple[object, ...]:
    return (episode.kind, episode.code, episode.device)


def _code(episode: Episode) -> str:
    return episode.kind.value if episode.code is None else f"{episode.kind.value} {episode.code}"


def _tail(count: int, expected: float) -> float:
    """Return how likely so many events are, or more, where `expected` are (Poisson)."""
    term = exp(-expected)
    below = 0.0
    for k in range(count):
        below += term
        term *= expected / (k + 1)
    return max(0.0, 1.0 - below)
