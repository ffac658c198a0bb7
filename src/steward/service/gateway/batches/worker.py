"""Sends the items of batches through the gateway's queue, and writes down what came back.

What matters is in the database before it counts: a gateway may be killed at any time. Items that
were on their way are then sent again, by the next one or by another; the first answer is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from steward.config.batch_settings import BatchSettings
from steward.errors import StewardError
from steward.service.gateway.batches.input_lines import InputLines
from steward.service.gateway.batches.output_lines import Verdict, judged
from steward.service.gateway.call import Submitter, UpstreamCall
from steward.service.gateway.status import BatchCounts
from steward.store.batches import (
    BatchDatabase,
    BatchRecord,
    BatchStore,
    Claims,
    FileStore,
    Item,
    ItemAnswer,
    LineFault,
)

__all__ = ["BatchWorker", "set_or_later"]

log = logging.getLogger(__name__)
T = TypeVar("T")
_LOOK_EVERY_S = 1.0  # at what other gateways, or the time, have changed
_TROUBLE_WAIT_S = 2.0  # until the database is tried again


class BatchWorker:
    """What one gateway does for batches. Its database work runs in threads of its own."""

    def __init__(self, database: BatchDatabase, settings: BatchSettings) -> None:
        self.files = FileStore(database=database)
        self.batches = BatchStore(database=database)
        self.counts = BatchCounts(open=0, waiting=0, done=0, failed=0)
        self._database = database
        self._settings = settings
        self._claims = Claims.of(database, lease_s=settings.lease_s)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="batches")
        self._sending: set[asyncio.Task[None]] = set()
        self._answers: list[ItemAnswer] = []
        self._returns: list[tuple[Item, Verdict]] = []
        self._look = asyncio.Event()
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Call something that waits for the database."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def start(self, queue: Submitter) -> None:
        """Take over what an earlier gateway left, and begin to send."""
        await self.run_in_thread(self._claims.renew)
        await self.run_in_thread(self.files.discard_abandoned)
        await self.run_in_thread(self._count)
        duties: dict[str, tuple[Callable[[], Awaitable[None]], float]] = {
            "renewing claims": (self._renew, self._settings.lease_s / 3),
            "looking after batches": (self._look_after, 0.0),
            "sending": (partial(self._send_more, queue), 0.0),
            "writing answers": (self._write, 0.0),
        }
        for name, (work, every_s) in duties.items():
            task = asyncio.create_task(self._again_and_again(work, every_s), name=name)
            task.add_done_callback(_log_fault)
            self._tasks.append(task)

    async def stop(self) -> None:
        """Stop sending, write what is answered, give back the rest, and close the database."""
        for task in (*self._tasks, *self._sending):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._sending, return_exceptions=True)
        try:
            await self.run_in_thread(partial(self._claims.answer, self._answers))
            await self.run_in_thread(partial(self._put_back, self._returns))
            await self.run_in_thread(self._claims.resign)
        except StewardError as fault:
            log.warning("batches: %s; what was claimed is free again when the lease ends", fault)
        self._threads.shutdown()
        self._database.close()

    def look(self) -> None:
        """Look after batches at once: one was added or cancelled, or may be done."""
        self._look.set()

    @staticmethod
    async def _again_and_again(work: Callable[[], Awaitable[None]], every_s: float) -> None:
        """Call `work` for ever; wait out troubles of the database, and faults of our own."""
        while True:
            try:
                await work()
                await asyncio.sleep(every_s)
                continue
            except StewardError as fault:
                log.warning("batches: %s", fault)
            except Exception:  # a duty that ends would stop the batches of everybody
                log.exception("batches: a fault of the gateway; it is tried again")
            await asyncio.sleep(_TROUBLE_WAIT_S)

    async def _renew(self) -> None:
        freed = await self.run_in_thread(self._claims.renew)
        if freed:
            log.info("batches: %d items of a gateway that is gone are sent again", freed)
            self._wake.set()

    async def _look_after(self) -> None:
        """Begin new batches, close those that are late, finish those that are done."""
        self._look.clear()
        new = await self.run_in_thread(partial(self.batches.in_status, "validating"))
        troubles = await self._for_each([partial(self._begin, batch) for batch in new])
        if new:
            self._wake.set()
        await self.run_in_thread(self.batches.expire)
        ready = await self.run_in_thread(self.batches.ready)
        troubles += await self._for_each([partial(self.batches.finalize, id_) for id_ in ready])
        await self.run_in_thread(self._count)
        if troubles:
            raise troubles[0]
        await set_or_later(self._look)

    async def _for_each(self, works: Iterable[Callable[[], object]]) -> list[Exception]:
        """Run all, and return what went wrong: no batch stops those after it."""
        troubles: list[Exception] = []
        for work in works:
            try:
                await self.run_in_thread(work)
            except Exception as fault:  # noqa: BLE001 - its caller raises it when all have had their turn
                troubles.append(fault)
        return troubles

    def _begin(self, batch: BatchRecord) -> None:
        lines = InputLines(
            endpoint=batch.endpoint,
            line_limit_bytes=self._settings.line_limit_bytes,
            most_requests=self._settings.most_requests,
        )
        parts = self.files.parts(batch.input_file)
        items = list(lines.items(parts))
        if lines.too_many:
            most = self._settings.most_requests
            message = f"the input file has more than {most} requests, the most of one batch"
            self.batches.fail(
                batch.id, LineFault(line=0, code="too_many_requests", message=message)
            )
        else:
            self.batches.begin(batch.id, items)

    def _count(self) -> None:
        open_, waiting, done, failed = self.batches.counts()
        self.counts = BatchCounts(open=open_, waiting=waiting, done=done, failed=failed)

    async def _send_more(self, queue: Submitter) -> None:
        """Claim as much as there is room for; wait until there is more room, or more to send."""
        self._wake.clear()
        room = self._settings.in_flight - len(self._sending)
        items: list[Item] = []
        if self._enough_room():
            items = await self.run_in_thread(partial(self._claims.claim, room))
        for item in items:
            task = asyncio.create_task(self._send(queue, item), name=f"item {item.id}")
            self._sending.add(task)
            task.add_done_callback(self._sent)
        if not items or len(items) < room:
            await set_or_later(self._wake)

    def _enough_room(self) -> bool:
        """Return whether it is worth asking the database for more items."""
        most = self._settings.in_flight
        return not self._sending or most - len(self._sending) > most // 4

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        _log_fault(task)
        if self._enough_room():
            self._wake.set()

    async def _send(self, queue: Submitter, item: Item) -> None:
        call = UpstreamCall(
            path=item.path,
            body=item.body,
            model=item.model,
            deadline_class=self._settings.deadline_class,
            deadline_in_s=item.within_s,
            tenant=item.tenant,
            request_id=item.id,
        )
        try:
            async with asyncio.timeout(item.within_s):
                reply = await queue.submit(call)
        except TimeoutError:
            return  # the batch expires now, with what was not answered
        verdict = judged(item, reply, attempts=self._settings.attempts)
        if verdict.answer is not None:
            self._answers.append(verdict.answer)
        else:
            self._returns.append((item, verdict))
        self._answered.set()

    async def _write(self) -> None:
        """Write all answers that are there in one transaction, and let others wait again."""
        await self._answered.wait()
        self._answered.clear()
        answers, self._answers = self._answers, []
        returns, self._returns = self._returns, []
        try:
            kept = await self.run_in_thread(partial(self._claims.answer, answers))
            await self.run_in_thread(partial(self._put_back, returns))
        except (StewardError, asyncio.CancelledError):  # writing twice changes nothing
            self._answers = [*answers, *self._answers]
            self._returns = [*returns, *self._returns]
            self._answered.set()
            raise
        if not self._sending:
            self._look.set()
        if not all(kept):
            log.info("batches: %d answers came too late", kept.count(False))

    def _put_back(self, returns: list[tuple[Item, Verdict]]) -> None:
        alike: dict[tuple[float, bool], list[Item]] = {}
        for item, verdict in returns:
            alike.setdefault((verdict.after_s, verdict.failed), []).append(item)
        for (after_s, tried), items in alike.items():
            self._claims.put_back(items, after_s=after_s, tried=tried)


async def set_or_later(event: asyncio.Event) -> None:
    """Wait for an event, or until it is time to look anyway."""
    with suppress(TimeoutError):  # `wait_for` of Python 3.11 loses a cancellation that comes then
        async with asyncio.timeout(_LOOK_EVERY_S):
            await event.wait()


def _log_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("batches: %s ended with a fault", task.get_name(), exc_info=fault)
