"""Carries out decisions about Jobs, pods and nodes of a Kubernetes, through its API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from steward.act.kubernetes import kube_node_plans, pod_plans
from steward.act.kubernetes.batch_job_plans import BatchJobPlans
from steward.act.kubernetes.kube_plan import KubePlan, begun, done, failed
from steward.act.kubernetes.object_lookup import ObjectLookup
from steward.act.kubernetes.save_plans import plan_save
from steward.clients.kubernetes import Api, Pod, find_credentials
from steward.clients.kubernetes.batch_job import BatchJob
from steward.clients.kubernetes.calls import READ_LOGS, KubeRole
from steward.clients.kubernetes.changes import shown
from steward.clients.kubernetes.faults import (
    ConflictError,
    ForbiddenError,
    MissingError,
    PressureError,
    RejectedError,
)
from steward.clients.kubernetes.rights import KubeRights, probe_rights
from steward.clients.kubernetes_jobs.save_requests import read_answer
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.actions import (
    Action,
    Drain,
    Preempt,
    Reprioritise,
    Resize,
    Resume,
    Save,
    Start,
    Tell,
    Undrain,
)
from steward.model.by_hand import ByHand
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.identity import DecisionId, JobId, NodeId

__all__ = ["Kubernetes"]

RIGHTS_S = 300.0  # how long probed rights are believed
CLOCKS_DIFFER_S = 60  # of steward and of a node
LOOKS = 3  # how often a change is tried that others overtake
_OnJob = Start | Resume | Preempt | Reprioritise | Resize
_CANNOT = (
    "lend, call-back and migrate are not possible on pods: no GPU of one is taken while it runs"
)
_HINT = "set KUBECONFIG or plugs.kubernetes.kubeconfig, or run steward in the cluster"


class Kubernetes:
    """Starts, suspends and resizes Jobs, evicts pods, cordons nodes.

    `dry_run`: look, compare, and put the requests into the receipt instead of making them.
    `start_within_s`: how long Kubernetes has to run what was started. `evict_within_s`: how long a
    disruption budget may forbid an eviction until that is given up. `preempt_unsaved`: also preempt
    what has not said that it can save. `drain_evicts`: evict pods of a drained node that can save,
    instead of letting all run to their end. `resource_pools`: evict within the longest call-back
    of the pool that a pod is bound to. `optimization_policies`: evict no pod of a drained node
    whose namespace leaves that to people. `save_within_s`: how long a job that was asked to save
    and go on may take to answer. `settle_s`: how long a start stays open once the job
    runs, until the collector has surely seen that. `kubeconfig`, `context`, `namespace`: which
    cluster, and only that part of it. `timeout_s`: how long a request may take.
    """

    name = "kubernetes"

    def __init__(  # noqa: PLR0913 - what a site can set
        self,
        *,
        dry_run: bool = False,
        start_within_s: float = 300.0,
        evict_within_s: float = 600.0,
        preempt_unsaved: bool = False,
        drain_evicts: bool = False,
        resource_pools: bool = False,
        optimization_policies: bool = False,
        save_within_s: float = 300.0,
        settle_s: float = 5.0,
        kubeconfig: str = "",
        context: str = "",
        namespace: str = "",
        timeout_s: float = 10.0,
        api: Api | None = None,
    ) -> None:
        self._dry_run = dry_run
        self._evict_within_s = evict_within_s
        self._unsaved = preempt_unsaved
        self._drain_evicts = drain_evicts
        self._pooled = resource_pools
        self._bound = optimization_policies
        self._save_within_s = save_within_s
        self._settle_s = settle_s
        self._plans = BatchJobPlans(start_within_s=start_within_s, preempt_unsaved=preempt_unsaved)
        self._kubeconfig, self._context = kubeconfig, context
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._api = api
        self._objects: ObjectLookup | None = None
        self._rights: KubeRights | None = None
        self._rights_s = float("-inf")
        self._done_s: dict[DecisionId, float] = {}  # when a decision was first found to be done

    def available(self) -> Availability:
        try:
            api = self._connect()
            version, rights = api.version(), probe_rights(api, namespace=self._namespace)
        except StewardError as fault:
            hint = fault.hint or _HINT
            return Availability(status="missing", reason=str(fault), hint=hint)
        finally:
            self.close()  # a look of `doctor` leaves no connection open
        self._rights = rights
        missing = not (rights.has(KubeRole.JOBS) and rights.has(KubeRole.NODES))
        return Availability(
            status="limited" if missing or self._dry_run else "ok",
            reason=f"Kubernetes {version}; {rights.sentence}; {_CANNOT}"
            + ("; dry run: requests are shown, not made" if self._dry_run else ""),
            hint="docs/kubernetes.md says which rights each action needs" if missing else "",
        )

    def actions(self) -> tuple[type[Action], ...]:
        """Return what it can do with its rights; all of it while these are not known."""
        may = self._rights.has if self._rights is not None else _everything
        jobs = (Start, Resume, Preempt, Reprioritise, Resize, Save) if may(KubeRole.JOBS) else ()
        nodes = (Drain, Undrain) if may(KubeRole.NODES) else ()
        return (*jobs, *nodes, Tell)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        if isinstance(decision.action, Tell):
            text = f"told {decision.action.to}: {decision.action.text}"
            return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)
        with self._translated():
            plan = self._settled(decision, self._carried_out(decision, t_s), t_s)
        gpus = () if plan.result == "failed" else decision.action.gpus
        return Receipt(decision=decision.id, t_s=t_s, result=plan.result, gpus=gpus, text=plan.text)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next for it. How far it is can be read from the object: this is the same."""
        return self.carry_out(decision, t_s)

    def by_hand(self, decision: Decision, t_s: float) -> ByHand:
        """Return what a person would type for a decision now."""
        if isinstance(decision.action, Tell):
            return ByHand(text=f"tell {decision.action.to}: {decision.action.text}")
        self._connect()  # that there is no cluster is no answer about the decision
        try:
            with self._translated():
                plan = self._plan(decision, t_s)
        except PermanentError as fault:
            return ByHand(text=str(fault), possible=False)
        commands = tuple(each.by_hand or each.typed for each in plan.changes)
        return ByHand(text=plan.text, commands=commands, possible=plan.result != "failed")

    def close(self) -> None:
        """Close the connection; the next request makes another one."""
        if self._api is not None:
            self._api.close()

    # -- planning and sending --------------------------------------------------------------------

    def _carried_out(self, decision: Decision, t_s: float) -> KubePlan:
        """Look, plan, send; look again where another was faster."""
        for look in range(LOOKS):
            plan = self._plan(decision, t_s)
            refused = self._refused(plan, t_s)
            if refused is not None or not plan.changes:
                return refused or plan
            if self._dry_run:
                return failed(f"dry run, nothing was changed: {shown(plan.changes)}")
            try:
                return self._sent(plan, decision, t_s)
            except ConflictError:
                if look == LOOKS - 1:
                    raise
        raise AssertionError

    def _sent(self, plan: KubePlan, decision: Decision, t_s: float) -> KubePlan:
        for change in plan.changes:
            try:
                change.send(self._connect())
            except PressureError as fault:
                if t_s - decision.t_s > self._evict_within_s:
                    return failed(f"not possible within {self._evict_within_s:.0f} s: {fault}")
                return begun(f"{fault.problem}; tried again")
            except MissingError:
                if not isinstance(decision.action, Drain | Preempt):
                    raise  # a pod that has ended by itself need not be evicted any more
        return plan

    def _plan(self, decision: Decision, t_s: float) -> KubePlan:
        match decision.action:
            case Start() | Resume() | Preempt() | Reprioritise() | Resize() as action:
                if action.job.startswith("pod:"):
                    return self._pod_plan(action.job, decision, t_s)
                return self._job_plan(self._lookup().job(action.job, t_s), decision, t_s)
            case Save() as action:
                return self._save_plan(action.job, decision, t_s)
            case Drain() as action:
                node = self._lookup().node(action.node)
                pods = self._pods_to_evict(action.node, t_s) if self._drain_evicts else ()
                return kube_node_plans.drain(node, decision, t_s, pods=pods)
            case Undrain() as action:
                return kube_node_plans.undrain(self._lookup().node(action.node))
            case action:
                raise PermanentError(f"kubernetes cannot {action.type}", hint=_CANNOT)

    def _save_plan(self, job: JobId, decision: Decision, t_s: float) -> KubePlan:
        pods, container = self._lookup().save_pods(job, t_s)
        may_read = self._probed(t_s).may(READ_LOGS)

        def read(pod: Pod, since_s: float) -> Mapping[str, Any] | None:
            ago_s = max(1, int(t_s - since_s)) + CLOCKS_DIFFER_S
            return read_answer(
                self._connect(), pod, decision.id, since_s=ago_s, container=container
            )

        within_s, reads = self._save_within_s, read if may_read else None
        return plan_save(pods, decision, t_s, within_s=within_s, read=reads)

    def _pods_to_evict(self, node: NodeId, t_s: float) -> tuple[Pod, ...]:
        return self._lookup().pods_on(node, t_s, policies=self._bound)

    def _job_plan(self, job: BatchJob, decision: Decision, t_s: float) -> KubePlan:
        match decision.action:
            case Preempt():
                return self._plans.preempt(job, decision, t_s)
            case Reprioritise() as action:
                classes = self._lookup().priority_classes() if job.queue else {}
                return self._plans.reprioritise(job, decision, action, t_s, classes=classes)
            case Resize() as action:
                return self._plans.resize(job, decision, action, t_s)
            case _:
                return self._plans.start(job, decision, t_s)

    def _pod_plan(self, id_: JobId, decision: Decision, t_s: float) -> KubePlan:
        pod = self._lookup().pod(id_, t_s)
        match decision.action:
            case Preempt():
                if pod is None:
                    return done(f"{id_} is gone: evicted, or ended by itself")
                within_s = self._lookup().call_back_s(pod, t_s) if self._pooled else None
                return pod_plans.preempt(pod, unsaved=self._unsaved, within_s=within_s)
            case Start() | Resume() if pod is not None:
                within_s = self._plans.start_within_s
                return pod_plans.start(pod, decision, t_s, within_s=within_s)
            case action if pod is not None:
                return failed(f"Kubernetes cannot {action.type} a single pod ({pod.name})")
            case _:
                raise PermanentError(f"Kubernetes has no pod {id_}", hint="it has ended")

    def _refused(self, plan: KubePlan, t_s: float) -> KubePlan | None:
        """Return a refusal where the rights do not cover what is planned."""
        if not plan.changes:
            return None
        rights = self._probed(t_s)
        lacks = [each.call.label for each in plan.changes if not rights.may(each.call)]
        return failed(f"{rights.user} may not {lacks[0]}: nothing was changed") if lacks else None

    def _probed(self, t_s: float) -> KubeRights:
        if self._rights is None or not 0 <= t_s - self._rights_s < RIGHTS_S:
            rights = probe_rights(self._connect(), namespace=self._namespace)
            self._rights, self._rights_s = rights, t_s
        return self._rights

    def _settled(self, decision: Decision, plan: KubePlan, t_s: float) -> KubePlan:
        """Keep a change of a job open for a while; a stop is over at once: others wait for it."""
        action = decision.action
        if plan.result == "failed" and self._done_s.pop(decision.id, None) is not None:
            return replace(plan, result="done", changes=())  # it was done, and the job is over
        if plan.result == "done" and isinstance(action, _OnJob) and not isinstance(action, Preempt):
            first_s = self._done_s.setdefault(decision.id, t_s)
            if t_s - first_s < self._settle_s:
                return replace(plan, result="begun")
        self._done_s.pop(decision.id, None)
        return plan

    # -- the server ------------------------------------------------------------------------------

    def _connect(self) -> Api:
        if self._api is None:
            access = find_credentials(self._kubeconfig, context=self._context)
            if access is None:
                raise PermanentError("no cluster is configured", hint=_HINT)
            self._api = Api(access, timeout_s=self._timeout_s)
        return self._api

    def _lookup(self) -> ObjectLookup:
        if self._objects is None:
            self._objects = ObjectLookup(self._connect(), namespace=self._namespace)
        return self._objects

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise what the desk knows: to be tried again, or given up."""
        try:
            yield
        except (PermanentError, TemporaryError):
            raise
        except ForbiddenError as fault:
            self._rights = None  # they were withdrawn: ask again before the next change
            raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault
        except (MissingError, RejectedError) as fault:
            raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault
        except StewardError as fault:
            raise TemporaryError(fault.problem, where=fault.where, hint=fault.hint) from fault


def _everything(_: KubeRole) -> bool:
    return True
