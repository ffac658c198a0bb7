"""The simulated cluster as steward meets it: a collector and an actuator, in one.

Time is what the caller says. The world moves on by exact events, whenever it is asked about a
later time, and hands out samples at fixed instants: how time is cut into calls changes nothing.
"""

from __future__ import annotations

import math
import threading
from typing import Literal

from steward.errors import PermanentError, unknown_name
from steward.model.actions import (
    Action,
    CallBack,
    Drain,
    Lend,
    Migrate,
    Preempt,
    Resume,
    Start,
    Tell,
    Undrain,
)
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability, Observation
from steward.model.identity import DecisionId, GpuId
from steward.model.metrics import CANONICAL
from steward.sim.engine import Engine
from steward.sim.frames import FrameSampler
from steward.sim.kernel import kernel_lines
from steward.sim.meter import Truth
from steward.sim.scenario import Scenario
from steward.sim.workload import Script, Workload

__all__ = ["Truth", "World"]


class World:
    """A cluster that is not there. Its methods may be called from any thread, one at a time."""

    name = "simulated"
    vocabulary = CANONICAL

    def __init__(
        self, scenario: Scenario, *, seed: int = 0, start_s: float, script: Script | None = None
    ) -> None:
        """Begin `warm_up_s` before `start_s`. Who comes is generated, unless a script tells it."""
        self.scenario = scenario
        begin_s = start_s - scenario.warm_up_s
        script = script or Workload(scenario, seed=seed, begin_s=begin_s)
        self._engine = Engine(scenario, script, seed=seed, begin_s=begin_s)
        self._engine.starts_jobs = scenario.starts_jobs or scenario.warm_up_s > 0
        self._engine.run_until(start_s)
        self._engine.starts_jobs = scenario.starts_jobs
        self._engine.news()  # what happened before anybody looked
        self._engine.meter.begin(start_s)
        if scenario.first_failure_s is not None:
            self._engine.plan_certain_fault(start_s + scenario.first_failure_s)
        self._sampler = FrameSampler(self._engine.meter, self._engine.ledger, begin_s=start_s)
        every_s = scenario.sample_every_s
        self._instant = math.floor(start_s / every_s)  # the last one, as a count
        self._instant += (self._instant + 1) * every_s <= start_s  # where the division was unkind
        self._introduced = False
        self._receipts: dict[DecisionId, Receipt] = {}
        self._stopping: dict[
            DecisionId, tuple[Preempt | Migrate, int]
        ] = {}  # and which run it stops
        self._lock = threading.RLock()

    def available(self) -> Availability:
        return Availability(status="ok", reason="a simulated cluster is always there")

    # -- collector -----------------------------------------------------------------------------

    def close(self) -> None:
        """Do nothing: a simulated cluster holds no resources."""

    def collect(self, t_s: float) -> Observation:
        """Move on to `t_s` and return what is new. An earlier time changes and returns nothing."""
        with self._lock:
            if t_s < self._engine.now_s:
                return Observation()
            self._move_to(t_s)
            if not self._introduced:
                self._introduced = True
                return self._introduction()
            news = self._engine.news()
            return Observation(
                frame=self._sampler.drain(),
                events=news.events,
                lines=kernel_lines(news.events),
                jobs=news.jobs,
                health=news.health,
                draining=news.draining,
            )

    def _move_to(self, t_s: float) -> None:
        every_s = self.scenario.sample_every_s
        while (self._instant + 1) * every_s <= t_s:
            self._instant += 1
            self._engine.run_until(self._instant * every_s)
            self._engine.look_elsewhere(self._instant * every_s)
            self._sampler.take(self._instant * every_s)
        self._engine.run_until(t_s)

    def _introduction(self) -> Observation:
        """Return the whole world: who looks for the first time knows nothing of it."""
        engine = self._engine
        news = engine.news(everybody=True)
        rows = enumerate(engine.cluster.ids)
        return Observation(
            frame=self._sampler.drain(),
            events=news.events,
            jobs=news.jobs,
            cluster=engine.cluster.cluster,
            draining=dict.fromkeys(
                (
                    node
                    for node, row in engine.cluster.node_row.items()
                    if engine.cluster.draining[row]
                ),
                True,
            ),
            tenants=tuple(group.tenant for group in self.scenario.groups),
            health={gpu: engine.cluster.health_of(row) for row, gpu in rows},
        )

    # -- actuator ------------------------------------------------------------------------------

    def actions(self) -> tuple[type[Action], ...]:
        """Return what this world can carry out; starts only where it leaves them to others."""
        lending: tuple[type[Action], ...] = (Lend, CallBack, Drain, Undrain, Tell)
        return lending if self.scenario.starts_jobs else (*lending, Start, Resume, Preempt, Migrate)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Do it. The same decision again returns the same receipt and does nothing."""
        with self._lock:
            known = self._receipts.get(decision.id)
            if known is not None:
                return known
            self._move_to(max(t_s, self._engine.now_s))
            gpus, text = self._act(decision)
            self._engine.run_until(self._engine.now_s)  # what the action itself set in motion
            if decision.id in self._stopping:
                return self._progress(decision)
            return self._receipt(decision, "done", gpus, text)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Return whether a job that is preempted or moved has left its GPUs."""
        with self._lock:
            known = self._receipts.get(decision.id)
            if known is not None:
                return known
            self._move_to(max(t_s, self._engine.now_s))
            return self._progress(decision)

    def _progress(self, decision: Decision) -> Receipt:
        found = self._stopping.get(decision.id)
        if found is None:
            raise PermanentError(
                "this world knows nothing of it",
                where=f"decision {decision.id}",
                hint="it was begun in a simulated world that has ended",
            )
        action, taken = found
        if isinstance(action, Migrate) and self._engine.is_over(action.job, taken):
            self._engine.start(decision.id, action.job, action.target)
            return self._receipt(decision, "done", action.gpus, f"job {action.job} runs elsewhere")
        if self._engine.is_over(action.job, taken):
            return self._receipt(decision, "done", action.gpus, f"job {action.job} was saved")
        text = f"job {action.job} saves itself"
        return Receipt(
            decision=decision.id,
            t_s=self._engine.now_s,
            result="begun",
            gpus=action.gpus,
            text=text,
        )

    def _receipt(
        self, decision: Decision, result: Literal["done"], gpus: tuple[GpuId, ...], text: str
    ) -> Receipt:
        receipt = Receipt(
            decision=decision.id, t_s=self._engine.now_s, result=result, gpus=gpus, text=text
        )
        self._receipts[decision.id] = receipt
        return receipt

    def _act(self, decision: Decision) -> tuple[tuple[GpuId, ...], str]:
        engine = self._engine
        match decision.action:
            case Lend() as lend:
                engine.lend(decision.id, lend.gpus, lend.owner, lend.borrower)
                return lend.gpus, f"job {lend.borrower} runs beside job {lend.owner}"
            case CallBack() as back:
                return self._call_back(back)
            case Start() | Resume() as start:
                engine.start(decision.id, start.job, start.gpus)
                return start.gpus, f"job {start.job} runs"
            case Preempt() | Migrate() as stop:
                self._stopping[decision.id] = (stop, engine.preempt(decision.id, stop.job))
                return stop.gpus, ""
            case Drain() | Undrain() as drain:
                engine.drain(drain.node, draining=isinstance(drain, Drain))
                return drain.gpus, f"node {drain.node}: {drain.type}ed"
            case Tell() as told:
                return (), f"told {told.to}: {told.text}"
            case other:
                raise PermanentError(
                    f"a simulated cluster cannot {other.type}",
                    where=f"decision {decision.id}",
                    hint="`steward doctor` lists what each engine can carry out",
                )

    def _call_back(self, back: CallBack) -> tuple[tuple[GpuId, ...], str]:
        loan = self._engine.ledger.open.get(back.loan)
        if loan is not None:
            self._engine.call_back(loan)
            return back.gpus, f"job {back.borrower} saves itself and leaves"
        return (), "the loan had ended already"

    # -- truth ---------------------------------------------------------------------------------

    def truth(self) -> Truth:
        """Return the world's own exact account, up to the time it has been moved to."""
        with self._lock:
            engine, ledger = self._engine, self._engine.ledger
            sums = engine.meter.sums(engine.now_s)
            account = sum(ledger.accounts(sums).values(), start=ledger.closed)
            return Truth(
                t_s=engine.now_s,
                loans=ledger.made,
                gained_gpu_s=account.gained,
                gross_gpu_s=account.gross,
                owner_loss_gpu_s=account.owner_loss,
                redo_gpu_s=account.redo,
                restore_gpu_s=account.restore,
                busy_gpu_s=sums.busy,
                held_gpu_s=sums.held,
                held_idle_gpu_s=sums.idle,
                capacity_gpu_s=sums.capacity,
                submitted=engine.submitted,
                queued=engine.queued,
                running=len(engine.lives) - engine.queued,
                ended=engine.ended,
                completed=engine.completed,
                turned_away=engine.turned_away,
            )

    def gained_by(self, decision: DecisionId) -> float:
        """Return the GPU-seconds that one loan, open or over, has gained so far."""
        with self._lock:
            engine, ledger = self._engine, self._engine.ledger
            if decision in ledger.open:
                return ledger.accounts(engine.meter.sums(engine.now_s))[decision].gained
            if decision in ledger.gained:
                return ledger.gained[decision]
            raise unknown_name("loan", decision, (*ledger.open, *ledger.gained))
