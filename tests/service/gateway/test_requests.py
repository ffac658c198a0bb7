"""Requests that go well: whole answers, streams, models, classes, places in the queue."""

from __future__ import annotations

import asyncio
import json

import pytest

from service.gateway.bed import (
    ANSWER,
    CHAT,
    EVENTS,
    Exchange,
    FakeUpstream,
    answers,
    bed,
    chat,
    until,
)


def test_a_whole_answer_comes_back_as_the_upstream_wrote_it() -> None:
    async def scenario() -> None:
        async with bed() as it:
            status, body, headers = await it.post()

        assert (status, body) == (200, ANSWER)
        assert headers["x-steward-upstream"] == "u1"
        assert headers["x-steward-queue-position"] == "0"

    asyncio.run(scenario())


def test_the_body_goes_out_byte_for_byte() -> None:
    sent = b'{ "model": "m",\n "messages": [], "extra": 1.50e0 }'

    async def scenario() -> None:
        async with bed() as it:
            await it.post(sent)

            assert it.upstreams[0].got[0].body == sent

    asyncio.run(scenario())


def test_a_stream_is_passed_on_byte_for_byte() -> None:
    async def scenario() -> None:
        async with bed() as it:
            status, body, headers = await it.post(chat(stream=True))

        assert status == 200
        assert body == b"".join(EVENTS)
        assert headers["Content-Type"] == "text/event-stream"

    asyncio.run(scenario())


def test_the_first_event_arrives_before_the_upstream_has_made_the_second() -> None:
    second = asyncio.Event()

    async def in_two(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(EVENTS[0])
        await second.wait()
        await exchange.event(EVENTS[3])
        await exchange.end_stream()

    async def scenario() -> None:
        async with bed(FakeUpstream(in_two)) as it:
            body = json.dumps(chat(stream=True))
            async with it.client.post(it.url + CHAT, data=body) as response:
                first = await response.content.readany()
                second.set()
                rest = await response.read()

        assert first == EVENTS[0]
        assert rest == EVENTS[3]

    asyncio.run(scenario())


def test_all_four_kinds_of_calls_reach_the_upstream_at_their_own_path() -> None:
    paths = [CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses"]

    async def scenario() -> None:
        async with bed() as it:
            statuses = [(await it.post(path=each))[0] for each in paths]

            assert statuses == [200] * 4
            assert [each.path for each in it.upstreams[0].got] == paths

    asyncio.run(scenario())


def test_models_of_all_upstreams_are_listed_once_and_found_without_being_configured() -> None:
    async def scenario() -> None:
        one, other = FakeUpstream(models=["a", "b"]), FakeUpstream(models=["b", "c"])
        async with bed(one, other, models=()) as it:
            await until(lambda: len(it.gateway.queue.instances.models) == 3)
            status, listed = await it.get("/v1/models")
            found = await it.get("/v1/models/c")
            missing = await it.get("/v1/models/d")
            await it.post(chat(model="c"))

        assert status == 200
        assert [each["id"] for each in listed["data"]] == ["a", "b", "c"]
        assert found[0] == 200
        assert missing[0] == 404
        assert len(other.got) == 1

    asyncio.run(scenario())


def test_a_body_without_a_model_goes_to_the_only_one() -> None:
    async def scenario() -> None:
        async with bed() as it:
            status, _, _ = await it.post({"messages": []})

        assert status == 200

    asyncio.run(scenario())


def test_requests_are_shared_among_upstreams() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await exchange.answer()

    async def scenario() -> None:
        async with bed(FakeUpstream(held), FakeUpstream(held)) as it:
            posts = [asyncio.create_task(it.post()) for _ in range(6)]
            await until(lambda: sum(len(each.got) for each in it.upstreams) == 6)
            shares = [len(each.got) for each in it.upstreams]
            holding.set()
            await asyncio.gather(*posts)

        assert shares == [3, 3]

    asyncio.run(scenario())


def test_an_urgent_request_overtakes_those_that_wait() -> None:
    holding = asyncio.Event()
    order = []

    async def held(exchange: Exchange) -> None:
        order.append(json.loads(exchange.body)["n"])
        await holding.wait()
        await exchange.answer()

    async def scenario() -> None:
        async with bed(FakeUpstream(held), limit=1) as it:
            queue = it.gateway.queue
            posts = [asyncio.create_task(it.post(chat(n=0)))]
            await until(lambda: order)
            for number, headers in enumerate(
                (
                    {"x-steward-class": "batch"},
                    {"x-steward-class": "interactive"},
                    {"x-steward-class": "batch", "x-slo-ttft-ms": "100"},
                ),
                1,
            ):
                posts.append(asyncio.create_task(it.post(chat(n=number), headers=headers)))
                await until(lambda number=number: queue.queued == number)
            holding.set()
            await asyncio.gather(*posts)

        assert order == [0, 3, 2, 1]

    asyncio.run(scenario())


def test_who_waits_is_told_where_and_how_long() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await answers(exchange)

    async def scenario() -> None:
        async with bed(FakeUpstream(held), limit=1, notice_every_s=0.02) as it:
            queue = it.gateway.queue
            first = asyncio.create_task(it.post())
            await until(lambda: it.upstreams[0].got)
            whole = asyncio.create_task(it.post(headers={"x-request-id": "mine"}))
            await until(lambda: queue.queued == 1)
            body = json.dumps(chat(stream=True))
            async with it.client.post(it.url + CHAT, data=body) as response:
                notes = b""
                while b"expected_s" not in notes:
                    notes += await response.content.readany()
                _, waiting = await it.get("/steward/v1/requests/mine")
                holding.set()
                rest = notes + await response.read()
            _, _, headers = await whole
            await first
            gone, _ = await it.get("/steward/v1/requests/mine")

        assert b": queued position=1" in rest
        assert rest.endswith(b"".join(EVENTS))
        assert (waiting["state"], waiting["position"]) == ("queued", 0)
        assert waiting["expected_s"] is not None
        assert headers["x-request-id"] == "mine"
        assert float(headers["x-steward-waited-s"]) > 0
        assert "x-steward-expected-wait-s" in headers
        assert gone == 404

    asyncio.run(scenario())


def test_the_status_counts_what_happened_and_how_waits_were_predicted() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await answers(exchange)

    async def scenario() -> None:
        async with bed(FakeUpstream(held), limit=1) as it:
            queue = it.gateway.queue
            posts = [asyncio.create_task(it.post(chat(stream=True))) for _ in range(3)]
            await until(lambda: queue.queued == 2)
            waiting = [each for each in queue.tickets.values() if each.upstream is None]
            await until(lambda: all(each.expected for each in waiting))
            _, during = await it.get("/steward/v1/status")
            holding.set()
            await asyncio.gather(*posts)
            _, after = await it.get("/steward/v1/status")
            _, metrics = await it.get("/metrics")

        chats = during["classes"][0]
        assert (chats["queued"], chats["in_flight"]) == (2, 1)
        assert chats["expected_wait_s"] is not None
        assert during["instances"][0]["waiting"] == 1
        chats = after["classes"][0]
        assert (chats["done"], chats["met"], chats["attainment"]) == (3, 3, 1.0)
        assert len(after["waits"]) == after["estimator"]["requests"] == 2
        assert 'steward_gateway_requests_met_total{class="interactive"} 3.0' in metrics
        assert "steward_gateway_predicted_waits_total 2.0" in metrics

    asyncio.run(scenario())


def test_an_upstream_gets_its_own_key_and_never_the_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UPSTREAM_KEY_OF_A_TEST", "theirs")

    async def scenario() -> None:
        own = {"api_key_env": "UPSTREAM_KEY_OF_A_TEST"}
        async with bed(upstream_settings=own) as it:
            await it.post(headers={"Authorization": "Bearer mine"})

            assert it.upstreams[0].got[0].headers["authorization"] == "bearer theirs"

    asyncio.run(scenario())
