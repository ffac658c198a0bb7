"""Answers of a real llama.cpp server, as they were recorded, pass through the gateway unchanged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from service.gateway.bed import Exchange, FakeUpstream, bed
from steward.service.gateway.engine_metrics import read_load
from steward.service.gateway.upstream import EngineLoad

FOLDER = Path(__file__).parents[2] / "data" / "llama-server-h200"
MODEL = "random-llama-1b"
TRANSCRIPTS: list[dict[str, Any]] = json.loads((FOLDER / "transcripts.json").read_text("utf-8"))
# What the gateway does not leave to the server: the model has to exist, and the body to be JSON.
RELAYED = [
    each
    for each in TRANSCRIPTS
    if each["method"] == "POST" and each["name"] not in ("unknown-model", "bad-json")
]


def answering(transcript: dict[str, Any]) -> FakeUpstream:
    async def answers(exchange: Exchange) -> None:
        body = transcript["body"].encode()
        if transcript["headers"]["Content-Type"] != "text/event-stream":
            await exchange.answer(raw=body, status=transcript["status"])
        else:
            await exchange.stream([part + b"\n\n" for part in body.split(b"\n\n") if part])

    return FakeUpstream(answers, metrics=(FOLDER / "metrics.txt").read_text("utf-8"))


@pytest.mark.parametrize("transcript", RELAYED, ids=[each["name"] for each in RELAYED])
def test_a_recorded_answer_comes_back_byte_for_byte(transcript: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with bed(answering(transcript), models=(MODEL,)) as it:
            data = json.dumps(transcript["request"]).encode()
            async with it.client.post(it.url + transcript["path"], data=data) as response:
                status, body = response.status, await response.read()
            upstream = it.gateway.queue.instances.upstreams["u1"]

            assert (status, body) == (transcript["status"], transcript["body"].encode())
            assert it.upstreams[0].got[0].body == data
            assert (upstream.errors, upstream.breaker.failures) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "tokens"),
    # without usage, the events of a stream are counted: role, text, and the end of it, too
    [("chat", 8), ("completion", 8), ("responses", 6), ("chat-stream-usage", 5)],
)
def test_its_usage_is_read(name: str, tokens: int) -> None:
    async def scenario() -> None:
        transcript = next(each for each in TRANSCRIPTS if each["name"] == name)
        async with bed(answering(transcript), models=(MODEL,)) as it:
            await it.post(transcript["request"], path=transcript["path"])

            assert it.gateway.queue.instances.upstreams["u1"].tokens == tokens

    asyncio.run(scenario())


def test_its_models_are_found() -> None:
    async def scenario() -> None:
        transcript = next(each for each in TRANSCRIPTS if each["name"] == "models")
        names = [each["id"] for each in json.loads(transcript["body"])["data"]]
        async with bed(FakeUpstream(models=names), models=()) as it:
            status, _, _ = await it.post({"model": MODEL, "messages": []})

        assert status == 200

    asyncio.run(scenario())


def test_its_metrics_are_read() -> None:
    text = (FOLDER / "metrics.txt").read_text("utf-8")

    load = read_load(text)

    assert load == EngineLoad(running=0.0, waiting=0.0, generated_tokens=434244.0)
