"""Changes of upstreams while the gateway runs: for scaling actuators and for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steward.config.gateway_settings import InstanceRole, UpstreamSettings
from steward.errors import StewardError
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.openai_errors import GatewayError
from steward.service.gateway.upstream import ROLES, Upstream

__all__ = ["Administration"]

M = TypeVar("M", bound=BaseModel)


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    limit: int | None = Field(None, ge=1)
    role: InstanceRole | None = None
    draining: bool | None = None


class Administration:
    """`PUT` adds an upstream, `PATCH` changes limit, role or draining, `DELETE` removes it.

    What is changed here is not in the configuration file. A reload keeps it for upstreams that the
    file does not name, and for others as long as their table in the file stays as it is.
    """

    def __init__(
        self,
        queue: CallQueue,
        *,
        make: Callable[[str, UpstreamSettings], Upstream],
        changed: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._make = make
        self._changed = changed
        self.added: set[str] = set()

    def carry_out(self, method: str, name: str, body: bytes) -> dict[str, Any]:
        """Do what a request asks for; return the upstream as it is then."""
        if not name or "/" in name or len(name) > 256 or not name.isprintable():
            problem = "name one upstream: up to 256 characters, without / and control characters"
            raise GatewayError(404, problem, code="unknown_upstream")
        if method == "PUT":
            return self._add(name, body)
        upstream = self._queue.instances.upstreams.get(name)
        if upstream is None:
            known = ", ".join(self._queue.instances.upstreams) or "none"
            problem = f"there is no upstream '{name}'; known: {known}"
            raise GatewayError(404, problem, code="unknown_upstream")
        if method == "PATCH":
            return self._change(upstream, body)
        if method == "DELETE":
            return self._remove(upstream)
        raise GatewayError(
            405,
            f"upstreams take PUT, PATCH and DELETE, not {method[:16]}",
            code="method_not_allowed",
            headers={"Allow": "PUT, PATCH, DELETE"},
        )

    def _add(self, name: str, body: bytes) -> dict[str, Any]:
        settings = _validated(UpstreamSettings, body)
        upstreams = dict(self._queue.instances.upstreams)
        try:
            upstreams[name] = self._make(name, settings)
        except StewardError as fault:
            raise GatewayError(400, str(fault), code="invalid_upstream") from None
        self._queue.instances.replace(upstreams.values())
        self.added.add(name)
        self._queue.tallies.event("upstream added", instance=name, why=settings.url)
        self._changed()
        return _shown(upstreams[name])

    def _change(self, upstream: Upstream, body: bytes) -> dict[str, Any]:
        change = _validated(_Change, body)
        if change.limit is not None:
            upstream.limit = change.limit
        if change.role is not None:
            upstream.role = ROLES[change.role]
        if change.draining is not None:
            upstream.draining = change.draining
        what = ", ".join(f"{k} = {v}" for k, v in change.model_dump(exclude_none=True).items())
        self._queue.tallies.event("upstream changed", instance=upstream.name, why=what)
        self._queue.schedule()
        return _shown(upstream)

    def _remove(self, upstream: Upstream) -> dict[str, Any]:
        rest = [e for e in self._queue.instances.upstreams.values() if e is not upstream]
        self._queue.instances.replace(rest)
        self.added.discard(upstream.name)
        self._queue.tallies.event("upstream removed", instance=upstream.name)
        self._changed()
        return _shown(upstream)


def _validated(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as fault:
        faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fault.errors()]
        raise GatewayError(400, "; ".join(faults), code="invalid_upstream") from None


def _shown(upstream: Upstream) -> dict[str, Any]:
    return {
        "name": upstream.name,
        "url": upstream.settings.url,
        "models": upstream.models,
        "limit": upstream.limit,
        "in_flight": upstream.in_flight,
        "draining": upstream.draining,
    }
