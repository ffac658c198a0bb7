"""A store folder as one thing: whatever collectors bring is there afterwards, once, and whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import polars as pl
import pytest

from factories import samples
from steward.errors import StewardError
from steward.model.event import Event, LogLine, Observation
from steward.model.frame import OTHER_SCHEMA
from steward.model.span import Span
from steward.store.query import Query
from steward.store.recording import Recording

T0 = 1_700_000_000.0
BUSY = "gpu.busy_share"


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with closing(Recording(tmp_path / "data", about={"by": "a test"})) as opened:
        yield opened


def look(t_s: float = T0) -> Observation:
    return Observation(
        frame=samples(t_s, {"n1/gpu0": {BUSY: 0.5}}),
        other=pl.DataFrame([(t_s, "n1", "strange_total", 7.0)], schema=OTHER_SCHEMA, orient="row"),
        events=(Event(t_s=t_s, kind="gpu.failed", subject="n1/gpu0", text="x", source="test"),),
        lines=(LogLine(t_s=t_s, entity="n1", source="kernel", text="NVRM: Xid 79", level=3),),
        spans=(Span(id="j1", entity="n1/*", kind="job", name="812", from_s=t_s - 1),),
    )


def test_every_observation_can_be_queried(tmp_path: Path, recording: Recording) -> None:
    recording.keep(look())
    recording.flush()

    with Query(tmp_path / "data") as query:
        queried = [
            query.run(sql).rows
            for sql in (
                f'SELECT entity, node, kind, job, "{BUSY}" FROM telemetry',
                "SELECT entity, metric, value FROM other",
                "SELECT source, level, text FROM logs",
                "SELECT name, to_s FROM spans",
                "SELECT kind, subject FROM events",
            )
        ]

    assert queried == [
        [("n1/gpu0", "n1", "gpu", "812", 0.5)],
        [("n1", "strange_total", 7.0)],
        [("kernel", 3, "NVRM: Xid 79")],
        [("812", None)],
        [("gpu.failed", "n1/gpu0")],
    ]
    assert json.loads((tmp_path / "data/recording.json").read_text()) == {"by": "a test"}


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    for hour in range(2):
        with closing(Recording(tmp_path)) as recording:
            recording.keep(look(T0 + hour * 3600))

    with closing(Recording(tmp_path)) as again:
        assert again.telemetry.read(from_s=0.0, to_s=1e11).height == 2
        assert again.other.read(from_s=0.0, to_s=1e11).height == 2
        assert again.logs.read(from_s=0.0, to_s=1e11).height == 2
        assert len(again.spans.read()) == 1
        assert again.damage() == ()


def test_whoever_has_a_journal_keeps_no_second_list_of_events(tmp_path: Path) -> None:
    with closing(Recording(tmp_path, events=False)) as recording:
        recording.keep(look())

    assert not (tmp_path / "events").exists()


def test_upkeep_flushes_all_parts_by_sample_time(tmp_path: Path) -> None:
    with closing(Recording(tmp_path, flush_every_s=30.0)) as recording:
        recording.upkeep(T0)
        recording.keep(look())
        recording.upkeep(T0 + 29)
        early = [*tmp_path.rglob("*.parquet")]
        recording.upkeep(T0 + 31)

        written = {
            str(file.relative_to(tmp_path)).split("/")[0] for file in tmp_path.rglob("*.parquet")
        }

    assert early == []
    assert {"telemetry", "other", "logs", "spans", "events"} <= written


def test_a_full_disk_leaves_nothing_half_written_and_loses_nothing(
    tmp_path: Path,
    recording: Recording,
    small_disk: Callable[[int], AbstractContextManager[None]],
) -> None:
    for second in range(300):
        recording.keep(look(T0 + second))

    with small_disk(700), pytest.raises(StewardError, match="the disk is full"):
        recording.flush()
    left = [f for f in (tmp_path / "data").rglob("*") if f.is_file() and f.stat().st_size > 700]
    recording.flush()

    with Query(tmp_path / "data") as query:
        counts = [
            query.run(f"SELECT count(*) FROM {table}").rows[0][0]
            for table in ("telemetry", "other", "logs", "events")
        ]
    assert left == []
    assert counts == [300, 300, 300, 300]


def test_a_folder_that_cannot_be_made_is_named(unwritable: Path) -> None:
    with pytest.raises(StewardError, match="cannot be kept: Permission denied"):
        Recording(unwritable / "data")


def test_how_far_lines_were_read_is_written_after_the_lines_themselves(tmp_path: Path) -> None:
    first = Recording(tmp_path)
    first.keep(Observation(lines=(LogLine(t_s=5.0, entity="n1", source="kernel", text="hello"),)))
    first.positions = {"kernel-log": {"sequence": 7}}
    assert "positions" not in first.about

    first.flush()
    again = Recording(tmp_path)

    assert again.about["positions"] == {"kernel-log": {"sequence": 7}}
    first.close()
    again.close()


def test_a_full_disk_does_not_prevent_a_start(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(Recording(tmp_path)) as recording:
        for number in range(3000):
            recording.keep(Observation(spans=(_job(to_s=T0 + number),)))

    with small_disk(0):
        recording = Recording(tmp_path)
        recording.keep(look())
        with pytest.raises(StewardError, match="the disk is full"):
            recording.flush()

    recording.close()
    with closing(Recording(tmp_path)) as again:
        assert {span.id for span in again.spans.read()} == {"j1", "j2"}


def test_events_and_spans_are_kept_as_long_as_samples(tmp_path: Path) -> None:
    with closing(Recording(tmp_path, keep_days=1.0)) as recording:
        recording.keep(Observation(events=look(T0).events, spans=(_job(to_s=T0),)))
        for hour in range(72):
            recording.keep(Observation(frame=samples(T0 + hour * 3600, {"n1": {BUSY: 0.5}})))
        recording.flush()
        for minute in range(4):
            recording.upkeep(T0 + 72 * 3600 + 60 * minute)

        assert recording.spans.read() == ()
    with Query(tmp_path) as query:
        assert query.run("SELECT count(*) FROM events").rows == [(0,)]


def test_everything_that_is_written_is_for_its_owner_only(tmp_path: Path) -> None:
    with closing(Recording(tmp_path / "data", about={"by": "a test"})) as recording:
        recording.keep(look())
        recording.settle()

    written = [*(tmp_path / "data").rglob("*")]
    assert {each.stat().st_mode & 0o777 for each in written if each.is_file()} == {0o600}
    assert {each.stat().st_mode & 0o777 for each in written if each.is_dir()} == {0o700}


def _job(id_: str = "j2", **fields: float) -> Span:
    return Span(id=id_, entity="n1/*", kind="job", name=id_, from_s=T0 - 1, **fields)
