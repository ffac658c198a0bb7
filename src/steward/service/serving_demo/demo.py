"""Runs the demo: starts servers and gateway, sends traffic, reports every second and at the end."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from steward.service.serving_demo.processes import started
from steward.service.serving_demo.traffic import Batch, Chat

__all__ = ["DemoSettings", "DemoSummary", "Moment", "run_demo"]

_SERVERS = 2
_SLOTS = 16  # of each server
_STEP_MS = 20
_LOW, _HIGH, _PERIOD_S = 1.0, 24.0, 15.0  # chat requests a second
_PROMISE_S = 2.0
_LONGEST_END_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """How long chat goes on, and how much else there is to do."""

    seconds: float = 40.0
    items: int = 1000
    policy: str = ""  # "" is the gateway's own
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One second of the demo."""

    t_s: float
    chat_running: int
    chat_queued: int
    batch_running: int
    batch_done: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    """What came of it. Shares of slots are while chat went on."""

    chat_requests: int
    chat_failed: int
    chat_kept: float  # the share whose first token came within `promise_s`
    promise_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    batch_items: int
    batch_answered: int
    batch_s: float
    chat_slot_share: float
    batch_slot_share: float


def run_demo(
    settings: DemoSettings,
    *,
    announce: Callable[[str], None],
    show: Callable[[Moment], None],
) -> DemoSummary:
    """Run it; `announce` gets the gateway's address, `show` each second."""
    with tempfile.TemporaryDirectory(prefix="steward-serve-demo-") as folder:
        return asyncio.run(_run(settings, Path(folder), announce, show))


async def _run(
    settings: DemoSettings,
    folder: Path,
    announce: Callable[[str], None],
    show: Callable[[Moment], None],
) -> DemoSummary:
    async with AsyncExitStack() as stack:
        url = await _start(stack, settings, folder)
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=60.0)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout)
        )
        model = await _model(session, url)
        announce(url)
        chat = Chat(session=session, url=url, model=model, seed=settings.seed)
        batch = Batch(session=session, url=url, model=model, items=settings.items)
        await batch.begin()
        arriving = asyncio.create_task(
            chat.arrive(for_s=settings.seconds, low=_LOW, high=_HIGH, period_s=_PERIOD_S)
        )
        moments = await _watch(arriving, batch, (session, url), show)
        await arriving
        done = await batch.look()
        ended_s = (done["completed_at"] or time.time()) - done["created_at"]
        return _summary(settings, chat, moments, (await batch.answers(), ended_s))


async def _start(stack: AsyncExitStack, settings: DemoSettings, folder: Path) -> str:
    """Start the servers one after another (the first may compile), then the gateway."""
    urls = []
    for number in range(_SERVERS):
        options = (
            *("--port", "0", "--step-ms", str(_STEP_MS), "--max-sequences", str(_SLOTS)),
            *("--mean-output", "60", "--seed", str(number)),
        )
        server = started("serve", "stand-in", *options, log=folder / f"server-{number}.log")
        urls.append(await stack.enter_async_context(server))
    config = folder / "steward.toml"
    config.write_text("")
    upstreams = tuple(part for url in urls for part in ("--upstream", url))
    policy = ("--policy", settings.policy) if settings.policy else ()
    classes = ("--class", f"interactive:ttft_s={_PROMISE_S}", "--class", "batch:completion_s=3600")
    gateway = started(
        *("serve", "gateway", "--port", "0", "--limit", str(_SLOTS), *classes, *policy),
        *upstreams,
        *("--config", str(config), "--data", str(folder)),
        log=folder / "gateway.log",
    )
    return await stack.enter_async_context(gateway)


async def _model(session: aiohttp.ClientSession, url: str) -> str:
    """Return the model that is served, once the gateway knows it."""
    async with asyncio.timeout(_LONGEST_END_S):
        while True:
            async with session.get(f"{url}/v1/models") as answer:
                rows = (await answer.json()).get("data", []) if answer.status == 200 else []
            if rows:
                return str(rows[0]["id"])
            await asyncio.sleep(0.1)


async def _watch(
    arriving: asyncio.Task[None],
    batch: Batch,
    gateway: tuple[aiohttp.ClientSession, str],
    show: Callable[[Moment], None],
) -> list[Moment]:
    """Look at the gateway every second until chat and batch are over; return chat's moments."""
    session, url = gateway
    begin_s = time.monotonic()
    moments = []
    while True:
        await asyncio.sleep(1.0)
        async with session.get(f"{url}/steward/v1/status") as answer:
            status = await answer.json()
        found = await batch.look()
        now_s = time.monotonic() - begin_s
        moment = _moment(now_s, status, found["request_counts"]["completed"])
        show(moment)
        if not arriving.done():
            moments.append(moment)
        elif found["status"] == "completed" or now_s > _LONGEST_END_S:
            return moments


def _moment(t_s: float, status: dict[str, Any], done: int) -> Moment:
    classes = {each["name"]: each for each in status["classes"]}
    return Moment(
        t_s=t_s,
        chat_running=classes["interactive"]["in_flight"],
        chat_queued=classes["interactive"]["queued"],
        batch_running=classes["batch"]["in_flight"],
        batch_done=done,
        slots=_SERVERS * _SLOTS,
    )


def _summary(
    settings: DemoSettings, chat: Chat, moments: list[Moment], batch: tuple[int, float]
) -> DemoSummary:
    ttft_s = np.array(chat.ttft_s or [np.nan])
    seen = max(1, len(moments)) * _SERVERS * _SLOTS
    return DemoSummary(
        chat_requests=chat.sent,
        chat_failed=chat.failed,
        chat_kept=float(np.sum(ttft_s <= _PROMISE_S)) / max(1, chat.sent),
        promise_s=_PROMISE_S,
        ttft_p50_s=float(np.quantile(ttft_s, 0.5)),
        ttft_p99_s=float(np.quantile(ttft_s, 0.99)),
        batch_items=settings.items,
        batch_answered=batch[0],
        batch_s=batch[1],
        chat_slot_share=sum(each.chat_running for each in moments) / seen,
        batch_slot_share=sum(each.batch_running for each in moments) / seen,
    )
