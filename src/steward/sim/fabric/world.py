"""A fabric with jobs on it that can be looked at and acted on: the domain's simulated engine.

It gives views as a live fabric would: counters of the last interval, step times with noise, static
traits of programs. What it knows beyond that (a job's true sensitivity) is for benchmarks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import PermanentError
from steward.model.actions import Action, Release, Throttle
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.fabric.regions import RegionTracker
from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import FabricTopology
from steward.model.fabric.view import (
    NO_CAP,
    ApplicationColumns,
    FabricView,
    LinkColumns,
    UseColumns,
)
from steward.sim.fabric.background import SizeTable, background
from steward.sim.fabric.build import BUFFER_BYTES, engine_of
from steward.sim.fabric.collectives import Wiring, messages_between, phases_of
from steward.sim.fabric.engine import EngineRef, reshare, run, set_limit, settle
from steward.sim.fabric.traffic import LATENCY, Bundle, Job, Traffic

__all__ = ["FabricWorld", "SimulatedJob", "Surroundings"]

Floats = NDArray[np.float64]
_FOREVER = 2**62
_PACKET_BYTES = 4096.0
_MOST_LOAD = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """A job: where it runs, and what one step of its program computes and sends."""

    name: str
    application: str
    nodes: tuple[str, ...]
    compute_s: float
    collective: str = "ring"
    volume: float = 0.0  # bytes of a step on every node
    messages: float = 0.0  # small ones, one after another, in a step
    overlap: float = 0.0
    gpus_per_node: int = 8
    tenant: str = "all"
    begin_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surroundings:
    """What else there is: how packets find their way, other traffic, noise of measuring."""

    seed: int = 0
    rails: int = 1
    choices: int = 1  # more than 1: adaptive routing
    detours: bool = False
    table: SizeTable | None = None
    background_load: float = 0.0
    seconds: float = 60.0  # how long background traffic lasts
    buffer_bytes: float = BUFFER_BYTES  # of a port
    noise: float = 0.02  # of step times, as a standard deviation of their logarithm
    broken: tuple[int, ...] = field(default=())  # links that are down


class FabricWorld:
    """Runs; `view` looks at it, `carry_out` acts on it."""

    name = "simulated-fabric"

    def __init__(
        self, topology: FabricTopology, jobs: Sequence[SimulatedJob], around: Surroundings
    ) -> None:
        self.topology = topology.without(around.broken)
        self.jobs = tuple(jobs)
        self._around = around
        self._rng = np.random.default_rng(around.seed + 1)
        self._caps = np.full(len(jobs), NO_CAP)
        self._capped_s = np.full(len(jobs), np.nan)
        self._best_s = np.full(len(jobs), np.nan)
        self._done: set[str] = set()
        self._steps = np.zeros(len(jobs), np.int64)
        self._step_sum_s = np.zeros(len(jobs))
        self._regions = RegionTracker()
        self._read_s = 0.0
        self._build(0.0)

    # -- running -------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Return the time in the simulation."""
        return float(self._engine.now[0])

    @property
    def steps(self) -> NDArray[np.int64]:
        """How many steps each job has done."""
        return self._steps + self._engine.step_count

    @property
    def mean_step_s(self) -> Floats:
        """The mean time of a step of each job so far; NaN where none has ended."""
        done = self.steps
        total = self._step_sum_s + self._engine.step_sum_s
        return np.where(done > 0, total / np.maximum(done, 1), np.nan)

    def advance(self, seconds: float) -> int:
        """Let time pass; return how many flows began or ended."""
        return int(run(self._record, self.now_s + seconds, _FOREVER))

    def break_cable(self, link: int) -> None:
        """Take a cable down: routes change, and each job repeats the step that it was in."""
        self._keep_counts()
        now_s = self.now_s
        self.topology = self.topology.without([link])
        self._build(now_s)

    def _keep_counts(self) -> None:
        self._steps = self.steps
        self._step_sum_s = self._step_sum_s + self._engine.step_sum_s

    def _build(self, now_s: float) -> None:
        around = self._around
        self.routes = Routes.of(self.topology)
        wiring = Wiring(
            routes=self.routes,
            rng=np.random.default_rng(around.seed),
            rails=around.rails,
            choices=around.choices,
            detours=around.detours,
        )
        self.programs = [_program(job, wiring, now_s) for job in self.jobs]
        flows: list[Bundle] = []
        begin_s = np.zeros(0)
        if around.table is not None and around.background_load > 0:
            flows, begin_s = background(
                self.routes,
                around.table,
                np.random.default_rng(around.seed + 2),
                load=around.background_load,
                seconds=max(around.seconds - now_s, 0.0),
                begin_s=now_s,
            )
        traffic = Traffic(jobs=self.programs, flows=flows, begin_s=begin_s)
        at_once = sum(len(phase.bundles) for job in self.programs for phase in job.phases)
        self._engine = engine_of(
            self.topology,
            traffic,
            slots=at_once + min(len(flows), 16384),
            buffer_bytes=around.buffer_bytes,
        )
        self._engine.now[0] = self._engine.full_since_s[:] = now_s
        self._record: Any = EngineRef(*self._engine)
        self._owned = [np.flatnonzero(self._engine.owner == at) for at in range(len(self.jobs))]
        self._per_step = [
            _bytes_per_step(program, len(self.topology.links)) for program in self.programs
        ]
        self._last_count = np.zeros(len(self.jobs), np.int64)
        self._last_sum_s = np.zeros(len(self.jobs))
        for at, cap in enumerate(self._caps):
            if np.isfinite(cap):
                self._limit(at, cap)

    # -- looking -------------------------------------------------------------------------------

    def view(self) -> FabricView:
        """Return the moment, with counters since the last look."""
        settle(self._record)
        engine = self._engine
        past_s = max(self.now_s - self._read_s, 1e-9)
        links = self._links(past_s)
        count, total_s = engine.step_count - self._last_count, engine.step_sum_s - self._last_sum_s
        step_s = np.where(count > 0, total_s / np.maximum(count, 1), engine.last_step_s)
        noise = self._rng.normal(0.0, self._around.noise, len(self.jobs))
        seen_s = step_s * np.exp(noise)
        self._best_s = np.fmin(self._best_s, seen_s)
        rate = np.where(count > 0, count / past_s, 1.0 / step_s)  # steps a second
        self._last_count, self._last_sum_s = engine.step_count.copy(), engine.step_sum_s.copy()
        self._read_s = self.now_s
        engine.sent[:] = 0.0
        engine.stalled_s[:] = 0.0
        delay_s, best_delay_s = self._delays(links)
        return FabricView(
            t_s=self.now_s,
            topology=self.topology,
            links=links,
            applications=self._applications(rate, seen_s / self._best_s, delay_s, best_delay_s),
            endpoints={
                job.name: tuple(self.topology.rows(job.nodes).tolist()) for job in self.jobs
            },
            use=self._use(rate),
            regions=self._regions.follow(self.topology, links, self.now_s),
        )

    def _links(self, past_s: float) -> LinkColumns:
        engine = self._engine
        unknown = LinkColumns.unknown(len(engine.capacity))
        carried = engine.sent / past_s
        load = np.clip(carried / engine.capacity, 0.0, 1.0)
        stalled = np.clip(engine.stalled_s / past_s, 0.0, 1.0)
        calm = np.minimum(load, _MOST_LOAD)
        queue_s = _PACKET_BYTES / engine.capacity * calm / (2 * (1 - calm))
        wait_s = stalled * engine.full_wait_s + (1 - stalled) * np.minimum(
            queue_s, engine.full_wait_s
        )
        return replace(
            unknown, bytes_per_s=carried, load_share=load, stalled_share=stalled, wait_s=wait_s
        )

    def _delays(self, links: LinkColumns) -> tuple[Floats, Floats]:
        """Return the delay of each job's slowest path, now and with empty queues."""
        hop_s = self._engine.delay_s
        now, best = [], []
        for program in self.programs:
            paths = [path for phase in program.phases for path in phase.paths]
            now.append(max((float((hop_s + links.wait_s)[p].sum()) for p in paths), default=np.nan))
            best.append(max((float(hop_s[p].sum()) for p in paths), default=np.nan))
        return np.array(now), np.array(best)

    def _applications(
        self, rate: Floats, slowdown: Floats, delay_s: Floats, best_delay_s: Floats
    ) -> ApplicationColumns:
        traits = np.array(
            [
                _traits(job, program, self.topology)
                for job, program in zip(self.jobs, self.programs, strict=True)
            ]
        )
        nodes = np.array([len(job.nodes) for job in self.jobs], np.float64)
        return ApplicationColumns(
            jobs=tuple(job.name for job in self.jobs),
            applications=tuple(job.application for job in self.jobs),
            tenants=tuple(job.tenant for job in self.jobs),
            gpus=nodes * np.array([job.gpus_per_node for job in self.jobs]),
            since_s=np.array([job.begin_s for job in self.jobs]),
            bytes_per_s=rate * np.array([_sent_per_step(program) for program in self.programs]),
            communication_share=traits[:, 0],
            collective_share=traits[:, 1],
            message_bytes=traits[:, 2],
            overlap_share=traits[:, 3],
            delay_s=delay_s,
            best_delay_s=best_delay_s,
            slowdown=slowdown,
            cap_bytes_per_s=self._caps.copy(),
            capped_since_s=self._capped_s.copy(),
        )

    def _use(self, rate: Floats) -> UseColumns:
        links = [np.flatnonzero(per_step) for per_step in self._per_step]
        runs = [at for at in range(len(self.jobs)) if rate[at] > 0]
        sent = [self._per_step[at][links[at]] * rate[at] for at in runs]
        return UseColumns(
            application=np.repeat(runs, [len(links[at]) for at in runs]).astype(np.int64),
            link=np.concatenate([links[at] for at in runs] or [np.zeros(0, np.int64)]),
            bytes_per_s=np.concatenate(sent or [np.zeros(0)]),
        )

    # -- acting --------------------------------------------------------------------------------

    def available(self) -> Availability:
        """Say that it can be acted on."""
        return Availability(status="ok", reason=f"{len(self.jobs)} simulated jobs")

    def actions(self) -> tuple[type[Action], ...]:
        """Return what can be done to traffic."""
        return (Throttle, Release)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Set or take off a cap; the same decision twice changes nothing more."""
        action = decision.action
        if not isinstance(action, (Throttle, Release)):
            raise PermanentError(f"a fabric cannot {action.type}")
        row = next((at for at, job in enumerate(self.jobs) if job.name == action.job), None)
        if row is None:
            raise PermanentError(f"{action.job} is not on the fabric")
        if decision.id not in self._done:
            self._done.add(decision.id)
            self.cap(row, action.bytes_per_s if isinstance(action, Throttle) else NO_CAP)
        return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=action.sentence)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return the same: a cap is set at once."""
        return self.carry_out(decision, t_s)

    def cap(self, row: int, bytes_per_s: float) -> None:
        """Let each node of a job send at most so much."""
        self._caps[row] = bytes_per_s
        if np.isinf(bytes_per_s):
            self._capped_s[row] = np.nan
        elif np.isnan(self._capped_s[row]):
            self._capped_s[row] = self.now_s
        self._limit(row, bytes_per_s)
        reshare(self._record)

    def _limit(self, row: int, bytes_per_s: float) -> None:
        """Limit the flows of a job so that the busiest node keeps to its cap in every phase."""
        at = 0
        for phase in self.programs[row].phases:
            together = sum(each.per_node for each in phase.bundles)
            for _ in phase.bundles:
                set_limit(self._record, int(self._owned[row][at]), bytes_per_s / together)
                at += 1


def _program(job: SimulatedJob, wiring: Wiring, now_s: float) -> Job:
    nodes = wiring.routes.topology.rows(job.nodes)
    begin, out = wiring.routes.topology.out_links
    target = wiring.routes.topology.links.target
    beside: dict[int, list[int]] = {}  # by the switch of their first link
    for node in nodes:
        first = int(target[out[begin[node]]]) if begin[node] < begin[node + 1] else -1
        beside.setdefault(first, []).append(int(node))
    groups = [np.array(each) for each in beside.values()]
    phases = (
        *messages_between(wiring, nodes, max(job.messages, 1.0)),
        *(
            phases_of(job.collective, wiring, nodes, job.volume, groups=groups)
            if job.volume
            else ()
        ),
    )
    return Job(
        name=job.name,
        compute_s=job.compute_s,
        overlap=job.overlap,
        phases=phases,
        begin_s=max(job.begin_s, now_s),
    )


def _bytes_per_step(program: Job, links: int) -> Floats:
    """Return what a step puts on each link, by its first way."""
    found = np.zeros(links)
    for phase in program.phases:
        for each in phase.bundles:
            np.add.at(found, each.variants[0], each.volume)
    return found


def _sent_per_step(program: Job) -> float:
    return float(
        sum(each.volume * each.flows for phase in program.phases for each in phase.bundles)
    )


def _traits(
    job: SimulatedJob, program: Job, topology: FabricTopology
) -> tuple[float, float, float, float]:
    """Return what a profile of the program alone would say: shares and sizes."""
    line = float(np.nanmax(topology.links.bytes_per_s))
    send_s = (
        sum(
            sum(each.volume * each.per_node for each in phase.bundles)
            for phase in program.phases
            if phase.kind != LATENCY
        )
        / line
    )
    hops_s = [len(path) * 5e-7 for phase in program.phases for path in phase.paths]
    chat_s = job.messages * max(hops_s, default=0.0)
    total_s = job.compute_s + send_s + chat_s
    small, large = max(job.messages, 1.0), send_s and job.volume
    mean_message = (small * 256.0 + large) / (small + (64.0 if large else 0.0))
    return (
        (send_s + chat_s) / total_s,
        send_s / (send_s + chat_s) if send_s + chat_s else np.nan,
        mean_message,
        job.overlap,
    )
