"""Runs every benchmark and writes what each one prints to benchmarks/results/NAME.json."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_FINISHES = re.compile(r"^ +finish\(", re.MULTILINE)
# an extra, so they are run by hand
WITH_TORCH = {"call_back", "checkpoints", "ecology_seasons", "training_overhead"}
WITH_SLURM = {"act_slurm", "slurm_callback"}  # root and packages of Debian: run by hand
WITH_GPU = {"observe_h200"}
BY_HAND = WITH_TORCH | WITH_SLURM | WITH_GPU


def programs() -> list[str]:
    """Return the programs beside this one that end with a report; others are parts of them."""
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.py"))}
    return [name for name, text in texts.items() if "__main__" in text and _FINISHES.search(text)]


def main() -> None:
    """Exit with 1 when any bar of any benchmark does not hold."""
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    failed = []
    for name in programs():
        if name in BY_HAND:
            continue
        print(f"== {name}", file=sys.stderr)
        command = [sys.executable, str(HERE / f"{name}.py"), *sys.argv[1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
        if done.stdout.strip():
            (results / f"{name}.json").write_text(done.stdout)
        if done.returncode:
            failed.append(name)
    if failed:
        sys.exit(f"these claims do not hold: {', '.join(failed)}")


if __name__ == "__main__":
    main()
