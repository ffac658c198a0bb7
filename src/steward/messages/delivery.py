"""Reads the journal on, queues what people should know, and delivers what is due.

Delivery is at least once: a receiver that accepted a message in the moment in which steward was
killed gets it again. Receivers wait for nobody: each has its own thread, so that one that hangs
delays none of the others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from steward.clients.receivers.receivers import Receiver
from steward.clock import Clock
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.messages.journal_messages import JobOwner, JournalMessages, ended_jobs
from steward.messages.selection import Selection
from steward.model.identity import JobId
from steward.model.job import Job
from steward.model.message import Message
from steward.model.view import ClusterView
from steward.store.journal import Journal
from steward.store.outbox import Outbox, QueuedMessage

__all__ = ["Delivery", "MessageQueue", "MessageRunner", "NamedReceiver", "deliver_due"]

PLACE = "journal"
PAGE = 500
POLL_S = 1.0
FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 900.0
MOST_ATTEMPTS = 300  # about three days
KEPT_TOLD_S = 14 * 86400.0
KNOWN_JOBS = 20_000
ENDS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReceiver:
    """A receiver with what it is called in the configuration and what it gets."""

    name: str
    receiver: Receiver
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What came of one attempt to deliver what was due."""

    sent: int = 0
    postponed: int = 0
    dropped: int = 0


class MessageQueue:
    """Queues messages for the receivers that take them. `view` is the loop's newest moment."""

    def __init__(
        self,
        journal: Journal,
        outbox: Outbox,
        receivers: Sequence[NamedReceiver],
        view: Callable[[], ClusterView | None],
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._receivers = receivers
        self._view = view
        self._maker = JournalMessages(journal, self._owner)
        self._owners: OrderedDict[JobId, JobOwner] = OrderedDict()
        self._seen: ClusterView | None = None
        if outbox.place(PLACE) is None:  # what happened before anybody was to be told is no news
            outbox.queue((), place=(PLACE, journal.newest()))

    def catch_up(self, t_s: float) -> int:
        """Queue what is new, and return how many messages that made."""
        made = self._from_view(t_s)
        after = self._outbox.place(PLACE) or 0
        while True:
            entries = self._journal.read(after=after, kinds=self._maker.kinds, limit=PAGE)
            if not entries:
                return made
            messages = [message for entry in entries for message in self._maker.of(entry)]
            after = entries[-1].seq
            made += self._queue(messages, t_s, place=(PLACE, after))

    def _from_view(self, t_s: float) -> int:
        view = self._view()
        if view is None or view is self._seen:
            return 0
        self._seen = view
        self._remember(view.details.values())
        self._remember(view.ended)
        return self._queue(tuple(ended_jobs(view.ended)), t_s)

    def _remember(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._owners[job.id] = JobOwner(user=job.user, tenant=job.tenant, name=job.name)
            self._owners.move_to_end(job.id)
        while len(self._owners) > KNOWN_JOBS:
            self._owners.popitem(last=False)

    def _owner(self, job: JobId) -> JobOwner:
        return self._owners.get(job, JobOwner())

    def _queue(
        self, messages: Sequence[Message], t_s: float, *, place: tuple[str, int] | None = None
    ) -> int:
        mutes = self._outbox.mutes(t_s)
        chosen: dict[tuple[str, str, bool], tuple[str, float, Message]] = {}
        for message in messages:
            if any(mute.covers(message, t_s) for mute in mutes):
                continue
            for each in self._receivers:
                same = (each.name, message.key, message.resolved)
                if same not in chosen and self._is_news(each, message):
                    due_s = each.selection.due_s(message, t_s)
                    chosen[same] = (each.name, due_s, message)
        if chosen or place is not None:
            self._outbox.queue(tuple(chosen.values()), place=place)
        return len(chosen)

    def _is_news(self, receiver: NamedReceiver, message: Message) -> bool:
        if not receiver.selection.takes(message):
            return False
        told_s = self._outbox.told_s(receiver.name, message)
        return told_s is None or message.t_s - told_s >= receiver.selection.repeat_after_s


def deliver_due(outbox: Outbox, to: NamedReceiver, t_s: float) -> Delivery:
    """Send what is due for one receiver; what cannot be sent now waits longer each time."""
    sent = postponed = dropped = 0
    due = outbox.due(to.name, t_s)
    by_message = {id(each.message): each for each in due}
    for group in to.receiver.groups([each.message for each in due]):
        queued = [by_message[id(message)] for message in group]
        try:
            to.receiver.send(group)
        except TemporaryError as fault:
            old = [each for each in queued if each.attempts + 1 >= MOST_ATTEMPTS]
            kept = [each for each in queued if each not in old]
            outbox.drop(old, t_s, str(fault))
            outbox.postpone(kept, t_s + _retry_s(kept, fault), str(fault))
            postponed, dropped = postponed + len(kept), dropped + len(old)
        except (PermanentError, StewardError) as fault:
            outbox.drop(queued, t_s, str(fault))
            dropped += len(queued)
        else:
            outbox.sent(queued)
            sent += len(queued)
    return Delivery(sent=sent, postponed=postponed, dropped=dropped)


def _retry_s(queued: Sequence[QueuedMessage], fault: TemporaryError) -> float:
    attempts = min((each.attempts for each in queued), default=0)
    wait_s = FIRST_RETRY_S * 2.0 ** min(attempts, 20)
    return float(min(LONGEST_RETRY_S, max(wait_s, fault.retry_after_s or 0.0)))


class MessageRunner:
    """Reads and delivers in threads while the block lasts. `faults` names who gets nothing."""

    def __init__(
        self, queue: MessageQueue, outbox: Outbox, receivers: Sequence[NamedReceiver], clock: Clock
    ) -> None:
        self._queue = queue
        self._outbox = outbox
        self._receivers = receivers
        self._clock = clock
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.faults: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._receivers:
            self._begin("messages", self._read)
        for each in self._receivers:
            self._begin(f"messages to {each.name}", partial(self._deliver, each))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
        self._outbox.close()

    def _begin(self, name: str, target: Callable[[], None]) -> None:
        def run() -> None:
            while not self._stop.is_set():
                try:
                    target()
                    self.faults.pop(name, None)
                except StewardError as fault:  # a full disk passes; people see it meanwhile
                    self.faults[name] = str(fault)
                self._stop.wait(POLL_S)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _read(self) -> None:
        now_s = self._clock.now_s()
        self._queue.catch_up(now_s)
        self._outbox.forget_told(now_s - KEPT_TOLD_S)

    def _deliver(self, to: NamedReceiver) -> None:
        deliver_due(self._outbox, to, self._clock.now_s())
