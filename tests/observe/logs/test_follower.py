from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patience import until
from steward.model.rules import LogBlock
from steward.observe.logs import Following, follow

LINE = "2025-06-01 00:00:{:02d} {}\n"


class Reader:
    """Follows in the background, and keeps the entries."""

    def __init__(self, paths: list[Path], following: Following) -> None:
        self.texts: list[str] = []
        self.blocks: list[LogBlock] = []
        self.idle = threading.Event()
        self.following = following
        self._thread = threading.Thread(target=self._run, args=(paths,))
        self._thread.start()
        assert self.idle.wait(120)

    def _run(self, paths: list[Path]) -> None:
        for block in follow(paths, self.following):
            if block is None:
                self.idle.set()
                continue
            self.blocks.append(block)
            for entry in range(len(block)):
                self.texts.append(block.text(entry).decode())

    def wait_for(self, *texts: str) -> None:
        until(lambda: set(texts) <= set(self.texts), why=str(texts))

    def stop(self) -> None:
        self.following.stop.set()
        self._thread.join()


@pytest.fixture
def reading() -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def start(*paths: Path, **options: bool) -> Reader:
        made.append(Reader(list(paths), Following(idle_s=0.02, **options)))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for each in made:
        each.stop()


def put(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_whole_and_in_order_through_rotation(
    tmp_path: Path, reading: Callable[..., Reader]
) -> None:
    log = tmp_path / "app.log"
    put(log, LINE.format(0, "old"))
    reader = reading(log)

    put(log, LINE.format(1, "a"))
    put(log, "2025-06-01 00:00:02 par")
    reader.wait_for("2025-06-01 00:00:01 a")
    put(log, "tial\n")
    reader.wait_for("2025-06-01 00:00:02 partial")
    log.rename(tmp_path / "app.log.1")
    put(log, LINE.format(3, "renamed"))
    reader.wait_for("2025-06-01 00:00:03 renamed")
    os.truncate(log, 0)
    put(log, LINE.format(4, "x"))
    reader.wait_for("2025-06-01 00:00:04 x")

    stamps = [text.split()[1][-2:] for text in reader.texts]
    assert stamps == ["01", "02", "03", "04"]
    lines = [number for block in reader.blocks for number in block.line.tolist()]
    assert lines == [2, 3, 1, 1]  # each in its own file
    assert reader.following.tallies[str(log)].format == "iso"


def test_new_files_and_folders_are_found_at_once(
    tmp_path: Path, reading: Callable[..., Reader]
) -> None:
    reader = reading(tmp_path)

    put(tmp_path / "new.log", LINE.format(1, "first"))
    reader.wait_for("2025-06-01 00:00:01 first")
    (tmp_path / "deep").mkdir()
    put(tmp_path / "deep" / "other.out", "no time\n")
    reader.wait_for("no time")

    [late] = [block for block in reader.blocks if block.stream.name.endswith("other.out")]
    assert not late.timed.any()
    assert abs(int(late.t_ns[0]) / 1e9 - time.time()) < 60  # when it came, not its number


def test_a_line_wakes_the_follower(tmp_path: Path, reading: Callable[..., Reader]) -> None:
    log = tmp_path / "app.log"
    put(log, LINE.format(0, "old"))
    reader = reading(log)
    put(log, LINE.format(1, "first"))
    reader.following.idle_s = 1000.0
    reader.wait_for("2025-06-01 00:00:01 first")

    for number in range(2, 20):
        put(log, LINE.format(number, "next"))
        reader.wait_for(LINE.format(number, "next")[:-1])

    reader.following.stop.set()
    put(log, LINE.format(20, "last"))  # it wakes up once more, and ends


def test_reading_from_the_start_takes_in_what_is_there(
    tmp_path: Path, reading: Callable[..., Reader]
) -> None:
    log = tmp_path / "app.log"
    put(log, LINE.format(0, "old") + "  more\n" + LINE.format(1, "new") + LINE.format(2, "x"))

    reader = reading(log, from_start=True)

    reader.wait_for("2025-06-01 00:00:00 old\n  more", "2025-06-01 00:00:01 new")
