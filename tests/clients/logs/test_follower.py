"""Following files: through growth, rotation, cuts and restarts, with nothing lost in silence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.logs.followed_file import CUT_MARK, ReadLimits
from steward.clients.logs.follower import FileFollower

STEP_S = 6.0  # every look is also a scan for new files


class Reader:
    """A follower and the time, which goes on with every look."""

    def __init__(
        self, *patterns: Path, limits: ReadLimits | None = None, from_start: bool = False
    ) -> None:
        self.patterns = [str(pattern) for pattern in patterns]
        self.follower = FileFollower(self.patterns, from_start=from_start, limits=limits)
        self._limits = limits
        self._t_s = 0.0

    def lines(self) -> list[str]:
        self._t_s += STEP_S
        return [text for each in self.follower.look(self._t_s) for text in each.texts]

    def notes(self) -> list[str]:
        return [note.kind for note in self.follower.taken_notes()]

    def restart(self) -> None:
        """Restart with the saved positions, as JSON."""
        kept = json.dumps(self.follower.positions())
        self.follower.close()
        self.follower = FileFollower(self.patterns, limits=self._limits)
        self.follower.resume(json.loads(kept))


def add(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("old\n")
    return path


@pytest.fixture
def reader(log: Path, tmp_path: Path) -> Reader:
    made = Reader(tmp_path / "*.log*")
    assert made.lines() == []  # what was there before is not news
    return made


# -- lines -----------------------------------------------------------------------------------------


def test_new_lines_come_once_and_in_order(log: Path, reader: Reader) -> None:
    add(log, "a\nb\n")

    assert reader.lines() == ["a", "b"]
    assert reader.lines() == []


def test_a_line_comes_when_it_is_whole(log: Path, reader: Reader) -> None:
    add(log, "first half")
    assert reader.lines() == []

    add(log, " second half\nnext")

    assert reader.lines() == ["first half second half"]


def test_a_file_that_appears_later_is_read_from_its_beginning(
    tmp_path: Path, reader: Reader
) -> None:
    (tmp_path / "new.log").write_text("hello\n")

    assert reader.lines() == ["hello"]


def test_reading_from_the_start_includes_what_is_there(log: Path) -> None:
    assert Reader(log, from_start=True).lines() == ["old"]


def test_a_look_that_begins_inside_a_line_waits_for_the_next(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("old\nbegun before")
    reader = Reader(log)
    reader.lines()

    add(log, " we came\nnew\n")

    assert reader.lines() == ["begun before we came", "new"]


def test_bad_bytes_nuls_and_windows_line_ends_do_no_harm(log: Path, reader: Reader) -> None:
    add(log, b"caf\xe9\r\n\x00\x00zero\n\n\xff\xfe\x00\x01junk\ngr\xc3\xbc\xc3\x9fe\n")

    assert reader.lines() == ["caf\ufffd", "zero", "\ufffd\ufffd\x01junk", "grüße"]


def test_a_hole_left_by_a_writer_after_truncation_is_skipped(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"\x00" * 5000 + b"after\n")
    reader = Reader(log, from_start=True, limits=ReadLimits(window_bytes=1000))

    assert reader.lines() == ["after"]


def test_a_progress_bar_shows_what_it_shows_now(log: Path, reader: Reader) -> None:
    add(log, "10%\r20%\r30")
    assert reader.lines() == ["20%"]

    add(log, "%\r100%\n")

    assert reader.lines() == ["100%"]


def test_a_line_that_is_too_long_is_cut_and_the_rest_counted(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("x" * 2500 + "\nnext\n")
    reader = Reader(log, from_start=True, limits=ReadLimits(window_bytes=1000))

    lines = reader.lines()

    assert lines == ["x" * 1000 + CUT_MARK, "next"]
    (note,) = reader.follower.taken_notes()
    assert note.kind == "cut"
    assert note.text.startswith("1501 bytes")


def test_a_file_that_outgrows_us_is_skipped_and_that_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"{i:09}\n" for i in range(1000)))
    reader = Reader(log, from_start=True, limits=ReadLimits(window_bytes=100, behind_bytes=1000))

    lines = reader.lines()

    assert lines[-1] == "000000999"
    (note,) = reader.follower.taken_notes()
    assert note.kind == "skipped"
    assert int(note.text.split()[0]) + 10 * len(lines) == 10_000


def test_one_busy_file_does_not_keep_others_waiting(tmp_path: Path) -> None:
    busy, quiet = tmp_path / "a.log", tmp_path / "b.log"
    busy.write_text("busy\n" * 1000)
    quiet.write_text("quiet\n")
    limits = ReadLimits(window_bytes=100, look_bytes=300)
    reader = Reader(tmp_path / "*.log", from_start=True, limits=limits)

    lines = reader.lines()

    assert "quiet" in lines
    assert lines.count("busy") < 1000
    rest = [line for _ in range(30) for line in reader.lines()]
    assert lines.count("busy") + rest.count("busy") == 1000


def test_a_caller_that_stops_early_finds_the_rest_at_the_next_read(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"{i:09}\n" for i in range(100)))
    follower = FileFollower([str(log)], from_start=True, limits=ReadLimits(window_bytes=100))

    first = next(follower.look(0.0)).texts
    rest = [text for each in follower.look(1.0) for text in each.texts]

    assert first + rest == [f"{i:09}" for i in range(100)]


# -- rotation --------------------------------------------------------------------------------------


def test_rotation_by_renaming_loses_and_repeats_nothing(
    log: Path, tmp_path: Path, reader: Reader
) -> None:
    add(log, "a\n")
    assert reader.lines() == ["a"]
    add(log, "b\n")
    log.rename(tmp_path / "app.log.1")
    log.write_text("c\n")

    assert reader.lines() == ["b", "c"]
    assert reader.lines() == []


def test_a_program_may_continue_with_the_old_file_for_a_while(
    log: Path, tmp_path: Path, reader: Reader
) -> None:
    add(log, "a\n")
    reader.lines()
    log.rename(tmp_path / "app.log.1")
    log.write_text("new\n")
    reader.lines()

    add(tmp_path / "app.log.1", "late\nlast words")

    assert reader.lines() == ["late"]
    assert [line for _ in range(6) for line in reader.lines()] == ["last words"]


def test_a_rotated_file_is_released_although_the_caller_stops_early_at_every_look(
    log: Path, tmp_path: Path
) -> None:
    follower = FileFollower([str(log)], from_start=True)
    assert [each.texts for each in follower.look(0.0)] == [["old"]]
    rotated = log.rename(tmp_path / "app.log.1")

    for second in range(1, 60):
        add(log, f"line {second}\n")
        look = follower.look(float(second))
        next(look)
        look.close()

    assert rotated not in {each.readlink() for each in Path("/proc/self/fd").iterdir() if _is(each)}
    assert follower.positions()["done"]


def _is(descriptor: Path) -> bool:
    """Return True unless the descriptor was that of the listing itself."""
    return descriptor.is_symlink()


def test_rotation_by_copying_and_emptying_loses_and_repeats_nothing(
    log: Path, tmp_path: Path, reader: Reader
) -> None:
    add(log, "a\n")
    assert reader.lines() == ["a"]
    add(log, "b\n")
    shutil.copy(log, tmp_path / "app.log.1")
    os.truncate(log, 0)
    add(log, "c\n")

    assert reader.lines() == ["b", "c"]
    assert [line for _ in range(8) for line in reader.lines()] == []
    assert reader.notes() == []


def test_an_emptied_file_that_has_outgrown_itself_is_noticed(log: Path, reader: Reader) -> None:
    add(log, "a\n")
    reader.lines()

    log.write_text("all of this is new\nand longer than before\n")

    assert reader.lines() == ["all of this is new", "and longer than before"]
    assert reader.notes() == ["lost"]  # there is no copy: lines may have been between


def test_a_file_that_is_deleted_and_made_anew_is_read_from_its_beginning(
    log: Path, reader: Reader
) -> None:
    add(log, "a\n")
    reader.lines()
    add(log, "b\n")
    log.unlink()
    log.write_text("c\n")

    assert reader.lines() == ["b", "c"]


def test_another_file_with_the_same_inode_is_another_file(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one line of the first file\n")
    reader = Reader(log, from_start=True)
    reader.lines()

    with log.open("r+") as file:  # the same inode, as a file system may hand it out again
        file.write("other content, same length\n")
        file.write("more\n")

    assert reader.lines() == ["other content, same length", "more"]


def test_a_rotated_file_that_is_written_to_much_later_is_not_read_twice(
    log: Path, tmp_path: Path, reader: Reader
) -> None:
    add(log, "a\n")
    reader.lines()
    log.rename(tmp_path / "app.log.1")
    log.touch()
    assert [line for _ in range(8) for line in reader.lines()] == []

    add(tmp_path / "app.log.1", "very late\n")
    reader.restart()
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    log.write_text("b\n")

    assert sorted(reader.lines()) == ["b", "very late"]


@pytest.mark.parametrize(
    "name",
    ["app.log.1", "app.log-20260519", "app.log.20260519-070857", "app.log.old", "app.log.2.gz"],
)
def test_files_that_rotation_put_aside_are_not_read(
    name: str, tmp_path: Path, reader: Reader
) -> None:
    (tmp_path / name).write_text("long ago\n")

    assert reader.lines() == []


def test_a_number_at_the_end_of_a_name_is_not_rotation_by_itself(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank.{rank}").write_text(f"rank {rank}\n")

    lines = Reader(tmp_path / "rank.*", from_start=True).lines()

    assert sorted(lines) == ["rank 0", "rank 1", "rank 2"]


def test_a_packed_file_is_reported_once_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "odd.log").write_bytes(b"\x1f\x8b\x08\x00" + b"\n junk \n" * 10)
    reader = Reader(tmp_path / "*.log", from_start=True)

    assert [reader.lines(), reader.lines()] == [[], []]
    assert reader.notes() == ["compressed"]


def test_two_names_of_one_file_are_read_once(log: Path, tmp_path: Path) -> None:
    os.link(log, tmp_path / "b.log")
    (tmp_path / "c.log").symlink_to(log)

    assert Reader(tmp_path / "*.log", from_start=True).lines() == ["old"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported_once(log: Path) -> None:
    log.chmod(0)
    reader = Reader(log, from_start=True)

    assert [reader.lines(), reader.lines()] == [[], []]
    assert reader.notes() == ["unreadable"]


def test_a_link_in_circles_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "a.log")
    reader = Reader(tmp_path / "a.log", from_start=True)

    assert [reader.lines(), reader.lines()] == [[], []]
    assert reader.notes() == ["unreadable"]


def test_a_file_that_is_renamed_to_another_name_that_is_followed_continues(tmp_path: Path) -> None:
    log = tmp_path / "today.log"
    log.write_text("a\n")
    reader = Reader(tmp_path / "*.log", from_start=True)
    assert reader.lines() == ["a"]

    log.rename(tmp_path / "yesterday.log")
    log.write_text("b\n")
    add(tmp_path / "yesterday.log", "late\n")

    lines = [line for _ in range(8) for line in reader.lines()]
    assert sorted(lines) == ["b", "late"]
    assert reader.follower.followed() == 2


def test_more_files_than_may_be_open_are_followed_all_the_same(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.log" for i in range(250)]
    for file in files:
        file.write_text("a\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    reader = Reader(tmp_path / "*.log", from_start=True)
    assert len(reader.lines()) == 250
    held = len(list(Path("/proc/self/fd").iterdir())) - before

    for file in files:
        add(file, "b\n")
        file.rename(f"{file}.1")
        file.write_text("c\n")
    lines = reader.lines()

    assert held < 250
    assert (lines.count("b"), lines.count("c")) == (250, 250)
    reader.follower.close()


def test_a_folder_that_is_called_like_a_log_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "folder.log").mkdir()
    reader = Reader(tmp_path / "*.log", from_start=True)

    assert [reader.lines(), reader.lines()] == [[], []]
    assert reader.notes() == ["unreadable"]


# -- restarts --------------------------------------------------------------------------------------


def test_a_restart_continues_where_it_was(log: Path, reader: Reader) -> None:
    add(log, "a\nhalf")
    assert reader.lines() == ["a"]
    reader.restart()
    add(log, " whole\n")

    assert reader.lines() == ["half whole"]


def test_rotation_during_a_restart_loses_nothing(log: Path, tmp_path: Path, reader: Reader) -> None:
    add(log, "a\n")
    reader.lines()
    kept = json.dumps(reader.follower.positions())
    reader.follower.close()
    add(log, "b\n")
    log.rename(tmp_path / "app.log.1")
    log.write_text("c\n")
    reader.follower = FileFollower(reader.patterns)
    reader.follower.resume(json.loads(kept))

    assert reader.lines() == ["b", "c"]


def test_files_that_came_and_went_during_a_restart_are_read_whole(
    log: Path, tmp_path: Path, reader: Reader
) -> None:
    add(log, "a\n")
    reader.lines()
    reader.restart()
    add(log, "b\n")
    log.rename(tmp_path / "app.log.2")
    log.write_text("c\nd\n")
    log.rename(tmp_path / "app.log.1")
    log.write_text("e\n")

    assert reader.lines() == ["b", "c", "d", "e"]
    assert [line for _ in range(8) for line in reader.lines()] == []


def test_a_file_that_went_away_during_a_restart_is_reported(log: Path, reader: Reader) -> None:
    add(log, "a\n")
    reader.lines()
    reader.restart()
    log.unlink()

    assert reader.lines() == []
    assert reader.notes() == ["lost"]


ACTIONS = st.lists(
    st.sampled_from(["write", "half", "look", "rename", "copy", "restart", "delete"]), max_size=25
)


class History:
    """A file to which things happen, what was written to it, and what was read of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "app.log"
        self.log.touch()
        self.reader = Reader(folder / "app.log*")
        self.written: list[str] = []
        self.seen = self.reader.lines()
        self._number = 0

    def happens(self, action: str) -> None:
        self._number += 1
        getattr(self, action)()

    def write(self) -> None:
        self.written.append(f"line {self._number}.{len(self.written)}")
        add(self.log, self.written[-1] + "\n")

    def half(self) -> None:
        add(self.log, "half a ")
        self.look()
        self.write()
        self.written[-1] = f"half a {self.written[-1]}"

    def look(self) -> None:
        self.seen += self.reader.lines()

    def restart(self) -> None:
        self.reader.restart()

    def rename(self) -> None:
        self.log.rename(self.folder / f"app.log.{self._number}")
        self.log.touch()
        self.look()

    def copy(self) -> None:
        self.write()
        self.look()  # of a file that was never read, nothing is known
        self.write()
        shutil.copy(self.log, self.folder / f"app.log.{self._number}")
        os.truncate(self.log, 0)
        self.look()

    def delete(self) -> None:
        self.look()
        self.log.unlink()
        self.log.touch()
        self.look()


@given(actions=ACTIONS)
def test_whatever_happens_every_line_comes_exactly_once(
    actions: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also when files are rotated, copied or deleted between any two writes, and we restart."""
    history = History(tmp_path_factory.mktemp("logs"))

    for action in actions:
        history.happens(action)
    history.look()
    history.reader.follower.close()

    assert sorted(history.seen) == sorted(history.written)


# -- numbers of lines ------------------------------------------------------------------------------


def numbers(reader: Reader) -> list[tuple[int, str]]:
    reader._t_s += STEP_S
    seen = reader.follower.look(reader._t_s)
    return [pair for each in seen for pair in zip(each.numbers, each.texts, strict=True)]


def test_lines_have_their_numbers_in_their_file_blank_ones_counted(
    log: Path, reader: Reader
) -> None:
    add(log, "\n\nfour\nfi")
    assert numbers(reader) == [(4, "four")]
    add(log, "ve\n\nseven\n")
    assert numbers(reader) == [(5, "five"), (7, "seven")]

    reader.restart()
    add(log, "eight\n")
    assert numbers(reader) == [(8, "eight")]

    log.rename(log.with_suffix(".log.1"))
    log.write_text("one\n")
    assert (1, "one") in numbers(reader)


def test_a_file_that_was_emptied_counts_from_one(log: Path, reader: Reader) -> None:
    add(log, "two\n")
    reader.lines()

    log.write_text("")
    reader.lines()
    add(log, "one\n")

    assert numbers(reader) == [(1, "one")]


def test_a_line_that_is_too_long_is_one_line(log: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path / "*.log", limits=ReadLimits(window_bytes=100))
    reader.lines()

    add(log, "x" * 350 + "\nthree\n")

    assert [number for number, _ in numbers(reader)] == [2, 3]


def test_numbers_are_unknown_after_a_stretch_was_skipped(log: Path, tmp_path: Path) -> None:
    limits = ReadLimits(window_bytes=100, behind_bytes=200)
    reader = Reader(tmp_path / "*.log", limits=limits)
    reader.lines()

    add(log, "x\n" * 1000)

    assert {number for number, _ in numbers(reader)} == {0}
