"""Following a folder: each new row once, whatever compaction does to the files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from factories import samples
from steward.errors import StewardError
from steward.model.event import LogLine, Observation
from steward.store.query import Tail
from steward.store.recording import Recording

T0 = 1_700_000_000.0
BUSY = "gpu.busy_share"


def test_each_row_is_seen_once_and_compaction_is_nothing_new(tmp_path: Path) -> None:
    with closing(Recording(tmp_path)) as recording:
        follow = Tail(tmp_path)
        seen = []
        for second in range(4):
            recording.telemetry.append(samples(T0 + second, {"a": {BUSY: 0.5}}))
            recording.flush()
            seen += [row for _, rows in follow.new() for row in rows.rows()]
        recording.settle()

        after = list(follow.new())

    assert [row[0] for row in seen] == [T0, T0 + 1, T0 + 2, T0 + 3]
    assert after == []


def test_what_was_there_before_can_be_left_out(tmp_path: Path) -> None:
    with closing(Recording(tmp_path)) as recording:
        recording.telemetry.append(samples(T0, {"a": {BUSY: 0.1}}))
        recording.flush()
        follow = Tail(tmp_path)
        follow.skip()
        recording.telemetry.append(samples(T0 + 1, {"a": {BUSY: 0.2}}))
        recording.flush()

        ((table, rows),) = follow.new()

    assert (table, rows.rows()) == ("telemetry", [(T0 + 1, "a", 0.2)])


def test_entities_and_metrics_can_be_chosen(tmp_path: Path) -> None:
    with closing(Recording(tmp_path)) as recording:
        recording.telemetry.append(samples(T0, {"n1/gpu0": {BUSY: 0.1, "gpu.power_watts": 80.0}}))
        recording.telemetry.append(samples(T0, {"n2/gpu0": {BUSY: 0.9}}))
        line = LogLine(t_s=T0, entity="n1", source="kernel", text="x")
        recording.keep(Observation(lines=(line,)))
        recording.flush()

    follow = Tail(tmp_path, entity="n1*", metric="gpu.busy*")
    found = dict(follow.new())

    assert found["telemetry"].columns == ["t_s", "entity", BUSY]
    assert found["telemetry"].rows() == [(T0, "n1/gpu0", 0.1)]
    assert found["logs"]["text"].to_list() == ["x"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no such folder"):
        Tail(tmp_path / "none")
