"""What clients of the OpenAI API get: from the stand-in, or a server at STEWARD_OPENAI_URL."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from steward.service.stand_in import StandInSettings, stand_in

REAL = os.environ.get("STEWARD_OPENAI_URL", "").rstrip("/").removesuffix("/v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    session: aiohttp.ClientSession
    url: str
    model: str

    async def ask(self, path: str, **fields: Any) -> tuple[int, Any]:
        body = {"model": self.model, **fields}
        async with self.session.post(self.url + path, json=body) as answer:
            return answer.status, await answer.json()

    async def events(self, path: str, **fields: Any) -> list[Any]:
        """Return the events of a stream, "[DONE]" among them."""
        body = {"model": self.model, "stream": True, **fields}
        async with self.session.post(self.url + path, json=body) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            lines = [each.decode().strip() async for each in answer.content]
        data = [each.removeprefix("data: ") for each in lines if each.startswith("data: ")]
        return [each if each == "[DONE]" else json.loads(each) for each in data]


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    async with aiohttp.ClientSession() as session:
        if REAL:
            async with session.get(f"{REAL}/v1/models") as answer:
                model = (await answer.json())["data"][0]["id"]
            yield Server(session=session, url=REAL, model=model)
            return
        async with stand_in(StandInSettings(speed=100.0)) as running:
            yield Server(session=session, url=running.url, model="llama-8b")


SAY = [{"role": "user", "content": "Count from one to five."}]


def test_a_chat_is_answered_with_its_usage() -> None:
    async def run() -> Any:
        async with server() as there:
            return await there.ask("/v1/chat/completions", messages=SAY, max_tokens=5)

    status, answer = asyncio.run(run())

    assert status == 200
    assert answer["object"] == "chat.completion"
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    assert choice["finish_reason"] in ("length", "stop")
    usage = answer["usage"]
    assert 1 <= usage["completion_tokens"] <= 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_stream_has_the_text_the_reason_and_the_usage() -> None:
    async def run() -> list[Any]:
        async with server() as there:
            return await there.events(
                "/v1/chat/completions",
                messages=SAY,
                max_tokens=6,
                stream_options={"include_usage": True},
            )

    *events, last = asyncio.run(run())

    assert last == "[DONE]"
    choices = [each["choices"][0] for each in events if each["choices"]]
    assert "".join(each["delta"].get("content") or "" for each in choices)
    reasons = [each["finish_reason"] for each in choices if each["finish_reason"]]
    assert len(reasons) == 1
    assert events[-1]["choices"] == []
    assert 1 <= events[-1]["usage"]["completion_tokens"] <= 6
    assert len({each["id"] for each in events}) == 1


def test_a_completion_is_the_same_whole_and_streamed() -> None:
    async def run() -> tuple[Any, list[Any]]:
        async with server() as there:
            asked = {"prompt": "one two three", "max_tokens": 4, "temperature": 0}
            _, whole = await there.ask("/v1/completions", **asked)
            return whole, await there.events("/v1/completions", **asked)

    whole, (*events, last) = asyncio.run(run())

    assert last == "[DONE]"
    text = "".join(each["choices"][0]["text"] for each in events if each["choices"])
    assert text == whole["choices"][0]["text"]


def test_models_are_listed() -> None:
    async def run() -> Any:
        async with server() as there, there.session.get(f"{there.url}/v1/models") as answer:
            return await answer.json()

    answer = asyncio.run(run())

    assert answer["object"] == "list"
    assert all(each["object"] == "model" and each["id"] for each in answer["data"])


def test_an_unknown_model_is_answered_404() -> None:
    async def run() -> Any:
        async with server() as there:
            return await there.ask("/v1/chat/completions", model="no-such-model", messages=SAY)

    status, answer = asyncio.run(run())

    assert status == 404
    assert "no-such-model" in answer["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff", b"{}"])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    async def run() -> tuple[int, Any]:
        async with server() as there:
            url = f"{there.url}/v1/completions"
            headers = {"Content-Type": "application/json"}
            async with there.session.post(url, data=body, headers=headers) as answer:
                return answer.status, await answer.json()

    status, answer = asyncio.run(run())

    assert 400 <= status < 500
    assert answer["error"]["message"]


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    async def run() -> tuple[int, Any]:
        async with server() as there:
            return await there.ask("/v1/completions", prompt="word " * 190_000, max_tokens=1)

    status, answer = asyncio.run(run())

    assert status == 400
    assert "context length" in answer["error"]["message"]
