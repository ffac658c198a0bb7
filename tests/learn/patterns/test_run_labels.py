"""Labels of runs come from tables, marks and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.patterns.inputs import Input
from steward.learn.patterns.run_labels import (
    label_notes,
    labels_by_name,
    labels_of,
    read_labels,
)


def test_marks_beside_telemetry_name_the_kinds(tmp_path: Path) -> None:
    (tmp_path / "kinds_telemetry.csv.gz").touch()
    marks = ['{"run": "k1", "kind": "rnn"}', '{"run": "k1", "kind": "rnn"}', "[3]", "{"]
    (tmp_path / "kinds_events.jsonl").write_text("\n".join(marks))
    one = Input(path=str(tmp_path / "kinds_telemetry.csv.gz"), size_bytes=1, run="kinds_telemetry")

    assert labels_of([one], {}) == {"k1": "rnn"}


def test_a_table_of_labels_needs_runs(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("run,outcome\na,failed\n,x\nb,\n")
    bad.write_text("name,what\na,b\n")

    assert read_labels(good) == {"a": "failed", "b": ""}
    with pytest.raises(StewardError, match="name, what") as caught:
        read_labels(bad)
    assert caught.value.where == str(bad)


def test_names_of_runs_are_labels() -> None:
    assert labels_by_name("^(train|infer)_", ["train_a", "b"]) == {"train_a": "train"}
    assert labels_by_name("train", ["train_a"]) == {"train_a": "train"}


def test_doubtful_labels_are_said() -> None:
    assert label_notes(["a", "a"]) == ["all labelled runs are 'a': nothing to contrast"]
    assert label_notes([]) == []
