"""Requests to the API server: lists in pages, watches that stream changes, and single writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from steward.clients.kubernetes.credentials import Credentials
from steward.clients.kubernetes.faults import (
    GoneError,
    KubernetesError,
    refused_answer,
    unreachable,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["MANAGER", "OPEN", "Api", "GoneError", "KubernetesError"]

MANAGER = "steward"  # under this name the server notes which fields we have set

OPEN = "OPEN"  # the watch is accepted: all is well, even if nothing ever changes
PAGE = 500
WATCH_S = 240
MOST_LINE_BYTES = 2**25  # etcd keeps objects below 2 MB


class Api:
    """One API server. A connection is made with the first request."""

    def __init__(
        self, access: Credentials, *, timeout_s: float = 10.0, manager: str = MANAGER
    ) -> None:
        self.access = access
        self._manager = manager
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()  # several threads watch through one client

    def version(self) -> str:
        """Return what the server calls itself, e.g. `v1.29.3`."""
        return str(self._page("/version", {}).get("gitVersion", "of unknown version"))

    def list(
        self, path: str, *, fields: str = "", labels: str = ""
    ) -> tuple[list[dict[str, Any]], str]:
        """Return all objects and the version of the world that they are of.

        `fields`: only those whose fields have these values, e.g. `spec.nodeName=n1`; `labels`: only
        those with these labels.
        """
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            query = {"limit": str(PAGE), **({"continue": token} if token else {})}
            query |= {"fieldSelector": fields} if fields else {}
            query |= {"labelSelector": labels} if labels else {}
            page = self._page(path, query)
            found = page.get("items")
            items += [each for each in found or () if isinstance(each, dict)]
            meta = page.get("metadata") if isinstance(page.get("metadata"), dict) else {}
            token = str((meta or {}).get("continue") or "")
            if not token:
                return items, str((meta or {}).get("resourceVersion") or "")

    def watch(self, path: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what changes after `version` until the server ends it; first that it is `OPEN`."""
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        patience = httpx.Timeout(self._timeout_s, read=WATCH_S + 30.0)
        try:
            with self._open().stream(
                "GET", path, params=query, headers=self._headers(), timeout=patience
            ) as answer:
                if answer.status_code != 200:
                    answer.read()
                    raise self._refused(answer, path)
                yield OPEN, {}
                for line in _lines(answer):
                    yield _change(line, path)
        except httpx.HTTPError as fault:
            raise unreachable(fault, self.access.server) from fault

    def get(self, path: str) -> dict[str, Any]:
        """Return one object."""
        return self._answer("GET", path)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object, or call what is made by creating one (a review, an eviction)."""
        return self._answer("POST", path, {"fieldManager": self._manager}, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `body` into an object.

        With `metadata.resourceVersion` in it, only if the object is still of that version.
        """
        return self._answer("PATCH", path, {"fieldManager": self._manager}, body)

    def delete(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete an object; `body` are the options, such as what becomes of what it owns."""
        return self._answer("DELETE", path, {}, body)

    def text(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return an answer that is no JSON: the log of a container."""
        return self._sent("GET", path, query, None).content

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _page(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        return self._answer("GET", path, query)

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        answer = self._sent(method, path, query, body)
        try:
            page = answer.json()
        except ValueError as fault:
            raise KubernetesError(f"{path}: the answer is not JSON", where="kubernetes") from fault
        if not isinstance(page, dict):
            raise KubernetesError(f"{path}: the answer is not an object", where="kubernetes")
        return page

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> httpx.Response:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        headers = self._headers()
        if body is not None:
            kind = "merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"] = f"application/{kind}"
        text = None if body is None else json.dumps(body).encode()
        try:
            answer = self._open().request(method, path, params=query, headers=headers, content=text)
        except httpx.HTTPError as fault:
            raise unreachable(fault, self.access.server) from fault
        if answer.status_code not in (200, 201, 202):
            raise self._refused(answer, path)
        return answer

    def _refused(self, answer: httpx.Response, path: str) -> KubernetesError:
        """Return the error of an answer; a credential that was refused is made anew next time."""
        if answer.status_code == 401 and self.access.plugin is not None:
            self.access.plugin.forget()
            self.close()  # the certificate belongs to the connection
        return refused_answer(
            answer.status_code,
            _status(answer),
            path,
            retry_after=answer.headers.get("Retry-After", ""),
        )

    def _open(self) -> httpx.Client:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        with self._lock:
            if self._client is None:
                # Proxies of the environment are for the outside; an API server is inside.
                self._client = httpx.Client(
                    base_url=self.access.server,
                    verify=self.access.tls(),
                    timeout=self._timeout_s,
                    trust_env=False,
                )
            return self._client

    def _headers(self) -> dict[str, str]:
        token = self.access.bearer()
        return {
            "Accept": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """Cut a stream into lines; one that never ends must not fill the memory."""
    rest = b""
    for chunk in answer.iter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(rest) > MOST_LINE_BYTES:
            raise KubernetesError("a change is longer than any object can be", where="kubernetes")


def _change(line: bytes, path: str) -> tuple[str, dict[str, Any]]:
    try:
        change = json.loads(line)
        kind, found = str(change["type"]), change["object"]
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise KubernetesError(f"{path}: a change makes no sense", where="kubernetes") from fault
    if not isinstance(found, dict):
        raise KubernetesError(f"{path}: a change is about nothing", where="kubernetes")
    if kind == "ERROR":
        raise refused_answer(int(found.get("code") or 500), str(found.get("message") or ""), path)
    return kind, found


def _status(answer: httpx.Response) -> str:
    try:
        status = answer.json()
        return str(status.get("message") or "") if isinstance(status, dict) else ""
    except ValueError:
        return answer.text[:200]
