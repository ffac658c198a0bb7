"""A spool: what was acknowledged is there, in order, whatever happened to the files."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError, TemporaryError
from steward.store.spool import Spool, SpoolFullError, StreamPositions
from steward.store.spool.segment import HEAD_BYTES, Segment

MIB = 2**20


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with closing(Spool(tmp_path / "spool", max_bytes=MIB)) as opened:
        yield opened


def opened(folder: Path, **options: int) -> Spool:
    return Spool(folder, **{"max_bytes": MIB, **options})


def held(spool: Spool, after: int = 0) -> list[tuple[int, bytes]]:
    return [(record.number, record.body) for record in spool.read(after)]


def files(folder: Path) -> list[Path]:
    return Segment.paths(folder)


def test_bodies_come_back_in_order_with_their_numbers(spool: Spool) -> None:
    numbers = [spool.append(body) for body in (b"a", b"", b"c" * 1000)]

    assert numbers == [1, 2, 3]
    assert held(spool) == [(1, b"a"), (2, b""), (3, b"c" * 1000)]
    assert held(spool, after=2) == [(3, b"c" * 1000)]
    assert held(spool, after=3) == []


def test_another_process_finds_them_and_continues_counting(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as first:
        first.append(b"a")

    with closing(opened(tmp_path)) as second:
        assert second.append(b"b") == 2
        assert held(second) == [(1, b"a"), (2, b"b")]


def test_reading_continues_where_it_stopped_while_more_is_written(spool: Spool) -> None:
    spool.append(b"a")
    reader = spool.read(0)
    first = next(reader)
    spool.append(b"b")

    assert first.body == b"a"
    assert held(spool, after=1) == [(2, b"b")]
    spool.append(b"c")
    assert held(spool, after=2) == [(3, b"c")]
    assert held(spool, after=0) == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_what_was_released_leaves_the_disk_in_whole_segments(tmp_path: Path) -> None:
    with closing(opened(tmp_path, segment_bytes=300)) as spool:
        for _ in range(6):
            spool.append(b"x" * 100)  # two fit into a segment
        spool.release(3)

        assert [int(file.stem) for file in files(tmp_path)] == [3, 5]
        spool.release(6)
        assert [int(file.stem) for file in files(tmp_path)] == [5]


def test_what_was_released_is_remembered_and_numbers_are_not_given_again(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as spool:
        for _ in range(3):
            spool.append(b"x")
        spool.release(3)

    with closing(opened(tmp_path)) as again:
        assert again.released == 3
        assert held(again, after=again.released) == []
        assert again.append(b"y") == 4


def test_a_full_spool_refuses_until_something_is_released(tmp_path: Path) -> None:
    with closing(opened(tmp_path, max_bytes=1300, segment_bytes=300)) as spool:
        for _ in range(8):
            spool.append(b"x" * 100)
        with pytest.raises(SpoolFullError, match="waiting already"):
            spool.append(b"x" * 260)
        newest = spool.newest
        assert spool.held_bytes <= 1300

        spool.release(2)

        assert spool.append(b"y" * 100) == newest + 1


def test_dropping_the_oldest_makes_room_and_reports_what_is_lost(tmp_path: Path) -> None:
    with closing(opened(tmp_path, max_bytes=1300, segment_bytes=300)) as spool:
        for number in range(4):
            spool.append(b"%d" % number * 100)
        spool.release(1)

        lost = spool.drop_oldest()

        assert [record.number for record in lost] == [2]
        assert [number for number, _ in held(spool)] == [3, 4]


def test_the_only_segment_can_be_dropped_and_an_empty_one_holds_nothing(spool: Spool) -> None:
    assert spool.drop_oldest() == ()
    spool.append(b"a")

    assert [record.body for record in spool.drop_oldest()] == [b"a"]
    assert held(spool) == []
    assert spool.append(b"b") == 2


def test_a_body_that_can_never_fit_is_not_worth_trying_again(tmp_path: Path) -> None:
    with closing(opened(tmp_path, max_bytes=1000)) as spool:
        with pytest.raises(StewardError, match="does not fit") as refused:
            spool.append(b"x" * 1000)

        assert not isinstance(refused.value, TemporaryError)


def test_only_one_process_writes(tmp_path: Path, spool: Spool) -> None:
    with pytest.raises(StewardError, match="another process writes"):
        Spool(tmp_path / "spool", max_bytes=MIB)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StewardError, match="nothing can be kept here"):
        Spool(tmp_path / "file" / "spool", max_bytes=MIB)


def test_threads_share_syncs_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = []
    really = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda handle: (syncs.append(handle), really(handle)))
    with closing(opened(tmp_path, segment_bytes=2000)) as spool:
        numbers: list[int] = []

        def write(name: int) -> None:
            numbers.extend(spool.append(b"%d:%d" % (name, each)) for each in range(40))

        threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(numbers) == list(range(1, 321))
        assert sorted(number for number, _ in held(spool)) == list(range(1, 321))
        assert len({body for _, body in held(spool)}) == 320
        assert len(syncs) < 320


# -- when the disk is full ---------------------------------------------------------------------


def test_a_disk_that_is_full_refuses_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(tmp_path)) as spool:
        spool.append(b"a")
        really = os.pwrite

        def full_after_ten(handle: int, data: memoryview, at: int) -> int:
            if len(data) > 10:
                return really(handle, data[:10], at)
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full_after_ten)
            with pytest.raises(TemporaryError, match="no space left"):
                spool.append(b"b" * 15)

        assert spool.append(b"c") == 2
        assert held(spool) == [(1, b"a"), (2, b"c")]
        assert spool.damage() == ()


def test_a_sync_that_fails_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with closing(opened(tmp_path)) as spool:
        spool.append(b"a")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            with pytest.raises(TemporaryError, match="input/output error"):
                spool.append(b"b")

        number = spool.append(b"c")

        assert held(spool) == [(1, b"a"), (number, b"c")]
    with closing(opened(tmp_path)) as again:
        assert held(again) == [(1, b"a"), (number, b"c")]


def test_segments_are_removed_though_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _text: str, **_rest: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(opened(tmp_path, segment_bytes=300)) as spool:
        for _ in range(4):
            spool.append(b"x" * 100)
        monkeypatch.setattr(Path, "write_text", full)

        spool.release(2)

        assert [int(file.stem) for file in files(tmp_path)] == [3]


# -- damage ------------------------------------------------------------------------------------

BODIES = st.lists(st.binary(max_size=60), min_size=1, max_size=12)


@settings(max_examples=40)
@given(bodies=BODIES, cut=st.integers(0, 400))
def test_a_torn_tail_costs_only_what_was_torn(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    with closing(opened(folder)) as spool:
        ends = [(spool.append(body), spool.held_bytes)[1] for body in bodies]
    (file,) = files(folder)
    size = max(file.stat().st_size - cut, 0)
    os.truncate(file, size)

    with closing(opened(folder)) as again:
        whole = [body for body, end in zip(bodies, ends, strict=True) if end <= size]
        assert [body for _, body in held(again)] == whole
        number = again.append(b"next")
        assert held(again)[-1] == (number, b"next")
    with closing(opened(folder)) as third:
        assert [body for _, body in held(third)] == [*whole, b"next"]
        assert third.damage() == ()


@settings(max_examples=40)
@given(bodies=BODIES, data=st.data())
def test_a_flipped_bit_costs_one_record_and_is_counted(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    with closing(opened(folder)) as spool:
        for body in bodies:
            spool.append(body)
    (file,) = files(folder)
    raw = bytearray(file.read_bytes())
    place = data.draw(st.integers(HEAD_BYTES, len(raw) - 1))
    raw[place] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(raw)

    with closing(opened(folder)) as again:
        found = held(again)
        expected = list(enumerate(bodies, 1))
        assert [each for each in expected if each not in found] in [[each] for each in expected]
        assert [each for each in found if each not in expected] == []
        assert again.damage()
        assert again.append(b"next") not in [number for number, _ in found]


def test_a_client_cannot_plant_a_record_inside_a_damaged_one(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "theirs")) as theirs:
        theirs.append(b"planted")
        planted = files(tmp_path / "theirs")[0].read_bytes()[HEAD_BYTES:]
    with closing(opened(tmp_path / "ours")) as ours:
        ours.append(planted)
        ours.append(b"good")
    (file,) = files(tmp_path / "ours")
    raw = bytearray(file.read_bytes())
    raw[HEAD_BYTES] ^= 1
    file.write_bytes(raw)

    with closing(opened(tmp_path / "ours")) as again:
        assert held(again) == [(2, b"good")]


def test_a_segment_without_its_head_is_set_aside_and_its_numbers_are_not_given_again(
    tmp_path: Path,
) -> None:
    with closing(opened(tmp_path, segment_bytes=300)) as spool:
        for _ in range(4):
            spool.append(b"x" * 100)
    first, last = files(tmp_path)
    last.write_bytes(b"\0" * last.stat().st_size)

    with closing(opened(tmp_path)) as again:
        assert [number for number, _ in held(again)] == [1, 2]
        assert "its head is damaged" in again.damage()[0]
        assert again.append(b"y") > 4
    assert last.with_suffix(".damaged").exists()
    assert first.exists()


def test_a_segment_that_was_just_being_made_is_made_anew(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as spool:
        spool.append(b"a")
    (tmp_path / f"{2:020d}.spool").write_bytes(b"STW")

    with closing(opened(tmp_path)) as again:
        assert again.append(b"b") == 2
        assert held(again) == [(1, b"a"), (2, b"b")]
        assert again.damage() == ()


def test_a_segment_may_be_released_while_it_is_read(tmp_path: Path) -> None:
    with closing(opened(tmp_path, segment_bytes=300)) as spool:
        for _ in range(4):
            spool.append(b"x" * 100)
        reader = spool.read(0)
        next(reader)
        spool.release(4)

        assert [record.number for record in reader] == [2, 3, 4]


def test_what_waits_is_less_than_what_is_held(spool: Spool) -> None:
    spool.append(b"a" * 500)
    next(spool.read(0))
    spool.release(1)
    spool.append(b"b" * 100)

    assert spool.waiting_bytes == 100 + 20
    assert spool.held_bytes > 600
    spool.release(2)
    assert spool.waiting_bytes == 0


@pytest.mark.real  # needs root: a file system of its own that really is full
def test_a_disk_that_really_is_full_refuses_and_loses_nothing(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], check=True)
    try:
        with closing(Spool(tmp_path / "spool", max_bytes=MIB, segment_bytes=40_000)) as spool:
            kept = 0
            with suppress(TemporaryError):
                while True:
                    spool.append(b"x" * 5_000)
                    kept += 1
            with pytest.raises(TemporaryError, match="no space left"):
                spool.append(b"y" * 5_000)

            assert len(held(spool)) == kept > 20
            spool.release(20)
            spool.append(b"z" * 5_000)
            assert held(spool)[-1][1][:1] == b"z"
        with closing(Spool(tmp_path / "spool", max_bytes=MIB)) as again:
            assert len(held(again, after=20)) == kept - 20 + 1
            assert again.damage() == ()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_whoever_closes_last_closes_nothing_of_others(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=MIB)

    spool.close()
    with (tmp_path / "other").open("wb") as other:  # may have the number of the handle that is gone
        spool.close()
        other.write(b"x")

    assert (tmp_path / "other").read_bytes() == b"x"
    Spool(tmp_path / "spool", max_bytes=MIB).close()


@pytest.mark.parametrize("text", ["null", "[]", '{"a": null}', '{"a": "x", "b": true}', "{", ""])
def test_stream_positions_that_cannot_be_read_are_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "streams.json").write_text(text)

    made = StreamPositions(tmp_path / "streams.json")

    assert (made.newest("a"), made.newest("b")) == (0, 0)


def test_a_segment_that_something_emptied_is_reported(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as spool:
        spool.append(b"one")
    (file,) = files(tmp_path)
    file.write_bytes(b"")

    with closing(opened(tmp_path)) as again:
        assert f"{file}: the segment was empty" in again.damage()[0]


def test_a_spool_is_for_its_owner_only(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "spool")) as spool:
        spool.append(b"one")
        spool.release(1)
        modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "spool").iterdir()}

    assert modes == {0o600}
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
