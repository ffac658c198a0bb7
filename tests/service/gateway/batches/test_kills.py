"""Gateways that are killed while they work on a batch: nothing is lost, nothing answered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from batch_bed import Client, custom_ids, line
from beds.postgresql import new_database, running_postgresql
from gateway_processes import GatewayProcess
from patience import LONG_S
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.service.stand_in import StandInSettings, stand_in

ITEMS = 1000
SLOW = StandInSettings(kind=replace(H200_LLAMA_8B, max_sequences=16), speed=5.0, exact=True)
BODY = {"model": "llama-8b", "prompt": "say it", "max_tokens": 80}
CONTENT = b"".join(line(f"c-{place}", body=BODY) for place in range(ITEMS))


@asynccontextmanager
async def upstreams() -> AsyncIterator[list[str]]:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stand_in(SLOW)) for _ in range(2)]
        yield [each.url for each in servers]


async def completed(client: Client, batch: str, count: int) -> None:
    """Wait until so many items are answered, and some are not."""
    async with asyncio.timeout(LONG_S):
        while True:
            _, found = await client.ask("GET", f"/v1/batches/{batch}")
            if found["request_counts"]["completed"] >= count:
                assert found["status"] == "in_progress"
                return
            await asyncio.sleep(0.02)


def check(done: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert done["request_counts"] == {"total": ITEMS, "completed": ITEMS, "failed": 0}
    assert custom_ids(rows) == [f"c-{place}" for place in range(ITEMS)]
    for row in rows:
        assert row["response"]["body"]["usage"]["completion_tokens"] == 80


@pytest.mark.real
def test_a_batch_survives_a_gateway_that_is_killed_again_and_again(tmp_path: Path) -> None:
    async def run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        async with upstreams() as urls, aiohttp.ClientSession() as session:
            gateway = GatewayProcess(tmp_path, urls)
            try:
                client = Client(session=session, url=await gateway.start())
                batch = (await client.create(CONTENT))["id"]
                for share in (0.1, 0.5):
                    await completed(client, batch, int(share * ITEMS))
                    await gateway.kill()
                    client = Client(session=session, url=await gateway.start())
                done = await client.until(batch, "completed")
                return done, await client.lines(done["output_file_id"])
            finally:
                await gateway.stop()

    check(*asyncio.run(run()))


@pytest.mark.real
def test_of_two_gateways_on_one_database_either_may_die(tmp_path: Path) -> None:
    async def run(database: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        config = f'[batches]\nstore = "{database}"\nlease_s = 2.0'
        async with upstreams() as urls, aiohttp.ClientSession() as session:
            gateways = [GatewayProcess(tmp_path / n, urls, config=config) for n in ("a", "b")]
            try:
                first, second = [
                    Client(session=session, url=await each.start()) for each in gateways
                ]
                batch = (await first.create(CONTENT))["id"]
                await completed(second, batch, ITEMS // 5)
                await gateways[0].kill()
                await completed(second, batch, ITEMS // 2)
                again = Client(session=session, url=await gateways[0].start())
                await gateways[1].kill()
                done = await again.until(batch, "completed")
                return done, await again.lines(done["output_file_id"])
            finally:
                for each in gateways:
                    await each.stop()

    with running_postgresql() as server:
        check(*asyncio.run(run(new_database(server))))
