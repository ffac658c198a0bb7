"""Connections that end at the wrong moment: of clients, of upstreams that are kept, of both."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import ClientConnectionResetError, web
from aiohttp.test_utils import make_mocked_request

from service.gateway.bed import EVENTS, Exchange, FakeUpstream, answers, bed, chat, until
from steward.service.gateway.call import UpstreamCall
from steward.service.gateway.client_stream import ClientGone, ClientStream
from steward.service.gateway.openai_errors import GatewayError
from steward.service.gateway.relay import Relay


class _Gone(web.StreamResponse):
    """An answer to a client that has gone."""

    async def write(self, data: object) -> None:
        raise ClientConnectionResetError("Cannot write to closing transport")

    async def write_eof(self, data: bytes = b"") -> None:
        raise ClientConnectionResetError("Cannot write to closing transport")


@pytest.mark.parametrize("fault", [None, GatewayError(502, "gone", code="upstream_disconnected")])
def test_what_is_written_to_a_client_that_has_gone_is_no_connection_error(
    fault: GatewayError | None,
) -> None:
    async def scenario() -> None:
        async with bed() as it:
            sink = ClientStream(make_mocked_request("POST", "/"), it.gateway.queue)
            sink.response = _Gone()

            with pytest.raises(ClientGone):
                await sink.end(fault)
            with pytest.raises(ClientGone):
                await sink.say(b"{}")

    asyncio.run(scenario())


def test_a_client_that_goes_counts_for_no_upstream() -> None:
    class Leaves(ClientStream):
        async def write(self, *_: object) -> None:
            raise ClientGone

    async def scenario() -> None:
        async with bed() as it:
            queue = it.gateway.queue
            body = json.dumps(chat(stream=True)).encode()
            call = UpstreamCall(path="/v1/chat/completions", body=body, model="m", stream=True)
            ticket = queue.enter(call)
            sink = Leaves(make_mocked_request("POST", "/"), queue)
            with pytest.raises(ClientGone):
                await Relay(queue, it.client).stream(ticket, sink)

            assert queue.instances.upstreams["u1"].errors == 0
            assert not queue.tickets

    asyncio.run(scenario())


def test_nothing_is_logged_when_client_and_upstream_both_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        leave = asyncio.Event()

        async def breaks(exchange: Exchange) -> None:
            await exchange.begin_stream()
            await exchange.event(EVENTS[0])
            await leave.wait()
            exchange.reset()

        async with bed(FakeUpstream(breaks)) as it:
            for _ in range(20):
                leave.clear()
                data = json.dumps(chat(stream=True)).encode()
                response = await it.client.post(it.url + "/v1/chat/completions", data=data)
                await response.content.readany()
                leave.set()
                response.close()
                await until(lambda: not it.gateway.queue.tickets)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())

    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("stream", [False, True])
def test_a_kept_connection_that_closes_as_it_is_used_again_fails_nobody(
    stream: bool,  # noqa: FBT001
) -> None:
    used: list[asyncio.StreamWriter] = []

    async def closes_when_reused(exchange: Exchange) -> None:
        if exchange.writer in used:
            exchange.reset()
        else:
            used.append(exchange.writer)
            await answers(exchange)

    async def scenario() -> None:
        async with bed(FakeUpstream(closes_when_reused), retries=0, health_every_s=60) as it:
            statuses = [(await it.post(chat(stream=stream)))[0] for _ in range(4)]
            upstream = it.gateway.queue.instances.upstreams["u1"]

            assert statuses == [200] * 4
            assert (upstream.errors, it.gateway.tallies.retries) == (0, 0)

    asyncio.run(scenario())


def test_a_new_connection_that_closes_without_an_answer_is_a_failure() -> None:
    async def resets(exchange: Exchange) -> None:
        exchange.reset()

    async def scenario() -> None:
        async with bed(FakeUpstream(resets), retries=0) as it:
            status, value, _ = await it.post()

            assert (status, value["error"]["code"]) == (502, "upstream_disconnected")
            assert len(it.upstreams[0].got) <= 2  # the first may go out on a kept connection

    asyncio.run(scenario())


def test_requests_wait_for_the_first_model_server() -> None:
    async def scenario() -> None:
        there = FakeUpstream()
        async with bed(there, models=()) as it:
            queue = it.gateway.queue
            queue.instances.replace([])
            early = asyncio.create_task(it.post())
            await until(lambda: queue.queued == 1)
            url = it.url + "/steward/v1/upstreams/late"
            body = json.dumps({"url": there.url}).encode()
            async with it.client.put(url, data=body) as response:
                added = response.status
            status, _, _ = await early

        assert (added, status) == (200, 200)

    asyncio.run(scenario())


def test_without_any_model_server_the_queue_answers_after_a_while() -> None:
    async def scenario() -> None:
        async with bed(models=(), no_upstream_s=0.05) as it:
            it.gateway.queue.instances.replace([])
            status, value, _ = await it.post()
            unnamed, other, _ = await it.post({"messages": []})

        assert (status, value["error"]["code"]) == (503, "no_upstream")
        assert "for 0.05 s" in value["error"]["message"]
        assert (unnamed, other["error"]["code"]) == (503, "no_upstream")

    asyncio.run(scenario())
