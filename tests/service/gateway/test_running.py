"""A gateway over its life: reloads, drains, changes of upstreams, its own upstreams' metrics."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from service.gateway.bed import (
    EVENTS,
    Exchange,
    FakeUpstream,
    answers,
    bed,
    chat,
    setup_of,
    until,
)
from steward.config.gateway_setup import GatewaySetup
from steward.errors import StewardError
from steward.model.serving.requests import DeadlineClass
from steward.model.serving.view import Dispatch, ServingView
from steward.service.gateway.call import UpstreamCall
from steward.service.gateway.relay import Relay


def test_a_reload_adds_and_removes_upstreams_and_classes() -> None:
    async def scenario() -> None:
        old, new = FakeUpstream(), FakeUpstream()
        await new.start()
        async with bed(old) as it:
            before = it.gateway.setup
            later = setup_of(new)
            upstreams = {"u2": later.upstreams["u1"]}
            classes = (*before.classes, DeadlineClass(name="gold", rank=0, ttft_s=1.0))
            setup = replace(later, upstreams=upstreams, classes=classes)

            done = it.gateway.reload(lambda: setup)

            status, _, headers = await it.post(headers={"x-steward-class": "gold"})
        await new.stop()
        assert done
        assert status == 200
        assert headers["x-steward-upstream"] == "u2"
        assert old.got == []

    asyncio.run(scenario())


@pytest.mark.parametrize("wrong", ["file", "policy", "profile"])
def test_a_configuration_that_is_wrong_is_refused_and_the_old_one_goes_on(wrong: str) -> None:
    async def scenario() -> None:
        async with bed() as it:

            def read() -> GatewaySetup:
                if wrong == "file":
                    raise StewardError("line 3 is wrong", where="steward.toml")
                if wrong == "profile":
                    old = it.gateway.setup.upstreams["u1"]
                    moved = old.model_copy(update={"profile": "/nowhere/steps.csv"})
                    return replace(it.gateway.setup, upstreams={"u1": moved})
                settings = it.gateway.setup.settings.model_copy(update={"policy": "nobody"})
                return replace(it.gateway.setup, settings=settings)

            done = it.gateway.reload(read)
            status, _, _ = await it.post()
            _, now = await it.get("/steward/v1/status")

        assert not done
        assert status == 200
        assert now["events"][-1]["what"] == "reload refused"
        assert now["policy"] == "edf"

    asyncio.run(scenario())


def test_a_reload_leaves_requests_in_flight_alone() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await exchange.answer()

    async def scenario() -> None:
        old, new = FakeUpstream(held), FakeUpstream()
        await new.start()
        async with bed(old) as it:
            post = asyncio.create_task(it.post())
            await until(lambda: old.got)
            it.gateway.reload(lambda: setup_of(new))  # the same name, at another address
            others = [await it.post() for _ in range(2)]
            _, during = await it.get("/steward/v1/status")
            holding.set()
            status, _, _ = await post
            await until(lambda: len(it.gateway.queue.instances.all) == 1)
        await new.stop()
        assert status == 200
        assert [each[0] for each in others] == [200, 200]
        assert [each["state"] for each in during["instances"]] == ["serving", "draining"]

    asyncio.run(scenario())


def test_a_gateway_that_stops_finishes_what_is_there_and_takes_nothing_new() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(EVENTS[0])
        await holding.wait()
        await exchange.event(EVENTS[3])
        await exchange.end_stream()

    async def scenario() -> None:
        async with bed(FakeUpstream(held)) as it:
            post = asyncio.create_task(it.post(chat(stream=True)))
            kept = it.client.get(it.url + "/health")
            await kept
            await until(lambda: it.upstreams[0].got)
            stopping = asyncio.create_task(it.gateway.stop(drain_s=60))
            await until(lambda: it.gateway.queue.closing)
            refused = await Relay(it.gateway.queue, it.client).submit(
                UpstreamCall(path="/v1/completions", body=b"{}", model="m")
            )
            holding.set()
            status, body, _ = await post
            await stopping

        assert (status, body) == (200, EVENTS[0] + EVENTS[3])
        assert refused.status == 503

    asyncio.run(scenario())


def test_draining_ends_when_its_time_is_over() -> None:
    async def never(exchange: Exchange) -> None:
        del exchange
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with bed(FakeUpstream(never)) as it:
            post = asyncio.create_task(it.post())
            await until(lambda: it.upstreams[0].got)
            await it.gateway.stop(drain_s=0.05)
            ended = (await asyncio.gather(post, return_exceptions=True))[0]

        assert isinstance(ended, Exception)

    asyncio.run(scenario())


def test_upstreams_are_added_changed_drained_and_removed_while_it_runs() -> None:
    async def scenario() -> None:
        one, two = FakeUpstream(), FakeUpstream(models=["n"])
        await two.start()
        async with bed(one) as it:
            at = f"{it.url}/steward/v1/upstreams"
            async with it.client.put(f"{at}/extra", json={"url": two.url}) as response:
                added = response.status
            await until(lambda: "n" in it.gateway.queue.instances.models)
            served, _, _ = await it.post(chat(model="n"))
            it.gateway.reload(lambda: it.gateway.setup)
            kept = "extra" in it.gateway.queue.instances.upstreams
            async with it.client.patch(f"{at}/extra", json={"limit": 3, "role": "batch"}) as change:
                changed = await change.json()
            async with it.client.patch(f"{at}/u1", json={"draining": True}):
                pass
            _, now = await it.get("/steward/v1/status")
            async with it.client.delete(f"{at}/extra") as response:
                removed = response.status
            gone, _, _ = await it.post(chat(model="n"))
            async with it.client.patch(f"{at}/nobody", json={}) as response:
                unknown = response.status
            async with it.client.put(f"{at}/bad", json={"url": "ftp://x"}) as response:
                wrong = await response.json()
        await two.stop()
        assert (added, served, removed, gone, unknown) == (200, 200, 200, 404, 404)
        assert kept
        assert changed["limit"] == 3
        states = {each["name"]: (each["state"], each["role"]) for each in now["instances"]}
        assert states == {"u1": ("draining", "any"), "extra": ("serving", "batch")}
        assert "url" in wrong["error"]["message"]

    asyncio.run(scenario())


def test_an_upstreams_own_metrics_are_read_where_there_are_any() -> None:
    text = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:num_requests_waiting_by_reason 9\n'

    async def scenario() -> None:
        async with bed(FakeUpstream(metrics=text), FakeUpstream(), metrics_every_s=0.02) as it:
            upstreams = it.gateway.queue.instances.upstreams
            await until(lambda: upstreams["u1"].load.kv_share is not None)
            _, now = await it.get("/steward/v1/status")

        assert [each["kv_share"] for each in now["instances"]] == [0.25, None]

    asyncio.run(scenario())


def test_a_batch_item_goes_through_the_same_queue_and_its_errors_are_answers() -> None:
    async def scenario() -> None:
        async with bed() as it:
            relay = Relay(it.gateway.queue, it.client)
            body = json.dumps(chat()).encode()
            good = await relay.submit(
                UpstreamCall(path="/v1/completions", body=body, model="m", deadline_class="batch")
            )
            bad = await relay.submit(UpstreamCall(path="/v1/completions", body=body, model="x"))
            _, now = await it.get("/steward/v1/status")

        assert (good.status, good.upstream) == (200, "u1")
        assert good.usage is not None
        assert good.usage.output_tokens == 2
        assert bad.status == 404
        assert json.loads(bad.body)["error"]["code"] == "model_not_found"
        assert now["classes"][1]["met"] == 1

    asyncio.run(scenario())


class _EvictsBatch:
    """Puts back what runs as soon as something else waits, and then sends what waits."""

    name = "evicts"

    def dispatch(self, view: ServingView) -> Dispatch:
        running = [
            row
            for row in range(len(view.requests.state))
            if view.requests.instance[row] >= 0 and view.requests.deadline_class[row] == 1
        ]
        chats = [int(row) for row in view.queue if view.requests.deadline_class[row] == 0]
        waiting = chats or [int(row) for row in view.queue]
        room = int(view.instances.room[0])
        routes = tuple((row, 0) for row in waiting[:room])
        return Dispatch(routes=routes, evict=tuple(running) if chats else ())


def test_a_dispatcher_can_evict_a_batch_item_and_it_is_answered_later() -> None:
    calls = []

    async def slow_at_first(exchange: Exchange) -> None:
        calls.append(json.loads(exchange.body).get("n"))
        if calls.count("batch") == 1 and calls[-1] == "batch":
            await asyncio.Event().wait()
        await answers(exchange)

    async def scenario() -> None:
        async with bed(FakeUpstream(slow_at_first), limit=2) as it:
            queue = it.gateway.queue
            queue.set_policy(_EvictsBatch(), None)
            relay = Relay(queue, it.client)
            item = UpstreamCall(
                path="/v1/completions",
                body=json.dumps(chat(n="batch")).encode(),
                model="m",
                deadline_class="batch",
            )
            batch = asyncio.create_task(relay.submit(item))
            await until(lambda: calls)
            status, _, _ = await it.post(chat(n="chat"))
            reply = await batch

            assert it.gateway.tallies.evictions == 1
            assert not queue.tickets
        assert (status, reply.status) == (200, 200)
        assert calls.count("batch") == 2

    asyncio.run(scenario())


class _EvictsWithoutRoom(_EvictsBatch):
    evicts = True


@pytest.mark.parametrize("stream", [False, True])
def test_what_no_client_has_seen_a_part_of_makes_way_although_there_is_no_room(
    stream: bool,  # noqa: FBT001
) -> None:
    calls: list[str] = []

    async def slow_at_first(exchange: Exchange) -> None:
        calls.append(json.loads(exchange.body)["n"])
        if calls == ["batch"]:
            await asyncio.Event().wait()
        await answers(exchange)

    async def scenario() -> None:
        async with bed(FakeUpstream(slow_at_first), limit=1) as it:
            it.gateway.queue.set_policy(_EvictsWithoutRoom(), None)
            body = chat(n="batch", stream=stream)
            batch = asyncio.create_task(it.post(body, headers={"x-steward-class": "batch"}))
            await until(lambda: calls)
            status, _, _ = await it.post(chat(n="chat"))
            later, _, _ = await batch

            assert it.gateway.tallies.evictions == 1
            assert not it.gateway.queue.tickets
        assert (status, later) == (200, 200)
        assert calls == ["batch", "chat", "batch"]

    asyncio.run(scenario())


def test_a_stream_that_a_client_reads_is_never_evicted() -> None:
    go_on = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(EVENTS[0])
        await go_on.wait()
        await exchange.event(EVENTS[-1])
        await exchange.end_stream()

    async def scenario() -> None:
        async with bed(FakeUpstream(held), limit=1) as it:
            tallies = it.gateway.tallies
            it.gateway.queue.set_policy(_EvictsWithoutRoom(), None)
            headers = {"x-steward-class": "batch"}
            batch = asyncio.create_task(it.post(chat(stream=True), headers=headers))
            await until(lambda: it.gateway.queue.instances.upstreams["u1"].streaming)
            other = asyncio.create_task(it.post(chat(stream=True)))
            await until(lambda: tallies.declined["evict"])
            go_on.set()
            _, text, _ = await batch
            await other

        assert text == EVENTS[0] + EVENTS[-1]
        assert tallies.evictions == 0

    asyncio.run(scenario())


class _Broken:
    name = "broken"

    def dispatch(self, view: ServingView) -> Dispatch:
        raise ZeroDivisionError(view.t_s)


class _Nonsense:
    name = "nonsense"

    def dispatch(self, view: ServingView) -> Dispatch:
        row = int(view.queue[0])
        return Dispatch(routes=((10_000, 0), (row, 0), (row, 0)), evict=(row, 77), swaps=((0, 0),))


def test_a_dispatcher_that_fails_is_replaced_by_deadlines() -> None:
    async def scenario() -> None:
        async with bed() as it:
            it.gateway.queue.set_policy(_Broken(), None)
            status, _, _ = await it.post()
            _, now = await it.get("/steward/v1/status")

        assert status == 200
        assert now["policy"] == "edf"
        assert now["events"][-1]["what"] == "dispatcher failed"

    asyncio.run(scenario())


def test_what_a_dispatcher_cannot_mean_is_counted_and_changes_nothing() -> None:
    async def scenario() -> None:
        async with bed() as it:
            it.gateway.queue.set_policy(_Nonsense(), None)
            status, _, _ = await it.post()
            declined = it.gateway.tallies.declined

        assert status == 200
        assert declined == {"route": 2, "evict": 2, "swap": 1}
        assert len(it.upstreams[0].got) == 1

    asyncio.run(scenario())
