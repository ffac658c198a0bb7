"""An API server double that speaks Kubernetes' wire protocol: list in pages, watch, 410, 401, 403.

It keeps objects with resource versions and a log of changes like the real one. `forget` compacts
the log, so that old versions are gone; `cut` breaks every watch off in the middle.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from steward.clients.kubernetes import Credentials

PATHS = {"pods": "Pod", "nodes": "Node", "events": "Event"}


class KubeDouble:
    """The state of a cluster."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.version = 100
        self.oldest = 100  # changes before this version are forgotten
        self.objects: dict[str, dict[str, dict[str, Any]]] = {plural: {} for plural in PATHS}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.accepted = "right"
        self.forbidden: set[str] = set()
        self.cuts = 0
        self.rubbish = 0  # how many watches get nonsense
        self.asked: list[str] = []
        self.address = ""

    def access(self, bearer: str = "right") -> Credentials:
        return Credentials(server=self.address, token=bearer)

    def refuse(self) -> None:
        """Accept nobody any more, as when a token has run out."""
        self.accepted = "another"

    def accept(self) -> None:
        self.accepted = "right"

    def put(self, plural: str, raw: dict[str, Any]) -> None:
        """Add an object, or change it."""
        with self.lock:
            self.version += 1
            uid = raw["metadata"]["uid"]
            known = uid in self.objects[plural]
            meta = {**raw["metadata"], "resourceVersion": str(self.version)}
            raw = {"kind": PATHS[plural], **raw, "metadata": meta}
            self.objects[plural][uid] = raw
            self.log.append((self.version, plural, "MODIFIED" if known else "ADDED", raw))
            self.lock.notify_all()

    def delete(self, plural: str, uid: str) -> None:
        with self.lock:
            self.version += 1
            raw = self.objects[plural].pop(uid)
            self.log.append((self.version, plural, "DELETED", raw))
            self.lock.notify_all()

    def bookmark(self, plural: str) -> None:
        with self.lock:
            self.version += 1
            raw = {"kind": PATHS[plural], "metadata": {"resourceVersion": str(self.version)}}
            self.log.append((self.version, plural, "BOOKMARK", raw))
            self.lock.notify_all()

    def forget(self) -> None:
        """Compact: nobody can watch from an old version any more."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.log.clear()

    def cut(self) -> None:
        with self.lock:
            self.cuts += 1
            self.lock.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: KubeDouble

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.double.asked.append(f"{url.path}?{'watch' if 'watch' in query else 'list'}")
        plural = url.path.rpartition("/")[2]
        if self.headers.get("Authorization") != f"Bearer {self.double.accepted}":
            self._status(401, "Unauthorized")
        elif plural in self.double.forbidden:
            self._status(403, f"{plural} is forbidden")
        elif plural == "version":
            self._json({"gitVersion": "v1.29.3"})
        elif plural not in PATHS:
            self._status(404, "the server could not find the requested resource")
        elif "watch" in query:
            self._watch(plural, int(query["resourceVersion"]))
        else:
            self._list(plural, query)

    def _list(self, plural: str, query: dict[str, str]) -> None:
        with self.double.lock:
            items = list(self.double.objects[plural].values())
            version = self.double.version
        begin, size = int(query.get("continue", "0")), int(query["limit"])
        meta = {"resourceVersion": str(version)}
        if begin + size < len(items):
            meta["continue"] = str(begin + size)
        self._json({"kind": "List", "metadata": meta, "items": items[begin : begin + size]})

    def _watch(self, plural: str, after: int) -> None:
        double = self.double
        with double.lock:
            cuts, gone = double.cuts, after < double.oldest
            nonsense = double.rubbish > 0
            double.rubbish -= nonsense
        if gone:
            self._status(410, "too old resource version")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if nonsense:
            self._chunk(b"<html>what?</html>\n")
        while True:
            with double.lock:
                fresh = [entry for entry in double.log if entry[0] > after and entry[1] == plural]
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
                self._chunk(json.dumps({"type": verb, "object": raw}).encode() + b"\n")

    def _chunk(self, body: bytes) -> None:
        # Half a change may come at a time.
        for part in (body[: len(body) // 2], body[len(body) // 2 :]) if body else (b"",):
            if part or not body:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()

    def _json(self, body: dict[str, Any], code: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _status(self, code: int, message: str) -> None:
        self._json({"kind": "Status", "status": "Failure", "code": code, "message": message}, code)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


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
