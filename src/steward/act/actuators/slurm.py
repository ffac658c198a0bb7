"""Carries out decisions about jobs and nodes of a Slurm, through its own commands."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from steward.act.slurm import node_plans
from steward.act.slurm.by_hand import typed_by_hand
from steward.act.slurm.job_plans import JobPlans
from steward.act.slurm.lending import SlurmLending
from steward.act.slurm.own_notes import OwnNotes
from steward.act.slurm.plan import Plan, failed, other_job, refused_owner
from steward.act.slurm.reserved_drains import own_reservation, reserve, unreserve
from steward.act.slurm.restart_plans import RestartPlans
from steward.act.slurm.right_size import right_size
from steward.act.slurm.seals import Seals, read_key
from steward.act.slurm.stopped_jobs import StoppedJobs
from steward.clients.slurm.changes import notify, shown
from steward.clients.slurm.control import ArrayTask, QueueTop
from steward.clients.slurm.queue_entry import TASK_LIMIT, QueueEntry
from steward.clients.slurm.reservations import SlurmReservation
from steward.clients.slurm.rest import RestSettings
from steward.clients.slurm.rest_changes import BATCH_SIGNALS, DRAINS
from steward.clients.slurm.rest_control import RestControl, slurm_control
from steward.clients.slurm.rights import Level, Rights, probe_rights
from steward.clock import Clock, SteadyTime, WallClock
from steward.errors import PermanentError, StewardError
from steward.model.actions import (
    Action,
    CallBack,
    Drain,
    Lend,
    Migrate,
    Preempt,
    Reboot,
    Reprioritise,
    Resize,
    Resume,
    RightSize,
    Save,
    Start,
    Tell,
    Undrain,
)
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.identity import DecisionId, JobId

__all__ = ["Slurm"]

SOON_S = 0.5
RIGHTS_S = 300.0  # how long probed rights are believed
_OnJob = Start | Resume | Preempt | Migrate | Reprioritise | Resize | RightSize | Save
_CANNOT = (
    "GPUs of running jobs are lent among the jobs of this account alone: suspending frees no GPU, "
    "and Slurm lets nobody else in; guarantees are lent through a preemptible partition "
    "(`steward slurm setup`)"
)


class Slurm:
    """Releases, raises, requeues, shrinks and right-sizes jobs, drains and resumes nodes.

    `dry_run`: look, compare, and put the commands into the receipt instead of running them.
    `start_within_s`: how long Slurm has to start what was released. `hold_preempted`: keep a
    preempted job held until a decision resumes it. `requeue_unsaved`: also preempt jobs that have
    not said that they can save. `notify`: write advice to the standard error of the job, too.
    `settle_s`: how long a start stays open once the job runs, until the collector has surely seen
    that: what is closed and still looks undone is decided again.
    `folder`, `conf`, `timeout_s`: where Slurm's commands and its slurm.conf are, and how long a
    command may take.
    `rest`, `rest_user`, `rest_token_file`, `rest_ca`, `rest_plain_http`: the slurmrestd to use
    instead, as for the collector; what it cannot do is done by the commands, if there are any here.
    `cuda_library`: the driver's library on nodes, which suspends holders of a loan.
    """

    name = "slurm"

    def __init__(  # noqa: PLR0913 - what a site can set
        self,
        *,
        dry_run: bool = False,
        start_within_s: float = 300.0,
        hold_preempted: bool = False,
        requeue_unsaved: bool = False,
        notify: bool = False,
        settle_s: float = 30.0,
        folder: str = "",
        conf: str = "",
        timeout_s: float = 20.0,
        rest: str = "",
        rest_user: str = "",
        rest_token_file: str = "",
        rest_ca: str = "",
        rest_plain_http: bool = False,
        cuda_library: str = "libcuda.so.1",
        clock: Clock | None = None,
    ) -> None:
        self._dry_run = dry_run
        self._cuda_library = cuda_library
        self._notify = notify
        self._settle_s = settle_s
        self._done_s: dict[DecisionId, float] = {}  # when a decision was first found to be done
        self._plans = JobPlans(
            start_within_s=start_within_s,
            hold_preempted=hold_preempted,
            requeue_unsaved=requeue_unsaved,
        )
        server = RestSettings(
            address=rest,
            user=rest_user,
            token_file=rest_token_file,
            ca=rest_ca,
            plain_http=rest_plain_http,
        )
        self._slurm = slurm_control(server, folder=folder, conf=conf, timeout_s=timeout_s)
        self._refused: tuple[type[Action], ...] = ()  # what slurmrestd does not do, nor commands
        self._rights: Rights | None = None
        self._rights_s = float("-inf")
        self._followed: set[JobId] = set()  # jobs of decisions that were begun
        self._listed: dict[str, QueueEntry] = {}
        self._listed_s: float | None = None
        self._tops: dict[str, QueueTop] = {}  # by partition: who is first in line
        self._clock = clock or WallClock()
        self._time = SteadyTime(self._clock, least_s=0.0)  # a clock that jumps ends no save
        self._next_s: dict[DecisionId, float] = {}
        self._stopped = StoppedJobs()
        self._notes = OwnNotes()

    def keep_in(self, folder: Path) -> None:
        """Keep notes of open decisions, and the key of their seals, in a folder of the store."""
        seals = Seals(read_key(folder / "notes.key"))
        self._notes = OwnNotes(folder / "open-decisions.json", seals)

    def available(self) -> Availability:
        try:
            version = self._slurm.version()
            rights = probe_rights(self._slurm)
            beside = self._beside_rest()
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        missing = rights.level is not Level.ADMINISTRATOR
        return Availability(
            status="limited" if missing or self._dry_run or beside else "ok",
            reason=f"slurm {version}; {rights.sentence}; {beside}{_CANNOT}"
            + ("; dry run: commands are shown, not run" if self._dry_run else ""),
            hint="docs/slurm.md says which rights each action needs" if missing else "",
        )

    def actions(self) -> tuple[type[Action], ...]:
        """Return what it can do with its rights; all of it while these are not known."""
        jobs = (Start, Resume, Preempt, Reprioritise, Resize, Save, Tell)
        rest = isinstance(self._slurm, RestControl)
        needed = Level.ADMINISTRATOR if rest else Level.OPERATOR  # who may reserve nodes, at least
        drains = self._rights is None or self._rights.at_least(needed)
        administers = self._rights is None or self._rights.at_least(Level.ADMINISTRATOR)
        typed = () if rest else (Lend, CallBack, Migrate, RightSize)
        restarts = (Reboot,) if administers and not rest else ()
        can = (*jobs, *typed, *((Drain, Undrain) if drains else ()), *restarts)
        return tuple(each for each in can if each not in self._refused)

    def _beside_rest(self) -> str:
        """Return what slurmrestd does not do and who does that; note what nobody can do here."""
        if not isinstance(self._slurm, RestControl):
            return ""
        missing = self._slurm.not_served()
        self._refused = () if self._slurm.has_commands else _without(missing)
        by = "done by this machine's commands" if self._slurm.has_commands else "refused"
        return f"{', '.join(missing)}: not in slurmrestd, {by}; "

    def places(self, action: Action) -> bool:
        """Return whether Slurm chooses the GPUs: it does for every job that starts."""
        return isinstance(action, Start | Resume)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        if isinstance(decision.action, Tell):
            return self._tell(decision, decision.action, t_s)
        self._next_s.pop(decision.id, None)
        plan = self._plan(decision, t_s)
        if self._dry_run:
            plan = failed(f"dry run, nothing was changed: {shown(plan.commands) or plan.text}")
        for command in plan.commands:
            with suppress(*((PermanentError,) if plan.races else ())):
                self._slurm.change(self._notes.seals.sealed(command))
        if plan.beside is not None and not self._dry_run:
            plan.beside()
        if plan.result != "begun":
            self._let_go_on(decision, plan, t_s)
        settled = self._settled(decision, plan, t_s)
        self._notes.keep(decision, settled)
        return self._receipt(decision, settled, t_s)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next for it. How far it is can be read from Slurm, so this is the same."""
        return self.carry_out(decision, t_s)

    def next_s(self) -> float | None:
        """Return when a job has had its time to save, or nodes may be free: others wait for it."""
        now_s = self._clock.now_s()
        self._next_s = {id_: s for id_, s in self._next_s.items() if s > now_s}
        return min(self._next_s.values(), default=None)

    def commands(self, decision: Decision, t_s: float) -> Plan:
        """Return what would be run now, without running it."""
        return self._plan(decision, t_s)

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:
        """Return what a person would type for a decision now."""
        return typed_by_hand(decision, lambda: self._plan(decision, t_s))

    # -- planning ------------------------------------------------------------------------------

    def _plan(self, decision: Decision, t_s: float) -> Plan:
        rights = self._probed(t_s)
        if type(decision.action) in self._refused:
            problem = f"slurmrestd cannot {decision.action.type}, and there is no scontrol here"
            raise PermanentError(problem, hint="`steward doctor` lists what it cannot do")
        # A turn can take minutes, and a job's time to save begins when it is asked.
        now_s = max(t_s, self._time.next()[0])
        match decision.action:
            case action if isinstance(action, _OnJob):
                job = self._job(action.job, t_s)
                refused = refused_owner(job, rights) or other_job(job, decision)
                if refused is not None:
                    return refused
                return self._job_plan(self._notes.recalled(job, decision), decision, rights, now_s)
            case Lend() | CallBack() as action if not isinstance(self._slurm, RestControl):
                lending = SlurmLending(slurm=self._slurm, library=self._cuda_library)
                if isinstance(action, Lend):
                    return lending.lend(action, decision, now_s)
                return lending.call_back(action, decision, now_s)
            case Drain() | Undrain() | Reboot() as action:
                return self._node_plan(action, decision, rights)
            case action:
                raise PermanentError(f"slurm cannot {action.type}", hint=_CANNOT)

    def _job_plan(self, job: QueueEntry, decision: Decision, rights: Rights, t_s: float) -> Plan:
        match decision.action:
            case Preempt():
                return self._plans.preempt(job, decision, t_s)
            case Reprioritise() as action:
                return self._plans.reprioritise(job, decision, action, rights, t_s)
            case Migrate() | Resize() as action:
                return self._moved(job, decision, action, t_s)
            case Save():
                return self._plans.save(job, decision, t_s)
            case RightSize() as action if not isinstance(self._slurm, RestControl):
                return right_size(job, action, self._slurm.asked_gpus(job.address))
            case RightSize() as action:
                raise PermanentError(f"slurmrestd cannot {action.type} here", hint=_CANNOT)
            case _:
                return self._start_plan(job, decision, rights, t_s)

    def _moved(
        self, job: QueueEntry, decision: Decision, action: Migrate | Resize, t_s: float
    ) -> Plan:
        """Take whole nodes from a running job; what Slurm does not change in one, by a restart."""
        live = self._plans.resize(job, action) if isinstance(action, Resize) else None
        did = job.mark.did
        under_way = did is not None and did.id == decision.id
        cannot = isinstance(self._slurm, RestControl) or job.mark.save_s is None
        if live is not None and not under_way and (live.result != "failed" or cannot):
            return live
        if isinstance(self._slurm, RestControl):
            raise PermanentError(f"slurmrestd cannot {action.type} here", hint=_CANNOT)
        plans = RestartPlans(
            plans=self._plans,
            asked_gpus=self._slurm.asked_gpus,
            excluded_nodes=self._slurm.excluded_nodes,
        )
        if isinstance(action, Migrate):
            return plans.migrate(job, decision, action, t_s)
        return plans.resize(job, decision, action, t_s)

    def _start_plan(self, job: QueueEntry, decision: Decision, rights: Rights, t_s: float) -> Plan:
        task = self._begun_task(job, decision)
        if task is None and job.is_many:
            tasks = self._slurm.array_tasks(job.array)
            found = [each for each in tasks if self._is_of(each, decision)]
            if not found and _is_full(job, tasks):
                return failed(f"as many tasks of array {job.array} run as may run at once")
            found += [each for each in tasks if each.waits and each.job == job.id]
            task = self._slurm.task(found[0].address) if found else None
        if task is None:
            return self._start_of(job, decision, rights, t_s)
        plan = self._start_of(task, decision, rights, t_s)
        # Others may still wait: another start is about the next one, so there is nothing to settle.
        text = f"{plan.text} (task {task.address})"
        return replace(plan, job=JobId(task.id), over=True, text=text)

    def _begun_task(self, job: QueueEntry, decision: Decision) -> QueueEntry | None:
        """Return the task of an array with which a start was begun, if it has its own number."""
        others = (each for each in self._listed.values() if each.id != job.id)
        known = (each for each in others if job.array and each.array == job.array)
        return next((each for each in known if self._is_of(each, decision)), None)

    def _is_of(self, task: QueueEntry | ArrayTask, decision: Decision) -> bool:
        ours = self._notes.address_of(decision)
        if ours:
            return task.address == ours
        did = task.mark.did
        return (
            did is not None and did.id == decision.id and self._notes.seals.fits(task.address, did)
        )

    def _start_of(self, job: QueueEntry, decision: Decision, rights: Rights, t_s: float) -> Plan:
        if job.mark.token and job.held_by:
            named = [each for each in self._slurm.named(job.name) if each.user == job.user]
            first = next((each for each in named if each.mark.token == job.mark.token), job)
            if (first.array or first.id) != (job.array or job.id):  # tasks share their token
                return failed(f"job {job.id} was submitted twice: {first.id} is the same job")
        behind = job.waits and job.reason == "Priority"
        top = self._top_of(job.partition, decision) if behind else 0
        rest_s = self._stopped.rest_s(job, t_s)
        job = self._notes.recalled(job, decision)
        return self._plans.start(job, decision, rights, t_s, top=top, rest_s=rest_s)

    def _node_plan(
        self, action: Drain | Undrain | Reboot, decision: Decision, rights: Rights
    ) -> Plan:
        drains, node = isinstance(action, Drain), self._slurm.node(action.node)
        administers = rights.at_least(Level.ADMINISTRATOR)
        if isinstance(action, Reboot):
            if not administers or isinstance(self._slurm, RestControl):
                return failed(f"{rights.user} may not restart nodes, or not by slurmrestd")
            return node_plans.reboot(node, decision)
        if administers and drains:
            return node_plans.drain(node, decision)
        reservations = self._reservations(rights)
        if reservations is None and not administers:
            what = "drain nodes or bring them back"
            return failed(f"{rights.user} is no administrator of Slurm and may not {what}")
        reserved = own_reservation(node.name, reservations or [], rights.user) is not None
        if administers and not reserved:
            return node_plans.undrain(node, decision)
        plan = reserve if drains else unreserve
        return plan(node, reservations or [], decision, user=rights.user)

    def _reservations(self, rights: Rights) -> list[SlurmReservation] | None:
        """Return all reservations; None where this account may make none, or not from here."""
        if isinstance(self._slurm, RestControl) or not rights.at_least(Level.OPERATOR):
            return None
        return self._slurm.reservations()

    def _let_go_on(self, decision: Decision, plan: Plan, t_s: float) -> None:
        """Note a stop; let what was stopped for a start go on when that has ended."""
        now_s = max(t_s, self._time.next()[0])
        if isinstance(decision.action, Preempt) and plan.result == "done":
            self._stopped.note(decision, self._job(decision.action.job, t_s), now_s)
        for id_ in self._stopped.made_room(decision):
            with suppress(StewardError):  # it then waits for a resume, or for Slurm's two minutes
                job = self._job(id_, t_s)
                for command in self._plans.go_on(job, self._stopped.rest_s(job, now_s)).commands:
                    self._slurm.change(command)

    # -- looking -------------------------------------------------------------------------------

    def _probed(self, t_s: float) -> Rights:
        if self._rights is None or not 0 <= t_s - self._rights_s < RIGHTS_S:
            self._rights, self._rights_s = probe_rights(self._slurm), t_s
            self._beside_rest()
        return self._rights

    def _job(self, id_: JobId, t_s: float) -> QueueEntry:
        """Return a job from one listing a turn, of all jobs that are being followed."""
        if self._listed_s != t_s:
            self._tops = {}
        if self._listed_s != t_s or id_ not in self._listed:
            self._listed = self._slurm.jobs({id_, *self._followed})
            self._listed_s = t_s
        found = self._listed.get(id_)
        if found is None:
            self._followed.discard(id_)
            hint = "it ended and was forgotten (MinJobAge), or belongs to another cluster"
            raise PermanentError(f"Slurm has no job {id_}", hint=hint)
        return found

    def _top_of(self, partition: str, decision: Decision) -> int:
        """Return above which priority a job has to be, looked up once a turn.

        Only if others made room for it, above that of the job for which Slurm keeps room: that one
        is the widest as a rule, and would wait until no other is there.
        """
        if partition not in self._tops:
            self._tops[partition] = self._slurm.highest_priority(
                partition, raised=self._notes.raised
            )
        top = self._tops[partition]
        return top.first if decision.after else top.second

    def _settled(self, decision: Decision, plan: Plan, t_s: float) -> Plan:
        """Keep a change of a job open for a while; a stop is over at once: others wait for it."""
        action = decision.action
        if plan.result == "failed" and self._done_s.pop(decision.id, None) is not None:
            return replace(plan, result="done", commands=())  # it was done, and the job is over
        settles = isinstance(action, _OnJob) and not isinstance(action, Preempt) and not plan.over
        if plan.result == "done" and settles:
            first_s = self._done_s.setdefault(decision.id, t_s)
            if t_s - first_s < self._settle_s:
                return replace(plan, result="begun", next_s=first_s + self._settle_s)
        self._done_s.pop(decision.id, None)
        return plan

    # -- reporting -----------------------------------------------------------------------------

    def _receipt(self, decision: Decision, plan: Plan, t_s: float) -> Receipt:
        action = decision.action
        if isinstance(action, Lend | CallBack) and plan.result == "begun" and plan.next_s:
            self._next_s[decision.id] = plan.next_s
        if isinstance(action, _OnJob):
            (self._followed.add if plan.result == "begun" else self._followed.discard)(action.job)
            if plan.result == "begun" and plan.next_s is not None:
                self._next_s[decision.id] = plan.next_s
            elif plan.result == "done":  # what waits for it goes on, and its GPUs can be planned
                self._next_s[decision.id] = self._clock.now_s() + SOON_S
            if plan.commands:
                self._listed.pop(action.job, None)
        return Receipt(
            decision=decision.id,
            t_s=t_s,
            result=plan.result,
            gpus=() if plan.result == "failed" or _never_seen(action, plan) else action.gpus,
            text=plan.text,
            job=plan.job,
        )

    def _tell(self, decision: Decision, action: Tell, t_s: float) -> Receipt:
        text = f"told {action.to}: {action.text}"
        if self._notify and action.job is not None and not self._dry_run:
            try:
                self._slurm.change(notify(action.job, f"steward: {action.text}"))
                text += f", also in the output of job {action.job}"
            except StewardError as fault:
                text += f"; not in the output of job {action.job}: {fault}"
        return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)


def _never_seen(action: Action, plan: Plan) -> bool:
    """Return whether a loan was over before anybody could see it: then there is none."""
    return isinstance(action, Lend) and plan.over


def _without(missing: Iterable[str]) -> tuple[type[Action], ...]:
    """Return the actions that need what slurmrestd does not do."""
    drains = (Drain, Undrain) if DRAINS in missing else ()
    return (Preempt, Resize, *((Save,) if BATCH_SIGNALS in missing else ()), *drains)


def _is_full(job: QueueEntry, tasks: Iterable[ArrayTask]) -> bool:
    """Return True if no more of an array's waiting tasks may run.

    Slurm gives that as the reason only once it has looked at them, and seldom where they are held.
    """
    going = sum(each.goes for each in tasks if each.job != job.id)
    return TASK_LIMIT in job.reason or (job.at_once is not None and going >= job.at_once)
