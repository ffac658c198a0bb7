"""Telemetry: what was appended is read, whatever happened to the files in between."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from factories import samples
from steward.errors import StewardError
from steward.model.frame import Frame
from steward.store.telemetry import Telemetry

T0 = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
BUSY, WATTS = "gpu.busy_share", "gpu.power_watts"


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    with closing(Telemetry(tmp_path / "telemetry")) as opened:
        yield opened


def files(folder: Path, ending: str = "*.parquet") -> list[Path]:
    return sorted(folder.rglob(ending))


def everything(telemetry: Telemetry) -> Frame:
    return telemetry.read(from_s=0.0, to_s=float("inf"))


def wide(rows: int, metrics: int = 10) -> Frame:
    dice = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "t_s": np.full(rows, T0),
            "entity": [f"n{row // 8:04d}/gpu{row % 8}" for row in range(rows)],
            **{f"metric_{number}": dice.random(rows) for number in range(metrics)},
        }
    )


def test_samples_are_read_before_and_after_they_are_written(telemetry: Telemetry) -> None:
    telemetry.append(samples(T0, {"n1/gpu1": {BUSY: 0.5}, "n1/gpu0": {BUSY: 0.1}}))

    waiting = everything(telemetry)
    telemetry.flush()
    written = everything(telemetry)

    assert waiting.rows() == [(T0, "n1/gpu0", 0.1), (T0, "n1/gpu1", 0.5)]
    assert written.equals(waiting)


def test_another_process_reads_what_was_flushed(tmp_path: Path, telemetry: Telemetry) -> None:
    telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
    telemetry.flush()
    telemetry.append(samples(T0 + 1, {"a": {BUSY: 0.6}}))

    with closing(Telemetry(tmp_path / "telemetry")) as other:
        assert everything(other).rows() == [(T0, "a", 0.5)]


def test_only_what_is_requested_is_read(telemetry: Telemetry) -> None:
    for second in range(10):
        telemetry.append(samples(T0 + second, {"a": {BUSY: 0.1, WATTS: 80.0}, "b": {BUSY: 0.2}}))
        if second == 6:
            telemetry.flush()

    found = telemetry.read(entities=["b"], metrics=[BUSY], from_s=T0 + 5, to_s=T0 + 8)
    none = telemetry.read(entities=[], from_s=T0, to_s=T0 + 9)

    assert found.rows() == [(T0 + second, "b", 0.2) for second in (5, 6, 7, 8)]
    assert none.height == 0


def test_metrics_may_come_and_go(telemetry: Telemetry) -> None:
    telemetry.append(samples(T0, {"a": {BUSY: 0.1}}))
    telemetry.flush()
    telemetry.append(samples(T0 + 1, {"a": {WATTS: 80.0}}))
    telemetry.flush()
    telemetry.append(samples(T0 + 2, {"a": {"new": 3.0}}))

    found = everything(telemetry)
    queried = telemetry.read(metrics=[WATTS, "unheard"], from_s=0.0, to_s=float("inf"))

    assert found.columns == ["t_s", "entity", BUSY, WATTS, "new"]
    assert found.rows() == [
        (T0, "a", 0.1, None, None),
        (T0 + 1, "a", None, 80.0, None),
        (T0 + 2, "a", None, None, 3.0),
    ]
    assert queried.columns == ["t_s", "entity", WATTS, "unheard"]
    assert queried.rows() == [(T0 + 1, "a", 80.0, None)]  # the others have no such value


def test_files_lie_under_the_hour_of_their_samples(tmp_path: Path, telemetry: Telemetry) -> None:
    telemetry.append(samples(T0, {"a": {BUSY: 0.1}}))
    telemetry.append(samples(T0 + 3600 * 2, {"a": {BUSY: 0.2}}))

    telemetry.flush()

    folders = [str(file.parent.relative_to(tmp_path)) for file in files(tmp_path)]
    assert folders == [
        "telemetry/date=2023-11-14/hour=22",
        "telemetry/date=2023-11-15/hour=00",
    ]


def test_an_empty_store_gives_an_empty_frame(telemetry: Telemetry) -> None:
    telemetry.flush()

    found = telemetry.read(metrics=[BUSY], from_s=0.0, to_s=T0)

    assert found.schema == {"t_s": pl.Float64, "entity": pl.String, BUSY: pl.Float64}
    assert found.height == 0


def test_a_frame_of_the_wrong_shape_is_refused(telemetry: Telemetry) -> None:
    with pytest.raises(StewardError, match="metric 'x' is Int64, not Float64"):
        telemetry.append(pl.DataFrame({"t_s": [T0], "entity": ["a"], "x": [1]}))

    assert everything(telemetry).height == 0


def test_samples_without_time_or_place_are_refused_and_counted(telemetry: Telemetry) -> None:
    times = [T0, float("nan"), float("inf"), -1.0, None, T0]

    telemetry.append(pl.DataFrame({"t_s": times, "entity": ["a", "b", "c", "d", "e", None]}))
    telemetry.flush()

    assert everything(telemetry)["entity"].to_list() == ["a"]
    assert telemetry.damage() == ("5 samples had no usable time or no entity and were refused",)


def test_upkeep_flushes_by_sample_time(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path, flush_every_s=30.0)) as telemetry:
        telemetry.upkeep(T0)
        telemetry.append(samples(T0, {"a": {BUSY: 0.1}}))

        telemetry.upkeep(T0 + 29.9)
        early = files(tmp_path)
        telemetry.upkeep(T0 + 30.0)

        assert early == []
        assert len(files(tmp_path)) == 1


def test_a_clock_that_jumps_back_does_not_stop_the_flushing(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path, flush_every_s=30.0)) as telemetry:
        telemetry.upkeep(T0)
        telemetry.append(samples(T0, {"a": {BUSY: 0.1}}))

        telemetry.upkeep(T0 - 86_400.0)
        jumped = len(files(tmp_path))
        telemetry.append(samples(T0 - 86_400.0, {"a": {BUSY: 0.1}}))
        telemetry.upkeep(T0 - 86_400.0 + 30.0)

        assert jumped == 1
        assert len(files(tmp_path)) == 2


def test_a_torn_file_is_set_aside_and_the_rest_is_read(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    for second in range(3):
        telemetry.append(samples(T0 + second, {"a": {BUSY: second / 10}}))
        telemetry.flush()
    torn = files(tmp_path)[0]
    torn.write_bytes(torn.read_bytes()[:100])

    with closing(Telemetry(tmp_path / "telemetry")) as other:
        found = everything(other)
        (message,) = other.damage()

    assert found.height == 2
    assert f"{torn} is damaged" in message
    aside = tmp_path / "telemetry" / "damaged" / f"2023-11-14-22-{torn.name}.damaged"
    assert f"moved to {aside}" in message
    assert aside.exists()


def test_a_file_that_breaks_only_when_its_rows_are_read_is_set_aside_too(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    for number in range(2):
        telemetry.append(wide(100).with_columns(t_s=pl.lit(T0 + number)))
        telemetry.flush()
    broken = files(tmp_path)[0]
    content = bytearray(broken.read_bytes())
    content[4:1000] = bytes(996)  # the footer is as it was
    broken.unlink()
    broken.with_name("without-a-checksum.parquet").write_bytes(content)

    found = everything(telemetry)

    assert found.height == 100
    assert len(telemetry.damage()) == 1
    assert len(files(tmp_path, "*.damaged")) == 1


@pytest.mark.parametrize(
    "strange",
    [
        pl.DataFrame({"t_s": [T0], "entity": ["a"], BUSY: ["much"]}),
        pl.DataFrame({"t_s": [int(T0)], "entity": ["a"]}),
        pl.DataFrame({"something": ["else"]}),
    ],
)
def test_a_file_that_is_not_telemetry_is_set_aside(
    tmp_path: Path, telemetry: Telemetry, strange: Frame
) -> None:
    telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
    telemetry.flush()
    strange.write_parquet(files(tmp_path)[0].with_name("strange.parquet"))

    found = everything(telemetry)

    assert found.rows() == [(T0, "a", 0.5)]
    assert "strange.parquet is damaged" in telemetry.damage()[0]


def test_a_full_disk_keeps_samples_waiting_until_there_is_room(
    tmp_path: Path,
    telemetry: Telemetry,
    small_disk: Callable[[int], AbstractContextManager[None]],
) -> None:
    telemetry.append(wide(1000))

    with small_disk(10_000), pytest.raises(StewardError, match="the disk is full") as caught:
        telemetry.flush()
    left = files(tmp_path, "*.parquet*")
    waiting = everything(telemetry)
    telemetry.flush()

    assert "keep fewer days" in caught.value.hint
    assert left == []
    assert waiting.height == 1000
    assert everything(telemetry).equals(waiting)
    assert telemetry.damage() == ()


def test_an_hour_that_was_written_is_not_written_again_after_a_failure(
    telemetry: Telemetry, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
    telemetry.append(wide(1000).with_columns(t_s=pl.lit(T0 + 3600)))

    with small_disk(10_000), pytest.raises(StewardError, match="the disk is full"):
        telemetry.flush()
    between = everything(telemetry).height
    telemetry.flush()

    assert between == 1001
    assert everything(telemetry).height == 1001


def test_upkeep_reports_that_the_disk_is_full_and_continues_with_the_rest(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(Telemetry(tmp_path, flush_every_s=30.0, keep_days=1.0)) as telemetry:
        telemetry.append(samples(T0 - 3 * 86_400, {"a": {BUSY: 0.5}}))
        for hour in range(24):
            telemetry.append(samples(T0 - hour * 3600, {"a": {BUSY: 0.5}}))
        telemetry.flush()
        telemetry.upkeep(T0 - 60.0 * 10)
        telemetry.append(wide(1000))

        with small_disk(10_000), pytest.raises(StewardError, match="the disk is full"):
            telemetry.upkeep(T0)

        assert len(files(tmp_path)) == 24  # the old day is gone, which makes room


def test_only_beyond_the_limit_the_oldest_samples_are_dropped(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(Telemetry(tmp_path, max_waiting_rows=2500)) as telemetry:
        with small_disk(10_000):
            for second in range(4):
                telemetry.append(wide(1000).with_columns(t_s=pl.lit(T0 + second)))

        kept = everything(telemetry)
        telemetry.flush()

        assert kept["t_s"].value_counts(sort=True).rows() == [
            (T0 + 2, 1000),
            (T0 + 3, 1000),
            (T0 + 1, 500),
        ]
        assert everything(telemetry).equals(kept)
        assert "1500 of the oldest samples were dropped" in telemetry.damage()[-1]


def test_too_many_waiting_samples_are_written_without_a_flush(tmp_path: Path) -> None:
    with closing(Telemetry(tmp_path, max_waiting_rows=2500)) as telemetry:
        for second in range(4):
            telemetry.append(wide(1000).with_columns(t_s=pl.lit(T0 + second)))

        assert len(files(tmp_path)) == 1
        assert everything(telemetry).height == 4000
        assert telemetry.damage() == ()


def test_a_file_system_without_room_is_called_a_full_disk(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs more rights")
    try:
        telemetry = Telemetry(tmp_path)
        telemetry.append(wide(10_000))

        with pytest.raises(StewardError, match="the disk is full \\(No space left"):
            telemetry.flush()

        assert files(tmp_path, "*.parquet*") == []
        assert everything(telemetry).height == 10_000
        telemetry.table.compactor.close()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_may_not_be_written_to_is_named(unwritable: Path) -> None:
    with pytest.raises(StewardError, match="cannot be kept: Permission denied") as caught:
        Telemetry(unwritable)

    assert str(unwritable) in caught.value.where


def test_a_file_that_may_not_be_read_is_not_called_broken(tmp_path: Path, unwritable: Path) -> None:
    with seen_as_owner(), closing(Telemetry(tmp_path / "telemetry")) as telemetry:
        telemetry.append(samples(T0, {"a": {BUSY: 0.5}}))
        telemetry.flush()
        file = files(tmp_path)[0]
        file.chmod(0o000)
        for folder in (file.parent, file.parent.parent, tmp_path / "telemetry"):
            folder.chmod(0o755)

    with pytest.raises(StewardError, match="cannot be read: Permission denied"):
        everything(telemetry)

    assert file.exists()
    assert unwritable.exists()


@contextmanager
def seen_as_owner() -> Iterator[None]:
    """Be root again for a moment, where the fixture `unwritable` has given that up."""
    now, saved = os.geteuid(), os.getuid()
    os.seteuid(saved)
    try:
        yield
    finally:
        os.seteuid(now)


def test_many_small_frames_take_little_room(telemetry: Telemetry) -> None:
    for number in range(300):
        telemetry.append(samples(T0 + number, {"a": {BUSY: 0.5}}))

    assert [len(pieces) <= 64 for pieces in telemetry.table.waiting._sets.values()] == [True]
    assert everything(telemetry).height == 300
