"""Compaction and retention: fewer files, the same answers; old days go, newer ones never."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import AbstractContextManager, closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import samples
from patience import until
from steward.errors import StewardError
from steward.model.frame import Frame
from steward.store.files.compactor import Compactor
from steward.store.files.parquet import Partitions, write_frame
from steward.store.telemetry import Telemetry

T0 = 1_700_000_000.0
LATER = T0 + 2 * 3600
BUSY = "gpu.busy_share"


def files(folder: Path, ending: str = "*.parquet") -> list[Path]:
    return sorted(folder.rglob(ending))


def everything(telemetry: Telemetry) -> Frame:
    return telemetry.read(from_s=0.0, to_s=float("inf"))


def run_upkeep(telemetry: Telemetry, now_s: float) -> None:
    """Run upkeep, and wait for its background thread."""
    telemetry.upkeep(now_s)
    telemetry.table.compactor._settle()


def filled(folder: Path, flushes: int = 4, *, keep_days: float = 30.0) -> Telemetry:
    """Write that many files into one hour, with metrics that come and go."""
    telemetry = Telemetry(folder, keep_days=keep_days)
    for number in range(flushes):
        row = {BUSY: number / 10} | ({"extra": 1.0} if number % 2 else {})
        telemetry.append(samples(T0 + number, {"b": row, "a": row}))
        telemetry.flush()
    return telemetry


def test_the_files_of_a_closed_hour_become_one_per_set_of_columns(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as telemetry:
        before = everything(telemetry)

        run_upkeep(telemetry, LATER)

        assert [pl.read_parquet(file).shape for file in files(tmp_path)] in (
            [(4, 3), (4, 4)],
            [(4, 4), (4, 3)],
        )
        assert everything(telemetry).equals(before)
        assert telemetry.damage() == ()


def test_an_hour_that_may_still_grow_is_left_alone(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as telemetry:
        run_upkeep(telemetry, T0 + 60)

        assert len(files(tmp_path)) == 4


def test_late_samples_are_merged_into_their_hour(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as telemetry:
        run_upkeep(telemetry, LATER)
        telemetry.append(samples(T0 + 30, {"late": {BUSY: 0.9}}))
        telemetry.flush()
        before = everything(telemetry)

        run_upkeep(telemetry, LATER + 60)

        assert len(files(tmp_path)) == 2
        assert everything(telemetry).equals(before)


def test_a_crash_before_the_old_files_are_deleted_shows_nothing_twice(tmp_path: Path) -> None:
    telemetry = filled(tmp_path)
    before, old = everything(telemetry), files(tmp_path)
    write_frame(old[0].parent, before, replaces=[file.name for file in old])

    while_running = everything(telemetry)
    telemetry.close()
    with closing(Telemetry(tmp_path)) as again:
        after = everything(again)

    assert while_running.equals(before)
    assert after.equals(before)
    assert len(files(tmp_path)) == 1


def test_half_written_files_are_removed_at_the_start(tmp_path: Path) -> None:
    filled(tmp_path).close()
    half = files(tmp_path)[0].with_name("flushed-1.parquet.tmp")
    half.write_bytes(b"PAR1")

    with closing(Telemetry(tmp_path)) as telemetry:
        assert everything(telemetry).height == 8

    assert not half.exists()


def test_a_second_process_does_not_touch_the_files_of_the_first(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as telemetry:
        half = files(tmp_path)[0].with_name("flushed-1.parquet.tmp")
        half.write_bytes(b"PAR1")

        with closing(Telemetry(tmp_path)) as reader:
            run_upkeep(reader, LATER)
            seen = everything(reader)

        assert half.exists()
        assert len(files(tmp_path)) == 4
        assert seen.equals(everything(telemetry))


def test_when_the_first_process_ends_the_second_takes_over(tmp_path: Path) -> None:
    first = filled(tmp_path)
    with closing(Telemetry(tmp_path)) as second:
        first.close()

        run_upkeep(second, LATER)

        assert len(files(tmp_path)) == 2


def test_a_broken_file_does_not_stop_compaction(tmp_path: Path) -> None:
    filled(tmp_path).close()
    files(tmp_path)[1].write_bytes(b"PAR1 nothing")

    with closing(Telemetry(tmp_path)) as telemetry:
        run_upkeep(telemetry, LATER)

        assert len(files(tmp_path)) == 2
        assert everything(telemetry).height == 6
        assert "is damaged" in telemetry.damage()[0]


def test_no_compacted_file_grows_beyond_its_limit(tmp_path: Path) -> None:
    with closing(filled(tmp_path, flushes=6)) as telemetry:
        before = everything(telemetry)
    notes: list[str] = []
    parts = Partitions(tmp_path)
    with closing(Compactor(parts, keep_days=30.0, note=notes.append, max_values=17)) as made:
        for turn in range(6):
            made.run_due(LATER + turn)
            made._settle()

    heights = [pl.read_parquet(file).height for file in files(tmp_path)]
    assert sorted(heights) == [2, 2, 4, 4]
    assert notes == []
    with closing(Telemetry(tmp_path)) as telemetry:
        assert everything(telemetry).equals(before)


def test_a_full_disk_leaves_the_hour_as_it_was(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(filled(tmp_path)) as telemetry:
        before = everything(telemetry)

        with small_disk(100), pytest.raises(StewardError, match="the disk is full"):
            run_upkeep(telemetry, LATER)

        assert len(files(tmp_path)) == 4
        assert everything(telemetry).equals(before)
        run_upkeep(telemetry, LATER + 120)
        assert len(files(tmp_path)) == 2


def test_what_went_wrong_in_the_background_thread_is_raised_in_its_next_turn(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(filled(tmp_path)) as telemetry:
        with small_disk(100):
            telemetry.upkeep(LATER)
            wait([telemetry.table.compactor._work[1]])

        with pytest.raises(StewardError, match="the disk is full"):
            telemetry.upkeep(LATER + 1)

        telemetry.upkeep(LATER + 2)  # not again at once


def test_days_that_are_too_old_are_removed(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path, keep_days=2.0)) as telemetry:
        for hour in range(5 * 24):
            telemetry.append(samples(T0 - hour * 3600, {"a": {BUSY: 0.5}}))
        telemetry.flush()

        for minute in range(4):  # a day of each minute
            run_upkeep(telemetry, T0 + 60 * minute)

        times = everything(telemetry)["t_s"].to_list()
        assert times == [T0 - hour * 3600 for hour in range(2 * 24, -1, -1)]


def test_a_clock_that_jumps_ahead_with_its_samples_deletes_nothing(tmp_path: Path) -> None:
    ahead_s = T0 + 365 * 86_400
    with closing(Telemetry(tmp_path, keep_days=3.0)) as telemetry:
        for hour in range(60):
            telemetry.append(samples(T0 - hour * 3600, {"a": {BUSY: 0.5}}))
        telemetry.flush()

        for minute in range(5):
            telemetry.append(samples(ahead_s + 60 * minute, {"a": {BUSY: 0.5}}))
            telemetry.flush()
            run_upkeep(telemetry, ahead_s + 60 * minute)

        assert everything(telemetry).height == 65
    with closing(Telemetry(tmp_path, keep_days=3.0)) as telemetry:  # nor after a restart
        run_upkeep(telemetry, ahead_s + 3600)

        assert everything(telemetry).height == 65


def test_what_was_recorded_before_a_long_pause_goes_when_a_day_of_new_hours_is_there(
    tmp_path: Path,
) -> None:
    later_s = T0 + 60 * 86_400
    with closing(Telemetry(tmp_path, keep_days=3.0)) as telemetry:
        telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
        for hour in range(23):
            telemetry.append(samples(later_s + 3600 * hour, {"a": {BUSY: 0.5}}))
        telemetry.flush()
        run_upkeep(telemetry, later_s + 23 * 3600)
        before = everything(telemetry).height
        telemetry.append(samples(later_s + 3600 * 23, {"a": {BUSY: 0.5}}))
        telemetry.flush()
        run_upkeep(telemetry, later_s + 24 * 3600)

        assert before == 24
        assert everything(telemetry)["t_s"].min() == later_s


def test_a_clock_that_runs_ahead_does_not_delete_the_newest_days(tmp_path: Path) -> None:
    with closing(filled(tmp_path, keep_days=2.0)) as telemetry:
        run_upkeep(telemetry, T0 + 1000 * 86_400)

        assert everything(telemetry).height == 8


def test_unknown_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("date=2023-02-31/hour=01", "date=1999-01-01/hour=99", "notes"):
        (tmp_path / name).mkdir(parents=True)

    with closing(filled(tmp_path, keep_days=2.0)) as telemetry:
        run_upkeep(telemetry, LATER)

        assert everything(telemetry).height == 8
    assert (tmp_path / "date=2023-02-31/hour=01").is_dir()
    assert (tmp_path / "date=1999-01-01/hour=99").is_dir()


def test_reading_during_compaction_always_gives_all_rows(tmp_path: Path) -> None:
    with closing(filled(tmp_path, flushes=2)) as telemetry:
        counts: list[int] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                counts.append(telemetry.read(entities=["a"], from_s=0.0, to_s=T0 + 1).height)

        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: counts)
        for turn in range(25):
            telemetry.append(samples(T0 + 10 + turn, {"a": {BUSY: 0.5}}))
            telemetry.flush()
            telemetry.upkeep(LATER + 60 * turn)
        stop.set()
        reader.join()

    assert set(counts) == {2}


rows = st.tuples(
    st.integers(0, 3 * 3600).map(lambda second: T0 + second),
    st.sampled_from(["a", "b", "n1/gpu0"]),
    st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.sampled_from([0.0, 1.5, -2.0, None]), max_size=3
    ),
)
steps = st.lists(
    st.one_of(rows, st.just("flush"), st.just("compact"), st.just("reopen")), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(steps=steps)
def test_no_order_of_flushing_compacting_and_restarting_changes_what_is_read(
    steps: list[tuple[float, str, dict[str, float | None]] | str],
) -> None:
    given_rows = [step for step in steps if not isinstance(step, str)]
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as busy:
        with closing(Telemetry(Path(plain))) as waiting:
            for t_s, entity, values in given_rows:
                waiting.append(samples(t_s, {entity: values}))
            expected = everything(waiting)
        found = everything_after(Path(busy), steps)

    assert found.equals(expected, null_equal=True)


def everything_after(
    folder: Path, steps: list[tuple[float, str, dict[str, float | None]] | str]
) -> Frame:
    telemetry = Telemetry(folder)
    for turn, step in enumerate(steps):
        match step:
            case "flush":
                telemetry.flush()
            case "compact":
                run_upkeep(telemetry, T0 + 5 * 3600 + 60 * turn)
            case "reopen":
                telemetry.close()
                telemetry = Telemetry(folder)
            case (t_s, entity, values):
                telemetry.append(samples(t_s, {entity: values}))
    with closing(telemetry):
        return everything(telemetry)


def test_a_reader_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    filled(tmp_path).close()
    (tmp_path / ".lock").unlink()
    (files(tmp_path)[0].parent / "half.parquet.tmp").touch()
    before = files(tmp_path, "*")

    with closing(Telemetry(tmp_path, keep_days=None)) as telemetry:
        run_upkeep(telemetry, LATER)

        assert everything(telemetry).height == 8
    assert files(tmp_path, "*") == before
