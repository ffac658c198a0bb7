"""The wheel, built and installed as a user installs it, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import LONG_S

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def steward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the installed command."""
    folder = tmp_path_factory.mktemp("wheel")
    # With the sources on the path pip takes them for an installed steward.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], env=env, check=True)
    (wheel,) = folder.glob("steward-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = folder / "env/bin/python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    constraints = str(ROOT / "constraints.txt")
    subprocess.run([*pip, "install", "--constraint", constraints, str(wheel)], env=env, check=True)
    return folder / "env/bin/steward"


def run(steward: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(steward), *arguments]
    return subprocess.run(
        command, cwd=cwd, env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_the_packs_are_inside(steward: Path, tmp_path: Path) -> None:
    listed = run(steward, "rules", "list", "--json", cwd=tmp_path)

    assert listed.returncode == 0, listed.stderr
    assert len(json.loads(listed.stdout)) > 100


def test_the_demo_answers_to_who_has_the_token_and_to_nobody_else(
    steward: Path, tmp_path: Path
) -> None:
    command = [str(steward), "up", "--demo", "--json", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path / "data")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        announced: dict[str, Any] = json.loads(process.stdout.readline())
        url = announced["url"].rstrip("/") + "/api/v1/cluster"
        headers = {"Authorization": f"Bearer {announced['token']}"}
        allowed = httpx.get(url, headers=headers, timeout=LONG_S).status_code
        refused = httpx.get(url, timeout=LONG_S).status_code
    finally:
        process.terminate()
        code = process.wait(LONG_S)
        process.stdout.close()

    assert (allowed, refused, code) == (200, 401, 0)
