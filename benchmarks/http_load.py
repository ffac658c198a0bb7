"""Sends requests to an OpenAI-compatible server at a steady rate, or as many streams at once.

A process of its own, with little work per request: what is measured should be the server. Prints
JSON. Times count from when a request was due, not from when there was time to send it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import numpy as np
import uvloop


@dataclass(slots=True)
class _Exchange:
    """One request and what came of it."""

    due_s: float
    done: asyncio.Future[None]
    status: int = 0
    first_s: float = 0.0
    ended_s: float = 0.0
    bytes: int = 0
    chunks: int = 0


@dataclass(slots=True)
class Outcome:
    """All exchanges of a run."""

    exchanges: list[_Exchange] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class _Connection(asyncio.Protocol):
    """One kept-alive connection with one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.current: _Exchange | None = None
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_status(self, _text: bytes) -> None:
        if self.current is not None:
            self.current.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        now = self.current
        if now is not None:
            now.first_s = now.first_s or time.perf_counter()
            now.bytes += len(body)
            now.chunks += 1

    def on_message_complete(self) -> None:
        now, self.current = self.current, None
        self._parser = httptools.HttpResponseParser(self)
        if now is not None and not now.done.done():
            now.ended_s = time.perf_counter()
            now.done.set_result(None)

    def connection_lost(self, _fault: Exception | None) -> None:
        self.transport = None
        if self.current is not None and not self.current.done.done():
            self.current.done.set_exception(ConnectionError("closed"))


@dataclass(slots=True)
class _Target:
    """One server, with connections that are kept."""

    host: str
    port: int
    message: bytes
    idle: deque[_Connection] = field(default_factory=deque)

    @staticmethod
    def of(url: str, body: dict[str, Any]) -> _Target:
        """Return the server of a URL and what is sent there."""
        parts = urlsplit(url)
        text = json.dumps(body).encode()
        key = os.environ.get("LOAD_KEY", "x")
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Length: {len(text)}\r\n\r\n"
        )
        return _Target(parts.hostname or "", parts.port or 80, head.encode() + text)

    async def connection(self) -> _Connection:
        """Return a connection that nobody uses now."""
        while self.idle:
            found = self.idle.pop()
            if found.transport is not None:
                return found
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Connection, self.host, self.port)
        return made


class Load:
    """Requests of one kind, to the servers in turn."""

    def __init__(self, urls: list[str], body: dict[str, Any]) -> None:
        self._targets = itertools.cycle([_Target.of(url, body) for url in urls])
        self.outcome = Outcome()

    async def one(self, due_s: float) -> None:
        """Send one request and wait for the end of its answer."""
        exchange = _Exchange(due_s, asyncio.get_running_loop().create_future())
        try:
            target = next(self._targets)
            connection = await target.connection()
            connection.current = exchange
            assert connection.transport is not None
            connection.transport.write(target.message)
            await exchange.done
        except (OSError, httptools.HttpParserError) as fault:
            self.outcome.failures[type(fault).__name__] += 1
            return
        self.outcome.exchanges.append(exchange)
        target.idle.append(connection)

    async def at_rate(self, per_s: float, seconds: float, seed: int) -> None:
        """Send requests at random times, `per_s` on average, whatever becomes of earlier ones."""
        draw = random.Random(seed)  # noqa: S311 - arrivals
        began_s = time.perf_counter()
        due_s, running = began_s, set()
        while due_s < began_s + seconds:
            due_s += draw.expovariate(per_s)
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            task = asyncio.create_task(self.one(due_s))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def in_turns(self, clients: int, seconds: float) -> None:
        """Let so many clients send one request after another."""
        until_s = time.perf_counter() + seconds

        async def client() -> None:
            while time.perf_counter() < until_s:
                await self.one(time.perf_counter())

        await asyncio.gather(*(client() for _ in range(clients)))

    async def at_once(self, count: int, over_s: float) -> None:
        """Start so many requests within `over_s`, and wait for all."""

        async def late(number: int) -> None:
            await asyncio.sleep(over_s * number / count)
            await self.one(time.perf_counter())

        await asyncio.gather(*(late(number) for number in range(count)))


def summary(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return counts and percentiles in milliseconds."""
    good = [each for each in outcome.exchanges if each.status == 200]
    whole = [1000 * (each.ended_s - each.due_s) for each in good]
    first = [1000 * (each.first_s - each.due_s) for each in good]
    return {
        "requests": len(good),
        "per_s": round(len(good) / seconds, 1),
        "statuses": dict(Counter(str(each.status) for each in outcome.exchanges)),
        "failures": dict(outcome.failures),
        "whole_ms": _levels(whole),
        "first_ms": _levels(first),
        "chunks": sum(each.chunks for each in good),
    }


def _levels(values: list[float]) -> dict[str, float]:
    if not values:
        return {"p50": math.nan, "p90": math.nan, "p99": math.nan}
    levels = np.percentile(values, (50, 90, 99)).tolist()
    return dict(zip(("p50", "p90", "p99"), (round(each, 3) for each in levels), strict=True))


async def run(asked: argparse.Namespace) -> dict[str, Any]:
    """Do what the command line asks for."""
    load = Load(asked.urls, json.loads(asked.body))
    began_s = time.perf_counter()
    if asked.rate:
        await load.at_rate(asked.rate, asked.seconds, asked.seed)
    elif asked.streams:
        await load.at_once(asked.streams, asked.over_s)
    else:
        await load.in_turns(asked.clients, asked.seconds)
    return summary(load.outcome, time.perf_counter() - began_s)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--body", default="{}")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second")
    parser.add_argument("--clients", type=int, default=16, help="without --rate: one by one")
    parser.add_argument("--streams", type=int, default=0, help="so many at once, and no more")
    parser.add_argument("--over-s", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
