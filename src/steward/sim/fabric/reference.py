"""The rules of the simulator once more, slowly and in plain Python: what tests hold it against.

At every event the rates of all bundles are shared out anew by progressive filling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from steward.model.fabric.topology import FabricTopology
from steward.sim.fabric.traffic import LATENCY, Bundle, Job, Phase, Traffic

__all__ = ["Reference"]

_NEVER = math.inf
_PACKET_BYTES = 4096.0


@dataclass(slots=True, eq=False)
class _Sent:
    """A bundle that is sent now."""

    bundle: Bundle
    row: int
    job: _Running | None
    links: Counter[int]
    remaining: float
    rate: float = 0.0


@dataclass(slots=True, eq=False)
class _Running:
    job: Job
    row: int
    due_s: float
    state: str = "before"  # before, computes, messages, sends, finishes, ended
    phase: int = -1
    step_s: float = 0.0
    steps: list[float] = field(default_factory=list)
    pending: int = 0
    end_s: float = math.nan


class Reference:
    """Runs traffic over a topology to its end, or for a time."""

    def __init__(
        self, topology: FabricTopology, traffic: Traffic, *, buffer_bytes: float = 400e3
    ) -> None:
        up = topology.links.up
        self.capacity = [
            float(each) if is_up else 1e-300
            for each, is_up in zip(topology.links.bytes_per_s, up, strict=True)
        ]
        self.delay_s = [5e-7 if math.isnan(each) else each for each in topology.links.delay_s]
        self.buffer_bytes = buffer_bytes
        self.now_s = 0.0
        self.jobs = [_Running(job, row, job.begin_s) for row, job in enumerate(traffic.jobs)]
        self.flows = list(zip(traffic.begin_s.tolist(), traffic.flows, strict=True))
        self.sent: list[_Sent] = []
        self.end_s: dict[int, float] = {}  # of flows by themselves
        self.bytes = [0.0] * len(self.capacity)
        self._begun = 0

    def run(self, until_s: float = _NEVER) -> None:
        """Go on until a time, or until nothing is left to happen."""
        while True:
            ends = [each.remaining / each.rate if each.rate > 0 else _NEVER for each in self.sent]
            arrival_s = self.flows[self._begun][0] if self._begun < len(self.flows) else _NEVER
            next_s = min(
                [self.now_s + min(ends, default=_NEVER), arrival_s, *(j.due_s for j in self.jobs)]
            )
            if next_s > until_s or next_s == _NEVER:
                if until_s < _NEVER:
                    self._pass(until_s - self.now_s)
                    self.now_s = until_s
                return
            over = [
                each
                for each, end in zip(self.sent, ends, strict=True)
                if self.now_s + end <= next_s
            ]
            self._pass(next_s - self.now_s)
            self.now_s = next_s
            for each in over:
                self._end(each)
            for job in self.jobs:
                if job.due_s <= next_s:
                    job.due_s = _NEVER
                    self._due(job)
            while self._begun < len(self.flows) and self.flows[self._begun][0] <= next_s:
                self._begin(self.flows[self._begun][1], self._begun, None)
                self._begun += 1
            self._share()

    def _pass(self, seconds: float) -> None:
        for each in self.sent:
            each.remaining -= each.rate * seconds
            for link, weight in each.links.items():
                self.bytes[link] += weight * each.rate * seconds

    def _begin(self, bundle: Bundle, row: int, job: _Running | None) -> None:
        loads = Counter[int]()
        for each in self.sent:
            loads.update(each.links)
        variants = [Counter(links.tolist()) for links in bundle.variants]
        best = min(
            variants,
            key=lambda own: max(
                ((loads[at] + n) / self.capacity[at] for at, n in own.items()), default=0.0
            ),
        )
        self.sent.append(_Sent(bundle, row, job, best, bundle.volume))

    def _end(self, sent: _Sent) -> None:
        self.sent.remove(sent)
        if sent.job is None:
            self.end_s[sent.row] = self.now_s
            return
        sent.job.pending -= 1
        if sent.job.pending == 0:
            self._next_phase(sent.job)

    def _due(self, job: _Running) -> None:
        if job.state == "before":
            self._step_begins(job)
        elif job.state == "finishes":
            self._step_ends(job)
        else:
            self._next_phase(job)

    def _step_begins(self, job: _Running) -> None:
        job.state, job.phase, job.step_s = "computes", -1, self.now_s
        job.due_s = self.now_s + job.job.compute_s * (1.0 - job.job.overlap)

    def _step_ends(self, job: _Running) -> None:
        job.steps.append(self.now_s - job.step_s)
        if len(job.steps) >= job.job.steps:
            job.state, job.end_s = "ended", self.now_s
        else:
            self._step_begins(job)

    def _next_phase(self, job: _Running) -> None:
        job.phase += 1
        if job.phase >= len(job.job.phases):
            job.state = "finishes"
            computed_s = job.step_s + job.job.compute_s
            if computed_s > self.now_s:
                job.due_s = computed_s
            else:
                self._step_ends(job)
            return
        phase = job.job.phases[job.phase]
        if phase.kind == LATENCY:
            job.state = "messages"
            job.due_s = self.now_s + self._slowest_s(phase) * phase.messages
        elif phase.bundles:
            job.state, job.pending = "sends", len(phase.bundles)
            for bundle in phase.bundles:
                self._begin(bundle, -1, job)
        else:
            self._next_phase(job)

    def _slowest_s(self, phase: Phase) -> float:
        self._share()
        rates = self._link_rates()
        return max(
            (sum(self._hop_s(link, rates) for link in path.tolist()) for path in phase.paths),
            default=0.0,
        )

    def _hop_s(self, link: int, rates: Sequence[float]) -> float:
        full_s = self.buffer_bytes / max(self.capacity[link], 1.0)
        if self._is_full(link, rates):
            return self.delay_s[link] + full_s
        load = min(rates[link] / self.capacity[link], 0.95)
        packet_s = _PACKET_BYTES / self.capacity[link]
        return self.delay_s[link] + min(packet_s * load / (2.0 * (1.0 - load)), full_s)

    def _is_full(self, link: int, rates: Sequence[float]) -> bool:
        """Whether a link is saturated, and flows compete for it."""
        demand = sum(
            each.links[link]
            * min([each.bundle.limit, *(self.capacity[at] / n for at, n in each.links.items())])
            for each in self.sent
            if each.links[link]
        )
        competes = demand > self.capacity[link] * (1.0 + 1e-9)
        return competes and rates[link] >= self.capacity[link] * (1.0 - 1e-9)

    def _link_rates(self) -> list[float]:
        rates = [0.0] * len(self.capacity)
        for each in self.sent:
            for link, weight in each.links.items():
                rates[link] += weight * each.rate
        return rates

    def _share(self) -> None:
        """Fill progressively: the tightest link, or the lowest limit, first."""
        left = list(self.capacity)
        waiting = list(self.sent)
        while waiting:
            weights = Counter[int]()
            for each in waiting:
                weights.update(each.links)
            fair = {link: max(left[link], 0.0) / weight for link, weight in weights.items()}
            share = min(fair.values(), default=_NEVER)
            frozen = [each for each in waiting if each.bundle.limit <= share]
            if frozen:
                rates = [each.bundle.limit for each in frozen]
            else:
                tightest = min(fair, key=lambda link: fair[link])
                frozen = [each for each in waiting if each.links[tightest]]
                rates = [share] * len(frozen)
            for each, rate in zip(frozen, rates, strict=True):
                each.rate = rate
                waiting.remove(each)
                for link, weight in each.links.items():
                    left[link] -= weight * rate
