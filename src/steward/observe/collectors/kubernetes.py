"""Reads Kubernetes: pods that request GPUs as jobs, nodes, and warnings."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steward.clients.kubernetes import (
    Api,
    KubeNode,
    ObjectChange,
    Pod,
    Reflector,
    WarningEvent,
    find_credentials,
)
from steward.clients.kubernetes.objects import node_from, pod_from, warned_from
from steward.errors import StewardError
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Availability, Event, Observation
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.observe.job_book import JobBook, JobSighting, JobUpdates

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
    warnings: Reflector[WarningEvent]

    @property
    def all(self) -> tuple[Reflector[Pod], Reflector[KubeNode], Reflector[WarningEvent]]:
        return self.pods, self.nodes, self.warnings


class Kubernetes:
    """Pods that request GPUs, the nodes that they run on, and warnings about both.

    A pod is a job, `pod:UID`, as in its control group; its namespace is the
    tenant. `kubeconfig` and `context` select the cluster; empty means $KUBECONFIG, the pod that
    steward runs in, or ~/.kube/config. `namespace`: only that one. `all_pods`: those without
    GPUs as well. `gpu_models`: what the driver calls a GPU that the node's label names otherwise.
    After `stale_after_s` without an answer everything from it is unknown.
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
        gpu_models: dict[str, str] | None = None,
        stale_after_s: float = 300.0,
        api: Api | None = None,
    ) -> None:
        self.all_pods = all_pods
        self.stale_after_s = stale_after_s
        self._kubeconfig = kubeconfig
        self._context = context
        self._namespace = namespace
        self._models = gpu_models or {}
        self._api = api
        self._watched: _Watched | None = None
        self._book = JobBook(self.name)
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, KubeNode] = {}
        self._warned: dict[str, int] = {}
        self._tenants: frozenset[str] = frozenset()
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
        if not all(each.synced for each in (watched.pods, watched.nodes)):
            self._raise_problem(watched)
            return Observation()  # the first lists are on their way
        seen = self._fold(watched, t_s)
        return self._silence(watched, seen, t_s)

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
        inside = f"/api/v1/namespaces/{self._namespace}" if self._namespace else "/api/v1"
        self._watched = _Watched(
            pods=Reflector(api, f"{inside}/pods", make=pod_from),
            nodes=Reflector(api, "/api/v1/nodes", make=node_from),
            warnings=Reflector(api, f"{inside}/events", make=warned_from),
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
        news, more = self._fold_pods(pods, t_s)
        events += more
        events += self._fold_warnings(watched.warnings.changes(), t_s)
        first, self._first = self._first, False
        return Observation(
            events=(*events, *news.events),
            jobs=news.jobs,
            spans=news.spans,
            cluster=self._changed_cluster() if nodes or first else None,
            tenants=self._changed_tenants(),
            health=health,
        )

    def _fold_pods(
        self, changes: Sequence[ObjectChange[Pod]], t_s: float
    ) -> tuple[JobUpdates, list[Event]]:
        sightings: list[JobSighting] = []
        gone: list[JobId] = []
        events: list[Event] = []
        for change in changes:
            before, pod = self._pods.get(change.uid), change.now
            if pod is not None and (self.all_pods or pod.gpus or pod.slices):
                events += [] if self._first else self._pod_events(before, pod, t_s)
                sightings.append(self._sighting(pod, t_s))
                self._pods[change.uid] = pod
            if change.gone and change.uid in self._pods:
                gone.append(JobId(f"pod:{change.uid}"))
                del self._pods[change.uid]
        news = self._book.fold(t_s, sightings, silent=self._first)
        open_ = set(self._book.going_on())
        deleted = self._book.end(
            t_s, [id_ for id_ in gone if id_ in open_], state=JobState.CANCELLED, why="deleted"
        )
        self._book.forget({JobId(f"pod:{uid}") for uid in self._pods})
        return _together(news, deleted), events

    def _sighting(self, pod: Pod, t_s: float) -> JobSighting:
        state = _PHASES.get(pod.phase, JobState.QUEUED)
        gpus = self._gpus(pod)
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
                gpus=gpus if state is JobState.RUNNING else (),
                nodes=(NodeId(pod.node),) if pod.node and state is JobState.RUNNING else (),
                start_s=None if state is JobState.QUEUED else pod.start_s,
                end_s=(pod.end_s or t_s) if state.ended else None,
            ),
            places=(f"{pod.node}@pod:{pod.uid}", *gpus) if pod.node else (),
            why=_why(pod),
            about=_about(pod),
        )

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
        subject = f"job:pod:{pod.uid}"
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

    def _changed_tenants(self) -> tuple[Tenant, ...] | None:
        tenants = self._tenants | {pod.namespace for pod in self._pods.values()}
        if tenants == self._tenants:
            return None
        self._tenants = tenants
        return tuple(Tenant(id=TenantId(name)) for name in sorted(tenants))

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
