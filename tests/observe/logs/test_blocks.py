from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import threading
from pathlib import Path

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs import ReadCounts, Reading, read_blocks, stamp

STREAM = Stream(name="test")
NOW_S = 1_750_000_000.0
MIB = 2**20
Row = tuple[int, int, bytes, bool, bool]


def rows(blocks: list[LogBlock]) -> list[Row]:
    return [
        (int(b.line[i]), int(b.t_ns[i]), b.text(i), bool(b.joined[i]), bool(b.timed[i]))
        for b in blocks
        for i in range(len(b))
    ]


def entries(
    data: bytes, mode: Mode = Mode.STRICT, tally: ReadCounts | None = None, **options: object
) -> list[Row]:
    reading = Reading(now_s=NOW_S, **{"window_ns": 0, **options})  # type: ignore[arg-type]
    source = io.BytesIO(data)
    return rows(list(read_blocks(source, mode=mode, stream=STREAM, tally=tally, reading=reading)))


def texts(data: bytes, mode: Mode = Mode.STRICT, **options: object) -> list[bytes]:
    return [row[2] for row in entries(data, mode, **options)]


def at(second: int, text: str = "x") -> bytes:
    return f"2025-06-01 00:{second // 60:02d}:{second % 60:02d}.000 {text}\n".encode()


# -- which lines belong together ---------------------------------------------------------------


def test_lines_without_a_time_belong_to_the_one_before_with_line_ends_between() -> None:
    data = at(1, "a") + b"Traceback:\r\n  File x\n\n" + at(2, "b") + at(3, "c") + at(4) + at(5)

    seen = entries(data)

    assert seen[0][2] == at(1, "a") + b"Traceback:\n  File x"
    assert [(row[0], row[3]) for row in seen] == [(1, True), (5, False), (6, False), (7, False),
                                                  (8, False)]  # fmt: skip


def test_preq_joins_them_with_nothing_between_and_drops_what_comes_before() -> None:
    tally = ReadCounts()
    data = b"junk\nmore\n" + at(1, "foo") + b"bar\nbaz\n" + at(2)

    seen = entries(data, Mode.PREQ, tally)

    assert [row[2] for row in seen] == [at(1, "foobarbaz")[:-1], at(2)[:-1]]
    assert (tally.dropped, tally.unparsed, tally.entries) == (2, 4, 2)


@pytest.mark.parametrize("before", [b"header\n", b"\n", b"a\nb\nc\n"])
def test_preq_detects_a_format_by_a_last_line_that_has_no_end(before: bytes) -> None:
    tally = ReadCounts()

    seen = entries(before + at(1)[:-1], Mode.PREQ, tally)

    assert [row[2] for row in seen] == [at(1)[:-1]]
    assert tally.dropped == before.count(b"\n")


def test_strict_detects_a_format_by_a_last_line_that_has_no_end() -> None:
    tally = ReadCounts()

    seen = entries(b"a long header of this file without any time\n" + at(1)[:-1], tally=tally)

    assert [(row[2], row[4]) for row in seen][1:] == [(at(1)[:-1], True)]
    assert tally.format == "iso"


def test_empty_lines_that_come_first_are_no_entry() -> None:
    assert texts(b"\n" * 40 + at(1), block_bytes=16) == [at(1)[:-1]]


def test_in_preq_a_broken_line_without_a_time_is_dropped_and_strict_keeps_it() -> None:
    data = at(1, "a") + b"\xff\xfe\n" + b"ok\n"
    tally = ReadCounts()

    assert texts(data, Mode.PREQ) == [at(1, "aok")[:-1]]
    assert b"\xff\xfe" in b"".join(row[2] for row in entries(data, tally=tally))
    assert tally.undecodable == 1


def test_the_last_entry_comes_exactly_once_at_the_end_of_input() -> None:
    for mode in Mode:
        assert len(texts(at(1) + b" more", mode)) == 1
        assert len(texts(at(1)[:-1], mode)) == 1


def test_lines_before_the_first_time_are_kept_with_that_time() -> None:
    seen = entries(b"banner\n" + at(7) + at(8))

    assert [(row[2], row[4]) for row in seen[:2]] == [(b"banner", False), (at(7)[:-1], True)]
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize(
    "line",
    [
        b"gpu-7:12:99 [3] NCCL WARN Timeout",
        b"[rank1]: RuntimeError: x",
        b"WARNING:root:x",
        b"CRITICAL: y",
    ],
)
def test_a_line_that_is_clearly_one_of_its_own_is_not_joined_in_strict_mode(line: bytes) -> None:
    seen = entries(at(1, "a") + line + b"\n" + at(2, "b"))

    assert [row[2] for row in seen] == [at(1, "a")[:-1], line, at(2, "b")[:-1]]
    assert seen[1][1] == seen[0][1]
    assert not seen[1][4]


def test_where_most_lines_have_no_time_only_indented_ones_are_joined() -> None:
    data = at(1, "start") + b"step 1\n  detail\nstep 2\n}\nstep 3\n"

    assert texts(data) == [at(1, "start")[:-1], b"step 1\n  detail", b"step 2\n}", b"step 3"]


@pytest.mark.parametrize("mode", Mode)
def test_a_few_lines_that_all_begin_differently_are_one_message(mode: Mode) -> None:
    trace = b"Traceback (most recent call last):\n  File x\nValueError: y\n"

    (only,) = texts(at(1, "failed") + trace, mode)

    assert only.endswith(b"ValueError: y")


def test_lines_of_a_file_without_any_time_have_their_number_as_time() -> None:
    tally = ReadCounts()

    seen = entries(b"one\ntwo\n\nthree\n", tally=tally)

    assert [(row[1], row[2]) for row in seen] == [(1, b"one"), (2, b"two"), (4, b"three")]
    assert (tally.format, tally.unparsed) == ("none", 4)


def test_preq_refuses_a_file_without_any_time() -> None:
    with pytest.raises(StewardError, match="has a time that is known") as fault:
        entries(b"one\ntwo\n", Mode.PREQ)

    assert "strict" in fault.value.hint


def test_times_that_begin_late_in_a_file_are_found() -> None:
    data = b"banner line\n" * 9000 + at(1) * 4000 + at(2)

    seen = entries(data, block_bytes=32_768)

    assert seen[-1][4]
    assert seen[-1][2] == at(2)[:-1]


def test_a_file_may_have_several_formats() -> None:
    tally = ReadCounts()
    lines = [
        at(1),
        b"W0601 00:00:02.000000 9 t.py:1] y\n",
        at(3),
        b"W0601 00:00:04.0 9 t.py:1] y\n",
    ]

    seen = entries(b"".join(lines), tally=tally)

    assert tally.format == "iso+klog"
    assert [row[1] // 10**9 % 60 for row in seen] == [1, 2, 3, 4]


def test_an_entry_of_too_many_lines_is_cut_and_counted() -> None:
    tally = ReadCounts()
    data = at(1) + b" x\n" * 25 + at(2) * 40

    seen = entries(data, tally=tally, entry_lines=10)

    assert [row[0] for row in seen[:4]] == [1, 11, 21, 27]
    assert tally.cut == 2
    assert len({row[1] for row in seen[:3]}) == 1


# -- pieces, packing, bad input ------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(
        [at(1), at(2, "é"), at(3)[:-1] + b"\r\n", b"  more\n", b"\n", b"plain\n", b"\xff\n",
         b"\0\0\n", b"[rank0]: x\n", b"long " * 30 + b"\n"]
    ),
    max_size=30,
)  # fmt: skip


class Dribble(io.RawIOBase):
    """Returns bytes in pieces of the given sizes, in a cycle."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes, self._turn = data, sizes, 0

    def read(self, size: int = -1) -> bytes:
        self._turn += 1
        count = min(size, self._sizes[self._turn % len(self._sizes)])
        piece, self._data = self._data[:count], self._data[count:]
        return piece


@settings(max_examples=60, deadline=None)
@given(lines=LINES, sizes=st.lists(st.integers(1, 200), min_size=1, max_size=4), end=st.booleans())
@pytest.mark.parametrize("mode", Mode)
def test_entries_are_the_same_wherever_the_bytes_are_cut(
    mode: Mode,
    lines: list[bytes],
    sizes: list[int],
    end: bool,  # noqa: FBT001
) -> None:
    data = at(0) * 60 + b"".join(lines)
    data = data if end else data[:-1]
    reading = Reading(now_s=NOW_S, longest_bytes=120, window_ns=0, entry_lines=4, entry_bytes=300)
    one, many = ReadCounts(), ReadCounts()

    whole = list(
        read_blocks(io.BytesIO(data), mode=mode, stream=STREAM, tally=one, reading=reading)
    )
    first = Dribble(data, [len(at(0)) * 60, *sizes, *sizes])  # the format is known after these
    parts = list(read_blocks(first, mode=mode, stream=STREAM, tally=many, reading=reading))  # type: ignore[arg-type]

    assert rows(parts) == rows(whole)
    counts = ("lines", "entries", "unparsed", "dropped", "undecodable", "nul", "cut")
    assert {name: getattr(many, name) for name in counts} == {
        name: getattr(one, name) for name in counts
    }


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: bytes(cramjam.zstd.compress(data)),
}


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("piped", [False, True])
def test_packed_logs_are_unpacked_also_when_several_follow_each_other(
    kind: str,
    piped: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    data = b"".join(at(i % 3000) for i in range(3000))
    packed = PACKERS[kind](data[:40_000]) + PACKERS[kind](data[40_000:])
    file = tmp_path / "app.log"
    file.write_bytes(packed)
    source = io.BytesIO(packed) if piped else file
    reading = Reading(now_s=NOW_S, block_bytes=10_000)
    tally = ReadCounts()

    seen = rows(list(read_blocks(source, stream=STREAM, tally=tally, reading=reading)))

    assert len(seen) == 3000
    assert (tally.bytes, tally.notes) == (len(data), [])


@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_log_that_is_cut_gives_what_it_has_and_this_is_reported(kind: str) -> None:
    data = b"".join(at(i % 3000, os.urandom(20).hex()) for i in range(6_000))
    packed = PACKERS[kind](data)
    tally = ReadCounts()

    seen = entries(packed[: len(packed) // 2], tally=tally)

    assert len(seen) < 6_000
    assert len(tally.notes) == 1
    assert "a stream" in tally.notes[0]


def test_where_nothing_can_be_unpacked_it_is_reported_and_no_thread_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no /proc here")

    monkeypatch.setattr(cramjam, "File", refuse)
    tally = ReadCounts()

    assert entries(PACKERS["zst"](at(1)), tally=tally) == []
    (note,) = tally.notes
    assert "no /proc here" in note


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"\x04\x22\x4d\x18"])
def test_a_packing_that_is_not_known_is_reported_and_not_read_as_lines(head: bytes) -> None:
    tally = ReadCounts()

    assert entries(head + b"\x00rest\n", tally=tally) == []
    assert "unpack it first" in tally.notes[0]


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_bomb_costs_time_and_no_memory(kind: str) -> None:
    packed = PACKERS[kind](b"0" * (100 * MIB))
    assert len(packed) < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally = ReadCounts()

    seen = entries(packed, tally=tally)

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert [len(row[2]) for row in seen] == [4 * MIB]
    assert (tally.cut, tally.bytes) == (1, 100 * MIB)
    assert grown_kib < 64 * 1024


class Endless(io.RawIOBase):
    """One line of 100 MB between two others."""

    def __init__(self) -> None:
        self._pieces = [at(1), *[b"x" * MIB] * 100, b"\n", at(2)]

    def read(self, size: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_a_line_of_100_mb_is_cut_in_strict_mode_and_ends_the_file_in_preq() -> None:
    strict, preq = ReadCounts(), ReadCounts()

    long = list(read_blocks(Endless(), stream=STREAM, tally=strict))  # type: ignore[arg-type]
    ended = list(read_blocks(Endless(), mode=Mode.PREQ, stream=STREAM, tally=preq))  # type: ignore[arg-type]

    assert [len(row[2]) for row in rows(long)] == [len(at(1)) - 1, 4 * MIB, len(at(2)) - 1]
    assert strict.cut == 1
    assert [row[2] for row in rows(ended)] == [at(1)[:-1]]
    assert "longer than" in preq.notes[0]


def test_nul_bytes_and_broken_utf8_are_kept_and_counted() -> None:
    tally = ReadCounts()
    data = at(1, "a\0b") + at(2)[:-1] + b"\xc3\x28\n" + at(3, "é")

    seen = entries(data, tally=tally)

    assert [row[2] for row in seen] == data.splitlines()
    assert (tally.nul, tally.undecodable) == (1, 1)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("block_bytes", [7, MIB])
def test_what_windows_writes_is_read_as_any_other_text(encoding: str, block_bytes: int) -> None:
    plain = at(1, "caf\u00e9") + at(2, "b")
    mark = "\ufeff" if encoding == "utf-16-be" else ""  # the others put one there themselves
    written = (mark + plain.decode().replace("\n", "\r\n")).encode(encoding)

    assert entries(written, block_bytes=block_bytes) == entries(plain)


def test_half_a_character_at_the_end_is_not_lost_in_silence() -> None:
    written = at(1, "b").decode().rstrip().encode("utf-16") + b"\x00"

    assert texts(written) == [at(1, "b").rstrip() + "\ufffd".encode()]


def test_binary_junk_is_read_without_a_fault_and_in_bounded_pieces() -> None:
    for mode in Mode:
        try:
            entries(at(1) + os.urandom(300_000) + b"\n", mode)
        except StewardError as fault:
            assert fault.problem


def test_a_file_that_is_not_there_this_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="cannot be read") as fault:
        list(read_blocks(tmp_path / "none.log", stream=STREAM))

    assert "none.log" in fault.value.where


def test_an_empty_file_has_no_entries() -> None:
    for mode in Mode:
        assert entries(b"", mode) == []


def test_a_pipe_that_stays_open_gives_lines_as_they_come() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb", buffering=0) as writer:
        blocks = read_blocks(reader, stream=STREAM, reading=Reading(window_ns=0))
        writer.write(at(1) + at(2))

        first = next(blocks)

        assert rows([first])[0][2] == at(1)[:-1]
        threading.Thread(target=writer.close).start()
        assert [row[2] for row in rows(list(blocks))] == [at(2)[:-1]]


def test_a_pattern_of_its_own_is_all_that_is_tried() -> None:
    own = stamp(r"^<<(.*?)>>", "epochseconds")
    tally = ReadCounts()

    seen = entries(b"<<5>> a\n  b\n" + at(1) + b"<<7>> c\n", tally=tally, stamp=own)

    assert [(row[1], row[2][:7]) for row in seen] == [
        (5 * 10**9, b"<<5>> a"),
        (7 * 10**9, b"<<7>> c"),
    ]
    assert tally.format == "epochseconds"


# -- order ----------------------------------------------------------------------------------------


def test_entries_are_put_in_order_within_the_window_and_ties_keep_theirs() -> None:
    data = at(3, "a") + at(1, "b") + at(3, "c") + at(2, "d") + at(10, "e")
    tally = ReadCounts()

    seen = entries(data, tally=tally, window_ns=5 * 10**9)

    assert b"".join(row[2][-1:] for row in seen) == b"bdace"
    assert (tally.backwards, tally.late) == (2, 0)


def test_without_a_window_nothing_is_moved_and_all_is_counted() -> None:
    data = at(3, "a") + at(1, "b") + at(2, "c")
    tally = ReadCounts()

    assert [row[2][-1:] for row in entries(data, tally=tally)] == [b"a", b"b", b"c"]
    assert (tally.backwards, tally.late) == (2, 2)


@settings(max_examples=60, deadline=None)
@given(
    seconds=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    window_s=st.integers(1, 20),
    block=st.integers(40, 400),
)
def test_order_is_that_of_a_stable_sort_as_far_as_the_window_reaches(
    seconds: list[int], window_s: int, block: int
) -> None:
    data = b"".join(at(second, str(i)) for i, second in enumerate(seconds))
    tally = ReadCounts()

    seen = entries(data, tally=tally, window_ns=window_s * 10**9, block_bytes=block)

    assert sorted(row[0] for row in seen) == list(range(1, len(seconds) + 1))
    newest = [max(seconds[: i + 1]) for i in range(len(seconds))]
    if all(top - second < window_s for top, second in zip(newest, seconds, strict=True)):
        expected = sorted(range(len(seconds)), key=lambda i: seconds[i])
        assert [row[0] - 1 for row in seen] == expected
        assert tally.late == 0


def test_what_is_held_is_bounded_and_the_oldest_go_early() -> None:
    data = b"".join(at(i % 4, "x" * 1000) for i in range(2000))
    tally = ReadCounts()

    seen = entries(data, tally=tally, window_ns=10**12, held_bytes=100_000, block_bytes=20_000)

    assert len(seen) == 2000


def test_rotated_files_are_one_stream_in_the_order_of_their_first_times(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(at(30) + at(40))
    (tmp_path / "app.log.1").write_bytes(at(10) + at(20))
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(at(1) + at(2)))
    tally = ReadCounts()
    files = [tmp_path / name for name in ("app.log", "app.log.1", "app.log.2.gz")]

    seen = rows(list(read_blocks(files, stream=STREAM, tally=tally)))

    assert [row[1] // 10**9 % 60 for row in seen] == [1, 2, 10, 20, 30, 40]
    assert (tally.files, tally.late, tally.backwards) == (3, 0, 0)
