"""Runs every benchmark and writes what each one prints to benchmarks/results/NAME.json."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHARED = {
    "history_rivals",
    "http_load",
    "serving_loads",
    "run_all",
    "mining_peers",
    "report",
    "crash_trials",
    "demo_process",
    "reveal_layout",
    "slurm_runs",
    "slurm_site",
    "small_training",
}
# an extra, so they are run by hand
WITH_TORCH = {"call_back", "checkpoints", "ecology_seasons", "training_overhead"}
WITH_SLURM = {"act_slurm", "slurm_callback"}  # root and packages of Debian: run by hand
NOT_CLAIMS = SHARED | WITH_TORCH | WITH_SLURM | {"observe_h200"}  # which needs a GPU


def main() -> None:
    """Exit with 1 when any bar of any benchmark does not hold."""
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    failed = []
    for file in sorted(HERE.glob("*.py")):
        if file.stem in NOT_CLAIMS:
            continue
        print(f"== {file.stem}", file=sys.stderr)
        command = [sys.executable, str(file), *sys.argv[1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
        if done.stdout.strip():
            (results / f"{file.stem}.json").write_text(done.stdout)
        if done.returncode:
            failed.append(file.stem)
    if failed:
        sys.exit(f"these claims do not hold: {', '.join(failed)}")


if __name__ == "__main__":
    main()
