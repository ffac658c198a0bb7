"""Reads a gateway's status, and adds, changes and removes its upstreams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from steward.clients.transport_rule import check_transport
from steward.clients.web import trusted
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.serving.snapshot import ClassProgress, ModelServer, ServingSnapshot

if TYPE_CHECKING:
    import httpx

__all__ = ["GatewayClient", "snapshot_of"]

STATUS = "/steward/v1/status"
UPSTREAMS = "/steward/v1/upstreams"
_HINT = "is it running there? start it with `steward serve gateway`"
_TRUST_HINT = (
    "it runs; name the certificate of its authority in `serving.ca_file` (`--ca-file`), and it by "
    "a name that its certificate has"
)


class GatewayClient:
    """One gateway. `key` is an API key that may change instances; reading needs one if any does."""

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        timeout_s: float = 5.0,
        plain_http: bool = False,
        ca: str = "",
    ) -> None:
        check_transport(url, plain_http=plain_http)
        self.url = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._trusted = trusted(ca)
        self._client: httpx.Client | None = None

    def status(self) -> dict[str, Any]:
        """Return the status as the gateway sends it."""
        return self._asked("GET", STATUS)

    def snapshot(self, seen_s: float) -> ServingSnapshot:
        """Return the status as the domain's value."""
        return snapshot_of(self.status(), seen_s=seen_s, where=self.url)

    def register(self, name: str, **values: object) -> None:
        """Add an upstream, or replace the one of this name: its URL, models and limits."""
        self._asked("PUT", _path(name), values)

    def drain(self, name: str) -> bool:
        """Let an instance get nothing new; return False if the gateway has none of this name."""
        return self._changed("PATCH", name, {"draining": True})

    def configure(self, name: str, **values: object) -> bool:
        """Set `limit` or `role`; return False if the gateway has no instance of this name."""
        return self._changed("PATCH", name, values)

    def remove(self, name: str) -> bool:
        """Forget an instance; return False if the gateway has none of this name."""
        return self._changed("DELETE", name, None)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _changed(self, method: str, name: str, body: Mapping[str, object] | None) -> bool:
        try:
            self._asked(method, _path(name), body)
        except _MissingError:
            return False
        return True

    def _asked(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - only sites with a gateway load it

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            if self._client is None:
                self._client = httpx.Client(
                    timeout=self._timeout_s, trust_env=False, verify=self._trusted
                )
            answer = self._client.request(method, self.url + path, headers=headers, json=body)
        except httpx.HTTPError as fault:
            problem = f"the gateway does not answer: {fault or type(fault).__name__}"
            hint = _TRUST_HINT if "CERTIFICATE_VERIFY_FAILED" in problem else _HINT
            raise TemporaryError(problem, where=self.url, hint=hint) from fault
        if answer.status_code >= 400:
            raise _refused(answer, self.url + path)
        try:
            page = answer.json() if answer.content else {}
        except ValueError as fault:
            raise TemporaryError("its answer is not JSON", where=self.url + path) from fault
        return page if isinstance(page, dict) else {}


def _path(name: str) -> str:
    return f"{UPSTREAMS}/{quote(name, safe='')}"


class _MissingError(PermanentError):
    """The gateway has no such instance."""


def _refused(answer: httpx.Response, where: str) -> StewardError:
    problem = f"the gateway answered {answer.status_code}: {_message(answer)}"
    if answer.status_code == 404:
        return _MissingError(problem, where=where, hint="is it a gateway of steward?")
    if answer.status_code in (401, 403):
        hint = "name a file with an API key that may change instances: `serving.key_file`"
        return PermanentError(problem, where=where, hint=hint)
    if answer.status_code == 429 or answer.status_code >= 500:
        return TemporaryError(problem, where=where)
    return PermanentError(problem, where=where)


def _message(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def snapshot_of(raw: Mapping[str, Any], *, seen_s: float, where: str = "") -> ServingSnapshot:
    """Read a status; fields that are missing have the values of a gateway without requests."""
    try:
        return ServingSnapshot(
            t_s=float(raw.get("t_s") or seen_s),
            seen_s=seen_s,
            policy=str(raw.get("policy") or ""),
            servers=tuple(_server(each) for each in raw.get("instances") or ()),
            classes=tuple(_progress(each) for each in raw.get("classes") or ()),
        )
    except (TypeError, ValueError, KeyError, AttributeError) as fault:
        problem = f"its status makes no sense: {type(fault).__name__}: {fault}"
        raise StewardError(problem, where=where, hint="is it a gateway of steward?") from fault


def _server(raw: Mapping[str, Any]) -> ModelServer:
    draining = bool(raw.get("draining"))
    return ModelServer(
        name=str(raw["name"]),
        model=str(raw.get("model") or ""),
        type=str(raw.get("type") or ""),
        url=str(raw.get("url") or ""),
        state="draining" if draining else str(raw.get("state") or "serving"),
        role=str(raw.get("role") or "any"),
        running=int(raw.get("running") or 0),
        waiting=int(raw.get("waiting") or 0),
        limit=int(raw.get("limit") or 0),
        tokens_per_s=float(raw.get("tokens_per_s") or 0.0),
    )


def _progress(raw: Mapping[str, Any]) -> ClassProgress:
    expected, deadline = raw.get("expected_wait_s"), raw.get("deadline_s")
    counts = ("queued", "in_flight", "done", "met", "missed")
    return ClassProgress(
        name=str(raw["name"]),
        **{name: int(raw.get(name) or 0) for name in counts},
        oldest_wait_s=float(raw.get("oldest_wait_s") or 0.0),
        expected_wait_s=None if expected is None else float(expected),
        deadline_s=None if deadline is None else float(deadline),
    )
