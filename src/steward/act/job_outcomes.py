"""Measures starts, stops and call-backs of jobs: what each brought or cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from steward.model.actions import Action, CallBack, Migrate, Preempt, Resize, Resume, Start
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId, JobId
from steward.model.job import Job, JobState
from steward.model.outcome import Interval, Outcome, Story
from steward.model.view import ClusterView
from steward.model.yardstick import RETURN_TIME, RUN, STOP_COST

__all__ = [
    "JobCase",
    "JobCases",
    "ReturnOutcomes",
    "RunOutcomes",
    "StopOutcomes",
    "job_outcome",
]


A = TypeVar("A", bound=Action)


@dataclass(slots=True, kw_only=True)
class JobCase(Generic[A]):
    """One decision from its receipt until its outcome is known."""

    decision: Decision
    action: A
    from_s: float
    seen_s: float
    step_s: float = 0.0  # the longest time between two looks
    total: float = 0.0
    job: JobId | None = None  # what it was done to, if not the job of the action


class JobCases(ABC, Generic[A]):
    """Decisions of some types from their receipt until their outcome is known."""

    def __init__(self) -> None:
        self._cases: dict[DecisionId, JobCase[A]] = {}

    @abstractmethod
    def _measured(self, action: Action) -> A | None:
        """Return an action if it is measured here."""

    @abstractmethod
    def _look(self, case: JobCase[A], view: ClusterView, gone: dict[JobId, Job]) -> Outcome | None:
        """Take in one moment of a case; return its outcome once that is known."""

    def begin(self, decision: Decision, receipt: Receipt, _: ClusterView | None) -> None:
        """Start to follow a decision that was carried out or begun."""
        action = self._measured(decision.action)
        if action is not None and decision.id not in self._cases:
            self._cases[decision.id] = JobCase(
                decision=decision, action=action, from_s=receipt.t_s, seen_s=receipt.t_s
            )

    def resume(self, story: Story) -> None:
        """Go on with a decision of an earlier run."""
        done = [each for each in story.receipts if each.result != "failed"]
        if done and done[-1] is story.receipts[-1] and not story.outcomes:
            for receipt in (done[0], done[-1]):
                self.begin(story.decision, receipt, None)

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        gone = {job.id: job for job in view.ended}
        found = []
        for case in list(self._cases.values()):
            case.step_s = max(case.step_s, view.t_s - case.seen_s)
            outcome = self._look(case, view, gone)
            case.seen_s = max(case.seen_s, view.t_s)
            if outcome is not None:
                del self._cases[case.decision.id]
                found.append((case.decision, outcome))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ClusterView) -> tuple[Outcome, ...]:
        """Return nothing: these are known only at their check."""
        return ()

    def settle(self, _: ClusterView) -> list[Outcome]:
        """Return nothing: the next run goes on with them."""
        return []


def job_outcome(
    case: JobCase[A], view: ClusterView, gained: Interval, *, yardstick: str, text: str
) -> Outcome:
    """Return the final outcome of a case."""
    return Outcome(
        decision=case.decision.id,
        t_s=view.t_s,
        from_s=case.from_s,
        to_s=max(case.from_s, view.t_s),
        gained=gained,
        expected=case.decision.expects.mid,
        due_s=view.t_s,
        final=True,
        text=text,
        yardstick=yardstick,
    )


class RunOutcomes(JobCases[Start | Resume]):
    """How long a started job has held its GPUs by the check.

    A job that a later decision stopped is not held against the one that started it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stopped: set[JobId] = set()

    def _measured(self, action: Action) -> Start | Resume | None:
        return action if isinstance(action, Start | Resume) else None

    def begin(self, decision: Decision, receipt: Receipt, view: ClusterView | None) -> None:
        """Start to follow a start, or note that a job is stopped by a decision."""
        super().begin(decision, receipt, view)
        if isinstance(decision.action, Preempt | Migrate | Resize):
            self._stopped.add(decision.action.job)
        case = self._cases.get(decision.id)
        if case is not None and receipt.job is not None:
            case.job = receipt.job

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        found = super().follow(view)
        self._stopped &= {case.job or case.action.job for case in self._cases.values()}
        return found

    def _look(
        self, case: JobCase[Start | Resume], view: ClusterView, gone: dict[JobId, Job]
    ) -> Outcome | None:
        action, id_ = case.action, case.job or case.action.job
        job = gone.get(id_) or view.details.get(id_)
        check_s = case.from_s + case.decision.check_after_s
        until_s = min(view.t_s, check_s)
        if job is None and case.job is not None and view.t_s < check_s:
            return None  # a task that has just become a job of its own is not listed yet
        if job is None:
            unknown = self._end(case, view, "it is unknown what became of the job")
            return replace(unknown, expected=0.0)  # nobody can say whether it kept its promise
        runs = job.state is JobState.RUNNING
        if job.end_s is not None:
            until_s = min(until_s, job.end_s)
        elapsed_s = max(0.0, until_s - max(case.seen_s, case.from_s))
        if runs or job.state.ended:
            case.total += elapsed_s * len(action.gpus)
        if job.state.ended:
            return self._end(case, view, f"the job {job.state.value}", completed=True)
        if view.t_s >= check_s:
            return self._end(case, view, "checked")
        if runs or not case.total:
            return None
        ours = id_ in self._stopped
        why = "another decision stopped the job" if ours else "the job was stopped again"
        return self._end(case, view, why, completed=ours)

    @staticmethod
    def _end(
        case: JobCase[Start | Resume], view: ClusterView, why: str, *, completed: bool = False
    ) -> Outcome:
        half = case.step_s * len(case.action.gpus)
        gained = Interval(low=max(0.0, case.total - half), mid=case.total, high=case.total + half)
        text = f"{why}: it ran for {case.total / 3600:.2f} GPU-hours by then"
        outcome = job_outcome(case, view, gained, yardstick=RUN, text=text)
        if not completed:
            return outcome
        return replace(outcome, expected=min(outcome.expected, case.total))


class StopOutcomes(JobCases[Preempt]):
    """What it cost to save a job, to repeat what was lost, and to restore it."""

    def _measured(self, action: Action) -> Preempt | None:
        return action if isinstance(action, Preempt) else None

    def _look(
        self, case: JobCase[Preempt], view: ClusterView, gone: dict[JobId, Job]
    ) -> Outcome | None:
        action = case.action
        job = gone.get(action.job) or view.details.get(action.job)
        if job is not None and job.state is JobState.RUNNING and {*job.gpus} == {*action.gpus}:
            return None  # it is still saving
        lines = [] if job is None else [line for line in job.history if line.t_s >= case.from_s]
        freed_s = lines[0].t_s if lines else view.t_s
        lost_s = sum(line.lost_s for line in lines)
        restore_s = 0.0 if job is None or job.state.ended else job.checkpointing.restore_s
        gpus = len(action.gpus)
        cost = (max(0.0, freed_s - case.from_s) + lost_s + restore_s) * gpus
        half = case.step_s * gpus if not lines else 0.0
        text = (
            f"the GPUs were free after {freed_s - case.from_s:.0f} s; {lost_s:.0f} s of work is "
            f"lost, and restoring takes {restore_s:.0f} s"
        )
        gained = Interval(low=-cost - half, mid=-cost, high=min(0.0, -cost + half))
        return job_outcome(case, view, gained, yardstick=STOP_COST, text=text)


class ReturnOutcomes(JobCases[CallBack]):
    """How long an owner waited for its GPUs."""

    def _measured(self, action: Action) -> CallBack | None:
        return action if isinstance(action, CallBack) else None

    def _look(
        self, case: JobCase[CallBack], view: ClusterView, gone: dict[JobId, Job]
    ) -> Outcome | None:
        action = case.action
        if any(loan.id == action.loan for loan in view.loans):
            return None
        job = gone.get(action.borrower) or view.details.get(action.borrower)
        lines = [] if job is None else [line for line in job.history if line.t_s >= case.from_s]
        freed_s = lines[0].t_s if lines else view.t_s
        took_s = max(0.0, freed_s - case.decision.t_s)
        half = 0.0 if lines else case.step_s
        gained = Interval(low=-took_s - half, mid=-took_s, high=min(0.0, -took_s + half))
        text = f"job {action.owner} had its GPUs alone after {took_s:.0f} s"
        return job_outcome(case, view, gained, yardstick=RETURN_TIME, text=text)
