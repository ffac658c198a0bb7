"""An engine that runs fewer at once than its limit: requests wait in the gateway, predictably."""

from __future__ import annotations

import asyncio
from statistics import median

import pytest

from service.gateway.queue_bed import Engine, queue_of, served, upstream_of
from steward.config.gateway_settings import GatewaySettings
from steward.service.gateway.upstream import EngineLoad


def test_waits_in_front_of_an_engine_with_few_places_are_predicted() -> None:
    async def scenario() -> None:
        engine = Engine(places=4)
        queue, upstream = queue_of(engine)

        await served(queue, engine, requests=400, every=10)

        assert upstream.slots == 4
        assert [each.max_sequences for each in queue.view.types] == [4]
        assert max(engine.waiting) <= upstream.settings.max_waiting
        later = list(queue.waits.history.records)[100:]
        errors = [abs(e["expected_s"] - e["observed_s"]) / e["observed_s"] for e in later]
        assert len(later) > 100
        assert median(errors) < 0.3

    asyncio.run(scenario())


def test_an_engine_that_runs_all_it_gets_is_not_believed_to_be_small() -> None:
    async def scenario() -> None:
        engine = Engine(places=200)
        queue, upstream = queue_of(engine)

        await served(queue, engine, requests=200, every=5)

        assert upstream.slots is None
        assert [each.max_sequences for each in queue.view.types] == [256]

    asyncio.run(scenario())


def test_answers_that_are_not_streamed_wait_outside_once_it_is_known_how_many_run() -> None:
    upstream = upstream_of(GatewaySettings(), max_waiting=3)
    upstream.in_flight = 5
    rooms = [upstream.room(0.0)]

    upstream.take_load(EngineLoad(running=4.0, waiting=1.0))
    rooms.append(upstream.room(0.0))
    upstream.in_flight = 7
    rooms.append(upstream.room(0.0))
    upstream.take_load(EngineLoad(running=6.0, waiting=0.0))
    rooms.append(upstream.room(0.0))

    assert rooms == [3, 2, 0, 2]


@pytest.mark.parametrize(("waiting", "room"), [(2.0, 3), (3.0, 0), (None, 3)])
def test_an_engine_in_which_others_wait_has_no_room(waiting: float | None, room: int) -> None:
    upstream = upstream_of(GatewaySettings(), max_waiting=3)

    upstream.take_load(EngineLoad(waiting=waiting))

    assert upstream.room(0.0) == room
