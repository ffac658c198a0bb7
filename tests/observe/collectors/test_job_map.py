"""The job map: whatever lies in the folder, only jobs on GPUs come out."""

from __future__ import annotations

import os
from pathlib import Path

from steward.observe.collectors.job_map import JobMap


def test_a_job_holds_its_gpu_since_the_file_was_written(tmp_path: Path) -> None:
    (tmp_path / "3").write_text("812\n")
    os.utime(tmp_path / "3", (1000.0, 1000.0))

    (span,) = JobMap(folder=str(tmp_path), node="n1").collect(2000.0).spans
    (again,) = JobMap(folder=str(tmp_path), node="n1").collect(3000.0).spans

    assert (span.entity, span.kind, span.name) == ("n1/gpu3", "job", "812")
    assert (span.from_s, span.to_s) == (1000.0, None)
    assert again == span  # the same after a restart


def test_strange_files_and_lines_are_left_out_and_reported_once(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1")
    (tmp_path / "gpu0").write_bytes(b"7\n\xff\xfe" + b"x" * 500 + b"\n")
    (tmp_path / "notes").write_text("9")
    (tmp_path / "1").mkdir()
    job_map = JobMap(folder=str(tmp_path), node="n1")

    seen = job_map.collect(1000.0)

    assert [(span.entity, span.name) for span in seen.spans] == [("n1/gpu0", "7")]
    assert [event.kind for event in seen.events] == ["jobs.unreadable"]
    assert job_map.collect(1001.0).events == ()


def test_without_the_folder_it_is_missing_and_reports_what_would_help(tmp_path: Path) -> None:
    job_map = JobMap(folder=str(tmp_path / "none"))

    assert job_map.available().status == "missing"
    assert "prolog.sh" in job_map.available().hint
    assert job_map.collect(0.0).spans == ()
    assert JobMap(folder=str(tmp_path)).available().status == "ok"
