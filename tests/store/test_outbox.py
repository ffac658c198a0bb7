"""What waits to be sent survives a restart; nothing is queued twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from message_servers import T_S, message
from steward.errors import StewardError
from steward.store.outbox import MOST_MUTES_PER_USER, Outbox


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    opened = Outbox(tmp_path / "m.sqlite3")
    yield opened
    opened.close()


def test_messages_and_the_place_in_the_journal_survive_a_restart(tmp_path: Path) -> None:
    first = Outbox(tmp_path / "m.sqlite3")
    first.queue([("ops", T_S, message("a", job="7"))], place=("journal", 41))
    first.close()

    again = Outbox(tmp_path / "m.sqlite3")

    assert again.place("journal") == 41
    assert [each.message for each in again.pending()] == [message("a", job="7")]
    again.close()


def test_a_fault_in_between_queues_nothing_and_keeps_the_place(outbox: Outbox) -> None:
    outbox.queue([], place=("journal", 1))
    unfit = message("a", title="\ud800")  # text that no file can hold

    with pytest.raises(Exception, match="surrogates"):
        outbox.queue([("ops", T_S, message("b")), ("ops", T_S, unfit)], place=("journal", 2))

    assert outbox.place("journal") == 1
    assert outbox.pending() == ()


def test_only_what_is_due_is_handed_out_oldest_first(outbox: Outbox) -> None:
    outbox.queue([("ops", T_S + 9, message("later")), ("ops", T_S, message("a"))])
    outbox.queue([("ops", T_S, message("b")), ("mail", T_S, message("c"))])

    assert [each.message.key for each in outbox.due("ops", T_S)] == ["a", "b"]


def test_what_was_postponed_waits_with_its_fault(outbox: Outbox) -> None:
    outbox.queue([("ops", T_S, message("a"))])

    outbox.postpone(outbox.due("ops", T_S), T_S + 60, "it is down")

    assert outbox.due("ops", T_S + 59) == ()
    (waiting,) = outbox.due("ops", T_S + 60)
    assert (waiting.attempts, waiting.fault) == (1, "it is down")


def test_what_was_given_up_is_remembered(outbox: Outbox) -> None:
    outbox.queue([("ops", T_S, message("a")), ("ops", T_S, message("b"))])
    first, second = outbox.due("ops", T_S)

    outbox.drop([first], T_S, "refused")
    outbox.sent([second])

    assert outbox.pending() == ()
    assert [(each.title, each.fault) for each in outbox.dropped()] == [("a is idle", "refused")]


def test_told_is_kept_per_receiver_and_forgotten_after_long(outbox: Outbox) -> None:
    outbox.queue([("ops", T_S, message("a"))])

    assert outbox.told_s("ops", message("a")) == T_S
    assert outbox.told_s("mail", message("a")) is None
    assert outbox.told_s("ops", message("a", resolved=True)) is None
    outbox.forget_told(T_S + 1)
    assert outbox.told_s("ops", message("a")) is None


def mute(outbox: Outbox, **changes: str) -> str:
    values = {"user": "ann", "job": "", "kind": "", "made_by": "ann", **changes}
    return outbox.mute(until_s=T_S + 100, t_s=T_S, **values).id


def test_the_same_mute_again_only_changes_its_end(outbox: Outbox) -> None:
    assert mute(outbox) == mute(outbox)
    assert len(outbox.mutes(T_S)) == 1
    assert outbox.mutes(T_S + 100) == ()


def test_ending_an_unknown_mute_names_the_nearest(outbox: Outbox) -> None:
    known = mute(outbox)

    with pytest.raises(StewardError) as raised:
        outbox.unmute(known[:-1] + "x", T_S)

    assert raised.value.hint == f"did you mean '{known}'?"
    assert outbox.unmute(known, T_S).user == "ann"
    assert outbox.mutes(T_S) == ()


def test_one_person_cannot_fill_the_disk_with_mutes(outbox: Outbox) -> None:
    for number in range(MOST_MUTES_PER_USER):
        mute(outbox, job=str(number))

    with pytest.raises(StewardError, match="ann has 100 mutes"):
        mute(outbox, job="one more")
    mute(outbox, user="bob", made_by="bob")


def test_a_file_that_is_no_database_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.sqlite3").write_bytes(b"no database at all, but long enough to be read" * 20)

    with pytest.raises(StewardError, match="cannot be opened"):
        Outbox(tmp_path / "m.sqlite3")
