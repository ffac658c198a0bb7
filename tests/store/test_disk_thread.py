"""Work beside the loop: one piece at a time, and nothing that goes wrong is lost."""

from __future__ import annotations

import threading

import pytest

from patience import LONG_S
from steward.errors import StewardError
from steward.store.disk_thread import DiskThread


def test_the_caller_goes_on_while_the_work_is_done() -> None:
    disk, go_on, done = DiskThread("test"), threading.Event(), []

    def work() -> None:
        go_on.wait(LONG_S)
        done.append("written")

    disk.begin(work)
    assert done == []
    go_on.set()
    disk.wait()

    assert done == ["written"]
    disk.close()


def test_pieces_of_work_never_overlap() -> None:
    disk, first_goes_on, order = DiskThread("test"), threading.Event(), list[str]()

    def first() -> None:
        first_goes_on.wait(LONG_S)
        order.append("first")

    def begin_another() -> None:
        disk.begin(lambda: order.append("second"))
        order.append("begun")

    disk.begin(first)
    caller = threading.Thread(target=begin_another)
    caller.start()
    first_goes_on.set()
    caller.join(LONG_S)
    disk.close()

    assert order[0] == "first"
    assert {*order} == {"first", "begun", "second"}


def test_what_goes_wrong_is_raised_once_by_whoever_waits() -> None:
    disk = DiskThread("test")

    def refuse() -> None:
        raise StewardError("no space left")

    disk.begin(refuse)

    with pytest.raises(StewardError, match="no space left"):
        disk.wait()
    disk.wait()  # it was told
    disk.begin(refuse)
    with pytest.raises(StewardError, match="no space left"):
        disk.close()
