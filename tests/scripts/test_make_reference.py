"""The reference is written from the code, and what is stale is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_reference.py"


def make(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--folder", str(folder), *args],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        text=True,
        timeout=120,
        check=False,
    )


def test_what_is_stale_is_named_and_the_terminal_does_not_matter(tmp_path: Path) -> None:
    first = make(tmp_path, COLUMNS="200", TERM="xterm-256color")
    second = make(tmp_path, "--check", COLUMNS="30", LANG="C", STEWARD_LOOP__EVERY_S="77")
    (tmp_path / "cli.md").write_text("old", encoding="utf-8")
    (tmp_path / "api.md").unlink()
    third = make(tmp_path, "--check")

    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stdout
    assert third.returncode == 1
    assert third.stdout.splitlines() == [
        "cli.md: out of date, run `make docs`",
        "api.md: out of date, run `make docs`",
    ]
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == "old"


def test_every_page_has_its_headings(tmp_path: Path) -> None:
    make(tmp_path)

    pages = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.glob("*.md")}
    assert set(pages) == {
        *("api.md", "cli.md", "configuration.md", "metrics.md", "plugs.md", "rules.md"),
    }
    assert "\n## steward decisions explain\n" in pages["cli.md"]
    assert "\n## [guard]\n" in pages["configuration.md"]
    assert "`STEWARD_LOOP__EVERY_S`" in pages["configuration.md"]
    assert "`gpu.busy_share`" in pages["metrics.md"]
    assert "\n### lend-idle\n" in pages["plugs.md"]
    assert "\n## GET /api/v1/savings\n" in pages["api.md"]
    assert "\n## sequence\n" in pages["rules.md"]
    assert "$defs" in json.loads((tmp_path / "rule-schema.json").read_text(encoding="utf-8"))
