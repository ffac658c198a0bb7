"""Recorded requests at a real socket: sent when due, measured, and every fault by its kind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from clients.openai_server import FakeOpenAi, Misbehave, begun, fake_openai, nobody, send, token
from steward.clients.openai_stream import split_events
from steward.clients.request_replay import (
    Replayed,
    ReplayTarget,
    prompt_text,
    replay,
    served_models,
)
from steward.errors import StewardError
from steward.model.serving.requests import BATCH, INTERACTIVE, RequestTrace, requests_of


def trace(count: int = 4, *, gap_s: float = 0.01, **more: Any) -> RequestTrace:
    return requests_of(
        "t",
        arrival_s=np.arange(count) * gap_s,
        prompt_tokens=np.full(count, 20),
        output_tokens=np.arange(count) + 1,
        classes=(INTERACTIVE, BATCH),
        deadline_class=np.arange(count) % 2,
        **more,
    )


def replayed(
    server: FakeOpenAi, asked: RequestTrace, *, stop_when: asyncio.Event | None = None, **more: Any
) -> Replayed:
    async def run() -> Replayed:
        stop = stop_when or asyncio.Event()
        target = ReplayTarget(url=server.url, **more)
        return await replay(asked, target, models=("m",), stop=stop)

    return asyncio.run(run())


def test_all_requests_are_sent_with_their_lengths_and_classes() -> None:
    with fake_openai() as server:
        found = replayed(server, trace())

    by_length = sorted(server.bodies, key=lambda each: each["max_tokens"])
    assert [each["max_tokens"] for each in by_length] == [1, 2, 3, 4]
    assert {each["model"] for each in by_length} == {"m"}
    assert all(each["stream"] and each["ignore_eos"] for each in by_length)
    assert sorted(server.classes) == ["batch", "batch", "interactive", "interactive"]
    assert found.output_tokens.tolist() == [1, 2, 3, 4]
    assert found.settled.tolist() == [0, 1, 2, 3]
    assert set(found.errors) == {""}
    assert (found.finish_s >= found.first_s).all()
    assert (found.first_s >= found.sent_s).all()
    assert (found.sent_s >= found.due_s).all()


def test_completions_have_the_recorded_number_of_words() -> None:
    with fake_openai() as server:
        found = replayed(server, trace(), chat=False, ignore_eos=False)

    assert all(len(each["prompt"].split()) == 20 for each in server.bodies)
    assert not any("ignore_eos" in each for each in server.bodies)
    assert found.prompt_tokens.tolist() == [20.0] * 4


def test_a_key_is_sent() -> None:
    with fake_openai() as server:
        replayed(server, trace(1), api_key="k")

    assert server.keys == ["Bearer k"]


def test_a_slow_answer_holds_up_no_later_request() -> None:
    release = asyncio.Event()

    async def slow(_request: web.Request, number: int) -> None:
        if number == 4:
            release.set()
        elif number == 1:
            await release.wait()  # until the last one has come

    with fake_openai(slow) as server:
        found = replayed(server, trace())

    assert found.settled.tolist() == [0, 1, 2, 3]


def test_requests_beyond_the_connections_wait_and_are_counted() -> None:
    with fake_openai() as server:
        found = replayed(server, trace(6, gap_s=0.0), connections=1)

    assert len(found.settled) == 6
    assert found.held >= 1
    assert len(found.late_s) == 6


async def answer_500(_request: web.Request, _number: int) -> web.Response:
    return web.Response(status=500, text="out of memory")


async def answer_garbage(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await send(reply, "{not json")
    return reply


async def cut_off(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await send(reply, token())
    return reply


async def reset(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await send(reply, token())
    assert request.transport is not None
    request.transport.abort()
    return reply


async def say_nothing(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await send(reply, "[DONE]")
    return reply


async def stream_an_error(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await send(reply, {"error": {"message": "no room"}})
    return reply


async def never_break_the_line(request: web.Request, _number: int) -> web.StreamResponse:
    reply = await begun(request)
    await reply.write(b"data: " + b"x" * (3 << 20))
    return reply


@pytest.mark.parametrize(
    ("misbehave", "kind", "words"),
    [
        (answer_500, "status 500", "out of memory"),
        (answer_garbage, "garbage", "{not json"),
        (cut_off, "cut", "finish reason"),
        (say_nothing, "empty", "no token"),
        (stream_an_error, "error event", "no room"),
        (never_break_the_line, "garbage", "longer than"),
    ],
)
def test_each_fault_of_a_server_has_its_kind(misbehave: Misbehave, kind: str, words: str) -> None:
    with fake_openai(misbehave) as server:
        found = replayed(server, trace(2))

    assert found.errors == (kind, kind)
    assert words in found.details[kind]
    assert not np.isfinite(found.finish_s).any()
    assert len(found.settled) == 2


def test_a_reset_is_an_error_and_what_follows_is_still_sent() -> None:
    async def reset_the_first(request: web.Request, number: int) -> web.StreamResponse | None:
        return await reset(request, number) if number == 1 else None

    with fake_openai(reset_the_first) as server:
        found = replayed(server, trace(3))

    assert sum(bool(each) for each in found.errors) == 1
    assert np.isfinite(found.finish_s).sum() == 2


def test_a_server_that_hangs_runs_into_the_timeout() -> None:
    async def hang(_request: web.Request, _number: int) -> None:
        await asyncio.Event().wait()

    with fake_openai(hang) as server:
        found = replayed(server, trace(1), timeout_s=0.05)

    assert found.errors == ("timeout",)


def test_a_server_that_is_not_there_is_an_error_of_connection() -> None:
    with nobody() as url:
        found = replayed(FakeOpenAi(url=url), trace(2))

    assert found.errors == ("connection", "connection")


def test_stopping_gives_what_was_measured_and_counts_nothing_else() -> None:
    async def run(server: FakeOpenAi, stop: asyncio.Event) -> Replayed:
        async def stop_at_the_second() -> None:
            while len(server.bodies) < 2:  # noqa: ASYNC110 - the server is on another thread
                await asyncio.sleep(0.001)
            stop.set()

        watching = asyncio.create_task(stop_at_the_second())
        target = ReplayTarget(url=server.url)
        found = await replay(late, target, models=("m",), stop=stop)
        await watching
        return found

    async def hang_on_the_second(_request: web.Request, number: int) -> None:
        if number == 2:
            await asyncio.Event().wait()

    late = replace(trace(3), arrival_s=np.array([0.0, 0.3, 3600.0]))
    with fake_openai(hang_on_the_second) as server:
        found = asyncio.run(run(server, asyncio.Event()))

    assert found.interrupted
    assert 2 not in found.settled
    assert 1 not in found.settled
    assert np.isnan(found.sent_s[2])
    assert set(found.errors) == {""}


# -- prompts and models ------------------------------------------------------------------------


def test_equal_blocks_are_equal_text_and_the_rest_differs() -> None:
    first = prompt_text(50, [7, 8], 16, seed=1).split()
    other = prompt_text(50, [7, 9], 16, seed=2).split()

    assert len(first) == len(other) == 50
    assert first[:16] == other[:16]
    assert first[16:32] != other[16:32]
    assert first[32:] != other[32:]


def test_blocks_beyond_the_prompt_are_cut() -> None:
    assert len(prompt_text(10, [1, 2], 16, seed=1).split()) == 10


def test_the_models_of_a_server_are_listed() -> None:
    with fake_openai() as server:
        assert served_models(ReplayTarget(url=f"{server.url}/v1/")) == ("m",)


@pytest.mark.parametrize("models", [[], {"data": None}, {"data": [1, {"id": 3}]}])
def test_a_strange_list_of_models_is_empty(models: object) -> None:
    with fake_openai(models=models) as server:
        assert served_models(ReplayTarget(url=server.url)) == ()


def test_a_server_that_is_not_there_lists_nothing_and_that_is_said() -> None:
    with nobody() as url, pytest.raises(StewardError, match="no server answers"):
        served_models(ReplayTarget(url=url))


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(StewardError, match="is not an address"):
        ReplayTarget(url="localhost:8000")


def test_a_key_does_not_leave_the_machine_in_the_clear() -> None:
    with pytest.raises(StewardError, match="plain HTTP to another machine"):
        ReplayTarget(url="http://n1:8000", api_key="k")


def test_events_are_split_wherever_the_network_cuts_them() -> None:
    text = b'data: {"a":1}\r\n\n: comment\nevent: x\ndata:2\n\ndata: [DONE]'

    async def parts(size: int) -> Any:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    async def split(size: int) -> list[str]:
        return [each async for each in split_events(parts(size))]

    for size in range(1, len(text) + 1):
        assert asyncio.run(split(size)) == ['{"a":1}', "2", "[DONE]"]
