"""What the stand-in does beyond the OpenAI API: faults, metrics, sleep, adapters."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import pytest

from patience import LONG_S
from steward.errors import StewardError
from steward.service.stand_in import FaultShares, RunningStandIn, StandInSettings, stand_in

T = TypeVar("T")
Use = Callable[[aiohttp.ClientSession, RunningStandIn], Awaitable[T]]


def use(settings: StandInSettings, work: Use[T]) -> T:
    async def run() -> T:
        async with running(settings) as (session, there):
            return await asyncio.wait_for(work(session, there), LONG_S)

    return asyncio.run(run())


@asynccontextmanager
async def running(
    settings: StandInSettings,
) -> AsyncIterator[tuple[aiohttp.ClientSession, RunningStandIn]]:
    async with stand_in(settings) as there, aiohttp.ClientSession(there.url) as session:
        yield session, there


async def complete(session: aiohttp.ClientSession, **fields: Any) -> tuple[int, Any]:
    body = {"model": "llama-8b", "prompt": "x", "max_tokens": 8, **fields}
    async with session.post("/v1/completions", json=body) as answer:
        return answer.status, await answer.json(content_type=None)


async def stream(session: aiohttp.ClientSession, **fields: Any) -> bytes:
    body = {"model": "llama-8b", "prompt": "x", "max_tokens": 40, "ignore_eos": True, **fields}
    held = b""
    async with session.post("/v1/completions", json=body | {"stream": True}) as answer:
        async for chunk in answer.content.iter_any():
            held += chunk
    return held


async def metrics(session: aiohttp.ClientSession) -> dict[str, float]:
    async with session.get("/metrics") as answer:
        text = await answer.text()
    rows = re.findall(r"^([a-z0-9:_]+)(?:\{[^}]*\})? (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in rows}


FAST = StandInSettings(speed=100.0)


def test_the_same_prompt_has_the_same_answer_of_the_same_length() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> list[Any]:
        asked = {"prompt": "again", "max_tokens": None}
        return [(await complete(session, **asked))[1] for _ in range(2)]

    first, again = use(FAST, work)

    assert first["choices"] == again["choices"]
    assert first["usage"] == again["usage"]
    assert first["choices"][0]["finish_reason"] in ("stop", "length")


def test_exact_answers_have_all_their_tokens() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> Any:
        return await complete(session, max_tokens=123)

    _, answer = use(StandInSettings(speed=100.0, exact=True, mean_output=1), work)

    assert answer["usage"]["completion_tokens"] == 123
    assert answer["choices"][0]["text"].count(" ") == 123
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_client_that_leaves_frees_its_place() -> None:
    async def work(session: aiohttp.ClientSession, there: RunningStandIn) -> dict[str, float]:
        body = {"model": "llama-8b", "prompt": "x", "max_tokens": 20_000, "ignore_eos": True}
        async with session.post("/v1/completions", json=body | {"stream": True}) as answer:
            await answer.content.readany()
            assert there.server.running == 1
        while there.server.running:  # noqa: ASYNC110 - the server is no event
            await asyncio.sleep(0.005)
        return await metrics(session)

    found = use(StandInSettings(), work)

    assert found["vllm:num_requests_running"] == 0
    assert found["vllm:kv_cache_usage_perc"] == 0


def test_metrics_count_what_was_served() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> dict[str, float]:
        prompt = "shared " * 300
        for _ in range(3):
            await complete(session, prompt=prompt, max_tokens=5, ignore_eos=True)
        return await metrics(session)

    found = use(FAST, work)

    assert found["vllm:generation_tokens_total"] == 15
    assert found["vllm:prompt_tokens_total"] == 3 * 525
    assert found["vllm:prefix_cache_hits_total"] == 2 * 512
    assert found["vllm:time_to_first_token_seconds_count"] == 3
    assert found["vllm:inter_token_latency_seconds_count"] == 12
    assert found["vllm:e2e_request_latency_seconds_count"] == 3
    assert found["vllm:cache_config_info"] == 1


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("vllm", "vllm:kv_cache_usage_perc"),
        ("vllm-old", "vllm:gpu_cache_usage_perc"),
        ("sglang", "sglang:num_queue_reqs"),
    ],
)
def test_metrics_have_the_names_of_their_dialect(dialect: str, name: str) -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> dict[str, float]:
        return await metrics(session)

    found = use(StandInSettings(metrics=dialect), work)

    assert found[name] == 0
    assert {each.split(":")[0] for each in found} == {dialect.split("-", maxsplit=1)[0]}


def test_a_server_without_metrics_has_none() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> dict[str, float]:
        return await metrics(session)

    assert use(StandInSettings(metrics="none"), work) == {}


def test_a_sleeping_server_answers_when_it_wakes() -> None:
    async def work(session: aiohttp.ClientSession, there: RunningStandIn) -> tuple[bool, int]:
        async with session.post("/sleep?level=1") as answer:
            assert answer.status == 200
        async with session.get("/is_sleeping") as answer:
            assert await answer.json() == {"is_sleeping": True}
        asked = asyncio.create_task(complete(session))
        while not there.server.waiting:  # noqa: ASYNC110 - the server is no event
            await asyncio.sleep(0.005)
        waits = not asked.done()
        async with session.post("/wake_up") as answer:
            assert answer.status == 200
        return waits, (await asked)[0]

    assert use(FAST, work) == (True, 200)


def test_adapters_are_loaded_used_and_unloaded() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> list[int]:
        adapter = {"lora_name": "fine", "lora_path": "/nowhere"}

        async def post(path: str, body: dict[str, str]) -> int:
            async with session.post(path, json=body) as answer:
                return answer.status

        return [
            (await complete(session, model="fine"))[0],
            await post("/v1/load_lora_adapter", adapter),
            await post("/v1/load_lora_adapter", adapter),
            (await complete(session, model="fine"))[0],
            await post("/v1/unload_lora_adapter", adapter),
            await post("/v1/unload_lora_adapter", adapter),
            await post("/v1/unload_lora_adapter", {}),
            (await complete(session, model="fine"))[0],
        ]

    assert use(FAST, work) == [404, 200, 400, 200, 200, 404, 400, 404]


def test_a_key_is_asked_for() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> list[int]:
        found = []
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"}):
            async with session.get("/v1/models", headers=headers) as answer:
                found.append(answer.status)
        async with session.get("/health") as answer:
            found.append(answer.status)
        return found

    assert use(StandInSettings(api_key="right"), work) == [401, 401, 200, 200]


def test_faults_break_answers_in_their_ways() -> None:
    async def work(session: aiohttp.ClientSession, there: RunningStandIn) -> None:
        async def fault(kind: str) -> None:
            async with session.post("/stand_in/faults", json={kind: 1.0}) as answer:
                assert answer.status == 200

        await fault("error")
        status, answer = await complete(session)
        assert (status, answer["error"]["code"]) == (500, 500)
        await fault("garbage")
        with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
            await complete(session)
        with pytest.raises(aiohttp.ClientError):
            assert b"[DONE]" not in await stream(session)
        for kind in ("reset", "cut"):
            await fault(kind)
            with pytest.raises(aiohttp.ClientError):
                await complete(session)
            with pytest.raises(aiohttp.ClientError):
                await stream(session)
        await fault("stall")
        for stalls in (complete(session), stream(session)):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stalls, 0.3)
        async with session.post("/stand_in/faults", json={}) as cleared:
            assert cleared.status == 200
        assert (await complete(session))[0] == 200
        while there.server.running:  # noqa: ASYNC110 - the server is no event
            await asyncio.sleep(0.005)

    use(FAST, work)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"melt": 1}', b'{"reset": 2}', b'{"cut": "x"}'])
def test_shares_of_faults_that_cannot_be_are_refused(body: bytes) -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> int:
        async with session.post("/stand_in/faults", data=body) as answer:
            return answer.status

    assert use(FAST, work) == 400


def test_shares_are_drawn_as_they_were_given() -> None:
    shares = FaultShares(error=0.2, stall=0.1)

    assert [shares.kind(each) for each in (0.0, 0.19, 0.21, 0.29, 0.31)] == [
        *("error", "error", "stall", "stall", ""),
    ]
    with pytest.raises(StewardError, match=r"error 0\.7.*reset 0\.6"):
        FaultShares(error=0.7, reset=0.6)


def test_more_requests_than_places_are_refused() -> None:
    async def work(session: aiohttp.ClientSession, there: RunningStandIn) -> int:
        asked = asyncio.create_task(stream(session, max_tokens=20_000))
        while not there.server.full:  # noqa: ASYNC110 - the server is no event
            await asyncio.sleep(0.005)
        status, _ = await complete(session)
        asked.cancel()
        return status

    assert use(StandInSettings(places=1), work) == 503


def test_embeddings_and_responses_are_answered() -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> tuple[Any, Any]:
        asked = {"model": "llama-8b", "input": ["a", "b"]}
        async with session.post("/v1/embeddings", json=asked) as answer:
            embeddings = await answer.json()
        asked = {"model": "llama-8b", "input": "say", "max_output_tokens": 3}
        async with session.post("/v1/responses", json=asked) as answer:
            return embeddings, await answer.json()

    embeddings, response = use(FAST, work)

    assert [each["index"] for each in embeddings["data"]] == [0, 1]
    assert response["object"] == "response"
    assert response["output"][0]["content"][0]["text"]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"prompt": ["a", "b"]},
        {"prompt": {"a": 1}},
        {"prompt": [1, "a"]},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"model": 7},
    ],
)
def test_what_is_not_served_is_refused_with_a_reason(fields: dict[str, Any]) -> None:
    async def work(session: aiohttp.ClientSession, _there: RunningStandIn) -> tuple[int, Any]:
        return await complete(session, **fields)

    status, answer = use(FAST, work)

    assert status == 400
    assert answer["error"]["message"]
