"""Reads Slurm: jobs and their accounts, nodes and why they are drained, GPUs of each job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from steward.clients.slurm import (
    RestSettings,
    SlurmError,
    SlurmJob,
    SlurmMissingError,
    SlurmNode,
    own_account,
    slurm_reader,
)
from steward.clients.slurm.accounting import Accounting
from steward.clients.slurm.reservations import SlurmReservation
from steward.model.cluster import Health
from steward.model.event import Availability, Event, Observation
from steward.model.identity import JobId
from steward.model.job import JobState, Tenant
from steward.model.view import Loan
from steward.observe.job_book import JobBook, JobSighting, JobUpdates
from steward.observe.slurm_arrays import arrays_at_limit
from steward.observe.slurm_changes import changes_by_hand
from steward.observe.slurm_history import DAY_S, PastJob, SlurmHistory
from steward.observe.slurm_loans import has_loans, inside, loans_of
from steward.observe.slurm_nodes import SlurmNodes
from steward.observe.slurm_progress import SlurmProgress
from steward.observe.slurm_reservations import ReservedNodes, reserved_nodes
from steward.observe.slurm_sightings import SlurmSightings
from steward.observe.slurm_tenants import SlurmTenants, gpu_demand, tenants_of

__all__ = ["Slurm"]

_ACCOUNTING_EVERY_S = 600.0
_RESERVATIONS_EVERY_S = 60.0
_ACCOUNTING_LAG_S = 60.0  # slurmdbd is updated in batches; ten seconds were seen on a quiet cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    jobs: Sequence[SlurmJob]
    nodes: Sequence[SlurmNode]
    steps: Set[tuple[str, str]]  # of loans: borrower and owner


class Slurm:
    """Jobs, nodes, GPUs and accounts of a Slurm cluster, by its own commands or slurmrestd.

    Slurm is polled every `every_s` seconds, and less often where that would take more than a tenth
    of the time. `lookback_s`: how far back accounting is read for jobs that ended before steward
    came, to learn from them: a day at each poll, each job once, also over restarts.
    After `stale_after_s` without an answer everything from Slurm is unknown.
    `up_is_healthy`: GPUs of nodes that are up count as healthy; only where nothing else reports on
    GPUs, which are else unknown until something does.
    `gpu_models`: what the driver calls a GPU type, e.g. `{a100 = "NVIDIA A100-SXM4-80GB"}`.
    `guarantees_from_limits`: the GPUs that an account is limited to (GrpTRES, its own or that of a
    QOS that no other account may use) are guaranteed to it; what `[tenants]` states counts more.
    `folder` and `conf`: where Slurm's commands and its slurm.conf are, if not in the usual places.
    `rest`: the slurmrestd to ask instead, `https://HOST:PORT` or `unix:/PATH`; `rest_user` and
    `rest_token_file` ($SLURM_JWT without) say as whom, `rest_ca` is a file with the authority it
    trusts, `rest_plain_http` allows plain HTTP to another machine.
    """

    name = "slurm"
    vocabulary = "slurm"

    def __init__(  # noqa: PLR0913 - what a site can set
        self,
        *,
        every_s: float = 10.0,
        lookback_s: float = 86400.0,
        stale_after_s: float = 300.0,
        timeout_s: float = 20.0,
        up_is_healthy: bool = False,
        gpu_models: dict[str, str] | None = None,
        guarantees_from_limits: bool = False,
        folder: str = "",
        conf: str = "",
        rest: str = "",
        rest_user: str = "",
        rest_token_file: str = "",
        rest_ca: str = "",
        rest_plain_http: bool = False,
    ) -> None:
        self.every_s = every_s
        self.lookback_s = lookback_s
        self.stale_after_s = stale_after_s
        self._guarantees = guarantees_from_limits
        server = RestSettings(
            address=rest,
            user=rest_user,
            token_file=rest_token_file,
            ca=rest_ca,
            plain_http=rest_plain_http,
        )
        self._slurm = slurm_reader(server, folder=folder, conf=conf, timeout_s=timeout_s)
        self._quick = slurm_reader(server, folder=folder, conf=conf, timeout_s=2.0)
        self._book = JobBook(self.name)
        self._history = SlurmHistory(self._slurm, lookback_s=lookback_s)
        self._jobs: dict[str, SlurmJob] = {}
        self._nodes = SlurmNodes(self.name, gpu_models or {}, up_is_healthy=up_is_healthy)
        own = "" if rest else own_account()
        self._sightings = SlurmSightings(
            gpu_models or {}, gpus_on=self._nodes.gpus_on, lends_to=own
        )
        self._progress = SlurmProgress(own)
        self._accounting = Accounting()
        self._found_tenants = SlurmTenants()
        self._accounts: frozenset[str] = frozenset()
        self._stuck: frozenset[str] = frozenset()  # jobs of which nothing could start now
        self._loans: dict[str, Loan] = {}  # by borrower
        self._reservations: list[SlurmReservation] = []
        self._reservations_s = float("-inf")
        self._reserved = ReservedNodes()
        self._missed_s: dict[JobId, float] = {}  # since when neither queue nor accounting has them
        self._polled_s = float("-inf")
        self._accounting_s = float("-inf")
        self._due_s = float("-inf")
        self._answered_s: float | None = None
        self._stale = False

    def available(self) -> Availability:
        if not self._quick.found():
            return Availability(
                status="missing",
                reason="there is no squeue on this machine",
                hint="run steward where Slurm's commands are, or set plugs.slurm.folder or .rest",
            )
        try:
            version = self._quick.version()
        except SlurmError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        if not self._quick.answers():
            hint = "look at `scontrol ping`; is SLURM_CONF right?"
            reason = f"{version}, but its controller does not answer"
            return Availability(status="missing", reason=reason, hint=hint)
        return Availability(status="ok", reason=version)

    def collect(self, t_s: float) -> Observation:
        if t_s < self._due_s and t_s >= self._polled_s:
            return Observation()
        self._polled_s = t_s
        began_s = time.monotonic()
        try:
            jobs = self._slurm.jobs()
            steps = self._slurm.lent_steps() if has_loans(jobs) else frozenset()
            answer = _Answer(jobs=jobs, nodes=self._slurm.nodes(), steps=steps)
        except SlurmError as fault:
            self._due_s = t_s + self.every_s
            return self._unheard(fault, t_s)
        seen = self._fold(answer, t_s)
        self._due_s = t_s + max(self.every_s, 10 * (time.monotonic() - began_s))
        return seen

    def has_listed(self) -> bool:
        return self._answered_s is not None

    def close(self) -> None:
        """Do nothing: each command has ended when its answer is read."""

    # -- an answer -----------------------------------------------------------------------------

    def _fold(self, answer: _Answer, t_s: float) -> Observation:
        first = self._answered_s is None
        events = self._back(t_s)
        node_events, health = self._nodes.fold(answer.nodes, t_s, stale=self._stale)
        events += node_events
        cluster = self._nodes.changed_cluster(job.cluster for job in answer.jobs)
        events += self._reservation_events(answer.jobs, t_s)
        loans, self._loans = self._loans, loans_of(answer.jobs, answer.steps, t_s)
        moved = {id_ for id_, _ in loans.items() ^ self._loans.items()}
        news = [
            *self._job_news(answer.jobs, t_s, first=first, moved=moved),
            *self._unseen_ends(answer.jobs, t_s),
        ]
        events += changes_by_hand(self._jobs, answer.jobs, t_s, source=self.name)
        self._jobs = {job.id: job for job in answer.jobs}
        self._book.forget({JobId(id_) for id_ in self._jobs})
        problem = self._found_tenants.problem
        tenants = self._tenants(answer.jobs, t_s)
        events += self._unusable_limits(problem, t_s)
        self._answered_s, self._stale = t_s, False
        return Observation(
            frame=self._progress.read(answer.jobs, t_s),
            events=(*events, *(event for each in news for event in each.events)),
            jobs=tuple(job for each in news for job in each.jobs),
            spans=tuple(span for each in news for span in each.spans),
            cluster=cluster,
            tenants=tenants,
            health=health,
            draining=self._nodes.draining(self._reserved.nodes),
            loans=tuple(each for id_, each in self._loans.items() if id_ in moved),
        )

    def _job_news(
        self, jobs: Sequence[SlurmJob], t_s: float, *, first: bool, moved: Set[str]
    ) -> list[JobUpdates]:
        known_s = self._history.read_to_s if first else None
        past = self._history.next(t_s, {job.id: job.submit_s for job in jobs})
        self._history.seen_until(t_s)
        sightings = [run for each in past for run in self._past_runs(each, t_s)]
        before = self._book.fold(t_s, sightings, silent=True)
        stuck = arrays_at_limit(jobs) | self._reserved.jobs
        changed, self._stuck = (stuck ^ self._stuck) | moved, stuck
        fresh = [job for job in jobs if self._jobs.get(job.id) != job or job.id in changed]
        if known_s is not None:  # what ended before was learned from by an earlier run of steward
            fresh = [job for job in fresh if job.end_s is None or job.end_s > known_s]
        now = self._book.fold(t_s, [self._sighting(job, t_s) for job in fresh], silent=first)
        ended = tuple(job for job in before.jobs if job.state.ended)
        return [replace(before, jobs=ended), now]

    def _past_runs(self, past: PastJob, t_s: float) -> Iterator[JobSighting]:
        """Yield the runs of a job of accounting; long after it ended, nothing needs its places."""
        *earlier, last = [self._sighting(replace(run, id=past.id), t_s) for run in past.runs]
        recent = (past.runs[-1].end_s or 0.0) > t_s - DAY_S
        for number, each in enumerate((*earlier, last)):
            over = each.job if each is last else replace(each.job, state=JobState.RUNNING)
            ran = replace(over, start_s=past.runs[number].start_s, end_s=past.runs[number].end_s)
            yield replace(each, job=ran, run=str(number), places=each.places if recent else ())

    def _unseen_ends(self, jobs: Sequence[SlurmJob], t_s: float) -> list[JobUpdates]:
        """Return from accounting how jobs ended that have left the queue between two polls."""
        listed = {job.id for job in jobs}
        gone = {id_ for id_ in self._book.going_on() if id_ not in listed}
        if not gone or self._answered_s is None:
            return []
        past = self._accounted(t_s - self._answered_s + 600.0)
        ends = [job for job in past if job.id in gone and job.end_s]
        news = self._book.fold(t_s, [self._sighting(job, t_s) for job in ends])
        missing = gone - {JobId(job.id) for job in ends}
        self._missed_s = {id_: self._missed_s.get(id_, t_s) for id_ in missing}
        lost = [id_ for id_ in missing if t_s - self._missed_s[id_] >= _ACCOUNTING_LAG_S]
        return [news, self._book.lose(t_s, sorted(lost))]

    def positions(self) -> dict[str, float]:
        """Return until when all ended jobs are known."""
        read_to_s = self._history.read_to_s
        return {} if read_to_s is None else {"read_to_s": read_to_s}

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Learn from no job again that an earlier run has learned from."""
        read_to_s = positions.get("read_to_s")
        if isinstance(read_to_s, int | float):
            self._history.read_to_s = float(read_to_s)

    def _accounted(self, past_s: float) -> list[SlurmJob]:
        try:
            return self._slurm.ended(past_s=past_s)
        except SlurmError:
            return []  # many sites have no accounting; squeue is all there is

    def _sighting(self, job: SlurmJob, t_s: float) -> JobSighting:
        seen = self._sightings.of(job, self._jobs.get(job.id), t_s)
        if (loan := self._loans.get(job.id)) is not None:
            return replace(seen, job=inside(seen.job, loan))
        return replace(seen, job=replace(seen.job, held=True)) if job.id in self._stuck else seen

    # -- no answer -----------------------------------------------------------------------------

    def _unheard(self, fault: SlurmError, t_s: float) -> Observation:
        """Keep the last state for a while; then report once that it is stale."""
        if isinstance(fault, SlurmMissingError) and self._answered_s is None:
            reported, self._stale = self._stale, True
            text = f"{fault.problem}; {fault.hint}"
            event = self._event(t_s, "collector.missing", self.name, text)
            return Observation() if reported else Observation(events=(event,))
        silent_s = 0.0 if self._answered_s is None else t_s - self._answered_s
        if self._stale or silent_s <= self.stale_after_s:
            raise fault
        self._stale = True
        jobs = len(self._book.going_on())
        text = (
            f"parts nothing for {silent_s:.0f} s: {jobs} jobs and their nodes are unknown ({fault})"
        )
        cluster = self._nodes.cluster
        gpus = cluster.gpus if cluster else ()
        return Observation(
            events=(self._event(t_s, "jobs.unknown", self.name, text),),
            health={gpu.id: Health.UNKNOWN for gpu in gpus},
        )

    def _back(self, t_s: float) -> list[Event]:
        if not self._stale or self._answered_s is None:
            return []
        text = f"parts nothing for {t_s - self._answered_s:.0f} s"
        return [self._event(t_s, "telemetry.gap", self.name, text)]

    # -- reservations --------------------------------------------------------------------------

    def _reservation_events(self, jobs: Sequence[SlurmJob], t_s: float) -> list[Event]:
        """Look at reservations, and return what they closed or opened since the last look."""
        if not 0 <= t_s - self._reservations_s < _RESERVATIONS_EVERY_S:
            self._reservations_s = t_s
            with suppress(SlurmError):  # what was known last still holds
                self._reservations = self._slurm.reservations()
        before = self._reserved
        self._reserved = reserved_nodes(self._reservations, self._nodes.gpus, jobs, t_s)
        return self._reserved.news(before, t_s, source=self.name)

    # -- tenants -------------------------------------------------------------------------------

    def _tenants(self, jobs: Sequence[SlurmJob], t_s: float) -> tuple[Tenant, ...] | None:
        """Return the accounts when anything about them changed; accounting is seldom queried."""
        if not 0 <= t_s - self._accounting_s < _ACCOUNTING_EVERY_S:
            self._accounting_s = t_s
            with suppress(SlurmError):  # many sites have none; what it said last still holds
                self._accounting = self._slurm.accounting()
        self._accounts |= {job.account or job.user for job in jobs}
        cluster = self._nodes.cluster
        found = tenants_of(
            self._accounting,
            cluster=cluster.id if cluster else "",
            names=self._accounts,
            gpus=len(cluster.gpus) if cluster else 0,
            guarantees=self._guarantees,
            demand=gpu_demand(jobs),
        )
        before, self._found_tenants = self._found_tenants, found
        return None if found == before else found.tenants

    def _unusable_limits(self, before: str, t_s: float) -> list[Event]:
        """Return why limits are no guarantees, when that is new."""
        problem = self._found_tenants.problem
        if not problem or problem == before:
            return []
        return [self._event(t_s, "tenants.overpromised", self.name, problem)]

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source=self.name)
