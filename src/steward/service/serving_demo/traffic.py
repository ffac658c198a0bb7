"""What clients of the demo do: chat in waves, and one batch of requests."""

from __future__ import annotations

import asyncio
import io
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

__all__ = ["Batch", "Chat"]

_WORDS = ("tell", "me", "how", "a", "queue", "before", "model", "servers", "keeps", "promises")


@dataclass(slots=True, kw_only=True)
class Chat:
    """Streams that arrive in waves; `ttft_s` is how long each waited for its first token."""

    session: aiohttp.ClientSession
    url: str
    model: str
    seed: int
    ttft_s: list[float] = field(default_factory=list)
    failed: int = 0
    sent: int = 0

    async def arrive(self, *, for_s: float, low: float, high: float, period_s: float) -> None:
        """Send requests, from `low` to `high` a second and back in each period."""
        draw = random.Random(self.seed)  # noqa: S311 - traffic
        begin_s = time.monotonic()
        async with asyncio.TaskGroup() as clients:
            while (passed_s := time.monotonic() - begin_s) < for_s:
                share = 0.5 - 0.5 * math.cos(2 * math.pi * passed_s / period_s)
                await asyncio.sleep(draw.expovariate(low + (high - low) * share))
                clients.create_task(self._ask(draw.randint(10, 80), draw.randint(20, 90)))

    async def _ask(self, words: int, tokens: int) -> None:
        text = " ".join(_WORDS[(self.sent + each) % len(_WORDS)] for each in range(words))
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": tokens,
            "stream": True,
        }
        self.sent += 1
        sent_s = time.monotonic()
        try:
            url = f"{self.url}/v1/chat/completions"
            async with self.session.post(url, json=body) as answer:
                first = True
                async for line in answer.content:
                    if first and line.startswith(b"data: {") and answer.status == 200:
                        self.ttft_s.append(time.monotonic() - sent_s)
                        first = False
                self.failed += first
        except aiohttp.ClientError:
            self.failed += 1


@dataclass(slots=True, kw_only=True)
class Batch:
    """One file of requests with an hour to be answered."""

    session: aiohttp.ClientSession
    url: str
    model: str
    items: int
    id: str = ""

    async def begin(self) -> None:
        """Upload the file, and create the batch."""
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", io.BytesIO(self._content()), filename="questions.jsonl")
        async with self.session.post(f"{self.url}/v1/files", data=form) as answer:
            file = (await answer.json())["id"]
        body = {
            "input_file_id": file,
            "endpoint": "/v1/completions",
            "completion_window": "1h",
        }
        async with self.session.post(f"{self.url}/v1/batches", json=body) as answer:
            self.id = (await answer.json())["id"]

    async def look(self) -> dict[str, Any]:
        """Return the batch as it is now."""
        async with self.session.get(f"{self.url}/v1/batches/{self.id}") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def answers(self) -> int:
        """Return how many different requests are in the output file."""
        file = (await self.look())["output_file_id"]
        if file is None:
            return 0
        async with self.session.get(f"{self.url}/v1/files/{file}/content") as answer:
            lines = (await answer.read()).splitlines()
        return len({json.loads(line)["custom_id"] for line in lines})

    def _content(self) -> bytes:
        rows = [
            {
                "custom_id": f"question-{number}",
                "method": "POST",
                "url": "/v1/completions",
                "body": {"model": self.model, "prompt": f"question {number}", "max_tokens": 60},
            }
            for number in range(self.items)
        ]
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
