"""Writes constraints.txt: the newest version of everything that any extra but torch needs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = (
    "# Written by `make lock`. One version of everything, so that every machine runs the same.\n"
)


def main() -> None:
    """Ask pip what it would install into an empty environment, and write that down."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        report = Path(folder) / "report.json"
        wanted = ".[dev,bench,scale,ask]"
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--dry-run"]
        subprocess.run([*pip, "--report", str(report), wanted], check=True)
        found = json.loads(report.read_text())["install"]
    lines = sorted(
        f"{each['metadata']['name'].lower()}=={each['metadata']['version']}"
        for each in found
        if each["metadata"]["name"] != "steward"
    )
    Path("constraints.txt").write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{len(lines)} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
