"""Instances that are pods of a Kubernetes Deployment, scaled through its `scale` subresource.

A start raises the number of replicas to what the decision names and waits for a ready pod that the
gateway does not have. A stop gives its pod the lowest deletion cost, so that this one goes, and
lowers the number by one. Each write is of the version that was read: two that write at once cannot
overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from steward.act.serving.fleet import FleetState, Order
from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.faults import ForbiddenError, MissingError, RejectedError
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.event import Availability

__all__ = ["Deployment"]

COST = "controller.kubernetes.io/pod-deletion-cost"
STOPPED_AT = f"{DOMAIN}/replicas-at-stop"  # written before the number is lowered, once


class Deployment:
    """One Deployment.

    `connect` reaches the cluster if one is configured; `known_urls` returns what the gateway has:
    other ready pods are new.
    """

    name = "kubernetes"

    def __init__(
        self,
        deployment: str,
        *,
        connect: Callable[[], Api | None],
        known_urls: Callable[[], frozenset[str]],
        namespace: str = "default",
        port: int = 8000,
    ) -> None:
        self._deployment = deployment
        self._namespace = namespace
        self._port = port
        self._connected = connect
        self._known_urls = known_urls
        self._api: Api | None = None

    def available(self) -> Availability:
        """Say whether the Deployment can be read; nothing is changed to find out."""
        try:
            replicas = _replicas(self._connect().get(self._scale))
        except StewardError as fault:
            return Availability(status="missing", reason=str(fault), hint=fault.hint)
        where = f"{self._namespace}/{self._deployment}"
        return Availability(status="ok", reason=f"scales {where}, {replicas} replicas now")

    def start(self, order: Order, t_s: float) -> FleetState:  # noqa: ARG002 - a fleet's form
        """Raise the number of replicas to what is wanted, and look for a new pod that is ready."""
        with _translated():
            scale = self._connect().get(self._scale)
            if _replicas(scale) < order.count:
                self._set(scale, order.count)
            known = self._known_urls()
            ready = [pod for pod in self._pods() if _is_ready(pod) and not _leaves(pod)]
        for pod in sorted(ready, key=_name):
            url = self._url(pod)
            if url not in known:
                return FleetState(state="ready", text=f"pod {_name(pod)} is ready", url=url)
        text = f"{self._deployment} has {order.count} replicas, {len(ready)} of them ready"
        return FleetState(state="coming", text=text)

    def stop(self, order: Order, t_s: float) -> FleetState:  # noqa: ARG002 - a fleet's form
        """Let one pod be the next that goes, and lower the number of replicas by one."""
        with _translated():
            found = [pod for pod in self._pods() if self._url(pod) == order.url]
            if not found or not order.url:
                return FleetState(state="gone", text=f"{order.instance} has no pod any more")
            pod = found[0]
            if _leaves(pod):
                return FleetState(state="leaving", text=f"pod {_name(pod)} is ending")
            scale = self._connect().get(self._scale)
            before = _annotations(pod).get(STOPPED_AT, "")
            if not before:
                before = str(_replicas(scale))
                self._mark(pod, before)
            if _replicas(scale) >= int(before) > 0:
                self._set(scale, int(before) - 1)
        return FleetState(state="leaving", text=f"pod {_name(pod)} is the next to go")

    # -- the server ------------------------------------------------------------------------------

    @property
    def _scale(self) -> str:
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{self._deployment}"
        return f"{path}/scale"

    def _set(self, scale: dict[str, Any], replicas: int) -> None:
        """Write a number of replicas, if nobody has written one since it was read."""
        version = scale["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        self._connect().patch(self._scale, body)

    def _mark(self, pod: dict[str, Any], before: str) -> None:
        body = {"metadata": {"annotations": {COST: "-1000", STOPPED_AT: before}}}
        path = f"/api/v1/namespaces/{self._namespace}/pods/{_name(pod)}"
        self._connect().patch(path, body)

    def _pods(self) -> list[dict[str, Any]]:
        selector = self._connect().get(self._scale).get("status", {}).get("selector", "")
        if not selector:
            problem = f"{self._deployment} names no pods"
            raise PermanentError(problem, where="kubernetes", hint="give it a label selector")
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        return self._connect().list(path, labels=str(selector))[0]

    def _url(self, pod: dict[str, Any]) -> str:
        address = pod.get("status", {}).get("podIP", "")
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{self._port}" if address else ""

    def _connect(self) -> Api:
        if self._api is None:
            self._api = self._connected()
        if self._api is None:
            hint = "set `instances.NAME.kubeconfig`, or run steward in the cluster"
            raise PermanentError("no cluster is configured", where="kubernetes", hint=hint)
        return self._api


@contextmanager
def _translated() -> Iterator[None]:
    """Raise what the desk knows: to be tried again, or given up."""
    try:
        yield
    except (PermanentError, TemporaryError):
        raise
    except (ForbiddenError, MissingError, RejectedError) as fault:
        raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault
    except StewardError as fault:
        raise TemporaryError(fault.problem, where=fault.where, hint=fault.hint) from fault


def _replicas(scale: dict[str, Any]) -> int:
    return int(scale.get("spec", {}).get("replicas") or 0)


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _annotations(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


def _leaves(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
