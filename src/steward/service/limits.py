"""Limits per client: requests per minute, and bytes in a request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from starlette.types import Message, Receive, Scope

__all__ = ["BodyLimit", "BodyTooLargeError", "BodyTooSlowError", "RateLimit", "StreamLimit"]

BODY_WITHIN_S = 30.0
STREAM_WITHIN_S = 300.0


class RateLimit:
    """A bucket per client that refills steadily. Remembers `most` clients, newest first."""

    def __init__(
        self, per_minute: int, *, most: int = 4096, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._most = most
        self._now_s = now_s
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, client: Hashable) -> float:
        """Take one request from a client's bucket; return 0, or the seconds to wait."""
        with self._lock:
            now_s = self._now_s()
            left, then_s = self._buckets.pop(client, (self._size, now_s))
            left = min(self._size, left + (now_s - then_s) * self._per_s)
            granted = left >= 1
            self._buckets[client] = (left - 1 if granted else left, now_s)
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - left) / self._per_s


class BodyTooLargeError(Exception):
    """The client sent, or announced, more than is taken."""


class BodyTooSlowError(Exception):
    """The client did not finish its request in time."""


class BodyLimit:
    """Reads a whole body before it is processed, so that its size is known."""

    def __init__(self, most_bytes: int, *, within_s: float = BODY_WITHIN_S) -> None:
        self.most_bytes = most_bytes
        self._within_s = within_s

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that plays the body back. Raises if it is too large or too slow."""
        if _announced(scope) > self.most_bytes:
            raise BodyTooLargeError
        try:
            async with asyncio.timeout(self._within_s):
                body = await self._collect(receive)
        except TimeoutError:
            raise BodyTooSlowError from None
        return _played_back(body, receive)

    async def _collect(self, receive: Receive) -> Message:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self.most_bytes:
                raise BodyTooLargeError
            if not message.get("more_body", False):
                return {"type": "http.request", "body": body, "more_body": False}


class StreamLimit:
    """Streams a large body, and stops one that grows too large or too slow."""

    def __init__(self, most_bytes: int, *, within_s: float = STREAM_WITHIN_S) -> None:
        self.most_bytes = most_bytes
        self._within_s = within_s

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that counts, and raises where a `BodyLimit` would."""
        if _announced(scope) > self.most_bytes:
            raise BodyTooLargeError
        until_s = asyncio.get_running_loop().time() + self._within_s
        left, whole = self.most_bytes, False

        async def counted() -> Message:
            nonlocal left, whole
            if whole:
                return await receive()  # waits for the client to hang up, however long that is
            try:
                async with asyncio.timeout_at(until_s):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlowError from None
            left -= len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if left < 0:
                raise BodyTooLargeError
            return message

        return counted


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value[:18]) if value.isdigit() else 0  # more digits are too large as well
    return 0


def _played_back(first: Message, receive: Receive) -> Receive:
    pending = [first]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
