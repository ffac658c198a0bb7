"""Jobs for pages, by the same functions that answer the API: what is hidden there is not here.

Everything may wait for a disk, or for a policy: pages call it in a thread.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from steward.config.local_jobs import LocalJobRunner
from steward.errors import StewardError
from steward.model.identity import DecisionId
from steward.model.managed_job import LifeState, ManagedJob
from steward.service.api.job_prospects import cost_reply, why_reply
from steward.service.api.job_replies import array_reply, long_reply, short_reply
from steward.service.api.job_rights import Asker
from steward.service.api.jobs import ChangeNote, change_jobs, find_jobs, read_tail
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.store.job_search import JobQuery

__all__ = ["JobReader", "ListedJobs"]

Record = dict[str, Any]
WAITS = (LifeState.WAITING, LifeState.PREEMPTED)
LOG_BYTES = 64 << 10
ETA_FOR_S = 15.0  # after which it is asked for again
ETAS_WITHIN_S = 0.5  # of one refresh of a list; what is not known by then comes with the next
MOST_ETAS = 5000
MOST_LENDERS = 200  # jobs whose loans are looked at
MOST_ENDED = 50  # of those, jobs that are over


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobs:
    """One page of a list: records, how many there are in all, in which states, and whose."""

    records: tuple[Record, ...]
    total: int
    states: dict[LifeState, int]
    users: list[str]
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Reads the jobs that this steward runs, as one user may see them."""

    runner: LocalJobRunner
    live_state: LiveState
    _etas: dict[str, tuple[float, Record | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def asker(self, user: User) -> Asker:
        """Return a user with the account that is theirs on this machine, if any."""
        return Asker.of_user(user, self.runner)

    def name_of(self, id_: str) -> str | None:
        """Return how the page of a job is called; None if there is no such job."""
        try:
            first = self.runner.store.array(id_)[0]
        except StewardError:
            return None
        return f"{id_} {first.spec.name}" if first.id == id_ else f"{id_} {first.spec.name} (array)"

    # -- lists -----------------------------------------------------------------------------------

    def page(self, query: JobQuery, user: User) -> ListedJobs:
        """Return a page of jobs."""
        store, asker = self.runner.store, self.asker(user)
        found, total = store.search(query)
        etas = self._starts([each for each in found if each.state in WAITS])
        return ListedJobs(
            records=tuple(
                {**short_reply(each, asker), **_times(each), "eta": etas.get(each.id)}
                for each in found
            ),
            total=total,
            states=store.states(),
            users=store.users(),
            now_s=self.runner.clock.now_s(),
        )

    def _starts(self, jobs: list[ManagedJob]) -> dict[str, Record | None]:
        """Return when waiting jobs start, as far as that is known soon enough."""
        end_s = time.monotonic() + ETAS_WITHIN_S
        with self._lock:
            for job in jobs:
                asked_s, _ = self._etas.get(job.id, (float("-inf"), None))
                now_s = time.monotonic()
                if now_s < end_s and now_s > asked_s + ETA_FOR_S:
                    self._etas[job.id] = (now_s, self.why(job)["eta"])
            known: dict[str, Record | None] = {
                each.id: self._etas[each.id][1] for each in jobs if each.id in self._etas
            }
            if len(self._etas) > MOST_ETAS:
                self._etas.clear()
        return known

    def loans(self, user: User) -> list[Record]:
        """Return who has whose GPUs now, and who had them of late; each loan once."""
        store, asker = self.runner.store, self.asker(user)
        open_ = [each for each in store.open() if each.state.holds_gpus]
        ended = [each for each in store.newest(MOST_ENDED) if each.state.ended]
        found = [
            {**loan, "owner": job.id, "borrower": loan["other"]}
            for job in (*open_, *ended)[:MOST_LENDERS]
            for loan in long_reply(self.runner, job, asker).get("loans") or ()
            if loan["role"] == "owner"
        ]
        return sorted(found, key=lambda each: (each["until_s"] is not None, -each["since_s"]))

    # -- one job ---------------------------------------------------------------------------------

    def found(self, id_: str) -> tuple[ManagedJob, ...]:
        """Return a job, or all tasks of an array; raise for what is not there."""
        return find_jobs(self.runner, id_)

    def record(self, id_: str, user: User) -> Record:
        """Return what a user may see of a job, or of an array and its tasks."""
        jobs, asker = self.found(id_), self.asker(user)
        if jobs[0].id != id_:
            reply = array_reply(id_, jobs, asker)
            tasks = [
                {**each, **_times(job)} for each, job in zip(reply["tasks"], jobs, strict=True)
            ]
            names = {"name": jobs[0].spec.name, "user": jobs[0].spec.user}
            return {**reply, **names, "tasks": tasks}
        return {**long_reply(self.runner, jobs[0], asker), **_times(jobs[0])}

    def why(self, job: ManagedJob) -> Record:
        """Return why a job waits; without an ETA where no policy starts jobs."""
        try:
            return why_reply(self.runner, self.live_state, job)
        except RefusedError as fault:
            return {"summary": fault.problem, "limits": [fault.hint], "eta": None, "changes": []}

    def cost(self, jobs: tuple[ManagedJob, ...]) -> Record:
        """Return what jobs have cost in all, in GPU-seconds."""
        total: Record = cost_reply(self.runner, jobs)["total"]
        return total

    def log(self, id_: str, user: User) -> str | None:
        """Return the end of a job's output; None for others, and for a file of its user's."""
        job = self.runner.store.job(id_)
        if not self.asker(user).sees_all_of(job):
            return None
        return read_tail(self.runner, job, LOG_BYTES)

    def decided(self, decision: str) -> bool:
        """Return whether the journal has a decision: what a person asked for has no page."""
        ids = (DecisionId(decision),)
        return any(True for _ in self.live_state.loop.journal.stories(ids=ids, limit=1))

    # -- changes ---------------------------------------------------------------------------------

    def change(self, id_: str, what: str, user: User) -> None:
        """Change a job as the API does. As there, a token of a viewer changes nothing."""
        if not user.may_decide:
            raise RefusedError(
                403, f"{user.name} is a viewer", where="jobs", hint="an operator token is needed"
            )
        change_jobs(self.runner, self.asker(user), id_, what, ChangeNote())

    def refusal(self, user: User) -> StewardError | None:
        """Return why a user cannot submit from a page; None for one who can."""
        if not user.may_decide:
            return StewardError(
                f"{user.name} is a viewer, whose token submits nothing over the network",
                where="jobs",
                hint="an operator's token that [jobs.token_accounts] maps to an account can",
            )
        try:
            self.asker(user).account_for(self.runner)
        except StewardError as fault:
            return fault
        return None


def _times(job: ManagedJob) -> Record:
    """Return when a job was in which state, for how long it waited and ran."""
    return {
        "ended": job.state.ended,
        "spans": [(each.state.value, each.t_s) for each in job.events],
        "on_slots": all("cpu-slot" in each for each in job.spec.shape.gpu_models),
    }
