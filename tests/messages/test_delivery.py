"""From the journal to the receiver: nothing lost, nothing told twice, nobody waits for another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import decision, finding, job, preempt, receipt, view
from message_servers import T_S, http_inbox, message
from patience import until
from steward.clients.receivers.receivers import HttpReceiver
from steward.clients.web import Endpoint
from steward.clock import ManualClock
from steward.errors import PermanentError, TemporaryError
from steward.messages.delivery import (
    MOST_ATTEMPTS,
    Delivery,
    MessageQueue,
    MessageRunner,
    NamedReceiver,
    deliver_due,
)
from steward.messages.selection import Selection
from steward.model.actions import Tell
from steward.model.decision import Ruling, Verdict
from steward.model.event import Event
from steward.model.finding import Severity
from steward.model.job import Job, JobState
from steward.model.message import Message
from steward.store.journal import Journal, open_journal
from steward.store.outbox import Outbox


def named_job(id_: str, **changes: Any) -> Job:
    return replace(job(id_, **changes), name="bert")


class Collects:
    """A receiver that keeps what it gets, or raises what it is given."""

    where = "test"

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.raises: list[Exception] = []

    def send(self, messages: Sequence[Message]) -> None:
        if self.raises:
            raise self.raises.pop(0)
        self.got += messages

    def groups(self, messages: Sequence[Message]) -> list[list[Message]]:
        return [[each] for each in messages]


class Bed:
    def __init__(self, folder: Path, **selection: Any) -> None:
        self.journal: Journal = open_journal(f"sqlite:///{folder}/journal.sqlite3")
        self.outbox = Outbox(folder / "m.sqlite3")
        self.receiver = Collects()
        self.named = NamedReceiver(
            name="ops", receiver=self.receiver, selection=Selection(**selection)
        )
        self.view = view(jobs=[named_job("j1", user="ann")])
        self.queue = self.made()

    def made(self) -> MessageQueue:
        return MessageQueue(self.journal, self.outbox, [self.named], lambda: self.view)

    def told(self, t_s: float = T_S) -> list[Message]:
        """Return what was told since the last call."""
        self.queue.catch_up(t_s)
        before = len(self.receiver.got)
        deliver_due(self.outbox, self.named, t_s)
        return self.receiver.got[before:]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    made.outbox.close()
    made.journal.close()


def test_what_happened_before_the_first_start_is_no_news(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([finding()])
    journal.close()
    bed = Bed(tmp_path)

    assert bed.told() == []
    bed.outbox.close()
    bed.journal.close()


def test_a_finding_is_told_with_its_evidence_and_the_owner_of_its_job(bed: Bed) -> None:
    bed.journal.append([finding("j1")])

    (told,) = bed.told()

    assert (told.kind, told.title, told.user, told.tenant) == ("finding", "j1 is idle", "ann", "a")
    assert told.text == "0 % busy"
    assert told.path == "/findings/f-j1"


def test_a_decision_that_waits_says_how_to_approve_it(bed: Bed) -> None:
    asked = decision("d-1")
    bed.journal.append([asked])
    bed.journal.append([Verdict(decision=asked.id, t_s=T_S, ruling=Ruling.ASK, why="")])

    (told,) = bed.told()

    assert told.title == "waits for approval: Lend 1 GPU of job j1 to job j2"
    assert "steward decisions approve d-1" in told.advice


def test_owners_hear_of_a_preemption_with_what_to_do(bed: Bed) -> None:
    stop = preempt(job="j1")
    bed.journal.append([stop, receipt(stop)])

    (told,) = bed.told()

    assert (told.kind, told.user, told.job) == ("decision", "ann", "j1")
    assert "goes on from its last checkpoint" in told.advice


def test_a_failed_decision_is_a_fault_and_one_under_way_is_no_news(bed: Bed) -> None:
    stop = preempt(job="j1")
    bed.journal.append([stop, receipt(stop, result="begun")])
    assert bed.told() == []

    bed.journal.append([receipt(stop, result="failed")])

    (told,) = bed.told()
    assert told.severity is Severity.FAULT
    assert told.title.startswith("failed: ")


def test_advice_goes_to_whom_it_is_for(bed: Bed) -> None:
    tell = Tell(to="ann", about="j1", text="ask for 2 GPUs")
    advice = decision("d-tell", action=tell)
    bed.journal.append([advice, receipt(advice)])

    (told,) = bed.told()

    assert (told.kind, told.user, told.title) == ("advice", "ann", "j1: ask for 2 GPUs")


def test_a_job_that_failed_is_told_once_by_event_or_by_view(bed: Bed) -> None:
    bed.journal.append(
        [Event(t_s=T_S, kind="job.failed", subject="job:j1", text="exit 1", source="x")]
    )
    (told,) = bed.told()
    assert (told.user, told.text) == ("ann", "exit 1")
    assert told.title == "job j1 (bert) failed"

    failed = named_job("j1", user="ann", state=JobState.FAILED, end_s=T_S)
    bed.view = view(jobs=[failed])

    assert bed.told() == []


def test_faults_of_steward_and_alerts_of_others_are_told(bed: Bed) -> None:
    bed.journal.append(
        [
            Event(t_s=T_S, kind="steward.fault", subject="slurm", text="down", source="steward"),
            Event(t_s=T_S, kind="alert.firing", subject="n1", text="NodeDown", source="a"),
            Event(t_s=T_S, kind="alert.resolved", subject="n1", text="NodeDown", source="a"),
            Event(t_s=T_S, kind="job.started", subject="job:j1", text="", source="x"),
        ]
    )

    told = bed.told()

    assert [(each.kind, each.resolved) for each in told] == [
        ("steward", False),
        ("alert", False),
        ("alert", True),
    ]


def test_the_same_thing_is_not_told_again_before_its_time(bed: Bed) -> None:
    def down(t_s: float) -> Event:
        return Event(t_s=t_s, kind="steward.fault", subject="slurm", text="down", source="s")

    bed.journal.append([down(T_S), down(T_S + 60), down(T_S + 3599)])
    assert len(bed.told()) == 1

    bed.journal.append([down(T_S + 3600)])

    assert len(bed.told(T_S + 3600)) == 1


def test_what_is_muted_is_not_told(bed: Bed) -> None:
    bed.outbox.mute(user="ann", until_s=T_S + 9, job="", kind="finding", made_by="ann", t_s=T_S)
    bed.journal.append([finding("j1")])

    assert bed.told() == []


def test_after_a_crash_reading_goes_on_where_it_was(bed: Bed) -> None:
    bed.journal.append([finding("j1")])
    bed.queue.catch_up(T_S)

    bed.queue = bed.made()  # a new process

    assert len(bed.told()) == 1
    assert bed.told() == []


def test_a_receiver_that_is_down_gets_everything_later_and_is_asked_less_often(bed: Bed) -> None:
    bed.journal.append([finding("j1")])
    bed.queue.catch_up(T_S)
    t_s, waits = T_S, []
    for _ in range(4):
        bed.receiver.raises = [TemporaryError("down")]
        assert deliver_due(bed.outbox, bed.named, t_s) == Delivery(postponed=1)
        (waiting,) = bed.outbox.pending()
        waits.append(waiting.due_s - t_s)
        assert deliver_due(bed.outbox, bed.named, waiting.due_s - 1) == Delivery()
        t_s = waiting.due_s

    assert waits == [5, 10, 20, 40]
    assert deliver_due(bed.outbox, bed.named, t_s) == Delivery(sent=1)
    assert [each.kind for each in bed.receiver.got] == ["finding"]


def test_a_receiver_may_say_how_long_to_wait(bed: Bed) -> None:
    bed.outbox.queue([("ops", T_S, message())])
    bed.receiver.raises = [TemporaryError("busy", retry_after_s=120.0)]

    deliver_due(bed.outbox, bed.named, T_S)

    assert bed.outbox.pending()[0].due_s == T_S + 120


def test_what_is_refused_for_good_or_for_days_is_given_up_and_remembered(bed: Bed) -> None:
    bed.outbox.queue([("ops", T_S, message("a")), ("ops", T_S, message("b"))])
    bed.receiver.raises = [PermanentError("gone")]
    assert deliver_due(bed.outbox, bed.named, T_S) == Delivery(sent=1, dropped=1)

    bed.outbox.queue([("ops", T_S, message("c"))])
    for _ in range(MOST_ATTEMPTS - 1):
        bed.outbox.postpone(bed.outbox.pending(), T_S, "down")
    bed.receiver.raises = [TemporaryError("down")]
    assert deliver_due(bed.outbox, bed.named, T_S) == Delivery(dropped=1)

    assert [each.title for each in bed.outbox.dropped()] == ["c is idle", "a is idle"]


def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    with http_inbox() as inbox:

        class Hangs(Collects):
            def send(self, messages: Sequence[Message]) -> None:
                time.sleep(0.5)
                raise TemporaryError("no answer")

        post = HttpReceiver(Endpoint(url=inbox.url), form="webhook", site="lab")
        receivers = [
            NamedReceiver(name="bad", receiver=Hangs(), selection=Selection()),
            NamedReceiver(name="good", receiver=post, selection=Selection()),
        ]
        queue = MessageQueue(bed.journal, bed.outbox, receivers, lambda: bed.view)
        with MessageRunner(queue, bed.outbox, receivers, ManualClock(T_S)):
            bed.journal.append([finding("j1")])
            until(lambda: inbox.bodies)

    assert [each["title"] for each in json.loads(inbox.bodies[0])["messages"]] == ["j1 is idle"]
    bed.journal.close()
