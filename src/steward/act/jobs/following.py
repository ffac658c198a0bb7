"""Follows jobs: admits those that may wait, looks at attempts, writes down how they go and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from steward.act.jobs.job_engine import JobEngine
from steward.act.jobs.moving import begin_again, go_on_there
from steward.act.jobs.stopping import Stopping
from steward.model.managed_job import (
    Attempt,
    AttemptLook,
    Dependency,
    LifeState,
    ManagedJob,
    SavedState,
)
from steward.store.jobs import JobStore

__all__ = ["JobFollower"]

NOTHING_RAN = "its process did not start; nothing was run"
MOST_DEPENDENCIES = 10_000  # whose answers are remembered
MOST_CHECKPOINTS = 100  # that are remembered of a job, the newest
CLAIM_WITHIN_S = 60.0  # an attempt whose process lives and has not claimed it by then is revoked


@dataclass
class JobFollower:
    """Moves one job on by what its engine shows. The caller sees to it that it is called alone."""

    store: JobStore
    engine: JobEngine
    stopping: Stopping
    changed: Callable[[], None]  # called when something may be decided anew
    _met: dict[Dependency, tuple[bool | None, int]] = field(default_factory=dict)  # as of a change

    def step(self, job: ManagedJob, t_s: float) -> None:
        """Move an open job on, if it can be."""
        if job.state is LifeState.SUBMITTED:
            self._admit(job, t_s)
        elif job.state is LifeState.LOST:
            self._after_loss(job, t_s)
        elif job.state.holds_gpus and job.attempt is not None and job.attempt.ended_s is None:
            self._follow(job, job.attempt, t_s)

    def _admit(self, job: ManagedJob, t_s: float) -> None:
        held = any(each.state is LifeState.HELD for each in job.events)
        if job.spec.hold and not held:
            self.store.put(job.moved(t_s, LifeState.HELD, "submitted with --hold"))
            return
        never, open_ = [], []
        for need in job.spec.dependencies:
            met = self._all_met(need)
            if met is None:
                open_.append(need.job)
            elif not met:
                never.append(f"{need.when}:{need.job}")
        if never:
            why = f"its dependency can never be met: {', '.join(never)}"
            self._put(job.moved(t_s, LifeState.CANCELLED, why))
        elif not open_:
            self._put(job.moved(t_s, LifeState.WAITING, "it may start"))

    def _all_met(self, need: Dependency) -> bool | None:
        """Return whether a dependency holds, of an array for all its tasks; None while open.

        The tasks of an array have the same dependencies: each is looked at once, not per task.
        """
        known, changes = self._met.get(need, (None, -1))
        if known is not None or changes == self.store.changes:
            return known  # what is met or never will be stays so
        met = {
            _is_met(state, need.when, began=began) for state, began in self.store.stages(need.job)
        }
        if not met:
            return False  # there is no such job; a later one may get the id
        found = False if False in met else None if None in met else True
        if len(self._met) >= MOST_DEPENDENCIES:
            self._met.clear()
        self._met[need] = (found, self.store.changes)
        return found

    def forget_dependencies(self) -> None:
        """Look at all dependencies anew: changes that they were judged by were taken back."""
        self._met.clear()

    def _after_loss(self, job: ManagedJob, t_s: float) -> None:
        lost = job.attempt
        stop = lost.stop if lost is not None else ""
        if stop == "cancel":
            self._put(job.moved(t_s, LifeState.CANCELLED, lost.stop_why if lost else ""))
        elif job.spec.requeue or stop in ("preempt", "move") or job.checkpointing.able:
            self._put(job.moved(t_s, LifeState.WAITING, "requeued after it was lost"))
        else:
            why = f"{job.events[-1].why}; it was submitted without --requeue"
            self._put(job.moved(t_s, LifeState.FAILED, why))

    def _follow(self, job: ManagedJob, attempt: Attempt, t_s: float) -> None:
        look = self.engine.look(job.id, attempt.number)
        noted = job.noted(t_s, look.notes)
        job = job if noted is job else self._put(noted)
        match look.phase:
            case "unclaimed":
                self._chase(job, attempt, t_s)
            case "abandoned":  # steward was killed, or its process before it did anything
                self._revoke(job, attempt, t_s)
            case "revoked":
                self._end(job, attempt, look, t_s, LifeState.WAITING, NOTHING_RAN)
            case "running":
                self._keep_running(job, attempt, t_s)
            case "ended":
                self._finish(job, attempt, look, t_s)
            case "lost":
                self._end(job, attempt, look, t_s, LifeState.LOST, look.why)

    def _chase(self, job: ManagedJob, attempt: Attempt, t_s: float) -> None:
        """Revoke an attempt whose process is late, or that is to be cancelled.

        Late since it was first seen here: `began_s` is the time of a turn, which may have begun
        minutes ago where the first one compiles.
        """
        since_s = self.stopping.since(job.id, -attempt.number, t_s)
        if attempt.stop == "cancel" or t_s - since_s > CLAIM_WITHIN_S:
            self._revoke(job, attempt, t_s)

    def _revoke(self, job: ManagedJob, attempt: Attempt, t_s: float) -> None:
        """End an attempt before it began; a process that has claimed it meanwhile goes on."""
        if self.engine.revoke(job.id, attempt.number):
            look = AttemptLook(phase="revoked")
            self._end(job, attempt, look, t_s, LifeState.WAITING, NOTHING_RAN)

    def _keep_running(self, job: ManagedJob, attempt: Attempt, t_s: float) -> None:
        if job.state is LifeState.STARTING:
            state = _once_running(job, attempt)
            job = self._put(job.moved(t_s, state, "its process runs", decision=attempt.decision))
        job = self._learn_saves(job, attempt, t_s)
        if attempt.stop == "cancel":
            self.stopping.stop(job, t_s)
        elif job.state is LifeState.SAVING:
            self._follow_save(job, attempt, t_s)
        elif attempt.saves_and_stops and attempt.stop_decision is not None:
            self.stopping.stop(job, t_s)  # forced

    def _learn_saves(self, job: ManagedJob, attempt: Attempt, t_s: float) -> ManagedJob:
        """Write down what the job reports about itself, where that is new."""
        able = self.engine.checkpointing(job.id)
        if able != job.checkpointing:
            job = self._put(replace(job, checkpointing=able))
        answer = self.engine.answer(job.id)
        known = {(each.step, each.path) for each in job.checkpoints}
        if answer is None or answer.result != "saved":
            return job
        if (int(answer.step), str(answer.checkpoint)) in known:
            return job
        saved = SavedState(
            t_s=t_s,
            attempt=attempt.number,
            step=int(answer.step),
            path=str(answer.checkpoint),
            size_bytes=int(answer.bytes),
            seconds=float(answer.seconds),
            verified=self.engine.is_whole(job.id, str(answer.checkpoint)),
        )
        kept = (*job.checkpoints, saved)[-MOST_CHECKPOINTS:]
        return self.store.put(replace(job, checkpoints=kept))

    def _follow_save(self, job: ManagedJob, attempt: Attempt, t_s: float) -> None:
        answer = self.engine.answer(job.id)
        event = job.events[-1]
        asked = attempt.stop_decision if attempt.saves_and_stops else None
        wanted = asked or self.stopping.request_of(job.id)  # None: steward was restarted
        answered = answer is not None and (wanted is None or answer.id == wanted)
        if asked is not None and not answered and not self.stopping.has_asked(job.id, asked):
            why = attempt.stop_why  # steward was restarted
            self.stopping.ask_to_save(job, asked, stop=True, why=why)
        if answered and answer is not None and answer.result == "saved":
            if asked is None:
                self._put(job.moved(t_s, LifeState.RUNNING, f"saved at step {answer.step}"))
            elif self.stopping.had_time_to_leave(job, t_s):
                self.stopping.stop(job, t_s)
        elif answered and answer is not None and answer.id:
            self._give_up_save(job, attempt, t_s, "it could not save", answer.why or answer.result)
        elif t_s > event.t_s + self.stopping.save_within_s + self.engine.grace_s:
            why = f"it did not save within {self.stopping.save_within_s:.0f} s"
            self._give_up_save(job, attempt, t_s, why)

    def _give_up_save(
        self, job: ManagedJob, attempt: Attempt, t_s: float, why: str, detail: str = ""
    ) -> None:
        """Let a job go on that could not save: what it has not saved is not thrown away."""
        kept = replace(attempt, stop="", stop_why=why)
        self._put(job.with_attempt(kept).moved(t_s, LifeState.RUNNING, why, detail=detail))

    def _finish(self, job: ManagedJob, attempt: Attempt, look: AttemptLook, t_s: float) -> None:
        job = self._learn_saves(job, attempt, t_s)
        if job.state is LifeState.STARTING and look.why == "" and look.exit_code != 127:
            state = _once_running(job, attempt)
            job = job.moved(t_s, state, "its process ran", decision=attempt.decision)
        state, why = self._outcome(job, attempt, look)
        self._end(job, attempt, look, t_s, state, why)

    def _outcome(
        self, job: ManagedJob, attempt: Attempt, look: AttemptLook
    ) -> tuple[LifeState, str]:
        if attempt.stop == "cancel":
            return LifeState.CANCELLED, attempt.stop_why
        late = not attempt.stop and self._has_saved_as_asked(job, attempt)
        asked = attempt.stop or late
        if look.exit_code == 0 and (not asked or self.engine.is_done(job.id)):
            return LifeState.FINISHED, "exit status 0"
        if look.exit_code == 0 and late:
            return LifeState.PREEMPTED, "it saved and stopped, later than asked"
        if attempt.saves_and_stops and self._stopped_as_asked(job, attempt, look):
            return LifeState.PREEMPTED, attempt.stop_why
        return LifeState.FAILED, _failure(look)

    def _stopped_as_asked(self, job: ManagedJob, attempt: Attempt, look: AttemptLook) -> bool:
        """Return False for a job that failed by itself while it was asked to stop."""
        if job.state is not LifeState.SAVING or look.signal is not None:
            return True
        return look.exit_code == 0 or self._has_saved_as_asked(job, attempt)

    def _has_saved_as_asked(self, job: ManagedJob, attempt: Attempt) -> bool:
        """Return whether it answered the request to save and stop, also one that was given up."""
        answer = self.engine.answer(job.id)
        if answer is None or attempt.stop_decision is None:
            return False
        return answer.id == attempt.stop_decision and answer.result == "saved"

    def _end(
        self,
        job: ManagedJob,
        attempt: Attempt,
        look: AttemptLook,
        t_s: float,
        state: LifeState,
        why: str,
    ) -> None:
        if attempt.stop == "cancel" and state is LifeState.WAITING:
            state, why = LifeState.CANCELLED, attempt.stop_why
        over = replace(
            attempt,
            ended_s=look.ended_s or t_s,
            exit_code=look.exit_code,
            signal=look.signal,
            why=f"{why}: {look.detail}" if look.detail else why,
            ran_s=look.ran_s,
            cpu_s=look.cpu_s,
            peak_memory_bytes=look.peak_memory_bytes,
        )
        self.stopping.forget(job.id)
        cause = attempt.stop_decision
        job = job.with_attempt(over)
        job = job.moved(t_s, state, why, decision=cause, detail=look.detail)
        onward = self._moved_on(job, over, t_s)
        self._put(onward or job)
        if onward is not None and onward.attempt is not None:
            self.engine.launch(onward, onward.attempt)

    @staticmethod
    def _moved_on(job: ManagedJob, over: Attempt, t_s: float) -> ManagedJob | None:
        """Return a job that is being moved with its next attempt; None if it is not, or is over."""
        if job.state is LifeState.PREEMPTED and over.stop == "move":
            return go_on_there(job, over, t_s)
        return begin_again(job, over, t_s) if job.state is LifeState.WAITING else None

    def _put(self, job: ManagedJob) -> ManagedJob:
        self.store.put(job)
        self.changed()
        return job


def _once_running(job: ManagedJob, attempt: Attempt) -> LifeState:
    """Return what a job is when its attempt runs."""
    if attempt.arrives:
        return LifeState(attempt.arrives)
    ran = any(each.state.runs for each in job.events)
    return LifeState.RESUMED if ran else LifeState.RUNNING


def _is_met(state: LifeState, when: str, *, began: bool) -> bool | None:
    """Return whether a dependency holds; None while it is open."""
    if when == "after":
        return True if began or state.ended else None
    if not state.ended:
        return None
    well = state is LifeState.FINISHED
    return when == "afterany" or well == (when == "afterok")


def _failure(look: AttemptLook) -> str:
    if look.signal is not None:
        return look.why or f"ended by signal {look.signal}"
    return look.why or f"exit status {look.exit_code}"
