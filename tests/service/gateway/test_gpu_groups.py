"""Servers that share GPUs: one is awake, the others sleep."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import ClientSession

from service.gateway.bed import Bed, Exchange, FakeUpstream, answers, chat, until
from steward.config.gateway_settings import GatewaySettings, UpstreamSettings
from steward.config.gateway_setup import GatewaySetup
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.service.gateway.server import Gateway


class Sleepy(FakeUpstream):
    """A server with vLLM's sleep mode, on GPUs that it shares with others."""

    def __init__(self, model: str, *, asleep: bool = False) -> None:
        super().__init__(models=[model])
        self.behaviour = self.behave
        self.asleep = asleep
        self.answered = answers
        self.calls: list[str] = []
        self.wakes = True
        self.sharing: list[Sleepy] = [self]

    async def behave(self, now: Exchange) -> None:
        if now.path == "/is_sleeping":
            await now.answer({"is_sleeping": self.asleep})
        elif now.path == "/sleep?level=1":
            self.calls.append("sleep")
            self.asleep = True
            await now.answer(raw=b"")
        elif now.path == "/wake_up":
            self.calls.append("wake")
            assert all(each.asleep for each in self.sharing)
            self.asleep = not self.wakes
            await now.answer({}, 200 if self.wakes else 500)
        else:
            assert not self.asleep
            await self.answered(now)


@asynccontextmanager
async def sharing(*servers: Sleepy, group: str = "gpu-0", **settings: Any) -> AsyncIterator[Bed]:
    """Run a gateway in front of servers that share GPUs."""
    quick: dict[str, Any] = {
        "port": 0,
        "estimator": "none",
        "health_every_s": 0.05,
        "breaker_rest_s": 0.05,
        "swap_after_s": 0.2,
    }
    async with AsyncExitStack() as stack:
        for each in servers:
            each.sharing = list(servers)
            await each.start()
            stack.push_async_callback(each.stop)
        gateway = Gateway(
            GatewaySetup(
                settings=GatewaySettings.model_validate({**quick, **settings}),
                upstreams=_upstreams(servers, group),
                classes=(INTERACTIVE, BATCH),
            )
        )
        await gateway.start()
        stack.push_async_callback(gateway.stop, drain_s=0)
        client = await stack.enter_async_context(ClientSession())
        found = gateway.queue.instances.upstreams
        await until(lambda: all(each.models for each in found.values()))
        yield Bed(gateway=gateway, upstreams=servers, client=client)


def _upstreams(servers: Sequence[Sleepy], group: str) -> dict[str, UpstreamSettings]:
    return {
        each.models[0]: UpstreamSettings.model_validate({"url": each.url, "gpu_group": group})
        for each in servers
    }


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def states(there: Bed) -> dict[str, str]:
    found = there.gateway.queue.instances.upstreams
    return {name: each.shown_state for name, each in found.items()}


@in_a_loop
async def test_a_sleeping_model_is_woken_at_once_while_nobody_needs_the_one_that_is_awake() -> None:
    small, large = Sleepy("small"), Sleepy("large", asleep=True)

    async with sharing(small, large, swap_after_s=60.0) as there:
        first = await there.post(chat(model="small"))
        second = await there.post(chat(model="large"))
        ended = states(there)

    assert (first[0], second[0]) == (200, 200)
    assert (small.calls, large.calls) == (["sleep"], ["wake"])
    assert ended == {"small": "asleep", "large": "serving"}


@in_a_loop
async def test_a_swap_that_a_dispatcher_chooses_is_carried_out_within_a_group_alone() -> None:
    small, large = Sleepy("small"), Sleepy("large", asleep=True)

    async with sharing(small, large) as there:
        queue = there.gateway.queue
        found = queue.instances.upstreams
        await until(lambda: all(each.asked for each in found.values()))
        await until(lambda: queue.swaps(found["small"], "large"))
        elsewhere = queue.swaps(found["large"], "nobody's")
        await until(lambda: states(there) == {"small": "asleep", "large": "serving"})

    assert not elsewhere
    assert (small.calls, large.calls) == (["sleep"], ["wake"])
    assert found["large"].kind.swap_s < 60.0  # as it was measured


@in_a_loop
async def test_both_models_are_listed_whoever_sleeps() -> None:
    async with sharing(Sleepy("small"), Sleepy("large", asleep=True)) as there:
        _, listed = await there.get("/v1/models")

    assert {each["id"] for each in listed["data"]} == {"small", "large"}


@in_a_loop
async def test_what_runs_is_finished_before_its_server_sleeps() -> None:
    small, large = Sleepy("small"), Sleepy("large", asleep=True)
    done = asyncio.Event()

    async def late(now: Exchange) -> None:
        await done.wait()
        assert not small.asleep
        await answers(now)

    small.answered = late
    async with sharing(small, large) as there:
        running = asyncio.create_task(there.post(chat(model="small")))
        await until(lambda: there.gateway.queue.instances.upstreams["small"].in_flight)
        waiting = asyncio.create_task(there.post(chat(model="large")))
        await until(lambda: states(there)["large"] == "swapping")
        late_one = asyncio.create_task(there.post(chat(model="small")))  # waits until it is back
        await asyncio.sleep(0.1)
        assert small.calls == []
        done.set()
        answered = [(await each)[0] for each in (running, waiting, late_one)]

    assert answered == [200, 200, 200]
    assert small.calls == ["sleep", "wake"]


@in_a_loop
async def test_of_two_that_are_awake_one_is_put_to_sleep() -> None:
    small, large = Sleepy("small"), Sleepy("large")

    async with sharing(small, large) as there:
        await until(lambda: small.asleep or large.asleep)
        await until(lambda: sorted(states(there).values()) == ["asleep", "serving"])

    assert small.calls + large.calls == ["sleep"]


@in_a_loop
async def test_a_server_that_does_not_wake_up_fails_and_the_other_goes_on() -> None:
    small, large = Sleepy("small"), Sleepy("large", asleep=True)
    large.wakes = False

    async with sharing(small, large, no_upstream_s=0.5, breaker_failures=1) as there:
        failing = asyncio.create_task(there.post(chat(model="large")))
        await until(lambda: "wake" in large.calls)
        other = await there.post(chat(model="small"))
        large.wakes = True
        failed = await failing
        _, status = await there.get("/steward/v1/status")

    assert other[0] == 200
    assert failed[0] in {200, 503}  # by when its breaker tried it again
    assert "could not be woken" in {each["what"] for each in status["events"]}


@in_a_loop
async def test_a_server_without_sleep_mode_is_awake_and_keeps_its_gpus() -> None:
    plain, large = FakeUpstream(models=["small"]), Sleepy("large", asleep=True)

    async def refuse(now: Exchange) -> None:
        known = now.path.startswith("/v1")
        await (answers(now) if known else now.answer({}, 404))

    plain.behaviour = refuse
    async with AsyncExitStack() as stack:
        await plain.start()
        stack.push_async_callback(plain.stop)
        async with sharing(large) as there:
            upstreams = {"large": UpstreamSettings(url=large.url, gpu_group="gpu-0")}
            upstreams["small"] = UpstreamSettings(url=plain.url, gpu_group="gpu-0")
            setup = there.gateway.setup
            found = GatewaySetup(
                settings=setup.settings, upstreams=upstreams, classes=setup.classes
            )
            assert there.gateway.reload(lambda: found)
            await until(lambda: states(there).get("small") == "serving")
            asked = asyncio.create_task(there.post(chat(model="large")))
            events = there.gateway.tallies.events
            await until(lambda: any(each["what"] == "could not sleep" for each in events))
            answer = await there.post(chat(model="small"))
            asked.cancel()

    assert answer[0] == 200
    assert large.calls == []
