"""HTTP client of the steward on this machine, through its Unix socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from steward.errors import StewardError

__all__ = ["LocalService"]

TIMEOUT_S = 30.0


class LocalService:
    """A running steward. It authenticates by peer credentials, so no token is needed."""

    def __init__(self, path: Path) -> None:
        self._socket = path

    def post(self, *path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Post to `/api/v1/PATH` and return the answer; None where no steward listens."""
        if not self._listens():
            return None
        url = "http://localhost/api/v1/" + "/".join(quote(each, safe="") for each in path)
        transport = httpx.HTTPTransport(uds=str(self._socket))
        try:
            with httpx.Client(transport=transport, timeout=TIMEOUT_S, trust_env=False) as client:
                reply = client.post(url, json=body)
                answer = reply.json()
        except (httpx.HTTPError, ValueError) as fault:
            problem = f"no answer: {fault or type(fault).__name__}"
            raise StewardError(problem, where=str(self._socket)) from fault
        if reply.is_success and isinstance(answer, dict):
            return answer
        error = answer.get("error", {}) if isinstance(answer, dict) else {}
        raise StewardError(
            str(error.get("problem") or f"it answers {reply.status_code}"),
            where=str(error.get("where") or self._socket),
            hint=str(error.get("hint") or ""),
        )

    def _listens(self) -> bool:
        """Return False for a socket that a killed steward left behind, or that is not for us."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
        except OSError:
            return False
        return True
