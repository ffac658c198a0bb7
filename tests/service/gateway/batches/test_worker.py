"""How a gateway stops working on batches."""

from __future__ import annotations

import asyncio

import pytest

from steward.service.gateway.batches.worker import set_or_later


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_task_that_waits_for_an_event_is_cancelled_even_as_the_event_comes(turns: int) -> None:
    """`asyncio.wait_for` of Python 3.11 loses the cancellation in one of these turns."""

    async def run() -> bool:
        event = asyncio.Event()
        waiting = asyncio.create_task(set_or_later(event))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        accepted = waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled() == accepted

    assert asyncio.run(run())
