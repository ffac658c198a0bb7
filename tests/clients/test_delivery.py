"""Bodies are accepted, refused, or dropped; and each is counted."""

from __future__ import annotations

import threading

from steward.clients.delivery import QueuedSender
from steward.errors import PermanentError, TemporaryError


class Receiver:
    """Answers with these faults first, and takes everything afterwards."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.taken: list[bytes] = []

    def __call__(self, body: bytes) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.taken.append(body)


def test_bodies_arrive_in_order() -> None:
    receiver = Receiver()
    sender = QueuedSender(receiver)

    for number in range(20):
        sender.offer(b"%d" % number, 10, wait=True)
    stats = sender.close()

    assert receiver.taken == [b"%d" % number for number in range(20)]
    assert stats.sent == 200


def test_what_may_pass_is_tried_again_and_what_will_not_is_counted() -> None:
    receiver = Receiver(
        TemporaryError("busy"), TemporaryError("busy", retry_after_s=0.0), PermanentError("no")
    )
    sender = QueuedSender(receiver)

    sender.offer(b"a", 1, wait=True)  # busy twice, then refused for good
    sender.offer(b"b", 2, wait=True)
    stats = sender.close()

    assert receiver.taken == [b"b"]
    assert (stats.sent, stats.refused, stats.tries_again) == (2, 1, 2)
    assert stats.last_fault == "no"


def test_a_receiver_that_stays_away_is_dropped_after_a_while() -> None:
    sender = QueuedSender(Receiver(*[TemporaryError("gone")] * 50), patience_s=0.05)

    sender.offer(b"a", 7, wait=True)
    stats = sender.close()

    assert (stats.sent, stats.given_up) == (0, 7)


def test_more_than_may_wait_is_dropped_at_once_and_counted() -> None:
    hold = threading.Event()
    sender = QueuedSender(lambda _body: hold.wait(60), most_waiting=2)

    taken = [sender.offer(b"x", 1) for _ in range(6)]
    hold.set()
    stats = sender.close()

    assert taken.count(True) in (2, 3)  # two wait, and one may be on its way
    assert stats.sent == taken.count(True)
    assert stats.given_up == taken.count(False)


def test_closing_does_not_wait_for_ever() -> None:
    sender = QueuedSender(Receiver(*[TemporaryError("gone", retry_after_s=30.0)] * 9))
    sender.offer(b"a", 3, wait=True)

    stats = sender.close(within_s=0.1)

    assert stats.given_up == 3
