"""HTTP client of the steward on this machine, through its Unix socket.

By the standard library: a command that sends one request would spend most of its time on importing
a larger client.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from steward.errors import StewardError, TemporaryError

__all__ = ["LocalService"]

TIMEOUT_S = 30.0
BUSY = (429, 503)  # too many requests of this account; starting or stopping


class LocalService:
    """A running steward. It authenticates by peer credentials, so no token is needed."""

    def __init__(self, path: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self._socket = path
        self._timeout_s = timeout_s

    def post(self, *path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Post to `/api/v1/PATH` and return the answer; None where no steward listens."""
        answer = self._send("POST", path, body=body)
        return answer if isinstance(answer, dict) else None

    def delete(self, *path: str) -> dict[str, Any] | None:
        """Delete `/api/v1/PATH` and return the answer; None where no steward listens."""
        answer = self._send("DELETE", path)
        return answer if isinstance(answer, dict) else None

    def get(self, *path: str, query: Mapping[str, str | int | bool] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer of `/api/v1/PATH`; None where no steward listens."""
        return self._send("GET", path, query=query)

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: dict[str, Any] | None = None,
        query: Mapping[str, str | int | bool] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        if not self._listens():
            return None
        url = "/api/v1/" + "/".join(quote(each, safe="") for each in path) + _written(query)
        sent = None if body is None else json.dumps(body)
        connection = _UnixConnection(self._socket, timeout_s=self._timeout_s)
        try:
            connection.request(method, url, sent, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        except (OSError, HTTPException, ValueError) as fault:
            problem = f"no answer: {str(fault) or type(fault).__name__}"
            raise TemporaryError(problem, where=str(self._socket)) from fault
        finally:
            connection.close()
        if 200 <= reply.status < 300 and isinstance(answer, dict | list):
            return answer
        error = answer.get("error", {}) if isinstance(answer, dict) else {}
        kind = TemporaryError if reply.status in BUSY else StewardError
        raise kind(
            str(error.get("problem") or f"it answers {reply.status}"),
            where=str(error.get("where") or self._socket),
            hint=str(error.get("hint") or ""),
        )

    def _listens(self) -> bool:
        """Return False for a socket that a killed steward left behind, or that is not for us."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(self._timeout_s)
                probe.connect(str(self._socket))
        except OSError:
            return False
        return True


class _UnixConnection(HTTPConnection):
    """HTTP to a socket of this machine."""

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the path; the name of the host is for the request alone."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _written(query: Mapping[str, str | int | bool] | None) -> str:
    """Return a query as it stands in a URL.

    >>> _written({"limit": 5, "ended": True}), _written(None)
    ('?limit=5&ended=true', '')
    """
    texts = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (query or {}).items()
    }
    return f"?{urlencode(texts)}" if texts else ""
