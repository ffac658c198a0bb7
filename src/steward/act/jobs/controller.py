"""What people and decisions ask of jobs: start, preempt, move, save, cancel, hold, release.

Every step is in the store before an engine acts on it, so that a steward that is killed between two
steps goes on with `advance` where it was. A decision id names at most one attempt and one stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from steward.act.jobs.following import JobFollower
from steward.act.jobs.job_engine import JobEngine
from steward.act.jobs.lending import Lending
from steward.act.jobs.moving import check_movable, intend
from steward.act.jobs.stopping import SAVE_WITHIN_S, Stopping
from steward.errors import PermanentError, StewardError
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.managed_job import Attempt, JobSpec, LifeState, ManagedJob
from steward.store.jobs import JobStore

__all__ = ["JobController"]

log = logging.getLogger(__name__)


class JobController:
    """The one that changes jobs. All calls may come from any thread."""

    def __init__(
        self,
        store: JobStore,
        engine: JobEngine,
        *,
        changed: Callable[[], None] = lambda: None,
        save_within_s: float = SAVE_WITHIN_S,
    ) -> None:
        self.store = store
        self.engine = engine
        self.changed = changed  # called when something may be decided anew
        self.stopping = Stopping(engine, save_within_s)
        self.following = JobFollower(store, engine, self.stopping, changed)
        self.faults: dict[JobId, StewardError] = {}  # what could not be done in the last pass
        self._lock = threading.RLock()
        self.lending = Lending(self, self._lock)

    def submit(
        self, specs: Iterable[JobSpec], t_s: float, *, most_open: int | None = None
    ) -> tuple[ManagedJob, ...]:
        """Add a job or an array, and let into the queue what may wait: one transaction."""
        with self._lock:
            try:
                with self.store.together():
                    made = self.store.submit(specs, t_s, most_open=most_open)
                    for job in made:
                        if job.state is LifeState.SUBMITTED:
                            self.following.step(job, t_s)
            except BaseException:
                self.following.forget_dependencies()  # they were seen in what was rolled back
                raise
        self.changed()
        return made

    # -- starting --------------------------------------------------------------------------------

    def start(
        self,
        id_: JobId,
        gpus: tuple[GpuId, ...],
        *,
        decision: DecisionId,
        t_s: float,
        lender: JobId | None = None,
    ) -> ManagedJob:
        """Begin an attempt. The same decision a second time returns what it began.

        A `lender` may hold the GPUs meanwhile.
        """
        with self._lock:
            job = self.store.job(id_)
            if any(each.decision == decision for each in job.attempts):
                return job
            self._check_startable(job, gpus, lender)
            number = len(job.attempts) + 1
            attempt = Attempt(number=number, decision=decision, gpus=gpus, began_s=t_s)
            why = f"on {', '.join(gpus)}"
            job = job.with_attempt(attempt).moved(t_s, LifeState.STARTING, why, decision=decision)
            self.store.put(job)
            self.engine.launch(job, attempt)
            return job

    def _check_startable(
        self, job: ManagedJob, gpus: tuple[GpuId, ...], lender: JobId | None = None
    ) -> None:
        if job.state not in (LifeState.WAITING, LifeState.PREEMPTED, LifeState.LENT):
            raise PermanentError(f"it is {job.state.value}, not waiting", where=f"job {job.id}")
        taken = self._taken(job.id, lender)
        busy = [f"{gpu} by job {taken[gpu]}" for gpu in gpus if gpu in taken]
        if busy:
            raise PermanentError(f"held: {', '.join(busy)}", where=f"job {job.id}")
        comes_back = job.state is LifeState.LENT  # to what it had: it may have been resized
        if not comes_back and len(gpus) != job.spec.shape.gpus:
            problem = f"it asks for {job.spec.shape.gpus} GPUs, not {len(gpus)}"
            raise PermanentError(problem, where=f"job {job.id}")

    def _taken(self, *but: JobId | None) -> dict[GpuId, str]:
        """Return which GPU is held by which job, other than these."""
        others = [each for each in self.store.open() if each.id not in but]
        return {gpu: each.id for each in others for gpu in each.gpus}

    # -- stopping --------------------------------------------------------------------------------

    def move(
        self, id_: JobId, gpus: tuple[GpuId, ...], *, decision: DecisionId, t_s: float, why: str
    ) -> ManagedJob:
        """Ask a job to save and stop, and start it on other GPUs; the same decision does it once.

        Another number of GPUs is a resize, within what the job can take.
        """
        with self._lock:
            job = self.store.job(id_)
            if any(decision in (each.decision, each.stop_decision) for each in job.attempts):
                return job
            check_movable(job, gpus, self._taken(id_))
            if any(id_ in (each.owner, each.borrower) for each in self.store.loans.open()):
                hint = "wait until the loan is over, or call it back"
                raise PermanentError("it lends or borrows GPUs", where=f"job {id_}", hint=hint)
            self._check_saves(id_)
            to = f"{why}; to {', '.join(gpus)}"
            job = intend(job, gpus, decision=decision, why=to)
            return self._ask(job, decision, t_s, stop=True, why=to)

    def _check_saves(self, id_: JobId) -> None:
        if not self.engine.checkpointing(id_).able:
            raise PermanentError(
                "it cannot save its work",
                where=f"job {id_}",
                hint="docs/jobs/checkpoints.md has the three lines that it needs",
            )

    def preempt(
        self, id_: JobId, *, decision: DecisionId, t_s: float, why: str, force: bool = False
    ) -> ManagedJob:
        """Ask a job to save and stop; it goes back into the queue when its processes are gone.

        With `force`, its owner gives up what was not saved.
        """
        with self._lock:
            job = self.store.job(id_)
            last = job.attempt
            if any(each.stop_decision == decision for each in job.attempts):
                return job
            if last is None or not job.state.runs:
                raise PermanentError(f"it is {job.state.value}, not running", where=f"job {id_}")
            if last.stop == "cancel":  # it must not come back
                raise PermanentError("it is being cancelled", where=f"job {id_}")
            if not force:
                self._check_saves(id_)
                self.lending.check_not_suspending(id_)
            kept = replace(last, stop="preempt", stop_why=why, stop_decision=decision)
            if force:
                job = self.store.put(job.with_attempt(kept))
                self.stopping.stop(job, t_s)
                return job
            return self._ask(job.with_attempt(kept), decision, t_s, stop=True, why=why)

    def save(self, id_: JobId, *, request: str, t_s: float, why: str) -> ManagedJob:
        """Ask a running job to save and go on."""
        with self._lock:
            job = self.store.job(id_)
            if not job.state.runs:
                raise PermanentError(f"it is {job.state.value}, not running", where=f"job {id_}")
            self._check_saves(id_)
            self.lending.check_not_suspending(id_)
            if job.attempt is not None and job.attempt.stop:
                return job  # a newer request would take the place of the one to save and stop
            return self._ask(job, request, t_s, stop=False, why=why)

    def _ask(
        self, job: ManagedJob, request: str, t_s: float, *, stop: bool, why: str
    ) -> ManagedJob:
        """Write down that a job is to save, then ask it."""
        if job.state is not LifeState.SAVING:
            cause = DecisionId(request) if stop else None
            job = job.moved(t_s, LifeState.SAVING, why, decision=cause)
        job = self.store.put(job)
        self.stopping.ask_to_save(job, request, stop=stop, why=why)
        return job

    def cancel(self, id_: JobId, *, t_s: float, why: str) -> ManagedJob:
        """End a job for good; a running one when its processes are gone."""
        with self._lock:
            job = self.store.job(id_)
            last = job.attempt
            if job.state.ended:
                return job
            if last is None or last.ended_s is not None or not job.state.holds_gpus:
                return self._put(job.moved(t_s, LifeState.CANCELLED, why))
            job = self.store.put(job.with_attempt(replace(last, stop="cancel", stop_why=why)))
            self.stopping.stop(job, t_s)
            return job

    def hold(self, id_: JobId, *, t_s: float, why: str) -> ManagedJob:
        """Keep a waiting job from being started."""
        with self._lock:
            return self._put(self.store.job(id_).moved(t_s, LifeState.HELD, why))

    def release(self, id_: JobId, *, t_s: float, why: str) -> ManagedJob:
        """Let a held job go on."""
        with self._lock:
            job = self.store.job(id_)
            if job.state is not LifeState.HELD:
                raise StewardError(f"it is {job.state.value}, not held", where=f"job {id_}")
            ran = any(each.state.runs for each in job.events)
            state = LifeState.PREEMPTED if ran else LifeState.SUBMITTED
            return self._put(job.moved(t_s, state, why))

    def _put(self, job: ManagedJob) -> ManagedJob:
        self.store.put(job)
        self.changed()
        return job

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make changes of jobs that do not run one transaction."""
        with self._lock, self.store.together():
            yield

    # -- one pass --------------------------------------------------------------------------------

    def advance(self, t_s: float) -> None:
        """Look at every open job once, and move on what can be moved on."""
        with self._lock:
            faults: dict[JobId, StewardError] = {}
            jobs = self.store.open()
            new = [each for each in jobs if each.state is LifeState.SUBMITTED]
            if not self._admit_together(new, t_s):
                self._step(new, t_s, faults)
            self._step(
                (each for each in jobs if each.state is not LifeState.SUBMITTED), t_s, faults
            )
            self.lending.advance(t_s)
            self.faults = faults
            self.store.trim()

    def _admit_together(self, jobs: Sequence[ManagedJob], t_s: float) -> bool:
        """Admit what was submitted in one transaction: an array has thousands of tasks.

        Return False if nothing was changed because one could not be; each is then tried alone.
        """
        try:
            with self.store.together() if jobs else nullcontext():
                for job in jobs:
                    self.following.step(job, t_s)
        except Exception:  # noqa: BLE001 - whatever it is, it comes again when each is tried alone
            self.following.forget_dependencies()
            return False
        return True

    def _step(
        self, jobs: Iterable[ManagedJob], t_s: float, faults: dict[JobId, StewardError]
    ) -> None:
        for job in jobs:
            try:
                self.following.step(job, t_s)
            except StewardError as fault:
                faults[job.id] = fault  # it is tried again in the next pass
            except Exception as fault:  # noqa: BLE001 - one job must never stop the others
                faults[job.id] = self._own_fault(job.id, fault)

    def _own_fault(self, id_: JobId, fault: Exception) -> StewardError:
        if id_ not in self.faults:
            log.error("job %s could not be followed; it is tried again", id_, exc_info=fault)
        problem = f"an error in steward itself: {fault!r}"
        return StewardError(problem, where=f"job {id_}", hint="its log has more; please report it")
