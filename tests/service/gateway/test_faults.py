"""What goes wrong: with requests, with upstreams, with clients."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from service.gateway.bed import (
    CHAT,
    EVENTS,
    Exchange,
    FakeUpstream,
    answers,
    bed,
    chat,
    until,
)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"", 400, "invalid_json", None),
        (b"{", 400, "invalid_json", None),
        (b"[]", 400, "invalid_json", None),
        (b"\xff\xfe", 400, "invalid_json", None),
        (b"[" * 100_000, 400, "invalid_json", None),
        (b'{"model": 3}', 400, "invalid_model", "model"),
        (b'{"model": "m", "stream": "yes"}', 400, "invalid_type", "stream"),
        (b'{"model": "nobody"}', 404, "model_not_found", "model"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_in_openais_form(
    body: bytes, status: int, code: str, param: str | None
) -> None:
    async def scenario() -> None:
        async with bed() as it:
            answered, value, _ = await it.post(body, headers={"Content-Type": "application/json"})

            assert it.upstreams[0].got == []
        assert answered == status
        assert set(value["error"]) == {"message", "type", "param", "code"}
        assert (value["error"]["code"], value["error"]["param"]) == (code, param)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "code"),
    [({"x-steward-class": "gold"}, "unknown_class"), ({"x-slo-ttft-ms": "-1"}, "invalid_header")],
)
def test_a_wrong_header_is_named(headers: dict[str, str], code: str) -> None:
    async def scenario() -> None:
        async with bed() as it:
            status, value, _ = await it.post(headers=headers)

        assert (status, value["error"]["code"]) == (400, code)

    asyncio.run(scenario())


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(chunked: bool) -> None:  # noqa: FBT001
    async def pieces() -> Any:
        for _ in range(8):
            yield b"x" * 1024

    async def scenario() -> None:
        async with bed(body_limit_bytes=4096) as it:
            data = pieces() if chunked else b"x" * 8192
            async with it.client.post(it.url + CHAT, data=data) as response:
                value = await response.json()

        assert (response.status, value["error"]["code"]) == (413, "request_too_large")

    asyncio.run(scenario())


def test_wrong_paths_and_methods_name_the_right_ones() -> None:
    async def scenario() -> None:
        async with bed() as it:
            nowhere, value = await it.get("/v2/chat")
            wrong, _ = await it.get(CHAT)

        assert (nowhere, wrong) == (404, 405)
        assert CHAT in value["error"]["message"]

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("500", 500, "upstream_error"),
        ("garbage", 502, "upstream_garbage"),
        ("nonsense", 502, "upstream_garbage"),
        ("silence", 504, "upstream_timeout"),
        ("reset", 502, "upstream_disconnected"),
    ],
)
def test_an_upstream_that_fails_before_an_answer_is_an_error_of_openais_form(
    kind: str,
    status: int,
    code: str,
    stream: bool,  # noqa: FBT001
) -> None:
    async def fails(exchange: Exchange) -> None:
        match kind:
            case "500":
                await exchange.answer({"error": {"message": "out of memory"}}, 500)
            case "garbage":
                exchange.writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            case "nonsense":
                await exchange.answer(raw=b"<html>")
            case "silence":
                await asyncio.Event().wait()
            case _:
                exchange.reset()

    async def scenario() -> None:
        within_s = 0.2 if kind == "silence" else 60.0
        async with bed(FakeUpstream(fails), first_byte_within_s=within_s) as it:
            answered, value, _ = await it.post(chat(stream=stream))
            _, now = await it.get("/steward/v1/status")

        assert (answered, value["error"]["code"]) == (status, code)
        assert now["instances"][0]["errors"] >= 1
        assert now["classes"][0]["missed"] == 1
        assert now["instances"][0]["running"] == now["instances"][0]["waiting"] == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["stall", "reset"])
def test_a_stream_that_breaks_ends_with_an_error_event_and_is_never_sent_again(kind: str) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(EVENTS[0])
        if kind == "reset":
            await asyncio.sleep(0.05)  # so that the event is on its way
            exchange.reset()
        await asyncio.Event().wait()

    async def scenario() -> None:
        stall_s = 0.2 if kind == "stall" else 60.0
        async with bed(FakeUpstream(breaks), stall_s=stall_s) as it:
            status, body, _ = await it.post(chat(stream=True))

            assert len(it.upstreams[0].got) == 1
        events = body.strip().split(b"\n\n")
        assert status == 200
        assert events[0] == EVENTS[0].strip()
        error = json.loads(events[-1].removeprefix(b"data: "))["error"]
        code = "upstream_timeout" if kind == "stall" else "upstream_disconnected"
        assert error["code"] == code

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["refused", "reset", "503", "429"])
def test_what_was_not_answered_goes_to_another_upstream(how: str) -> None:
    async def fails(exchange: Exchange) -> None:
        if how == "reset":
            exchange.reset()
        else:
            await exchange.answer({"message": "not now"}, int(how))

    async def scenario() -> None:
        bad, good = FakeUpstream(fails if how != "refused" else answers), FakeUpstream()
        async with bed(bad, good, health_every_s=60.0) as it:
            if how == "refused":
                await bad.stop()
            replies = [await it.post() for _ in range(4)]
            retries = it.gateway.tallies.retries
            if how == "refused":
                await bad.start()

        assert [each[0] for each in replies] == [200] * 4
        assert {each[2]["x-steward-upstream"] for each in replies} == {"u2"}
        assert retries >= 1
        assert len(good.got) == 4

    asyncio.run(scenario())


@contextmanager
def full_backlog(port: int) -> Iterator[None]:
    """Listen where nobody accepts, as a server that is too busy to: connecting takes for ever."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.settimeout(0.0)
            client.connect_ex(("127.0.0.1", port))
        yield


def test_an_upstream_that_accepts_nothing_was_sent_nothing_and_another_one_answers() -> None:
    async def scenario() -> None:
        busy, good = FakeUpstream(), FakeUpstream()
        async with bed(busy, good, health_every_s=60.0, connect_within_s=0.3) as it:
            await busy.stop()
            with full_backlog(busy.port):
                replies = [await it.post() for _ in range(2)]
                retries = it.gateway.tallies.retries
            await busy.start()

        assert [each[0] for each in replies] == [200, 200]
        assert retries >= 1
        assert len(good.got) == 2

    asyncio.run(scenario())


def test_alone_an_upstream_that_accepts_nothing_is_told_as_that() -> None:
    async def scenario() -> None:
        busy = FakeUpstream()
        async with bed(busy, health_every_s=60.0, connect_within_s=0.3, retries=0) as it:
            await busy.stop()
            with full_backlog(busy.port):
                status, value, _ = await it.post()
            await busy.start()

        assert (status, value["error"]["code"]) == (502, "upstream_unreachable")
        assert "does not accept connections" in value["error"]["message"]

    asyncio.run(scenario())


def test_retries_end_and_the_last_error_is_told() -> None:
    async def busy(exchange: Exchange) -> None:
        await exchange.answer({"error": {"message": "overloaded"}}, 503)

    async def scenario() -> None:
        async with bed(FakeUpstream(busy), FakeUpstream(busy), retries=1) as it:
            status, value, _ = await it.post()

            assert sum(len(each.got) for each in it.upstreams) == 2
        assert status == 503
        assert "overloaded" in value["error"]["message"]

    asyncio.run(scenario())


def test_what_a_client_did_wrong_is_answered_by_the_upstream_itself() -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer({"error": {"message": "too long"}}, 400)

    async def scenario() -> None:
        async with bed(FakeUpstream(refuses)) as it:
            replies = [await it.post(chat(stream=stream)) for stream in (False, True)]
            _, now = await it.get("/steward/v1/status")

        assert [each[:2] for each in replies] == [(400, {"error": {"message": "too long"}})] * 2
        assert now["instances"][0]["breaker"] == "closed"
        assert (now["classes"][0]["met"], now["classes"][0]["missed"]) == (0, 0)

    asyncio.run(scenario())


def test_the_breaker_opens_after_failures_and_closes_when_the_upstream_answers() -> None:
    failing = True

    async def sick(exchange: Exchange) -> None:
        if failing:
            await exchange.answer({}, 500)
        else:
            await exchange.answer()

    async def scenario() -> None:
        nonlocal failing
        async with bed(FakeUpstream(sick), breaker_failures=2, health_every_s=60.0) as it:
            upstream = it.gateway.queue.instances.upstreams["u1"]
            await until(lambda: upstream.reachable)
            for _ in range(2):
                await it.post()
            opened = upstream.breaker.state
            failing = False
            status, _, _ = await it.post()  # waits until a health check lets one through
            events = [each["what"] for each in it.gateway.tallies.events]

            assert upstream.breaker.state == "closed"
        assert (opened, status) == ("open", 200)
        assert [each for each in events if "breaker" in each] == [
            "breaker opened",
            "breaker half-open",
            "breaker closed",
        ]

    asyncio.run(scenario())


def test_an_upstream_that_fails_its_health_checks_gets_nothing_until_it_is_well() -> None:
    async def scenario() -> None:
        one, other = FakeUpstream(), FakeUpstream()
        async with bed(one, other, breaker_failures=2) as it:
            upstreams = it.gateway.queue.instances.upstreams
            one.healthy = False
            await until(lambda: upstreams["u1"].breaker.state == "open")
            for _ in range(4):
                await it.post()
            before = len(one.got)
            one.healthy = True
            await until(lambda: upstreams["u1"].breaker.state != "open")
            for _ in range(4):
                await it.post()

        assert before == 0
        assert len(one.got) > 0

    asyncio.run(scenario())


def test_what_waits_for_a_model_that_nobody_serves_any_more_fails_after_a_while() -> None:
    async def scenario() -> None:
        sick = FakeUpstream(healthy=False)
        async with bed(sick, breaker_failures=1, no_upstream_s=0.1) as it:
            upstream = it.gateway.queue.instances.upstreams["u1"]
            await until(lambda: upstream.breaker.state == "open")
            status, value, headers = await it.post()

        assert (status, value["error"]["code"]) == (503, "no_upstream")
        assert headers["Retry-After"] == "1"

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_cancels_its_request_upstream(stream: bool) -> None:  # noqa: FBT001
    async def endless(exchange: Exchange) -> None:
        if stream:
            await exchange.begin_stream()
            await exchange.event(EVENTS[0])
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with bed(FakeUpstream(endless)) as it:
            queue = it.gateway.queue
            post = asyncio.create_task(it.post(chat(stream=stream)))
            await until(lambda: it.upstreams[0].got)
            post.cancel()
            await asyncio.wait_for(it.upstreams[0].gone.wait(), 60)
            await until(lambda: not queue.tickets)

            assert it.gateway.tallies.disconnects == 1
            assert queue.instances.upstreams["u1"].in_flight == 0

    asyncio.run(scenario())


def test_a_client_that_hangs_up_while_it_waits_is_never_sent() -> None:
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await exchange.answer()

    async def scenario() -> None:
        async with bed(FakeUpstream(held), limit=1) as it:
            queue = it.gateway.queue
            first = asyncio.create_task(it.post())
            await until(lambda: it.upstreams[0].got)
            waiting = asyncio.create_task(it.post())
            await until(lambda: queue.queued == 1)
            waiting.cancel()
            await until(lambda: queue.queued == 0)
            holding.set()
            status, _, _ = await first

            assert len(it.upstreams[0].got) == 1
        assert status == 200

    asyncio.run(scenario())


def test_a_client_that_reads_nothing_is_disconnected() -> None:
    async def floods(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while True:
            await exchange.event(b"data: " + b"x" * 60_000 + b"\n\n")

    async def scenario() -> None:
        async with bed(FakeUpstream(floods), client_stall_s=0.3) as it:
            reader, writer = await asyncio.open_connection("127.0.0.1", it.gateway.port, limit=1024)
            body = json.dumps(chat(stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await reader.readline()
            await asyncio.wait_for(it.upstreams[0].gone.wait(), 60)
            await until(lambda: not it.gateway.queue.tickets)
            writer.close()

    asyncio.run(scenario())


def test_a_queue_that_is_full_answers_429() -> None:
    async def scenario() -> None:
        async with bed(FakeUpstream(_never), limit=1, max_queued=2) as it:
            queue = it.gateway.queue
            posts = [asyncio.create_task(it.post())]
            await until(lambda: it.upstreams[0].got)
            posts += [asyncio.create_task(it.post()) for _ in range(2)]
            await until(lambda: queue.queued == 2)
            status, value, headers = await it.post()
            for each in posts:
                each.cancel()
            await asyncio.gather(*posts, return_exceptions=True)

        assert (status, value["error"]["code"]) == (429, "queue_full")
        assert headers["Retry-After"] == "1"

    asyncio.run(scenario())


def test_connections_beyond_the_limit_get_a_503() -> None:
    async def scenario() -> None:
        async with bed(max_connections=4) as it:
            port = it.gateway.port
            there = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            await it_is_connected(there)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            refused = await reader.read()
            for _, each in (*there, (reader, writer)):
                each.close()

        assert refused.startswith(b"HTTP/1.1 503")
        assert b"too_many_connections" in refused

    async def it_is_connected(
        there: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> None:
        for reader, writer in there:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"}")

    asyncio.run(scenario())


def test_hundreds_at_once_are_each_answered_once() -> None:
    seen: list[int] = []

    async def counted(exchange: Exchange) -> None:
        number = json.loads(exchange.body)["n"]
        seen.append(number)
        await exchange.answer({"n": number})

    async def scenario() -> None:
        async with bed(FakeUpstream(counted), FakeUpstream(counted), limit=8) as it:
            replies = await asyncio.gather(*(it.post(chat(n=n)) for n in range(300)))

        assert [each[1]["n"] for each in replies] == list(range(300))
        assert sorted(seen) == list(range(300))

    asyncio.run(scenario())


def test_two_requests_with_one_id_are_two_requests() -> None:
    async def scenario() -> None:
        async with bed() as it:
            same = {"x-request-id": "same"}
            replies = await asyncio.gather(*(it.post(headers=same) for _ in range(2)))

            assert len(it.upstreams[0].got) == 2
        assert [each[0] for each in replies] == [200, 200]

    asyncio.run(scenario())


def test_no_prompt_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with bed(FakeUpstream(_fails)) as it:
            await it.post(chat(text="my-prompt"))
            await it.post(b'{"my-prompt": ')

    with caplog.at_level(0):
        asyncio.run(scenario())

    assert "my-prompt" not in caplog.text


async def _never(exchange: Exchange) -> None:
    del exchange
    await asyncio.Event().wait()


async def _fails(exchange: Exchange) -> None:
    await exchange.answer({}, 500)


@pytest.mark.parametrize(
    "sent",
    [
        b"Authorization: Bearer SECRET\x01\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nSECRET\r\n\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\nSECRET",
        b"Content-Length: 2\r\nContent-Length: 3\r\nX-A: SECRET\r\n\r\n{}",
        b"x-steward-class: \xff\r\nContent-Length: 13\r\n\r\n" + b'{"model":"m"}',
    ],
    ids=["key", "chunk", "encoding", "two lengths", "bytes that are no text"],
)
def test_what_is_no_http_is_answered_in_openais_form_and_never_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> bytes:
        async with bed() as it:
            reader, writer = await asyncio.open_connection("127.0.0.1", it.gateway.port)
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            writer.write(head.encode() + sent)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
        return answer

    with caplog.at_level("DEBUG"):
        answer = asyncio.run(scenario())

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"400"
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    assert b"SECRET" not in answer
    assert "SECRET" not in caplog.text
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
