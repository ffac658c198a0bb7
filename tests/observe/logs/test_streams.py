from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.observe.logs import stream_of, streams_of


def write(path: Path, data: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_folder_gives_its_logs_and_reports_what_it_left_out(tmp_path: Path) -> None:
    log = write(tmp_path / "a" / "app.log")
    write(tmp_path / "a" / "model.bin")
    write(tmp_path / "a" / "core.log", hashlib.shake_128(b"x").digest(5000))
    packed = write(tmp_path / "b" / "old.log.gz", gzip.compress(b"x\n"))
    wide = write(tmp_path / "b" / "windows.log", "x\n".encode("utf-16"))
    (tmp_path / "b" / "loop").symlink_to(tmp_path)

    found = streams_of([tmp_path])

    assert [files for _, files in found.streams] == [(log,), (packed,), (wide,)]
    left = {Path(path).name: why for path, why in found.skipped.items()}
    assert left == {"model.bin": "it is not called like a log", "core.log": "it is not text"}


def test_a_file_and_what_was_put_aside_of_it_are_one_stream(tmp_path: Path) -> None:
    names = ("app.log", "app.log.1", "app.log.2.gz", "app.log-20260519", "rank.1.log", "rank.2.log")
    files = {name: write(tmp_path / name) for name in names}

    found = streams_of(list(files.values()))

    grouped = {Path(stream.name).name: len(group) for stream, group in found.streams}
    assert grouped == {"app.log": 4, "rank.1.log": 1, "rank.2.log": 1}


def test_a_file_that_is_named_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    file = write(tmp_path / "anything.xyz")

    assert [files for _, files in streams_of([file, file]).streams] == [(file,)]


def test_paths_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"one.*two"):
        streams_of([tmp_path / "one", tmp_path / "two"])


def test_the_path_reports_job_rank_pod_and_source(tmp_path: Path) -> None:
    slurm = write(tmp_path / "slurm-812.out")
    rank = write(tmp_path / "train_rank3.log")
    pod = write(tmp_path / "pods" / "ns_web-0_0a1b-2c" / "server" / "0.log")
    sources = {"*/slurm-*.out": "cre.log.training"}

    assert stream_of(slurm, sources).source == "cre.log.training"
    assert stream_of(slurm).entity == "job:812"
    assert stream_of(rank).attributes == {"rank": "3"}
    assert stream_of(rank).source == ""
    assert stream_of(pod).attributes["container"] == "ns/web-0/server"
    assert stream_of(pod).entity == "pod:0a1b-2c"


def test_the_first_line_of_a_file_does_not_name_the_host_of_all(tmp_path: Path) -> None:
    stream = stream_of(write(tmp_path / "syslog", b"Jun  1 00:00:01 login1 sshd[1]: x\n"))

    assert (stream.entity, dict(stream.attributes)) == ("", {})


def test_what_a_pipe_reports_is_left_to_its_reader(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = b"Jan  5 08:00:00 n07 kernel: it begins\n"
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(end, line)
        assert stream_of(pipe).entity == ""
        assert os.read(end, 100) == line
    finally:
        os.close(end)
