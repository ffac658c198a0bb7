"""Files are written whole or stay as they were; pipes and links stay such."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from steward.store.atomic import atomic_file, make_folder, whole_file, write_atomic


def test_a_file_that_was_there_stays_whole_when_writing_fails(tmp_path: Path) -> None:
    out = tmp_path / "found.html"
    out.write_text("old")

    with pytest.raises(TypeError), whole_file(out) as file:
        file.writelines([b"half of the n", None])  # type: ignore[list-item]  # fails midway

    assert out.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["found.html"]


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "found.html"
    out.write_text("old and longer")

    with whole_file(out) as file:
        file.write(b"new")

    assert out.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()

    with whole_file(pipe) as file:
        file.write(b"found")
    reader.join(timeout=60)

    assert read == [b"found"]
    assert pipe.is_fifo()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)

    with whole_file(link) as file:
        file.write(b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_an_error_names_the_file_that_was_requested(tmp_path: Path) -> None:
    out = tmp_path / "no such folder" / "x.tar.gz"

    with pytest.raises(FileNotFoundError) as raised, whole_file(out):
        pass

    assert raised.value.filename == str(out)


def test_a_file_of_the_data_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "state.json"

    make_folder(file.parent)
    write_atomic(file, b"{}")

    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.stat().st_mode & 0o777 for each in (file.parent, file.parent.parent)] == [
        0o700
    ] * 2


def test_a_failed_atomic_write_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_atomic(file, b"old")

    with pytest.raises(TypeError), atomic_file(file) as draft:
        draft.writelines([b"half of the n", None])  # type: ignore[list-item]  # fails midway

    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_output_that_a_person_names_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "report.html") as file:
            file.write(b"x")
    finally:
        os.umask(before)

    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o640
