from __future__ import annotations

import json
from pathlib import Path

import pytest

from steward.training.__main__ import main
from steward.training.checkpoints import CheckpointFolder, faults_of, seal, write_part


def saved(folder: CheckpointFolder, step: int, content: bytes = b"weights") -> Path:
    temporary = folder.begin(step)
    part = write_part(temporary / "rank-00000.pt", lambda file: _write(file, content))
    files = {"rank-00000.pt": part}
    return folder.publish(temporary, {"step": step, "world_size": 1, "files": files})


def _write(file: object, content: bytes) -> None:
    file.write(content)  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


def test_two_complete_checkpoints_are_kept(folder: CheckpointFolder) -> None:
    for step in (5, 10, 1_000_000):
        saved(folder, step)

    assert [each.name for each in folder.listed()] == ["step-1000000", "step-000010"]
    assert len(list(folder.path.iterdir())) == 2


def test_a_folder_that_is_not_there_holds_nothing(folder: CheckpointFolder) -> None:
    folder.clean()

    assert folder.listed() == []
    assert folder.newest_whole() == (None, [])


def test_what_was_not_published_is_no_checkpoint_and_is_cleaned(folder: CheckpointFolder) -> None:
    saved(folder, 5)
    write_part(folder.begin(6) / "rank-00000.pt", lambda file: _write(file, b"half"))
    (folder.path / ".step-000004.old").mkdir()

    assert [each.name for each in folder.listed()] == ["step-000005"]
    folder.clean()
    assert [each.name for each in folder.path.iterdir()] == ["step-000005"]


def test_what_a_failed_write_left_is_removed_with_the_next_success(
    folder: CheckpointFolder,
) -> None:
    folder.begin(3)
    folder.begin(7)  # another rank may be there already

    saved(folder, 5)

    assert {each.name for each in folder.path.iterdir()} == {"step-000005", ".step-000007.tmp"}


def test_saving_a_step_again_keeps_the_first(folder: CheckpointFolder) -> None:
    first = saved(folder, 5, b"first")

    assert saved(folder, 5, b"again") == first
    assert (first / "rank-00000.pt").read_bytes() == b"first"
    assert len(list(folder.path.iterdir())) == 1


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


DAMAGES = {
    "content": (lambda path: flip(path / "rank-00000.pt"), "SHA-256"),
    "truncated": (lambda path: (path / "rank-00000.pt").write_bytes(b"wei"), "3 bytes, not 7"),
    "missing": (lambda path: (path / "rank-00000.pt").unlink(), "No such file"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "No such file"),
    "torn manifest": (lambda path: flip(path / "manifest.json"), "is no JSON"),
    "another's": (lambda path: change(path, step=3), "step 3 in a folder named step-000010"),
    "newer format": (lambda path: change(path, format=2), "format 2; this version reads 1"),
    "no files": (lambda path: change(path, files={}), "names no files"),
    "not a manifest": (lambda path: change(path, files=None), "names no files"),
    "no format": (lambda path: (path / "manifest.json").write_text("{}"), "not a manifest"),
}


def change(path: Path, **fields: object) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **fields}))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_set_aside_and_the_one_before_is_used(
    folder: CheckpointFolder, damage: str
) -> None:
    before, newest = saved(folder, 5), saved(folder, 10)
    do, words = DAMAGES[damage]
    do(newest)

    found, passed = folder.newest_whole()

    assert found == before
    assert len(passed) == 1
    assert passed[0].startswith("step-000010: ")
    assert words in passed[0]
    assert {each.name for each in folder.path.iterdir()} == {"step-000005", "step-000010.corrupt"}


def test_a_second_damaged_one_of_the_same_step_replaces_the_first(folder: CheckpointFolder) -> None:
    for _ in range(2):
        flip(saved(folder, 5) / "rank-00000.pt")
        assert folder.newest_whole()[0] is None

    assert [each.name for each in folder.path.iterdir()] == ["step-000005.corrupt"]


def test_files_of_another_program_are_sealed_with_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/weights").write_bytes(b"12345")

    assert seal(tmp_path, {"step": 3, "world_size": 1}) == 5
    assert faults_of(tmp_path) == []
    flip(tmp_path / "inner/weights")
    assert faults_of(tmp_path) == ["weights: the content differs from its SHA-256"]


def test_the_command_line_shows_what_is_whole(
    folder: CheckpointFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(folder, 5)
    newest = saved(folder, 10)

    assert main(["verify", str(folder.path.parent)]) == 0
    assert capsys.readouterr().out.count("whole") == 2
    flip(newest / "rank-00000.pt")
    assert main(["status", str(folder.path)]) == 0  # sizes are right
    capsys.readouterr()
    assert main(["verify", str(newest), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert "SHA-256" in found["faults"][0]


def test_a_folder_that_does_not_exist_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no checkpoints\n"
