"""A mute covers what it names, for as long as it lasts."""

from __future__ import annotations

from message_servers import T_S, message
from steward.model.message import Mute


def mute(**changes: str) -> Mute:
    return Mute(**{"id": "m-1", "user": "ann", "until_s": T_S + 100, **changes})  # type: ignore[arg-type]


def test_a_mute_without_a_job_or_kind_covers_all_messages_to_its_user() -> None:
    assert mute().covers(message(user="ann"), T_S)
    assert not mute().covers(message(user="bob"), T_S)
    assert mute(user="").covers(message(user="bob"), T_S)


def test_a_mute_of_a_job_or_kind_leaves_others_alone() -> None:
    assert mute(job="7").covers(message(user="ann", job="7"), T_S)
    assert not mute(job="7").covers(message(user="ann", job="8"), T_S)
    assert not mute(job="7").covers(message(user="ann"), T_S)
    assert not mute(kind="job").covers(message(user="ann"), T_S)


def test_a_mute_ends() -> None:
    assert mute().covers(message(user="ann"), T_S + 99)
    assert not mute().covers(message(user="ann"), T_S + 100)
