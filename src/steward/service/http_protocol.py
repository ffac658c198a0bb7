"""Limits of a connection that hold before there is a request: how many, how long, how large.

A connection that has not sent its headers yet is pending. Pending connections are few and short:
the oldest of the address that holds most of them is closed when there are too many, so that slow
clients crowd out only themselves. All connections together leave descriptors for the
journal and telemetry.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from steward.service.failures import RefusedError, error_response
from steward.service.local_users import peer_of

__all__ = ["ConnectionLimits", "LimitedProtocol", "connections_within", "protocol_with"]

HEADER_LIMIT_BYTES = 32 * 1024
HEADERS_WITHIN_S = 10.0
MOST_PENDING = 256
RESERVED_DESCRIPTORS = 256  # for the journal, telemetry, log files and collectors


def connections_within(wanted: int) -> int:
    """Return how many connections may be open, after raising the limit of open files if allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_DESCRIPTORS
    if soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
    return max(8, min(wanted, soft - RESERVED_DESCRIPTORS))


@dataclass(slots=True, kw_only=True, eq=False)
class ConnectionLimits:
    """What all connections of one server share."""

    most: int = 1024
    most_pending: int = MOST_PENDING
    header_bytes: int = HEADER_LIMIT_BYTES
    headers_within_s: float = HEADERS_WITHIN_S
    pending: dict[LimitedProtocol, str] = field(default_factory=dict)  # oldest first, by address

    def add(self, connection: LimitedProtocol, address: str) -> None:
        """Count a pending connection; close the oldest of the greediest address if too many."""
        self.pending[connection] = address
        if len(self.pending) > self.most_pending:
            greediest, _ = Counter(self.pending.values()).most_common(1)[0]
            oldest = next(each for each, at in self.pending.items() if at == greediest)
            oldest.abort()

    def remove(self, connection: LimitedProtocol) -> None:
        """Stop counting a connection as pending."""
        self.pending.pop(connection, None)


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with limits. On a Unix socket, requests carry the peer's credentials in their state."""

    limits = ConnectionLimits()
    _header_bytes = 0
    _in_headers = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is not None:
            self.app_state = {**self.app_state, "peer": peer}
        if len(self.connections) > self.limits.most:
            self._refuse(503, "too many connections are open")
            return
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close without an answer: a client this slow would not read one."""
        self._headers_came()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._in_headers and (self.cycle is None or self.cycle.response_complete):
            self._await_headers()  # of the next request on this connection
        super().data_received(data)
        if self._in_headers and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(431, "the headers are too large")

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes <= self.limits.header_bytes:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        too_large = self._header_bytes > self.limits.header_bytes
        self._headers_came()
        if too_large:
            self.app = _headers_too_large
        super().on_headers_complete()

    def _await_headers(self) -> None:
        self._in_headers, self._header_bytes = True, 0
        self.limits.add(self, self.client[0] if self.client else "")
        self._timer = self.loop.call_later(self.limits.headers_within_s, self._too_slow)

    def _headers_came(self) -> None:
        self._in_headers, self._header_bytes = False, 0
        self.limits.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._refuse(408, "the headers did not arrive in time")

    def _refuse(self, status: int, problem: str) -> None:
        self._headers_came()
        if self.transport.is_closing():
            return
        body = error_response(RefusedError(status, problem, where="connection")).body
        head = (
            f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + bytes(body))
        self.transport.close()


def protocol_with(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol of one server, whose connections share these limits."""
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits})


async def _headers_too_large(scope: Scope, receive: Receive, send: Send) -> None:
    refusal = RefusedError(
        431,
        f"the headers have more than {HEADER_LIMIT_BYTES} bytes",
        where="headers",
        headers={"Connection": "close"},
    )
    await error_response(refusal)(scope, receive, send)
