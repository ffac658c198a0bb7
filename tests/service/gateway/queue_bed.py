"""A queue without its HTTP side, and an engine behind it, on a clock that tests move."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from steward.config.gateway_settings import GatewaySettings, UpstreamSettings
from steward.decide.serving.edf import Edf
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.ports import Dispatcher
from steward.service.gateway.call import UpstreamCall, Usage
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.tallies import Tallies
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream

STEP_S = 0.01
PROMPT = b"x" * 400


@dataclass
class Engine:
    """A server with so many places, on a clock that only moves by its steps."""

    places: int
    now_s: float = 1000.0
    inside: deque[Ticket] = field(default_factory=deque)
    running: dict[int, tuple[Ticket, int]] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)  # inside of it, at each step

    def step(self, queue: CallQueue, length: random.Random) -> None:
        self.now_s += STEP_S
        for key, (ticket, left) in list(self.running.items()):
            queue.begin(ticket)
            queue.count(ticket, 1)
            self.running[key] = (ticket, left - 1)
            if left == 1:
                del self.running[key]
                queue.finish(ticket, Usage(prompt_tokens=100, output_tokens=ticket.generated))
        while self.inside and len(self.running) < self.places:
            ticket = self.inside.popleft()
            self.running[ticket.row] = (ticket, length.randint(40, 60))
        self.waiting.append(len(self.inside))


async def served(queue: CallQueue, engine: Engine, *, requests: int, every: int) -> None:
    """Let one request arrive every so many steps, and step until all are answered."""
    length = random.Random(7)  # noqa: S311 - a test
    waiting: list[Ticket] = []
    for number in range(100_000):
        if number % every == 0 and number // every < requests:
            call = UpstreamCall(path="/v1/completions", body=PROMPT, model="m", stream=True)
            waiting.append(queue.enter(call))
        await asyncio.sleep(0)  # the queue dispatches
        engine.inside.extend(each for each in waiting if each.placed.done())
        waiting = [each for each in waiting if not each.placed.done()]
        engine.step(queue, length)
        queue.tick()
        if number // every >= requests and not queue.tickets:
            return
    raise AssertionError(f"{len(queue.tickets)} requests are still there")


def queue_of(engine: Engine) -> tuple[CallQueue, Upstream]:
    return queue_on(lambda: engine.now_s, Edf(), LearnedWaits(), GatewaySettings())


def queue_with(
    dispatcher: Dispatcher, clock: list[float], **more: object
) -> tuple[CallQueue, Upstream]:
    """Return a queue without estimates whose time is `clock[0]`, and its only upstream."""
    settings = GatewaySettings.model_validate(more)
    return queue_on(lambda: clock[0], dispatcher, None, settings)


def queue_on(
    clock_s: Callable[[], float],
    dispatcher: Dispatcher,
    estimator: LearnedWaits | None,
    settings: GatewaySettings,
) -> tuple[CallQueue, Upstream]:
    queue = CallQueue(
        settings,
        (INTERACTIVE, BATCH),
        dispatcher=dispatcher,
        estimator=estimator,
        tallies=Tallies(clock_s),
        clock_s=clock_s,
        wall_s=clock_s,
    )
    upstream = upstream_of(settings)
    queue.instances.replace([upstream])
    return queue, upstream


def upstream_of(settings: GatewaySettings, **more: object) -> Upstream:
    table = {"url": "http://127.0.0.1:1", "models": ("m",), "limit": 256, **more}
    return Upstream.of("u", UpstreamSettings.model_validate(table), settings, kind=H200_LLAMA_8B)
