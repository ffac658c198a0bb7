"""An hour of a gateway whose upstreams are killed and restarted at random, twenty times as fast.

Three stand-in servers, each a process, run at 20 times real time for 180 s: chat streams, whole
completions and batches go through the gateway, some clients leave early, and the servers answer
some requests with 500, garbage, a reset, half an answer or silence. Every request that was
accepted has to be answered once, in full and with its own text, or to fail with an error in
OpenAI's form; every item of a batch has to be in one of its two files once.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil

from report import bar, finish, progress, quick
from steward.service.serving_demo.processes import started
from steward.service.stand_in.answers import Answer
from steward.service.stand_in.prompts import asked_of

SEED = 7
SPEED = 20
SERVERS = 3
RATE = 25.0  # chat and completions a second, on the wall clock
LEAVES = 0.03  # share of clients that go away in the middle
ITEMS, BATCH_EVERY_S = 150, 8.0
KILL_EVERY_S = 9.0  # on average, any one of them
DOWN_S = (0.5, 5.0)
FAULTS = ("error=0.01", "garbage=0.005", "reset=0.01", "cut=0.005", "stall=0.002")
PATIENCE_S = 90.0
CONFIG = """
[gateway]
stall_s = 3.0
first_byte_within_s = 10.0
health_every_s = 1.0

[batches]
in_flight = 64
"""


@dataclass(slots=True, kw_only=True)
class Soak:
    """The traffic of one run, and what became of it."""

    session: aiohttp.ClientSession
    url: str
    ends: Counter[str] = field(default_factory=Counter)
    unclear: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    latency_s: list[float] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    kills: int = 0
    number: int = 0

    def unclear_end(self, what: str) -> str:
        self.unclear.append(what)
        return "unclear"

    async def chat(self, draw: random.Random) -> None:
        """Send one request, and judge how it ended."""
        self.number += 1
        streamed, leaves = draw.random() < 0.7, draw.random() < LEAVES
        route = "chat" if draw.random() < 0.7 else "completions"
        text = f"request {self.number} " + "word " * draw.randint(1, 400)
        asked: dict[str, Any] = {"model": "llama-8b", "max_tokens": draw.randint(5, 300)}
        if route == "chat":
            asked["messages"] = [{"role": "user", "content": text}]
        else:
            asked["prompt"] = text
        if streamed:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                end = await self._judged(route, asked, leaves=leaves)
        except TimeoutError:
            end = self.unclear_end("no end within 90 s")
        except aiohttp.ClientError as fault:
            end = self.unclear_end(f"{type(fault).__name__}: {fault}"[:200])
        self.ends[end] += 1
        if end == "answered":
            self.latency_s.append(time.monotonic() - began_s)

    async def _judged(self, route: str, asked: dict[str, Any], *, leaves: bool) -> str:
        path = "/v1/chat/completions" if route == "chat" else "/v1/completions"
        expected = Answer(route=route, asked=asked_of(json.dumps(asked).encode(), route), reason="")
        async with self.session.post(self.url + path, json=asked) as answer:
            if leaves:
                with suppress(TimeoutError):
                    await asyncio.wait_for(answer.content.readany(), 0.2)
                answer.close()
                return "left"
            if asked.get("stream") and answer.status == 200:
                lines = [line async for line in answer.content]
                return self._stream_end(lines, expected, route)
            return self._whole_end(answer.status, await answer.read(), expected, route)

    def _whole_end(self, status: int, body: bytes, expected: Answer, route: str) -> str:
        try:
            record = json.loads(body)
        except ValueError:
            return self.unclear_end(f"{status} with a body that is no JSON")
        if status >= 400:
            return self._error_end(record, f"{status}")
        choice = record["choices"][0]
        text = choice["message"]["content"] if route == "chat" else choice["text"]
        if text != expected.text(record["usage"]["completion_tokens"]):
            return self.unclear_end("another text than the request's")
        return "answered"

    def _stream_end(self, lines: list[bytes], expected: Answer, route: str) -> str:
        data = [line[6:].strip() for line in lines if line.startswith(b"data: ")]
        text, usage = "", None
        for each in data[:-1]:
            try:
                record = json.loads(each)
            except ValueError:
                continue  # garbage of a server: an error has to follow
            usage = record.get("usage") or usage
            for choice in record.get("choices") or ():
                part = choice["delta"].get("content") if route == "chat" else choice["text"]
                text += part or ""
        if data and data[-1] == b"[DONE]":
            if usage and text == expected.text(usage["completion_tokens"]):
                return "answered"
            return self.unclear_end("a stream that ended well with another text")
        try:
            return self._error_end(json.loads(data[-1]), "stream")
        except (ValueError, IndexError):
            return self.unclear_end("a stream without an end")

    def _error_end(self, record: Any, where: str) -> str:  # noqa: ANN401 - any JSON
        error = record.get("error") if isinstance(record, dict) else None
        if not isinstance(error, dict) or not error.get("message"):
            return self.unclear_end(f"{where}: an error without a message")
        self.errors[f"{where} {error.get('code')}"] += 1
        return "failed clearly"

    async def batch(self) -> None:
        """Upload a file and create its batch."""
        rows = [
            {
                "custom_id": f"{len(self.batches)}-{each}",
                "method": "POST",
                "url": "/v1/completions",
                "body": {"model": "llama-8b", "prompt": f"item {each}", "max_tokens": 120},
            }
            for each in range(ITEMS)
        ]
        form = aiohttp.FormData({"purpose": "batch"})
        content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        form.add_field("file", content.decode(), filename="soak.jsonl")
        async with self.session.post(f"{self.url}/v1/files", data=form) as answer:
            file = (await answer.json())["id"]
        asked = {"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "1h"}
        async with self.session.post(f"{self.url}/v1/batches", json=asked) as answer:
            self.batches.append((await answer.json())["id"])

    async def items(self) -> Counter[str]:
        """Wait for all batches; return how many items are in which file, and how many are not."""
        found: Counter[str] = Counter()
        for place, id_ in enumerate(self.batches):
            async with asyncio.timeout(300):
                batch = await self._ask(f"/v1/batches/{id_}")
                while batch["status"] != "completed":
                    await asyncio.sleep(0.5)
                    batch = await self._ask(f"/v1/batches/{id_}")
            ids: Counter[str] = Counter()
            for kind in ("output_file_id", "error_file_id"):
                rows = await self._lines(batch[kind])
                ids.update(row["custom_id"] for row in rows)
                found[kind.removesuffix("_file_id")] += len(rows)
            wanted = {f"{place}-{each}" for each in range(ITEMS)}
            found["lost"] += len(wanted - set(ids))
            found["twice"] += sum(count > 1 for count in ids.values())
        return found

    async def served(self) -> bool:
        """Return whether the gateway knows any model yet."""
        return bool((await self._ask("/v1/models")).get("data"))

    async def _ask(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        async with self.session.get(self.url + path) as answer:
            return await answer.json()

    async def _lines(self, file: str | None) -> list[dict[str, Any]]:
        if file is None:
            return []
        async with self.session.get(f"{self.url}/v1/files/{file}/content") as answer:
            return [json.loads(line) for line in (await answer.read()).splitlines()]


class Upstream:
    """One stand-in that is killed and started again on its port."""

    def __init__(self, number: int, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._seed = number
        self._log = folder / f"upstream-{number}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._seed += SERVERS
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "steward", "serve", "stand-in", "--port", str(self.port)),
                *("--speed", str(SPEED), "--max-sequences", "64", "--seed", str(self._seed)),
                *(part for each in FAULTS for part in ("--fault", each)),
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def kill_at_random(soak: Soak, upstreams: list[Upstream], draw: random.Random) -> None:
    """Kill one server after another, each down for a while."""
    while True:
        await asyncio.sleep(draw.expovariate(1 / KILL_EVERY_S))
        victim = draw.choice(upstreams)
        await victim.kill()
        soak.kills += 1
        await asyncio.sleep(draw.uniform(*DOWN_S))
        await victim.start()


async def arrive(soak: Soak, seconds: float, draw: random.Random) -> None:
    """Send requests at random distances, and a batch now and then; return when all are over."""
    began_s = time.monotonic()
    next_batch_s = 0.0
    async with asyncio.TaskGroup() as group:
        while (passed_s := time.monotonic() - began_s) < seconds:
            if passed_s >= next_batch_s:
                await soak.batch()
                next_batch_s += BATCH_EVERY_S
                ends = ", ".join(f"{count} {end}" for end, count in soak.ends.items())
                progress(f"{passed_s:4.0f} s: {soak.kills} kills; {ends}")
            group.create_task(soak.chat(draw))
            await asyncio.sleep(draw.expovariate(RATE))


async def run(seconds: float, folder: Path) -> tuple[Soak, Counter[str], list[float]]:
    """Return the traffic, the items of batches, and the gateway's memory at three times."""
    async with AsyncExitStack() as stack:
        upstreams = [Upstream(each, folder) for each in range(SERVERS)]
        for each in upstreams:
            await each.start()
            stack.push_async_callback(each.kill)
        config = folder / "steward.toml"
        config.write_text(CONFIG)
        options = [part for each in upstreams for part in ("--upstream", each.url)]
        gateway = started(
            *("serve", "gateway", "--port", "0", "--limit", "64", *options),
            *("--config", str(config), "--data", str(folder)),
            log=folder / "gateway.log",
        )
        url = await stack.enter_async_context(gateway)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_read=PATIENCE_S),
            )
        )
        soak = Soak(session=session, url=url)
        async with asyncio.timeout(300):
            while not await soak.served():  # noqa: ASYNC110 - other processes are no events
                await asyncio.sleep(0.2)
        process = next(
            each
            for each in psutil.Process().children(recursive=True)
            if "gateway" in each.cmdline()
        )
        memory = [process.memory_info().rss / 2**20]
        killing = asyncio.create_task(
            kill_at_random(soak, upstreams, random.Random(SEED + 1))  # noqa: S311 - a trial
        )
        half = random.Random(SEED)  # noqa: S311 - a trial
        await arrive(soak, seconds / 2, half)
        memory.append(process.memory_info().rss / 2**20)
        await arrive(soak, seconds / 2, half)
        memory.append(process.memory_info().rss / 2**20)
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        for each in upstreams:
            await each.kill()
            await each.start()
        progress("waiting for the batches")
        return soak, await soak.items(), memory


def main() -> None:
    """Run it, and print the report."""
    seconds = 30.0 if quick() else 3600.0 / SPEED
    with tempfile.TemporaryDirectory(prefix="steward-gateway-soak-") as folder:
        soak, items, memory = asyncio.run(run(seconds, Path(folder)))
    sent = sum(soak.ends.values())
    latency_s = np.array(soak.latency_s or [np.nan])
    results = {
        "seconds": seconds,
        "speed": SPEED,
        "simulated_s": seconds * SPEED,
        "kills": soak.kills,
        "requests": sent,
        "ends": dict(soak.ends),
        "errors": dict(soak.errors),
        "unclear": soak.unclear[:20],
        "latency_p50_s": round(float(np.quantile(latency_s, 0.5)), 3),
        "latency_p99_s": round(float(np.quantile(latency_s, 0.99)), 3),
        "batches": len(soak.batches),
        "items": dict(items),
        "gateway_mib": [round(each, 1) for each in memory],
    }
    bars = [
        bar("upstreams killed", soak.kills, ">=", 1),
        bar("requests without an answer or a clear error", soak.ends["unclear"], "==", 0),
        bar("share of requests answered", soak.ends["answered"] / max(1, sent), ">=", 0.8),
        bar("items of batches lost", items["lost"], "==", 0),
        bar("items of batches in the files twice", items["twice"], "==", 0),
        bar("growth of the gateway's memory, second half", memory[2] / memory[1], "<=", 1.2),
    ]
    finish("gateway_soak", results, bars)


if __name__ == "__main__":
    main()
