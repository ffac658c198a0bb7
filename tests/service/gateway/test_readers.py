"""What reads a gateway finds what it asks for: Grafana, alerts, and the page of the dashboard."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from service.gateway.bed import Exchange, FakeUpstream, answers, bed, chat, until
from steward.clients.gateway_status import gateway_snapshot

DEPLOY = Path(__file__).parents[3] / "deploy"
READERS = ("grafana/serving.json", "prometheus/steward.rules.yml")
SERIES = re.compile(r"steward_gateway_\w+")
KV = 'vllm:kv_cache_usage_perc{model_name="m"} 0.25\n'


async def busy() -> tuple[str, dict[str, Any]]:
    """Return metrics and status of a gateway on which requests waited, failed and ended."""
    holding = asyncio.Event()

    async def held(exchange: Exchange) -> None:
        await holding.wait()
        await answers(exchange)

    async with bed(FakeUpstream(held, metrics=KV), limit=1, metrics_every_s=0.05) as it:
        queue = it.gateway.queue
        posts = [asyncio.create_task(it.post(chat(stream=True))) for _ in range(3)]
        await it.post(chat(model="unknown"))
        await until(lambda: queue.queued == 2)
        waiting = [each for each in queue.tickets.values() if each.upstream is None]
        await until(lambda: all(each.expected for each in waiting))
        holding.set()
        await asyncio.gather(*posts)
        _, status = await it.get("/steward/v1/status")
        while status["instances"][0]["kv_share"] is None:  # the next look at the upstream's own
            _, status = await it.get("/steward/v1/status")
        _, metrics = await it.get("/metrics")
    return metrics, status


def test_every_series_of_dashboards_and_alerts_is_there() -> None:
    metrics, _ = asyncio.run(busy())
    asked = {name for file in READERS for name in SERIES.findall((DEPLOY / file).read_text())}

    there = set(re.findall(r"^(steward_gateway_\w+)", metrics, re.MULTILINE))

    assert len(asked) > 20
    assert asked - there == set()


def test_the_page_reads_all_of_a_status() -> None:
    _, status = asyncio.run(busy())

    found = gateway_snapshot(status)

    assert found.left_out == 0
    assert [each.name for each in found.classes] == ["interactive", "batch"]
    assert found.classes[0].met == 3
    (instance,) = found.instances
    assert (instance.name, instance.state, instance.kv_share) == ("u1", "serving", 0.25)
    assert instance.draining is False
    assert found.policy == status["policy"]
    assert len(found.waits) == len(status["waits"]) == 2
