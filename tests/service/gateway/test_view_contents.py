"""What dispatchers see of the gateway's own counts: tokens by tenant, rates, prompts seen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np

from service.gateway.bed import FakeUpstream, bed, chat
from service.gateway.queue_bed import queue_with
from steward.decide.serving.edf import Edf
from steward.model.serving.view import Dispatch, ServingView
from steward.service.gateway.call import UpstreamCall, Usage
from steward.service.gateway.ticket import Ticket


class _Keeps:
    """Goes by deadline and keeps the views that it was called with."""

    name = "keeps"

    def __init__(self) -> None:
        self.views: list[ServingView] = []

    def dispatch(self, view: ServingView) -> Dispatch:
        self.views.append(view)
        return Edf().dispatch(view)


def call(tenant: str, **more: Any) -> UpstreamCall:
    return UpstreamCall(
        path="/v1/completions", body=b"x" * 400, model="m", tenant=tenant, stream=True, **more
    )


async def answered(tickets: list[Ticket], queue: Any, clock: list[float], gap_s: float) -> None:
    """Stream ten tokens of each answer, so many seconds apart."""
    await asyncio.sleep(0)
    for each in tickets:
        queue.begin(each)
    for _ in range(10):
        for each in tickets:
            queue.count(each, 1)
        clock[0] += gap_s
    for each in tickets:
        queue.finish(each, Usage(prompt_tokens=100, output_tokens=10))


def test_tokens_are_counted_by_class_and_tenant_also_of_tenants_that_come_later() -> None:
    async def scenario() -> None:
        keeps, clock = _Keeps(), [0.0]
        queue, _ = queue_with(keeps, clock)
        await answered([queue.enter(call("ann"))], queue, clock, 0.1)
        await answered([queue.enter(call("bob", deadline_class="batch"))], queue, clock, 0.1)
        queue.enter(call("ann"))
        await asyncio.sleep(0)

        served = keeps.views[-1].served_tokens
        assert keeps.views[-1].tenants == ("ann", "bob")
        assert served is not None
        assert served[0].tolist() == [120.0 + 100.0, 0.0]  # prompt + 2 for each output token
        assert served[1].tolist() == [0.0, 120.0]

    asyncio.run(scenario())


def test_rates_are_those_of_windows_that_are_over() -> None:
    async def scenario() -> None:
        keeps, clock = _Keeps(), [0.0]
        queue, _ = queue_with(keeps, clock)
        queue.tick()
        tickets = [queue.enter(call("")) for _ in range(3)]
        await answered(tickets, queue, clock, 1.0)
        before = keeps.views[-1].rates
        queue.tick()
        queue.enter(call(""))
        await asyncio.sleep(0)
        rates = keeps.views[-1].rates
        clock[0] += 10.0
        queue.tick()
        queue.enter(call(""))
        await asyncio.sleep(0)
        later = keeps.views[-1].rates

        assert before is None
        assert rates is not None
        assert (rates.itl_s.tolist(), rates.tokens_per_s.tolist()) == ([1.0], [3.0])
        assert rates.window_s == 10.0
        assert later is not None
        assert np.isnan(later.itl_s[0])
        assert (later.tokens_per_s.tolist(), later.tokens_per_s_before.tolist()) == ([0.0], [3.0])

    asyncio.run(scenario())


def test_limits_follow_local_back_pressure_where_it_is_asked_for() -> None:
    async def scenario() -> None:
        limits = []
        for asked in (True, False):
            clock = [0.0]
            queue, upstream = queue_with(Edf(), clock, local_limits=asked)
            queue.tick()
            tickets = [queue.enter(call("")) for _ in range(4)]
            staying = queue.enter(call(""))  # its class has promised a time between tokens
            await answered(tickets, queue, clock, 1.0)
            queue.tick()
            limits.append(upstream.limit)
            queue.leave(staying)

        assert limits[0] < limits[1] == 256

    asyncio.run(scenario())


def test_a_prompt_is_known_where_it_was_sent_and_only_where_there_is_a_choice() -> None:
    async def scenario() -> None:
        system = {"role": "system", "content": "be brief. " * 300}
        body = chat(messages=[system, {"role": "user", "content": "hi"}])
        keeps = _Keeps()
        async with bed(FakeUpstream(), FakeUpstream()) as it:
            it.gateway.queue.set_policy(keeps, None)
            _, _, headers = await it.post(body)
            at = int(headers["x-steward-upstream"] == "u2")
            await it.post(body)
            view, counts = keeps.views[-1], it.gateway.queue.counts
            ticket = it.gateway.queue.enter(
                UpstreamCall(path="/v1/chat/completions", body=_json(body), model="m")
            )
            cached = [counts.prefixes.cached_tokens(ticket.row, row) for row in (at, 1 - at)]
            it.gateway.queue.leave(ticket)
        async with bed() as it:
            it.gateway.queue.set_policy(keeps, None)
            await it.post(body)
            await it.post(body)

        assert view.prefixes is not None
        assert 0 < cached[0] < ticket.prompt_tokens
        assert keeps.views[-1].prefixes is None

    asyncio.run(scenario())


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
