"""Starts, stops, moves and lends among the jobs of this machine; caps the power of their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from steward.act.jobs.controller import JobController
from steward.act.jobs.power import PowerCapper
from steward.errors import PermanentError
from steward.model.actions import (
    Action,
    CallBack,
    CapPower,
    Lend,
    Migrate,
    Preempt,
    Resize,
    Resume,
    Save,
    Start,
    Tell,
)
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.identity import GpuId
from steward.model.job_loan import JobLoan
from steward.model.managed_job import LifeState, ManagedJob

__all__ = ["Local"]

Result = Literal["begun", "done", "failed"]
OF_JOBS = Start | Resume | Preempt | Migrate | Resize
ARRIVED = (LifeState.MIGRATED, LifeState.RESIZED)


class Local:
    """The local engine.

    Without a controller, as when a site has switched jobs off, it can do nothing.
    """

    name = "local"

    def __init__(
        self, controller: JobController | None = None, power: PowerCapper | None = None
    ) -> None:
        self._controller = controller
        self._power = power

    def available(self) -> Availability:
        if self._controller is None:
            hint = "set `jobs.enabled`, and run `steward up`"
            return Availability(status="missing", reason="no jobs are run here", hint=hint)
        return Availability(status="ok", reason="runs jobs on this machine")

    def actions(self) -> tuple[type[Action], ...]:
        return (Start, Resume, Preempt, Migrate, Resize, Save, Lend, CallBack, CapPower, Tell)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        if isinstance(action, Tell):
            return _done(decision, t_s, f"told {action.to}: {action.text}")
        if isinstance(action, CapPower):
            return self._cap(action, decision, t_s)
        if self._controller is None:
            raise PermanentError("no jobs are run here", hint="set `jobs.enabled`")
        if isinstance(action, Save):
            self._controller.save(action.job, request=decision.id, t_s=t_s, why=decision.because)
            return _done(decision, t_s, f"job {action.job} was asked to save")
        return self._change(self._controller, action, decision, t_s)

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:
        """Return what a person would type for a decision; what has no command is approved."""
        del t_s
        match decision.action:
            case Tell() as action:
                return ByHand(text=f"tell {action.to}: {action.text}")
            case Resume() | Preempt() | Save() as action:
                command = f"steward jobs {action.type} {action.job}"
            case Migrate() as action:
                command = f"steward jobs move {action.job} --to {','.join(action.target)}"
            case Resize() as action:
                command = f"steward jobs move {action.job} --to {','.join(action.then)}"
            case Start() | Lend() | CallBack() | CapPower():
                command = f"steward decisions approve {decision.id}"
            case action:
                text = f"the local engine cannot {action.type}"
                return ByHand(text=text, possible=False)
        return ByHand(text=decision.action.sentence, commands=(command,))

    def _change(
        self, controller: JobController, action: Action, decision: Decision, t_s: float
    ) -> Receipt:
        """Begin what takes its time: a start, a stop, a move or a loan."""
        why = decision.because
        match action:
            case Start() | Resume():
                controller.start(action.job, action.gpus, decision=decision.id, t_s=t_s)
            case Preempt():
                controller.preempt(action.job, decision=decision.id, t_s=t_s, why=why)
            case Migrate() | Resize():
                to = action.target if isinstance(action, Migrate) else action.then
                controller.move(action.job, to, decision=decision.id, t_s=t_s, why=why)
            case Lend() | CallBack():
                return self._loan(action, decision, t_s)
            case _:
                raise PermanentError(f"the local engine cannot {action.type}")
        return self.progress(decision, t_s)

    def _loan(self, action: Lend | CallBack, decision: Decision, t_s: float) -> Receipt:
        """Begin a loan or its end, or say how far it is: a repeated call changes nothing."""
        assert self._controller is not None  # noqa: S101
        lending = self._controller.lending
        if isinstance(action, Lend):
            loan = lending.lend(action, decision=decision.id, t_s=t_s)
            result, text = _lent(loan)
        else:
            why = decision.because
            loan = lending.call_back(action, decision=decision.id, t_s=t_s, why=why)
            result, text = _given_back(loan)
        never_seen = isinstance(action, Lend) and loan.is_over  # between two looks: there is none
        gpus: tuple[GpuId, ...] = () if result == "failed" or never_seen else loan.gpus
        return Receipt(decision=decision.id, t_s=t_s, result=result, gpus=gpus, text=text)

    def _cap(self, action: CapPower, decision: Decision, t_s: float) -> Receipt:
        if self._power is None:
            raise PermanentError("no power limits are set here", hint="set `jobs.enabled`")
        text = self._power.cap(action.job, action.gpus, action.watts, decision=decision.id, t_s=t_s)
        return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=action.gpus, text=text)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        if self._controller is None or not isinstance(action, OF_JOBS):
            return self.carry_out(decision, t_s)
        job = self._controller.store.job(action.job)
        read = _READERS[type(action)]
        result, text = read(job, decision)
        gpus: tuple[GpuId, ...] = () if result == "failed" else action.gpus
        return Receipt(decision=decision.id, t_s=t_s, result=result, gpus=gpus, text=text)


def _done(decision: Decision, t_s: float, text: str) -> Receipt:
    return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)


def _moved(job: ManagedJob, decision: Decision) -> tuple[Result, str]:
    asked = [each for each in job.attempts if each.stop_decision == decision.id]
    there = [each for each in job.attempts if each.decision == decision.id]
    if any(each.decision == decision.id and each.state in ARRIVED for each in job.events):
        return "done", f"job {job.id} runs on {', '.join(there[-1].gpus)}"
    if there and there[-1].ended_s is None:
        return "begun", f"job {job.id} is being started, attempt {there[-1].number}"
    if not asked:
        return "failed", f"job {job.id} was not asked to move"
    if there or asked[0].ended_s is not None:
        return "failed", f"job {job.id} is {job.state.value} and was not moved"
    if asked[0].stop != "move":
        return "failed", f"job {job.id}: {asked[0].stop_why}"
    return "begun", f"job {job.id} is saving"


def _lent(loan: JobLoan) -> tuple[Result, str]:
    if loan.failed:
        return "failed", loan.failed
    if loan.since_s is None:
        return "begun", loan.notes[-1].text
    return "done", (
        f"job {loan.borrower} runs on {', '.join(loan.gpus)} of job {loan.owner} ({loan.way}), "
        f"given back within {loan.promised_s:.1f} s"
    )


def _given_back(loan: JobLoan) -> tuple[Result, str]:
    if not loan.is_over:
        return "begun", loan.notes[-1].text
    took = "" if loan.took_s is None else f" after {loan.took_s:.1f} s"
    return "done", (
        f"{', '.join(loan.gpus)} free{took}, promised were {loan.promised_s:.1f} s; "
        f"{loan.notes[-1].text}"
    )


def _started(job: ManagedJob, decision: Decision) -> tuple[Result, str]:
    found = [each for each in job.attempts if each.decision == decision.id]
    if not found:
        return "failed", f"job {job.id} was not started"
    attempt = found[0]
    ran = [each for each in job.events if each.decision == decision.id and each.state.runs]
    if ran:
        return "done", f"job {job.id} runs, attempt {attempt.number}"
    if attempt.ended_s is None:
        return "begun", f"job {job.id} is being started, attempt {attempt.number}"
    return "failed", f"job {job.id} is {job.state.value} and was not started"


def _stopped(job: ManagedJob, decision: Decision) -> tuple[Result, str]:
    found = [each for each in job.attempts if each.stop_decision == decision.id]
    if not found:
        return "failed", f"job {job.id} was not asked to stop"
    attempt = found[0]
    if attempt.ended_s is not None:
        return "done", f"job {job.id} is {job.state.value}: {attempt.stop_why}"
    if not attempt.stop:
        return "failed", f"job {job.id}: {attempt.stop_why}"
    return "begun", f"job {job.id} is saving"


_READERS: Mapping[type, Callable[[ManagedJob, Decision], tuple[Result, str]]] = {
    Start: _started,
    Resume: _started,
    Preempt: _stopped,
    Migrate: _moved,
    Resize: _moved,
}
