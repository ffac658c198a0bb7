"""Requests to the API server: lists in pages, and watches that stream changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steward.clients.kubernetes.credentials import Credentials
from steward.errors import StewardError

if TYPE_CHECKING:
    import httpx

__all__ = ["OPEN", "Api", "GoneError", "KubernetesError"]

OPEN = "OPEN"  # the watch is accepted: all is well, even if nothing ever changes
PAGE = 500
WATCH_S = 240
MOST_LINE_BYTES = 2**25  # etcd keeps objects below 2 MB
_HINTS = {
    401: "the token is not accepted (any more): look at the kubeconfig or the service account",
    403: "it may not list or watch these: see deploy/kubernetes for the role it needs",
}


class KubernetesError(StewardError):
    """The API server did not answer, or refused."""


class GoneError(KubernetesError):
    """The server no longer has that version: everything has to be listed again."""


class Api:
    """One API server. A connection is made with the first request."""

    def __init__(self, access: Credentials, *, timeout_s: float = 10.0) -> None:
        self.access = access
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()  # several threads watch through one client

    def version(self) -> str:
        """Return what the server calls itself, e.g. `v1.29.3`."""
        return str(self._page("/version", {}).get("gitVersion", "of unknown version"))

    def list(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Return all objects and the version of the world that they are of."""
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            query = {"limit": str(PAGE), **({"continue": token} if token else {})}
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
            raise _unreachable(fault, self.access.server) from fault

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _page(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - 7 MB that most agents need not load

        try:
            answer = self._open().get(path, params=query, headers=self._headers())
        except httpx.HTTPError as fault:
            raise _unreachable(fault, self.access.server) from fault
        if answer.status_code != 200:
            raise self._refused(answer, path)
        try:
            page = answer.json()
        except ValueError as fault:
            raise KubernetesError(f"{path}: the answer is not JSON", where="kubernetes") from fault
        if not isinstance(page, dict):
            raise KubernetesError(f"{path}: the answer is not an object", where="kubernetes")
        return page

    def _refused(self, answer: httpx.Response, path: str) -> KubernetesError:
        """Return the error of an answer; a credential that was refused is made anew next time."""
        if answer.status_code == 401 and self.access.plugin is not None:
            self.access.plugin.forget()
            self.close()  # the certificate belongs to the connection
        return _refused(answer.status_code, _status(answer), path)

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
        raise _refused(int(found.get("code") or 500), str(found.get("message") or ""), path)
    return kind, found


def _status(answer: httpx.Response) -> str:
    try:
        status = answer.json()
        return str(status.get("message") or "") if isinstance(status, dict) else ""
    except ValueError:
        return answer.text[:200]


def _refused(code: int, message: str, path: str) -> KubernetesError:
    kind = GoneError if code == 410 else KubernetesError
    problem = f"{path}: {code} {message}".rstrip()
    return kind(problem, where="kubernetes", hint=_HINTS.get(code, ""))


def _unreachable(fault: httpx.HTTPError, server: str) -> KubernetesError:
    problem = f"{server} does not answer: {fault or type(fault).__name__}"
    hint = "is the API server up, and reachable from here?"
    return KubernetesError(problem, where="kubernetes", hint=hint)
