"""A real process of this kernel: its pages are read, moved to swap on zram and back, and checked.

Each test asks first what the kernel offers and tests its answer: where something is missing the
reason is what has to come out, in words.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.zram import missing, zram_swap
from patience import until
from steward.act.actuators.process_memory import SwapMemory
from steward.clients.linux.pages.blocks import ProcessPages
from steward.clients.linux.pages.calls import COLD, PAGEOUT, WILLNEED, move_pages, process_madvise
from steward.clients.linux.pages.damon import DAMON, availability
from steward.clients.linux.pages.pagemap import Pagemap
from steward.clients.linux.pages.write_tracking import WriteTracking
from steward.clock import WallClock
from steward.config.memory_loop import MemoryWatch, WatchOptions
from steward.errors import StewardError
from steward.model.decision import Autonomy

pytestmark = pytest.mark.real
CHILD = Path(__file__).parents[3] / "beds" / "touching.py"
SIZE = 32 << 20
PAGE = 4096


class Child:
    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, CHILD, str(SIZE), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.address = int(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def tracking_missing() -> str:
    """Return why written pages cannot be told here, or an empty text."""
    try:
        WriteTracking().close()
        own = Pagemap(os.getpid())
        own.residence(0x1000, 0x2000)
        own.close()
    except OSError as fault:
        return fault.strerror or str(fault)
    return ""


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child(*(["untracked"] if tracking_missing() else []))
    yield made
    made.end()


def inside(child: Child, seen: object, name: str) -> int:
    here = (seen.start >= child.address) & (seen.start < child.address + SIZE)  # type: ignore[attr-defined]
    return int(getattr(seen, name)[here].sum())


def test_written_pages_are_told_once_or_why_not(child: Child) -> None:
    if why := tracking_missing():
        with pytest.raises(StewardError, match=r"PAGEMAP_SCAN|may not"):
            ProcessPages(child.pid).snapshot(0.0)
        pytest.fail(f"this kernel tells no writes ({why}): the reason above is all there is")
    reader = ProcessPages(child.pid)
    reader.snapshot(0.0)

    child.ask("write 100 37")
    first, again = reader.snapshot(1.0), reader.snapshot(2.0)
    reader.close()

    assert inside(child, first, "used") == 37
    assert inside(child, again, "used") == 0
    assert inside(child, first, "present") == SIZE // PAGE


def test_without_tracking_what_was_referenced_is_told_by_mapping() -> None:
    child = Child("untracked")
    try:
        seen = ProcessPages(child.pid).snapshot(0.0)

        assert seen.tracked_share == 0.0
        assert inside(child, seen, "used") > 0
    finally:
        child.end()


def test_a_process_that_exits_while_its_pages_are_read_is_an_answer(child: Child) -> None:
    reader = ProcessPages(child.pid)
    reader.snapshot(0.0)

    child.end()

    with pytest.raises(StewardError, match="the process has ended"):
        reader.snapshot(1.0)


def test_pages_go_to_swap_and_come_back_whole(child: Child) -> None:
    if why := missing():
        assert why in ("only root may add swap", "this kernel has no zram")
        assert SwapMemory().available().status in ("missing", "ok")
        return
    with zram_swap(64 << 20):
        reader = ProcessPages(child.pid)
        part = [(child.address, child.address + SIZE // 2)]

        assert process_madvise(child.pid, part, COLD) == SIZE // 2
        process_madvise(child.pid, part, PAGEOUT)
        out = inside(child, reader.snapshot(1.0), "swapped")
        process_madvise(child.pid, part, WILLNEED)
        child.ask(f"write 0 {SIZE // 2 // PAGE}")
        back = inside(child, reader.snapshot(2.0), "swapped")

        assert SwapMemory().available().status == "ok"
        assert out > SIZE // 2 // PAGE // 2
        assert back == 0
        assert child.ask("check") == "0"
        reader.close()
        child.end()  # before its swap goes


def test_move_pages_answers_for_each_page_and_refuses_nodes_that_are_not_there(
    child: Child,
) -> None:
    where = move_pages(child.pid, [child.address, child.address + PAGE, 1 << 20])

    assert where[:2].tolist() == [0, 0]
    assert where[2] in (-errno.EFAULT, -errno.ENOENT)
    with pytest.raises(OSError, match="No such device"):
        move_pages(child.pid, [child.address], [63])


def test_another_users_process_may_not_be_read() -> None:
    if os.geteuid() != 0:
        target = 1
        command = [sys.executable]
    else:
        target = os.getpid()
        command = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable]
    program = (
        "from steward.clients.linux.pages.blocks import ProcessPages\n"
        "from steward.errors import StewardError\n"
        f"try: ProcessPages({target}).snapshot(0.0)\n"
        "except StewardError as fault: print(fault.problem)\n"
    )
    said = subprocess.run(
        [*command, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_CACHE_HOME": "/tmp/nobody-cache"},
    )

    assert "this user may not read its pages" in said.stdout + said.stderr or (
        "Permission denied" in said.stderr  # the interpreter itself is not to be read by others
    )


def test_damon_is_looked_at_and_never_touched() -> None:
    states = sorted(DAMON.rglob("state")) if DAMON.is_dir() else []
    before = [each.read_text(encoding="ascii") for each in states]

    assert availability().status in ("ok", "limited", "missing")
    assert [each.read_text(encoding="ascii") for each in states] == before


def test_the_loop_moves_cold_blocks_of_a_process_under_the_guard(
    child: Child, tmp_path: Path
) -> None:
    if missing() or tracking_missing():
        assert SwapMemory().available().reason
        return
    with zram_swap(64 << 20):
        options = WatchOptions(pid=child.pid, near_bytes=SIZE // 2, autonomy=Autonomy.AUTO)
        journal = f"sqlite:///{tmp_path}/journal.sqlite"
        watch = MemoryWatch(options, tmp_path, journal, clock=WallClock())

        def moved() -> bool:
            watch.turn()
            return watch.loop.view.snapshot.far_bytes > 0

        until(moved)
        status = watch.write_status()
        watch.close()
        wrong = child.ask("check")
        child.end()

    assert status["problem"] == ""
    assert wrong == "0"
    assert json.loads((tmp_path / "memory/status" / f"{child.pid}.json").read_text()) is not None
