"""A Lease: of several operators, one works.

Whether a lease has run out is judged by how long it was seen unchanged by our own clock, never by
the times that are written in it: clocks of machines differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from steward.clients.kubernetes.api import Api
from steward.clients.kubernetes.faults import ConflictError, MissingError
from steward.clients.kubernetes.objects import map_in

__all__ = ["Lease"]


class Lease:
    """One Lease. `identity` should be the pod's name: who restarts in it goes on at once."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.holder = ""  # as last seen
        self._api = api
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._duration_s = duration_s
        self._clock = clock
        self._seen = ("", 0.0)  # version, and since when it is unchanged

    def held(self) -> bool:
        """Take the lease or renew it; return whether it is ours now."""
        try:
            return self._renewed()
        except ConflictError:
            return False  # another was faster: look again in a moment

    def release(self) -> None:
        """Let another begin at once."""
        if self.held():
            spec = {"holderIdentity": "", "renewTime": _now()}
            self._api.patch(f"{self._folder}/{self._name}", {"spec": spec})

    def _renewed(self) -> bool:
        try:
            raw = self._api.get(f"{self._folder}/{self._name}")
        except MissingError:
            self._api.create(self._folder, self._body({"name": self._name}, 0))
            self.holder = self.identity
            return True
        meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
        version = str(meta.get("resourceVersion") or "")
        self.holder = str(spec.get("holderIdentity") or "")
        if self.holder not in ("", self.identity) and not self._ran_out(version):
            return False
        changes = int(spec.get("leaseTransitions") or 0) + (self.holder != self.identity)
        body = self._body({"resourceVersion": version}, changes)
        self._api.patch(f"{self._folder}/{self._name}", body)
        self.holder = self.identity
        return True

    def _ran_out(self, version: str) -> bool:
        seen, since_s = self._seen
        if seen != version:
            self._seen = (version, self._clock())
            return False
        return self._clock() - since_s > self._duration_s

    def _body(self, meta: dict[str, Any], changes: int) -> dict[str, Any]:
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._duration_s)),
            "renewTime": _now(),
            "leaseTransitions": changes,
        }
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": spec,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
