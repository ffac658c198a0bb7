"""steward-training, built and installed beside torch and nothing else, as in a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from patience import until
from steward.training.protocol import ANSWER, CAN_SAVE, FOLDER_VARIABLE, SaveRequest, read_json

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    left = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")  # of earlier builds
    source = shutil.copytree(ROOT / "packages/training", folder / "source", ignore=left)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "wheel", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(command, env=without_path(), check=True)
    (found,) = folder.glob("steward_training-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """Return the interpreter of an environment with the wheel and torch."""
    subprocess.run([sys.executable, "-m", "venv", str(wheel.parent / "env")], check=True)
    found = wheel.parent / "env/bin/python"
    pip = [str(found), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, str(wheel), "torch==2.13.0"], env=without_path(), check=True)
    return found


def without_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_it_holds_the_folder_and_nothing_else_of_steward(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {each for each in opened.namelist() if ".dist-info/" not in each}
        (metadata,) = [each for each in opened.namelist() if each.endswith("METADATA")]
        text = opened.read(metadata).decode()
    source = ROOT / "src/steward/training"

    assert names == {f"steward/training/{each.name}" for each in source.glob("*.py")}
    assert "Requires-Dist" not in text
    assert wheel.stat().st_size < 100_000


def test_a_training_is_stopped_and_continued_with_nothing_but_torch(
    python: Path, tmp_path: Path
) -> None:
    program = str(ROOT / "benchmarks/small_training.py")

    def start(folder: str, **more: str) -> subprocess.Popen[str]:
        env = {**without_path(), FOLDER_VARIABLE: str(tmp_path / folder), **more}
        return subprocess.Popen(
            [str(python), program, "workers"], env=env, stdout=subprocess.PIPE, text=True
        )

    undisturbed, _ = start("undisturbed").communicate()
    process = start("job", HOLD_AT="15")
    until((tmp_path / "job" / CAN_SAVE).exists)
    SaveRequest(id="d-1", do="save-and-stop").write(tmp_path / "job")
    stopped, _ = process.communicate()
    continued, _ = start("job").communicate()

    assert read_json(tmp_path / "job" / ANSWER)["result"] == "saved"
    assert stopped == ""
    assert len(undisturbed.split()) == 2
    assert continued == undisturbed
    listed = subprocess.run(
        [str(python), "-m", "steward.training", "verify", str(tmp_path / "job")],
        env=without_path(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "whole" in listed.stdout
