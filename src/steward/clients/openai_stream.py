"""Sends one request to an OpenAI-compatible server and takes the times of its streamed answer."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

__all__ = ["StreamedAnswer", "split_events", "stream_answer"]

_MOST_LINE_BYTES = 1 << 20
_MOST_ERROR_BYTES = 2000
_TEXT = ("content", "reasoning_content", "reasoning", "text")


@dataclass(slots=True, kw_only=True)
class StreamedAnswer:
    """What came back so far, by `time.monotonic`. `error` is a kind, empty if there is none."""

    sent_s: float
    first_s: float = float("nan")
    last_s: float = float("nan")
    end_s: float = float("nan")
    pieces: int = 0  # events with text
    prompt_tokens: int | None = None  # as the server counted them
    output_tokens: int | None = None
    complete: bool = False  # a finish reason or [DONE] came
    error: str = ""
    detail: str = ""

    def fail(self, kind: str, detail: str) -> None:
        """Note the first thing that went wrong, unless all had come by then."""
        if not self.error and not (self.complete and self.pieces):
            self.error, self.detail = kind, detail[:300]


async def stream_answer(
    session: aiohttp.ClientSession,
    url: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    answer: StreamedAnswer,
) -> None:
    """Send `body` and fill in `answer`. What goes wrong is in it; only cancelling raises."""
    try:
        async with session.post(url, json=body, headers=dict(headers)) as reply:
            if reply.status != 200:
                text = (await reply.content.read(_MOST_ERROR_BYTES)).decode("utf-8", "replace")
                answer.fail(f"status {reply.status}", text)
                return
            async for event in split_events(reply.content.iter_any()):
                if not _take(answer, event):
                    break
        if not answer.complete:
            answer.fail("cut", "the stream ended without a finish reason")
        answer.fail("empty", "no token came")
    except TimeoutError:
        answer.fail("timeout", "it took longer than allowed")
    except aiohttp.ClientConnectionError as fault:
        answer.fail("connection", str(fault) or type(fault).__name__)
    except (aiohttp.ClientError, ValueError) as fault:
        answer.fail("garbage", str(fault) or type(fault).__name__)
    finally:
        answer.end_s = time.monotonic()


async def split_events(parts: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Return the data of each server-sent event; comments and other fields are left out."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode("utf-8", "replace")
        if len(rest) > _MOST_LINE_BYTES:
            problem = f"a line of the stream is longer than {_MOST_LINE_BYTES} bytes"
            raise ValueError(problem)
    if rest.startswith(b"data:"):
        yield rest[5:].strip().decode("utf-8", "replace")


def _take(answer: StreamedAnswer, event: str) -> bool:
    """Take in one event; return False after one that cannot be read."""
    if event == "[DONE]":
        answer.complete = True
        return True  # read to the end, so that the connection can be used again
    try:
        found = json.loads(event)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        answer.fail("garbage", f"an event that is no JSON object: {event[:100]}")
        return False
    if found.get("error"):
        answer.fail("error event", json.dumps(found["error"]))
        return False
    choices = found.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        _take_choice(answer, choice)
    _take_usage(answer, found.get("usage"))
    return True


def _take_choice(answer: StreamedAnswer, choice: object) -> None:
    if not isinstance(choice, dict):
        return
    delta = choice.get("delta")
    places = (choice, delta) if isinstance(delta, dict) else (choice,)
    if any(place.get(name) for place in places for name in (*_TEXT, "tool_calls")):
        now_s = time.monotonic()
        answer.first_s = now_s if not answer.pieces else answer.first_s
        answer.last_s = now_s
        answer.pieces += 1
    if choice.get("finish_reason"):
        answer.complete = True


def _take_usage(answer: StreamedAnswer, usage: object) -> None:
    if not isinstance(usage, dict):
        return
    prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if isinstance(prompt, int) and prompt > 0:
        answer.prompt_tokens = prompt
    if isinstance(output, int) and output > 0:
        answer.output_tokens = output
