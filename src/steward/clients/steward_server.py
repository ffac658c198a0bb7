"""HTTP client of an agent for its steward server: one request per parcel.

`transport_rule` decides whether plain HTTP will do. The environment's proxies are not used; where
an agent sends is written in its configuration.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from steward.clients.transport_rule import check_transport
from steward.errors import StewardError, TemporaryError

__all__ = ["ServerReply", "StewardServer", "read_token"]

PARCELS = "/api/v1/agents/parcels"
TIME = "/api/v1/agents/time"
TIMEOUT_S = 20.0
_KIND = "application/vnd.steward.parcel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReply:
    """The server's reply, with the times by both clocks."""

    status: int
    problem: str = ""
    where: str = ""
    retry_after_s: float | None = None
    server: str = ""  # another one after each start of the server
    sent_s: float = 0.0  # by our clock
    back_s: float = 0.0
    received_s: float | None = None  # by the server's
    answered_s: float | None = None


class StewardServer:
    """One server. Keeps its connection; `send` may be called from one thread at a time."""

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        plain_http: bool = False,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.url = _checked(url)
        check_transport(url, plain_http=plain_http)
        self._token_file = token_file
        self._token = read_token(token_file) if token_file else ""
        self._now_s = now_s
        self._client = httpx.Client(
            base_url=self.url, verify=_trust(ca_file), timeout=TIMEOUT_S, trust_env=False
        )

    def send(self, body: bytes) -> ServerReply:
        """Send a parcel. Raise `TemporaryError` if the server does not answer."""
        return self._request("POST", PARCELS, body)

    def time(self) -> ServerReply:
        """Request the server's time. Raise `TemporaryError` if the server does not answer."""
        return self._request("GET", TIME)

    def _request(self, method: str, path: str, body: bytes | None = None) -> ServerReply:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = _KIND
        sent_s = self._now_s()
        try:
            reply = self._client.request(method, path, headers=headers, content=body)
        except httpx.HTTPError as fault:
            problem = f"no answer: {fault or type(fault).__name__}"
            raise TemporaryError(problem, where=self.url) from fault
        back_s = self._now_s()
        if reply.status_code == httpx.codes.UNAUTHORIZED and self._token_file is not None:
            with suppress(StewardError):  # the file may have a new one by now
                self._token = read_token(self._token_file)
        return _answer(reply, sent_s=sent_s, back_s=back_s)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def read_token(file: Path) -> str:
    """Return the token in a file that holds nothing else."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = getattr(fault, "strerror", None) or "it is not text"
        raise StewardError(
            f"the token cannot be read: {why.lower()}",
            where=str(file),
            hint="`steward token new NAME --role agent` on the server prints one",
        ) from fault
    if not token or not token.isprintable() or " " in token:
        raise StewardError(
            "the file has to hold one token and nothing else",
            where=str(file),
            hint="`steward token new NAME --role agent` on the server prints one",
        )
    return token


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise StewardError(
            f"'{url}' is no address of a server",
            where="server",
            hint="write https://HOST:PORT, and the token into a file",
        )
    return url.rstrip("/")


def _trust(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as fault:
        raise StewardError(
            f"these certificates cannot be used: {fault.strerror or fault}".lower(),
            where=str(ca_file),
            hint="name a file in PEM form that holds the certificate of the server's authority",
        ) from fault


def _answer(reply: httpx.Response, *, sent_s: float, back_s: float) -> ServerReply:
    fields: dict[str, object] = {}
    with suppress(ValueError):
        parsed = reply.json()
        fields = parsed if isinstance(parsed, dict) else {}
    error = fields.get("error")
    wrong = error if isinstance(error, dict) else {}
    problem = str(wrong.get("problem", ""))
    return ServerReply(
        status=reply.status_code,
        problem=problem[:500] or ("" if reply.is_success else reply.reason_phrase),
        where=str(wrong.get("where", "")),
        retry_after_s=_number(reply.headers.get("retry-after")),
        server=str(fields.get("server", "")),
        sent_s=sent_s,
        back_s=back_s,
        received_s=_number(fields.get("received_s")),
        answered_s=_number(fields.get("answered_s")),
    )


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if abs(number) < 1e12 else None
