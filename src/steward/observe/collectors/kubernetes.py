"""Reads Kubernetes: Jobs and pods that request GPUs, nodes, and warnings."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from steward.clients.kubernetes import (
    Api,
    KubeNode,
    ObjectChange,
    Pod,
    Reflector,
    WarningEvent,
    find_credentials,
)
from steward.clients.kubernetes.annotations import HOLD, save_time_s
from steward.clients.kubernetes.batch_job import BatchJob, batch_job_from
from steward.clients.kubernetes.custom_resources import (
    OPTIMIZATION_POLICIES,
    RESOURCE_POOLS,
    TENANT_SHARES,
)
from steward.clients.kubernetes.faults import ForbiddenError, KubernetesError, MissingError
from steward.clients.kubernetes.objects import node_from, pod_from, warned_from
from steward.clients.kubernetes.optimization_policy import (
    OptimizationPolicy,
    acknowledge,
    ceilings_of,
    optimization_policy_from,
)
from steward.clients.kubernetes.pool_usage import pool_usages
from steward.clients.kubernetes.resource_pool import ResourcePool, resource_pool_from
from steward.clients.kubernetes.tenant_share import TenantShare, tenant_share_from
from steward.errors import StewardError
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Availability, Event, Observation
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState, Tenant
from steward.model.site import TenantCeiling
from steward.observe.batch_jobs import BatchJobs, batch_id
from steward.observe.job_book import JobBook, JobSighting, JobUpdates
from steward.observe.pool_holds import WaitingJob, pool_holds
from steward.observe.tenant_shares import tenants_of

__all__ = ["Kubernetes"]

_PHASES = {
    "Running": JobState.RUNNING,
    "Succeeded": JobState.COMPLETED,
    "Failed": JobState.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """What is followed, each by a thread of its own."""

    pods: Reflector[Pod]
    nodes: Reflector[KubeNode]
    jobs: Reflector[BatchJob]
    warnings: Reflector[WarningEvent]
    shares: Reflector[TenantShare] | None = None
    pools: Reflector[ResourcePool] | None = None
    policies: Reflector[OptimizationPolicy] | None = None

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        optional = (self.shares, self.pools, self.policies)
        more = [each for each in optional if each is not None]
        return self.pods, self.nodes, self.jobs, self.warnings, *more

    @property
    def ready(self) -> bool:
        """Whether all that matters was listed. Where Jobs are not for us to see, pods have to do.

        Before pools and policies are known, nothing may be decided that could break them.
        A right that is given later changes nothing before the next start: pods stay jobs.
        """
        jobs = self.jobs.synced or isinstance(self.jobs.problem, ForbiddenError | MissingError)
        pools = self.pools is None or (
            self.pools.synced and bool(self.shares and self.shares.synced)
        )
        policies = self.policies is None or self.policies.synced
        return self.pods.synced and self.nodes.synced and jobs and pools and policies


class Kubernetes:
    """Pods that request GPUs, the nodes that they run on, and warnings about both.

    A Job of the group `batch` is a job, `batch:UID`, with all its pods; any other pod is one by
    itself, `pod:UID`, as in its control group. The namespace is the tenant. `kubeconfig` and
    `context` select the cluster; empty means $KUBECONFIG, the pod that steward runs in, or
    ~/.kube/config. `namespace`: only that one. `all_pods`: those without GPUs as well.
    `tenant_shares`: weights and guarantees are those of TenantShares. `resource_pools`: the
    same, and jobs that would borrow what a ResourcePool does not lend are held.
    `optimization_policies`: what may be done with the jobs of a namespace is bounded by its
    OptimizationPolicies. `gpu_models`: what the driver calls a GPU that the node's label names
    otherwise. After `stale_after_s` without an answer everything from it is unknown.
    """

    name = "kubernetes"
    vocabulary = "canonical"

    def __init__(  # noqa: PLR0913 - what a site can set
        self,
        *,
        kubeconfig: str = "",
        context: str = "",
        namespace: str = "",
        all_pods: bool = False,
        tenant_shares: bool = False,
        resource_pools: bool = False,
        optimization_policies: bool = False,
        gpu_models: dict[str, str] | None = None,
        stale_after_s: float = 300.0,
        api: Api | None = None,
    ) -> None:
        self.all_pods = all_pods
        self.stale_after_s = stale_after_s
        self._tenant_shares = tenant_shares or resource_pools
        self._resource_pools = resource_pools
        self._has_policies = optimization_policies
        self._policies: dict[str, OptimizationPolicy] = {}
        self._off_hours: set[str] = set()  # policies in whose off-hours the last look was
        self._unsaid: set[str] = set()  # policies whose status does not say yet that they hold
        self._pools: dict[str, ResourcePool] = {}
        self._holds: dict[str, str] = {}  # why a pool lets a waiting job not start, by uid
        self._shares: dict[str, TenantShare] = {}
        self._kubeconfig = kubeconfig
        self._context = context
        self._namespace = namespace
        self._models = gpu_models or {}
        self._api = api
        self._watched: _Watched | None = None
        self._has_listed = False
        self._book = JobBook(self.name)
        self._batch = BatchJobs(all_jobs=all_pods)
        self._sees_jobs: bool | None = None
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, KubeNode] = {}
        self._warned: dict[str, int] = {}
        self._names: set[str] = set()  # of tenants: they stay when their last pod is gone
        self._tenants: tuple[Tenant, ...] = ()
        self._cluster: Cluster | None = None
        self._first = True
        self._stale = False

    def available(self) -> Availability:
        api = None
        try:
            api = self._api or self._found(timeout_s=2.0)
            if api is None:
                return Availability(status="missing", reason="no cluster is configured", hint=_HINT)
            reason = f"Kubernetes {api.version()} at {api.access.server}"
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint or _HINT)
        finally:
            if api is not None and api is not self._api:
                api.close()
        return Availability(status="ok", reason=reason)

    def collect(self, t_s: float) -> Observation:
        watched = self._watched or self._begin()
        if watched is None:
            return self._missing(t_s)
        if not watched.ready:
            self._raise_problem(watched)
            return Observation()  # the first lists are on their way
        seen = self._fold(watched, t_s)
        self._has_listed = True
        return self._silence(watched, seen, t_s)

    def has_listed(self) -> bool:
        return self._has_listed

    def close(self) -> None:
        """Stop watching."""
        for each in self._watched.all if self._watched else ():
            each.stop()
        if self._api is not None:
            self._api.close()
        self._watched = None

    # -- beginning -----------------------------------------------------------------------------

    def _found(self, *, timeout_s: float) -> Api | None:
        access = find_credentials(self._kubeconfig, context=self._context)
        return Api(access, timeout_s=timeout_s) if access else None

    def _begin(self) -> _Watched | None:
        self._api = api = self._api or self._found(timeout_s=10.0)
        if api is None:
            return None
        inside = f"/namespaces/{self._namespace}" if self._namespace else ""
        self._watched = _Watched(
            pods=Reflector(api, f"/api/v1{inside}/pods", make=pod_from),
            nodes=Reflector(api, "/api/v1/nodes", make=node_from),
            jobs=Reflector(api, f"/apis/batch/v1{inside}/jobs", make=batch_job_from),
            warnings=Reflector(api, f"/api/v1{inside}/events", make=warned_from),
            shares=Reflector(api, TENANT_SHARES, make=tenant_share_from)
            if self._tenant_shares
            else None,
            pools=Reflector(api, RESOURCE_POOLS, make=resource_pool_from)
            if self._resource_pools
            else None,
            policies=Reflector(
                api,
                OPTIMIZATION_POLICIES.replace("/optimization", f"{inside}/optimization"),
                make=optimization_policy_from,
            )
            if self._has_policies
            else None,
        )
        for each in self._watched.all:
            each.start()
        return self._watched

    def _missing(self, t_s: float) -> Observation:
        reported, self._stale = self._stale, True
        text = f"no cluster is configured; {_HINT}"
        event = self._event(t_s, "collector.missing", self.name, text)
        return Observation() if reported else Observation(events=(event,))

    # -- what is new ---------------------------------------------------------------------------

    def _fold(self, watched: _Watched, t_s: float) -> Observation:
        nodes, pods = watched.nodes.changes(), watched.pods.changes()
        events, health = self._fold_nodes(nodes, t_s)
        if self._sees_jobs is None:
            self._sees_jobs = watched.jobs.synced
        jobs = self._batch.fold(watched.jobs.changes()) if self._sees_jobs else []
        self._fold_shares(watched)
        news, more = self._fold_pods(pods, t_s, gone=jobs, pooled=watched.pools is not None)
        events += more
        events += self._fold_warnings(watched.warnings.changes(), t_s)
        ceilings = self._changed_ceilings(watched, t_s)
        first, self._first = self._first, False
        return Observation(
            events=(*events, *news.events),
            jobs=news.jobs,
            spans=news.spans,
            cluster=self._changed_cluster() if nodes or first else None,
            tenants=self._changed_tenants(),
            health=health,
            ceilings=ceilings,
        )

    def _changed_ceilings(
        self, watched: _Watched, t_s: float
    ) -> dict[TenantId, TenantCeiling] | None:
        """Return what namespaces allow where that has changed, or off-hours have begun or ended.

        The guard then has it. The status of a policy is written in the look after that.
        """
        self._acknowledge_policies(t_s)
        changes = watched.policies.changes() if watched.policies else ()
        for change in changes:
            if change.gone or change.now is None:
                self._policies.pop(change.uid, None)
                self._unsaid.discard(change.uid)
            else:
                self._policies[change.uid] = change.now
                self._unsaid.add(change.uid)
        before = self._off_hours
        self._off_hours = {uid for uid, each in self._policies.items() if each.is_off_hours(t_s)}
        turned = (before ^ self._off_hours) & self._policies.keys()
        self._unsaid |= turned
        return ceilings_of(self._policies.values(), t_s) if changes or turned else None

    def _acknowledge_policies(self, t_s: float) -> None:
        for uid in sorted(self._unsaid):
            self._unsaid.discard(uid)
            with suppress(KubernetesError):  # 409: the watch brings it again; it holds all the same
                if self._api is not None:
                    acknowledge(self._api, self._policies[uid], t_s)

    def _fold_pods(
        self,
        changes: Sequence[ObjectChange[Pod]],
        t_s: float,
        *,
        gone: list[JobId],
        pooled: bool = False,
    ) -> tuple[JobUpdates, list[Event]]:
        seen: dict[str, Pod] = {}
        events: list[Event] = []
        for change in changes:
            before, pod = self._pods.get(change.uid), change.now
            if pod is not None and (self.all_pods or pod.gpus or pod.slices):
                events += [] if self._first else self._pod_events(before, pod, t_s)
                seen |= {} if self._is_part(pod) else {pod.uid: pod}
                self._pods[change.uid] = pod
            last = self._pods.get(change.uid)
            if last is not None and self._is_part(last):
                self._batch.fold_pod(last, gone=change.gone)
            elif change.gone and last is not None:
                gone.append(JobId(f"pod:{change.uid}"))
            if change.gone:
                self._pods.pop(change.uid, None)
        seen |= self._changed_holds() if pooled else {}
        sightings = [self._sighting(pod, t_s) for pod in seen.values()]
        sightings += self._batch.sightings(t_s, self._gpus)
        news = self._book.fold(t_s, sightings, silent=self._first)
        open_ = set(self._book.going_on())
        deleted = self._book.end(
            t_s, [id_ for id_ in gone if id_ in open_], state=JobState.CANCELLED, why="deleted"
        )
        self._book.forget({JobId(f"pod:{uid}") for uid in self._pods} | self._batch.ids)
        return _together(news, deleted), events

    def _is_part(self, pod: Pod) -> bool:
        """Return whether a pod is one of a Job's, and no job by itself."""
        return bool(self._sees_jobs) and pod.owner_kind == "Job" and bool(pod.owner_uid)

    def _sighting(self, pod: Pod, t_s: float) -> JobSighting:
        state = _PHASES.get(pod.phase, JobState.QUEUED)
        gpus, save_s = self._gpus(pod), save_time_s(pod.annotations)
        return JobSighting(
            job=Job(
                id=JobId(f"pod:{pod.uid}"),
                tenant=TenantId(pod.namespace),
                shape=self._shape(pod),
                submit_s=pod.created_s,
                user=pod.namespace,
                name=pod.name,
                priority=pod.priority,
                state=state,
                checkpointing=Checkpointing(able=save_s is not None, save_s=save_s or 0.0),
                held=state is JobState.QUEUED
                and (bool({*pod.gates} - {HOLD}) or pod.uid in self._holds),
                gpus=gpus if state is JobState.RUNNING else (),
                nodes=(NodeId(pod.node),) if pod.node and state is JobState.RUNNING else (),
                start_s=None if state is JobState.QUEUED else pod.start_s,
                end_s=(pod.end_s or t_s) if state.ended else None,
            ),
            places=(f"{pod.node}@pod:{pod.uid}", *gpus) if pod.node else (),
            why=_why(pod) + (f"; {self._holds[pod.uid]}" if pod.uid in self._holds else ""),
            about=_about(pod),
        )

    def _changed_holds(self) -> dict[str, Pod]:
        """Ask the pools again which waiting jobs may not start; return pods where that changed."""
        usages = pool_usages(
            tuple(self._pools.values()),
            nodes=self._nodes.values(),
            pods=self._pods.values(),
            shares=self._shares.values(),
        )
        pods = {
            pod.uid: pod
            for pod in self._pods.values()
            if pod.phase == "Pending" and HOLD in pod.gates and not self._is_part(pod)
        }
        waiting = [*self._batch.waiting(), *(_waiting(pod) for pod in pods.values())]
        before, self._holds = self._holds, pool_holds(waiting, usages)
        self._batch.hold(self._holds)
        return {uid: pod for uid, pod in pods.items() if before.get(uid) != self._holds.get(uid)}

    def _shape(self, pod: Pod) -> JobShape:
        model = self._models.get(pod.gpu_product, pod.gpu_product)
        return JobShape(
            gpus=pod.gpus,
            cpus=int(pod.cpus + 0.999),
            memory_bytes=pod.memory_bytes,
            gpu_models=(model,) if model else (),
        )

    def _gpus(self, pod: Pod) -> tuple[GpuId, ...]:
        """Return the GPUs of a pod that has all of its node's; of others only the node is known."""
        node = next((each for each in self._nodes.values() if each.name == pod.node), None)
        if node is None or pod.gpus != node.gpus:
            return ()
        return tuple(GpuId(f"{pod.node}/gpu{index}") for index in range(pod.gpus))

    def _pod_events(self, before: Pod | None, pod: Pod, t_s: float) -> list[Event]:
        part = self._is_part(pod)
        subject = f"job:{batch_id(pod.owner_uid)}" if part else f"job:pod:{pod.uid}"
        found = []
        if before is not None and pod.restarts > before.restarts:
            found.append(self._event(t_s, "job.restarted", subject, _why(pod)))
        killed = pod.ended_reason == "OOMKilled"
        if killed and not (before and before.ended_reason == "OOMKilled"):
            text = f"{pod.name}: out of memory (limit {pod.memory_limit_bytes} bytes)"
            found.append(self._event(t_s, "job.out-of-memory", subject, text))
        waits = pod.reason == "Unschedulable"
        if waits and not (before and before.reason == "Unschedulable"):
            found.append(self._event(t_s, "job.unschedulable", subject, pod.message or pod.reason))
        return found

    def _fold_warnings(
        self, changes: Sequence[ObjectChange[WarningEvent]], t_s: float
    ) -> list[Event]:
        found = []
        for change in changes:
            each = change.now
            if change.gone or each is None:
                self._warned.pop(change.uid, None)
                continue
            if self._warned.get(each.uid, 0) < each.count and not self._first:
                kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", each.reason).lower()
                text = f"{each.kind} {each.name}: {each.message}"
                found.append(
                    self._event(each.t_s or t_s, f"kubernetes.{kind}", _subject(each), text)
                )
            self._warned[each.uid] = each.count
        return found

    # -- nodes ---------------------------------------------------------------------------------

    def _fold_nodes(
        self, changes: Sequence[ObjectChange[KubeNode]], t_s: float
    ) -> tuple[list[Event], dict[GpuId, Health]]:
        events: list[Event] = []
        health: dict[GpuId, Health] = {}
        for change in changes:
            before, node = self._nodes.get(change.uid), change.now
            if change.gone or node is None:
                self._nodes.pop(change.uid, None)
                if before is not None:
                    text = "it left the cluster"
                    events.append(self._event(t_s, "node.removed", before.name, text))
                continue
            self._nodes[change.uid] = node
            was, now = _condition(before), _condition(node)
            if was != now:
                kind = {"up": "node.resumed", "down": "node.down", "leaving": "node.drained"}[now]
                text = node.reason or ("cordoned" if node.cordoned else "ready")
                events.append(self._event(t_s, kind, node.name, text))
                state = {"up": Health.UNKNOWN, "down": Health.BAD, "leaving": Health.WORN}[now]
                health |= {GpuId(f"{node.name}/gpu{i}"): state for i in range(node.gpus)}
        return events, health

    def _changed_cluster(self) -> Cluster | None:
        nodes = sorted(self._nodes.values(), key=_name)
        cluster = Cluster(id="kubernetes", nodes=tuple(self._node(node) for node in nodes))
        if cluster == self._cluster:
            return None
        self._cluster = cluster
        return cluster

    def _node(self, node: KubeNode) -> Node:
        name = NodeId(node.name)
        product = self._models.get(node.gpu_product, node.gpu_product or "gpu")
        model = GpuModel(
            name=product,
            generation="unknown",
            memory_bytes=node.gpu_memory_bytes,
            idle_watts=0.0,
            max_watts=0.0,
        )
        gpus = tuple(
            Gpu(id=GpuId(f"{name}/gpu{index}"), node=name, index=index, model=model)
            for index in range(node.gpus)
        )
        return Node(id=name, gpus=gpus, cpus=node.cpus, memory_bytes=node.memory_bytes)

    def _fold_shares(self, watched: _Watched) -> None:
        for change in watched.shares.changes() if watched.shares else ():
            if change.gone or change.now is None:
                self._shares.pop(change.uid, None)
            else:
                self._shares[change.uid] = change.now
        for pool in watched.pools.changes() if watched.pools else ():
            if pool.gone or pool.now is None:
                self._pools.pop(pool.uid, None)
            else:
                self._pools[pool.uid] = pool.now

    def _changed_tenants(self) -> tuple[Tenant, ...] | None:
        self._names |= {pod.namespace for pod in self._pods.values()} | self._batch.namespaces
        tenants = tenants_of(self._names, self._shares.values())
        if tenants == self._tenants:
            return None
        self._tenants = tenants
        return tenants

    # -- silence -------------------------------------------------------------------------------

    def _silence(self, watched: _Watched, seen: Observation, t_s: float) -> Observation:
        """Report a server that does not answer: at once as a fault, later that all is unknown."""
        problem = next((each.problem for each in watched.all if each.problem), None)
        if problem is None:
            was_stale, self._stale = self._stale, False
            gap = self._event(t_s, "telemetry.gap", self.name, "the API server answers again")
            return replace(seen, events=(*seen.events, gap)) if was_stale else seen
        synced_s = min(
            (each.synced_s or 0.0 for each in (watched.pods, watched.nodes)), default=0.0
        )
        silent_s = time.monotonic() - synced_s
        if silent_s > self.stale_after_s and not self._stale:
            self._stale = True
            text = f"parts nothing for {silent_s:.0f} s: its jobs and nodes are unknown ({problem})"
            unknown = {
                gpu.id: Health.UNKNOWN for gpu in (self._cluster.gpus if self._cluster else ())
            }
            event = self._event(t_s, "jobs.unknown", self.name, text)
            return replace(seen, events=(*seen.events, event), health={**seen.health, **unknown})
        if not (seen.jobs or seen.events or seen.spans or seen.cluster):
            raise problem
        return seen  # what has come is reported first

    def _raise_problem(self, watched: _Watched) -> None:
        for each in watched.all:
            if each.problem is not None:
                raise each.problem

    def _event(self, t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source=self.name)


_HINT = "set KUBECONFIG or plugs.kubernetes.kubeconfig, or run steward in the cluster"


def _waiting(pod: Pod) -> WaitingJob:
    save_s = save_time_s(pod.annotations)
    return WaitingJob(
        uid=pod.uid,
        namespace=pod.namespace,
        created_s=pod.created_s,
        devices=pod.devices,
        selector=pod.node_selector,
        priority_class=pod.priority_class,
        save_s=save_s,
        end_s=save_s or 0.0,  # its eviction has the pool's grace period
    )


def _why(pod: Pod) -> str:
    parts = [pod.phase.lower()]
    parts += [f"exit code {pod.exit_code}"] if pod.exit_code else []
    parts += [pod.ended_reason] if pod.ended_reason not in ("", "Completed") else []
    parts += [f"{pod.reason}: {pod.message}".rstrip(": ")] if pod.reason else []
    return f"{pod.namespace}/{pod.name}: {', '.join(parts)}"


def _about(pod: Pod) -> dict[str, str]:
    parts = {
        "name": pod.name,
        "namespace": pod.namespace,
        "owner": f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
        "node": pod.node,
        "state": pod.phase.lower(),
        "slices": ",".join(pod.slices),
        "restarts": str(pod.restarts) if pod.restarts else "",
        "exit_code": str(pod.exit_code) if pod.exit_code else "",
        "reason": pod.ended_reason or pod.reason,
    }
    return {name: value for name, value in parts.items() if value}


def _subject(warned: WarningEvent) -> str:
    return f"job:pod:{warned.about_uid}" if warned.kind == "Pod" else warned.name


def _condition(node: KubeNode | None) -> str:
    if node is None:
        return "up"
    if node.ready is not True:
        return "down"
    return "leaving" if node.cordoned else "up"


def _together(a: JobUpdates, b: JobUpdates) -> JobUpdates:
    return JobUpdates(
        jobs=(*a.jobs, *b.jobs), spans=(*a.spans, *b.spans), events=(*a.events, *b.events)
    )


def _name(node: KubeNode) -> str:
    return node.name
