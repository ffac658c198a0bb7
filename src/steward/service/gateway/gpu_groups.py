"""Servers that share GPUs: one of them is awake, the others sleep (vLLM's sleep mode)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout

from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.upstream import Upstream

__all__ = ["GpuGroups"]

log = logging.getLogger(__name__)

_ASK_WITHIN_S = 5.0
_CHANGE_WITHIN_S = 300.0  # a large model that wakes up copies its weights to the GPU
_LOOK_S = 0.05  # at what a server still answers before it sleeps
_ANSWER_BYTES = 2**16
_FAULTS = (ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError)


class GpuGroups:
    """Wakes a server of a group for requests that need it, once the one that is awake sleeps.

    A dispatcher may ask for that. Whatever it chooses, a model that only sleeping servers have is
    woken at once where nobody needs the one that is awake, and else after `swap_after_s`. What runs
    is finished first; nothing new goes to either meanwhile.
    """

    def __init__(self, queue: CallQueue, session: ClientSession) -> None:
        self._queue = queue
        self._session = session
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked_s: dict[str, float] = {}
        self._rests_until_s: dict[str, float] = {}  # after a swap that failed

    def look(self) -> None:
        """Ask who sleeps where that is due, and begin to wake what is needed."""
        now_s = self._queue.now_s()
        for name, members in self._groups().items():
            if self._is_busy(name):
                continue
            for each in members:
                each.asked &= each.reachable is not False  # it may come back as another process
            known = all(each.asked for each in members if each.reachable)
            due_s = self._asked_s.get(name, -math.inf) + self._queue.settings.health_every_s
            if known and not self._rests(name) and (wanted := self._wanted(members)) is not None:
                self._begin(name, self._swap(name, members, wanted))
            elif not known or now_s >= due_s:
                self._begin(name, self._ask(name, members))

    def swap(self, upstream: Upstream, model: str) -> bool:
        """Begin to let a server with this model take an awake one's GPUs; False if none can."""
        name = upstream.settings.gpu_group
        members = self._groups().get(name, [])
        if upstream not in members or upstream.asleep:
            return False
        if any(each.changing for each in members):
            return True
        if not all(each.asked for each in members if each.reachable):
            return False
        found = [each for each in members if _can_wake(each) and model in each.models]
        if not found or self._is_busy(name) or self._rests(name):
            return False
        self._begin(name, self._swap(name, members, found[0]))
        return True

    async def stop(self) -> None:
        """End what is under way; the servers stay as they are."""
        for each in self._tasks.values():
            each.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _groups(self) -> dict[str, list[Upstream]]:
        found: dict[str, list[Upstream]] = {}
        for each in self._queue.instances.upstreams.values():
            if each.settings.gpu_group:
                found.setdefault(each.settings.gpu_group, []).append(each)
        return found

    def _is_busy(self, name: str) -> bool:
        return name in self._tasks and not self._tasks[name].done()

    def _rests(self, name: str) -> bool:
        return self._queue.now_s() < self._rests_until_s.get(name, -math.inf)

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks[name] = asyncio.create_task(work)

    # -- whom to wake --------------------------------------------------------------------------

    def _wanted(self, members: Sequence[Upstream]) -> Upstream | None:
        """Return the sleeping server whose requests have waited longest, if it is its turn."""
        waits_s = self._waits_s()
        if not waits_s:
            return None
        there = self._queue.instances.upstreams.values()
        served = {model for each in there if each.live and not each.asleep for model in each.models}
        needed = [
            (waits_s[model], -at, each)
            for at, each in enumerate(members)
            for model in each.models
            if _can_wake(each) and model in waits_s and model not in served
        ]
        if not needed:
            return None
        wait_s, _, wanted = max(needed, key=lambda each: each[:2])
        patience_s, now_s = self._queue.settings.swap_after_s, self._queue.now_s()
        for each in members:
            if each.asleep or not each.live:
                continue
            busy = each.in_flight > 0 or any(model in waits_s for model in each.models)
            if busy and min(wait_s, now_s - each.woken_s) < patience_s:
                return None
        return wanted

    def _waits_s(self) -> dict[str, float]:
        """Return how long requests for each model have waited, at most."""
        now_s = self._queue.now_s()
        found: dict[str, float] = {}
        for ticket in self._queue.tickets.values() if self._queue.queued else ():
            if ticket.waiting:
                model = ticket.call.model
                found[model] = max(found.get(model, 0.0), now_s - ticket.entered_s)
        return found

    # -- sleeping and waking -------------------------------------------------------------------

    async def _ask(self, name: str, members: Sequence[Upstream]) -> None:
        """Learn who sleeps: servers start awake, and may have been put to sleep by others."""
        for each in members:
            if each.reachable:
                await self._ask_one(each)
        awake = [each for each in members if each.reachable and not each.asleep]
        awake.sort(key=lambda each: (each.in_flight == 0, -each.woken_s))
        try:
            for each in awake[1:]:
                if each.in_flight == 0:
                    await self._let_sleep(each)
        except _FAULTS as fault:
            self._tell("two servers of a group are awake", awake[0], fault)
        self._asked_s[name] = self._queue.now_s()
        self._queue.schedule()

    async def _ask_one(self, upstream: Upstream) -> None:
        try:
            answer = orjson.loads(await self._call("GET", upstream, "/is_sleeping", _ASK_WITHIN_S))
            upstream.asleep, upstream.asked = bool(answer["is_sleeping"]), True
        except _FAULTS as fault:
            if upstream.asleep:
                self._tell("does not say whether it sleeps", upstream, fault)
            upstream.asleep, upstream.asked = False, True

    async def _swap(self, name: str, members: Sequence[Upstream], wanted: Upstream) -> None:
        others = [each for each in members if each is not wanted and not each.asleep]
        changing = [*others, wanted]
        for each in changing:
            each.changing = True
        at = wanted
        try:
            for at in others:
                await self._let_sleep(at)
            at = wanted
            await self._wake(at)
        except _FAULTS as fault:
            self._queue.fail_upstream(at, f"sleep or wake-up failed: {fault!r}"[:200])
            self._tell("could not be woken" if at is wanted else "could not sleep", at, fault)
            rest_s = self._queue.settings.breaker_rest_s
            self._rests_until_s[name] = self._queue.now_s() + rest_s
            for each in members:
                each.asked = False  # nothing is known of who sleeps
        finally:
            for each in changing:
                each.changing = False
            self._queue.schedule()

    async def _let_sleep(self, upstream: Upstream) -> None:
        upstream.changing = True
        try:
            while upstream.in_flight:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(_LOOK_S)
            if upstream.reachable:  # else it has failed, and holds no GPU
                await self._call("POST", upstream, "/sleep?level=1", _CHANGE_WITHIN_S)
            upstream.asleep = True
            self._queue.counts.prefixes.forget(upstream)
            self._queue.tallies.event("sleeps", instance=upstream.name)
        finally:
            upstream.changing = False

    async def _wake(self, upstream: Upstream) -> None:
        began_s = self._queue.now_s()
        await self._call("POST", upstream, "/wake_up", _CHANGE_WITHIN_S)
        upstream.asleep, upstream.woken_s = False, self._queue.now_s()
        took_s = upstream.woken_s - began_s
        upstream.kind = replace(upstream.kind, swap_s=took_s)  # what the next one will cost
        self._queue.instances.renumber()
        self._queue.tallies.event("woken", instance=upstream.name, why=f"took {took_s:.1f} s")

    async def _call(self, method: str, upstream: Upstream, path: str, within_s: float) -> bytes:
        headers = {"Authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
        async with self._session.request(
            method,
            upstream.url(path),
            headers=headers,
            ssl=upstream.tls,
            timeout=ClientTimeout(total=within_s),
            allow_redirects=False,
        ) as response:
            if response.status >= 300:
                raise ValueError(f"{path} answered {response.status}")
            return await response.content.read(_ANSWER_BYTES)

    def _tell(self, what: str, upstream: Upstream, fault: Exception) -> None:
        why = (str(fault) or type(fault).__name__)[:200]
        log.warning("%s: %s: %s", upstream.name, what, why)
        self._queue.tallies.event(what, instance=upstream.name, why=why)


def _can_wake(upstream: Upstream) -> bool:
    return upstream.asleep and upstream.live and upstream.reachable is True
