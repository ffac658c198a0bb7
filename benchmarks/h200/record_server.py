"""Record a real OpenAI-compatible server: what it answers, its step times, and loads with a queue.

Runs on the server's machine and writes `transcripts.json`, `steps.csv`, `load_NAME.csv` and
`metrics.txt`. LOADS is JSON: names of loads, each a list of [arrival_s, prompt tokens, output
tokens]. Requests wait first come, first served, and at most SLOTS are in flight, as before a
gateway. Needs aiohttp. Usage: record_server.py URL MODEL SLOTS LOADS FOLDER

`tests/data/llama-server-h200` was recorded by a first form of this program, which measured the same
in the same way; this form has only been run against a stand-in.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

KV_BYTES = 65_536  # of a token, with the model of `random_llama.py`
PREFILLS = (32, 64, 128, 256, 512, 1024, 2048, 3500)
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32)
CONTEXTS = (64, 512, 1500, 3000)
DECODED = 96
REPEATS = 5
STEP_COLUMNS = ("model", "kind", "batch", "tokens", "context", "kv_bytes", "s")
LOAD_COLUMNS = (
    "request",
    "arrival_s",
    "input_tokens",
    "output_tokens",
    "sent_s",
    "first_token_s",
    "finish_s",
    "completion_tokens",
    "server_prompt_ms",
    "server_decode_ms",
    "error",
)


@dataclass(slots=True, kw_only=True)
class Streamed:
    """When parts of a streamed answer came, and what its last lines said."""

    sent_s: float
    came_s: list[float] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """One server, and where what it does is written."""

    http: aiohttp.ClientSession
    url: str
    model: str
    slots: int
    folder: Path
    draw: random.Random

    def prompt(self, tokens: int) -> list[int]:
        """Return random token ids: no two prompts share a prefix beyond the first token."""
        return [1, *(self.draw.randrange(300, 31_000) for _ in range(tokens - 1))]

    async def stream(self, prompt: list[int], tokens: int) -> Streamed:
        """Complete a prompt by exactly so many tokens."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            "cache_prompt": False,
            "temperature": 0,
            "stream_options": {"include_usage": True},
        }
        found = Streamed(sent_s=time.time())
        tail = b""
        async with self.http.post(f"{self.url}/v1/completions", json=body) as answer:
            if answer.status != 200:
                found.error = (await answer.text())[:80]
                return found
            async for chunk in answer.content.iter_any():
                if b"data: " in chunk:
                    found.came_s.append(time.time())
                tail = (tail + chunk)[-1500:]
        for line in tail.split(b"\n"):
            if line.startswith(b"data: {") and line.endswith(b"}"):
                said = json.loads(line[6:])
                found.usage |= {**(said.get("usage") or {}), **said.get("timings", {})}
        return found

    async def record_answers(self) -> None:
        """Write whole answers, to bad input too."""
        found = []
        for name, method, path, body in _requests(self.model, self.prompt(9000)):
            data = body if isinstance(body, str) else None
            asked = None if data else body
            url = self.url + path
            async with self.http.request(method, url, json=asked, data=data) as answer:
                text = await answer.text()
                found.append(
                    {
                        "name": name,
                        "method": method,
                        "path": path,
                        "request": body if name != "too-long" else "9000 tokens",
                        "status": answer.status,
                        "headers": dict(answer.headers),
                        "body": text,
                    }
                )
        (self.folder / "transcripts.json").write_text(json.dumps(found, indent=1))

    async def record_steps(self) -> None:
        """Write prompts of one token's answer, and gaps between tokens while so many run."""
        rows: list[Sequence[object]] = []
        for tokens, _ in itertools.product(PREFILLS, range(REPEATS)):
            began_s = time.time()
            await self.stream(self.prompt(tokens), 1)
            took_s = time.time() - began_s
            rows.append((self.model, "prefill", 1, tokens, 0, KV_BYTES, took_s))
        for batch, context in itertools.product(BATCHES, CONTEXTS):
            if batch > self.slots:
                continue
            prompts = [self.prompt(context) for _ in range(batch)]
            found = await asyncio.gather(*(self.stream(each, DECODED) for each in prompts))
            begin_s = max(each.came_s[0] for each in found)
            end_s = min(each.came_s[-1] for each in found)
            mine = [at_s for at_s in found[0].came_s if begin_s < at_s < end_s]
            gaps = [after - before for before, after in itertools.pairwise(mine)]
            if len(gaps) >= 8:
                about = (batch, batch, context + DECODED // 2, KV_BYTES)
                rows.append((self.model, "decode", *about, statistics.median(gaps)))
        _write(self.folder / "steps.csv", STEP_COLUMNS, rows)

    async def record_load(self, name: str, requests: Sequence[tuple[float, int, int]]) -> None:
        """Send requests as they arrive and slots become free."""
        began_s = time.time()
        free = asyncio.Semaphore(self.slots)
        rows: list[Sequence[object]] = []

        async def one(number: int, arrived_s: float, prompt: int, output: int) -> None:
            found = await self.stream(self.prompt(prompt), output)
            free.release()
            ends = (found.came_s[0], found.came_s[-1]) if found.came_s else ()
            times: list[object] = [round(each - began_s, 5) for each in ends] or ["", ""]
            server = [round(found.usage.get(key, -1), 3) for key in ("prompt_ms", "predicted_ms")]
            sent = round(found.sent_s - began_s, 5)
            count = found.usage.get("completion_tokens", "")
            row = (number, arrived_s, prompt, output, sent, *times, count, *server, found.error)
            rows.append(row)

        tasks = []
        for number, (arrive_s, prompt, output) in enumerate(requests):
            await asyncio.sleep(max(0.0, began_s + arrive_s - time.time()))
            await free.acquire()
            tasks.append(asyncio.create_task(one(number, arrive_s, prompt, output)))
        await asyncio.gather(*tasks)
        rows.sort(key=lambda row: int(str(row[0])))
        _write(self.folder / f"load_{name}.csv", LOAD_COLUMNS, rows)


def _requests(model: str, too_long: list[int]) -> list[tuple[str, str, str, Any]]:
    messages = [{"role": "user", "content": "Say something."}]
    chat = {"model": model, "messages": messages, "max_tokens": 5}
    text = {"model": model, "prompt": "Once upon", "max_tokens": 4}
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    said = {"model": model, "input": "Say something.", "max_output_tokens": 6}
    return [
        ("health", "GET", "/health", None),
        ("models", "GET", "/v1/models", None),
        ("chat", "POST", "/v1/chat/completions", chat),
        ("chat-stream", "POST", "/v1/chat/completions", {**chat, "stream": True}),
        ("chat-stream-usage", "POST", "/v1/chat/completions", {**chat, **usage}),
        ("completion", "POST", "/v1/completions", text),
        ("completion-stream", "POST", "/v1/completions", {**text, "stream": True}),
        ("responses", "POST", "/v1/responses", said),
        ("embeddings-off", "POST", "/v1/embeddings", {"model": model, "input": "hello"}),
        ("unknown-model", "POST", "/v1/chat/completions", {**chat, "model": "nope"}),
        ("bad-json", "POST", "/v1/chat/completions", '{"model": '),
        ("no-messages", "POST", "/v1/chat/completions", {"model": model}),
        ("too-long", "POST", "/v1/completions", {**text, "prompt": too_long}),
        ("unknown-route", "GET", "/v1/nothing", None),
        ("props", "GET", "/props", None),
        ("metrics", "GET", "/metrics", None),
    ]


def _write(file: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


async def main() -> None:
    """Record everything."""
    url, model, slots, loads, folder = sys.argv[1:]
    asked = json.loads(Path(loads).read_text())  # noqa: ASYNC240 - nothing else runs yet
    # a kept-alive connection may be closed by llama-server while the next request is on its way
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as http:
        recorder = Recorder(
            http=http,
            url=url,
            model=model,
            slots=int(slots),
            folder=Path(folder),
            draw=random.Random(7),  # noqa: S311 - prompts, not secrets
        )
        await recorder.record_answers()
        await recorder.record_steps()
        for name, requests in asked.items():
            await recorder.record_load(name, requests)
            print(name, len(requests))
        async with http.get(f"{url}/metrics") as answer:
            (recorder.folder / "metrics.txt").write_text(await answer.text())


if __name__ == "__main__":
    asyncio.run(main())
