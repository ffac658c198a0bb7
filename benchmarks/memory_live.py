"""What does it cost to watch and move the memory of a real process of 4 GB, and is it still right?

A child process fills 4 GB, half of it random, and registers it for write tracking. Measured are one
look at all of its pages, the CPU share of the whole loop at ten turns a second while the process
writes (each turn looks at the next part of the pages), what tracking costs the process itself, and
how fast pages go to swap on zram and back. After at least 100,000 page moves the process checks
each page: number, count of writes, checksum. Needs root, zram and Linux 6.7; takes about 6 GB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from beds.zram import missing, zram_swap
from report import bar, finish, progress, quick
from steward.clients.linux.pages.blocks import BLOCK_BYTES, ProcessPages
from steward.clients.linux.pages.calls import PAGEOUT, WILLNEED, process_madvise
from steward.clock import WallClock
from steward.config.memory_loop import MemoryWatch, WatchOptions
from steward.model.decision import Autonomy

CHILD = Path(__file__).resolve().parents[1] / "tests" / "beds" / "touching.py"
PAGE = 4096
MOVES = 100_000
ALL = 1 << 40  # pages of one look


class Child:
    """The process that is watched."""

    def __init__(self, size: int, *, tracked: bool = True) -> None:
        arguments = [sys.executable, str(CHILD), str(size), *([] if tracked else ["untracked"])]
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid, self.size = self._process.pid, size
        self.address = int(self._answer())

    def ask(self, command: str) -> str:
        """Send a command and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Measure, then judge."""
    if why := missing():
        sys.exit(f"this benchmark cannot run here: {why}")
    size = (256 << 20) if quick() else (4 << 30)
    results: dict[str, Any] = {"size_bytes": size, "tracking": tracking_cost()}
    progress(f"tracking: {results['tracking']}")
    with zram_swap(size):
        child = Child(size)
        try:
            results["look"] = looks(child)
            progress(f"look: {results['look']}")
            results["moves"] = moves(child)
            progress(f"moves: {results['moves']}")
            results["watching"] = loop(child, Autonomy.ADVISE)
            progress(f"watching: {results['watching']}")
            results["moving"] = loop(child, Autonomy.AUTO)
            progress(f"moving: {results['moving']}")
            results["wrong_pages"] = int(child.ask("check"))
        finally:
            child.end()
    done = results["moves"]["moved_pages"]
    bars = [
        bar("pages of the process that are wrong after all moves", results["wrong_pages"], "==", 0),
        bar("page moves", done, ">=", MOVES if size >= 1 << 32 else 1),
        bar(
            "CPU share of watching, ten turns a second",
            results["watching"]["cpu_share"],
            "<=",
            0.05,
        ),
    ]
    finish("memory_live", results, bars)


def tracking_cost() -> dict[str, float]:
    """Return what one write to a page takes with and without tracking, the best of five."""
    pages, found = 16_384, {}
    for tracked in (False, True):
        child = Child(pages * PAGE, tracked=tracked)
        reader = ProcessPages(child.pid, look_pages=ALL)
        times = []
        for _ in range(5):
            reader.snapshot(0.0)  # protects again
            began_s = time.perf_counter()
            child.ask(f"write 0 {pages}")
            times.append((time.perf_counter() - began_s) / pages)
        reader.close()
        child.end()
        found["tracked_write_s" if tracked else "plain_write_s"] = min(times)
    return found


def looks(child: Child) -> dict[str, float]:
    """Return how fast all pages are looked at, while some are written in between."""
    reader = ProcessPages(child.pid, look_pages=ALL)
    reader.snapshot(0.0)
    cpu_s, wall_s, used = [], [], 0
    for turn in range(20):
        child.ask(f"write {turn * 64} 64")
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        seen = reader.snapshot(0.0)
        wall_s.append(time.perf_counter() - began_s)
        cpu_s.append(time.process_time() - began_cpu_s)
        inside = (seen.start >= child.address) & (seen.start < child.address + child.size)
        used += int(seen.used[inside].sum())
    reader.close()
    pages = child.size // PAGE
    middle = sorted(cpu_s)[len(cpu_s) // 2]
    return {
        "pages": pages,
        "cpu_s": middle,
        "wall_s": sorted(wall_s)[len(wall_s) // 2],
        "pages_per_cpu_s": pages / middle,
        "written_pages_told": used,
        "written_pages": 20 * 64,
    }


def moves(child: Child) -> dict[str, float]:
    """Move blocks to swap and back until there were 100,000 page moves."""
    reader = ProcessPages(child.pid, look_pages=ALL)
    begin = -(-child.address // BLOCK_BYTES) * BLOCK_BYTES
    blocks = [(at, at + BLOCK_BYTES) for at in range(begin, begin + child.size // 2, BLOCK_BYTES)]
    part = blocks[: max(1, MOVES // 2 // (BLOCK_BYTES // PAGE) + 1)]
    out_s = back_s = 0.0
    moved = out = back = 0
    while moved < MOVES:
        before = reader.snapshot(0.0).far_bytes
        began_s = time.perf_counter()
        process_madvise(child.pid, part, PAGEOUT)
        out_s += time.perf_counter() - began_s
        after = reader.snapshot(0.0).far_bytes
        began_s = time.perf_counter()
        process_madvise(child.pid, part, WILLNEED)
        first = (part[0][0] - child.address) // PAGE
        child.ask(f"write {first} {len(part) * BLOCK_BYTES // PAGE}")
        back_s += time.perf_counter() - began_s
        last = reader.snapshot(0.0).far_bytes
        out += (after - before) // PAGE
        back += (after - last) // PAGE
        if after <= before:
            break  # nothing goes to swap: the bar tells
        moved = out + back
    reader.close()
    return {
        "moved_pages": moved,
        "pages_per_s_out": out / out_s if out_s else 0.0,
        "pages_per_s_back_and_written": back / back_s if back_s else 0.0,
    }


def loop(child: Child, autonomy: Autonomy) -> dict[str, float]:
    """Return the CPU share of the whole loop: look, learn, decide, guard, journal, maybe move.

    Moving has what the kernel compresses in the calls.
    """
    seconds = 10.0
    with tempfile.TemporaryDirectory() as folder:
        options = WatchOptions(pid=child.pid, near_bytes=child.size * 3 // 4, autonomy=autonomy)
        journal = f"sqlite:///{folder}/journal.sqlite"
        watch = MemoryWatch(options, Path(folder), journal, clock=WallClock())
        for _ in range(5):
            watch.turn()  # compiles
        began_s, began_cpu_s, turns = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began_s < seconds:
            due_s = began_s + turns * options.every_s
            time.sleep(max(0.0, due_s - time.perf_counter()))
            child.ask(f"write {turns % 64 * 64} 64")
            watch.turn()
            turns += 1
        wall_s = time.perf_counter() - began_s
        cpu_s = time.process_time() - began_cpu_s
        status = watch.write_status()
        watch.close()
    return {
        "turns": turns,
        "wall_s": wall_s,
        "cpu_s_per_turn": cpu_s / turns,
        "cpu_share": cpu_s / turns / options.every_s,
        "moved_out_blocks": status["demoted_blocks"],
        "far_bytes": status["far_bytes"],
    }


if __name__ == "__main__":
    main()
