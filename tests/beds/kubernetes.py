"""An API server double that speaks Kubernetes' wire protocol: list, watch, get, create, patch.

What it keeps and enforces is in `kube_store`; here is who may, 401, 403 and 410. `forget` compacts
the log, so that old versions are gone; `cut` breaks every watch off in the middle. (`kmock` 0.8
from PyPI has no resource versions, no 409 or 410, no bookmarks, no subresources and no rights.)
"""

from __future__ import annotations

import json
import socket
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from beds.kube_store import KINDS, ApiError, Key, KubeStore
from steward.clients.kubernetes import Api, Credentials


class KubeDouble(KubeStore):
    """A server: who is let in, what is refused, and what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted = "right"
        self.forbidden: set[str] = set()
        self.missing: set[str] = set()  # kinds without a definition
        self.rights: set[Key] | None = None  # None: everything is allowed
        self.calls: set[Key] = set()
        self.cuts = 0
        self.rubbish = 0  # how many watches get nonsense
        self.down = 0  # how many requests are answered with 503
        self.installed = True  # our own resources
        self.logs: dict[str, str] = {}  # by pod
        self.logs_before: dict[str, str] = {}  # by pod: of the container before its restart
        self.lost = 0  # how many creations happen, and are not answered
        self.asked: list[str] = []
        self.clients: list[Api] = []
        self.address = ""
        self.before_patch: Callable[[], object] | None = None  # called once: another is quicker

    def access(self, bearer: str = "right") -> Credentials:
        return Credentials(server=self.address, token=bearer)

    def api(self) -> Api:
        """Return a client, which is closed when the double ends."""
        self.clients.append(Api(self.access()))
        return self.clients[-1]

    def refuse(self) -> None:
        """Accept nobody any more, as when a token has run out."""
        self.accepted = "another"

    def accept(self) -> None:
        self.accepted = "right"

    def cut(self) -> None:
        with self.lock:
            self.cuts += 1
            self.lock.notify_all()

    def may(self, key: Key) -> bool:
        return self.rights is None or key in self.rights


class _Target(NamedTuple):
    """What a request is about."""

    group: str
    namespace: str
    plural: str
    name: str
    below: str

    @classmethod
    def read(cls, path: str) -> _Target:
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = rest[1] if rest[:1] == ["namespaces"] and len(rest) > 2 else ""
        rest = rest[2:] if namespace else rest
        plural, name, below = [*rest, "", "", ""][:3]
        return cls(group, namespace, plural, name, below)

    def key(self, verb: str) -> Key:
        return verb, f"{self.plural}/{self.below}" if self.below else self.plural, self.group


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement
    double: KubeDouble

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        verb = "watch" if "watch" in query else "list"
        self.double.asked.append(f"{url.path}?{verb}")
        target = _Target.read(url.path)
        if url.path == "/version":
            self._guarded(lambda: self._json({"gitVersion": "v1.29.3"}))
        elif url.path == "/apis/steward.dev/v1alpha1":
            self._guarded(self._discover)
        elif target.below == "log":
            self._guarded(lambda: self._log(target, query), target, "get")
        elif verb == "watch":
            after = int(query["resourceVersion"])
            self._guarded(lambda: self._watch(target, after), target, "watch")
        elif target.name:
            self._guarded(lambda: self._json(self._named(target)), target, "get")
        else:
            self._guarded(lambda: self._list(target, query), target, "list")

    def do_POST(self) -> None:
        target, manager, body = self._sent()
        self.double.asked.append(f"{self.path.partition('?')[0]}?create")
        if target.plural == "selfsubjectaccessreviews":
            self._guarded(lambda: self._json(self._review(body), 201))
        elif target.below == "eviction":
            self._guarded(lambda: self._evict(target, body), target, "create")
        else:
            self._guarded(lambda: self._create(target, body, manager), target, "create")

    def do_DELETE(self) -> None:
        target, _, body = self._sent()
        self.double.asked.append(f"{self.path.partition('?')[0]}?delete")
        self._guarded(lambda: self._delete(target, body), target, "delete")

    def do_PATCH(self) -> None:
        target, manager, body = self._sent()
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        before, self.double.before_patch = self.double.before_patch, None
        if before is not None:
            before()
        self.double.asked.append(f"{self.path.partition('?')[0]}?patch")
        self._guarded(
            lambda: self._json(
                self.double.patch(
                    target.plural,
                    target.namespace,
                    target.name,
                    body,
                    manager=manager,
                    below=target.below,
                )
            ),
            target,
            "patch",
        )

    def _sent(self) -> tuple[_Target, str, dict[str, Any]]:
        url = urlsplit(self.path)
        manager = parse_qs(url.query).get("fieldManager", ["unknown"])[0]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return _Target.read(url.path), manager, body

    def _guarded(
        self, answer: Callable[[], object], target: _Target | None = None, verb: str = ""
    ) -> None:
        """Let in who is known and may; answer a fault as the server does."""
        double = self.double
        try:
            if double.down > 0:
                double.down -= 1
                raise ApiError(503, "the server is currently unable to handle the request")
            if self.headers.get("Authorization") != f"Bearer {double.accepted}":
                raise ApiError(401, "Unauthorized")
            if target is not None:
                double.calls.add(target.key(verb))
                if target.plural in double.forbidden or not double.may(target.key(verb)):
                    raise ApiError(403, f"{target.plural} is forbidden: cannot {verb}")
                ours = target.group == "steward.dev" and not double.installed
                if target.plural not in {*KINDS} - double.missing or ours:
                    raise ApiError(404, "the server could not find the requested resource")
            answer()
        except ApiError as fault:
            self._status(fault.code, str(fault), retry_after=fault.retry_after)

    def _named(self, target: _Target) -> dict[str, Any]:
        found = self.double.named(target.plural, target.name, target.namespace)
        return _scale_of(found) if target.below == "scale" else found

    def _discover(self) -> None:
        if not self.double.installed:
            raise ApiError(404, "the server could not find the requested resource")
        self._json({"kind": "APIResourceList", "resources": [{"name": "trainingjobs"}]})

    def _log(self, target: _Target, query: dict[str, str]) -> None:
        pod = self._named(target)
        if pod["status"]["phase"] == "Pending":
            raise ApiError(400, "container is waiting to start: ContainerCreating")
        names = [each["name"] for each in pod["spec"]["containers"]]
        if query.get("container", "" if names[1:] else names[0]) not in names:
            raise ApiError(400, f"a container name must be specified, choose one of: {names}")
        logs = self.double.logs
        if query.get("previous") == "true":
            logs = self.double.logs_before
            if target.name not in logs:
                raise ApiError(400, "previous terminated container not found")
        text = logs.get(target.name, "")
        if "tailLines" in query:
            text = "".join(text.splitlines(keepends=True)[-int(query["tailLines"]) :])
        most = int(query["limitBytes"]) if "limitBytes" in query else None
        self._bytes(text.encode()[:most], 200, "text/plain")

    def _create(self, target: _Target, body: dict[str, Any], manager: str) -> None:
        double = self.double
        known = {each["metadata"]["name"] for each in double.all("namespaces")}
        if known and target.namespace and target.namespace not in known:
            raise ApiError(404, f'namespaces "{target.namespace}" not found')
        made = double.create(target.plural, target.namespace, body, manager)
        if double.lost > 0:
            double.lost -= 1
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._json(made, 201)

    def _delete(self, target: _Target, body: dict[str, Any]) -> None:
        self.double.remove(target.plural, target.namespace, target.name, body)
        self._json(self._named(target))

    def _evict(self, target: _Target, body: dict[str, Any]) -> None:
        self.double.evict(target.namespace, target.name, body)
        self._json({"kind": "Status", "status": "Success"}, 201)

    def _review(self, body: dict[str, Any]) -> dict[str, Any]:
        about = body["spec"]["resourceAttributes"]
        below = f"/{about['subresource']}" if about.get("subresource") else ""
        key = about["verb"], f"{about['resource']}{below}", about["group"]
        return {**body, "status": {"allowed": self.double.may(key)}}

    def _list(self, target: _Target, query: dict[str, str]) -> None:
        field, _, value = query.get("fieldSelector", "").partition("=")
        with self.double.lock:
            items = [each for each in self.double.all(target.plural) if _inside(target, each)]
            version = self.double.version
        if field == "spec.nodeName":
            items = [each for each in items if each["spec"].get("nodeName") == value]
        if field == "involvedObject.name":
            items = [each for each in items if each["involvedObject"]["name"] == value]
        label, given, value = query.get("labelSelector", "").partition("=")
        if label:
            items = [
                each
                for each in items
                if label in (labels := each["metadata"].get("labels") or {})
                and (not given or labels[label] == value)
            ]
        begin, size = int(query.get("continue", "0")), int(query["limit"])
        meta = {"resourceVersion": str(version)}
        if begin + size < len(items):
            meta["continue"] = str(begin + size)
        self._json({"kind": "List", "metadata": meta, "items": items[begin : begin + size]})

    def _watch(self, target: _Target, after: int) -> None:  # noqa: C901 - as a server's loop is
        double, plural = self.double, target.plural
        with double.lock:
            cuts, gone = double.cuts, after < double.oldest
            nonsense = double.rubbish > 0
            double.rubbish -= nonsense
        if gone:
            raise ApiError(410, "too old resource version")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if nonsense:
            self._chunk(b"<html>what?</html>\n")
        while True:
            with double.lock:
                begin = bisect_right(double.log, after, key=itemgetter(0))
                fresh = [entry for entry in double.log[begin:] if entry[1] == plural]
                if not fresh and double.cuts == cuts and double.oldest <= after:
                    double.lock.wait(timeout=30)
                    continue
                cut, expired = double.cuts != cuts, double.oldest > after
            if cut:
                self._chunk(b'{"type": "MODIFIED", "object": {"meta')  # in mid-sentence
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if expired:
                status = {"kind": "Status", "code": 410, "message": "too old"}
                self._chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                self._chunk(b"")
                return
            for version, _, verb, raw in fresh:
                after = version
                if verb != "BOOKMARK" and not _inside(target, raw):
                    continue
                self._chunk(json.dumps({"type": verb, "object": raw}).encode() + b"\n")

    def _chunk(self, body: bytes) -> None:
        # Half a change may come at a time.
        for part in (body[: len(body) // 2], body[len(body) // 2 :]) if body else (b"",):
            if part or not body:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()

    def _json(self, body: dict[str, Any], code: int = 200, *, retry_after: str = "") -> None:
        self._bytes(json.dumps(body).encode(), code, "application/json", retry_after=retry_after)

    def _bytes(self, text: bytes, code: int, kind: str, *, retry_after: str = "") -> None:
        self.send_response(code)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _status(self, code: int, message: str, *, retry_after: str = "") -> None:
        body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
        self._json(body, code, retry_after=retry_after)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _scale_of(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the scale subresource of an object, which has its version."""
    labels = raw["spec"].get("selector", {}).get("matchLabels", {})
    return {
        "kind": "Scale",
        "metadata": raw["metadata"],
        "spec": {"replicas": raw["spec"].get("replicas", 1)},
        "status": {"selector": ",".join(f"{key}={value}" for key, value in labels.items())},
    }


def _inside(target: _Target, raw: dict[str, Any]) -> bool:
    return target.namespace in ("", raw["metadata"].get("namespace", ""))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients hang up; that is no news."""


@contextmanager
def kube_double() -> Iterator[KubeDouble]:
    """Run a double until the block ends."""
    double = KubeDouble()
    handler = type("Handler", (_Handler,), {"double": double})
    server = _Server(("127.0.0.1", 0), handler)
    double.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        for each in double.clients:
            each.close()
        double.cut()
        server.shutdown()
        thread.join()
        server.server_close()


def pod(uid: str, *, gpus: int = 1, phase: str = "Running", **changes: Any) -> dict[str, Any]:
    """Return a pod as an API server tells it."""
    spec = {
        "nodeName": "" if phase == "Pending" else "n1",
        "priority": 5,
        "containers": [
            {
                "name": "main",
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "64Gi"},
                    "limits": {"memory": "80Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
                },
            }
        ],
    }
    status = {"phase": phase, "startTime": "2026-01-01T00:01:00Z"}
    return {
        "metadata": {
            "uid": uid,
            "name": f"train-{uid}",
            "namespace": "bio",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "PyTorchJob", "name": "train", "uid": "o1"}],
        },
        "spec": {**spec, **changes.get("spec", {})},
        "status": {**status, **changes.get("status", {})},
    }


def node(
    name: str, *, gpus: int = 8, ready: str = "True", cordoned: bool = False
) -> dict[str, Any]:
    """Return a node as an API server tells it."""
    return {
        "metadata": {
            "uid": f"uid-{name}",
            "name": name,
            "labels": {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.memory": "81559"},
        },
        "spec": {"unschedulable": cordoned},
        "status": {
            "capacity": {"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet says so"}],
        },
    }
