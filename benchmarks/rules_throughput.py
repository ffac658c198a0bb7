"""How fast rules run over logs and telemetry, on one core, with one rule and with all of them.

A log of real lines (those of the public corpus, with new times; one line in a thousand is one that
some rule wants) goes through all of it: file, lines, times, prefilter, matchers, findings. The
rules are the public ones, ours, and, up to 350, public ones with a word changed. Every figure is
by processor time of a process of its own that is kept on one core, except `parallel`. `one_by_one`
tries each term on each line, as preq's design does; it is our transcription in Python and says
nothing about preq's own speed (its authors publish 53 MB/s with 3 rules).

`parallel` is what a user gets: `steward rules run`, with its start and that of its worker
processes, over a day's logs of 16 nodes (210 MB each, 16 lines a second), on one core and on two by
turns, by the wall. So it needs a quiet machine, and is left out of `--quick`: over small logs the
start would be measured, and no worker processes are started for them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from report import bar, finish, progress, quick
from rules.command import run_command
from rules.made_log import write_log
from rules.made_rules import MANY, log_rules, terms_of

HERE = Path(__file__).resolve().parent
COUNTS = (1, 10, 100, MANY)
LOG_BYTES, SHORT_LOG_BYTES = 210_000_000, 60_000_000
GPUS = 2000
NODES = 16
TURNS = 3


def run(what: str, log: Path, number: int) -> dict[str, Any]:
    """Measure in a process of its own, on the last core."""
    mine = str(max(os.sched_getaffinity(0)))
    command = ["taskset", "-c", mine, sys.executable, str(HERE / "rules" / "worker.py")]
    done = subprocess.run(
        [*command, what, str(log), str(number)], stdout=subprocess.PIPE, check=True, text=True
    )
    progress(f"{what} {number} on {mine}: {done.stdout.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(log: Path, *, turns: int) -> dict[str, Any]:
    """Measure each number of rules, by turns, so that a busy neighbour slows all of them."""
    rounds = [{count: run("whole", log, count) for count in COUNTS} for _ in range(turns)]
    whole = {
        str(count): rounds[0][count]
        | {
            name: round(median(each[count][name] for each in rounds), 1)
            for name in ("mb_per_s", "lines_per_s", "peak_mib")
        }
        | {"mb_per_s_spread": sorted(each[count]["mb_per_s"] for each in rounds)}
        for count in COUNTS
    }
    # The ratio of one turn is of one moment of the machine.
    ratios = [each[10]["mb_per_s"] / each[MANY]["mb_per_s"] for each in rounds]
    return {
        "whole": whole,
        "slower_with_all_than_with_10": round(median(ratios), 3),
        "parts_with_all": run("parts", log, MANY),
        "one_by_one_with_all": run("one-by-one", log, MANY),
        "series": run("series", log, GPUS),
        "followed_with_all": run("followed", log, MANY),
    }


def measure_parallel(log: Path, *, turns: int) -> dict[str, Any]:
    """Measure the command over several files on one core and on two, by turns."""
    if len(os.sched_getaffinity(0)) < 2:
        return _left_out("this machine gives us one core only")
    files = [log.with_name(f"node{number:02d}.log") for number in range(NODES)]
    for file in files:
        file.hardlink_to(log)
    before = os.getloadavg()[0]
    rounds = [[_command(files, cores) for cores in (1, 2)] for _ in range(turns)]
    ratios = sorted(one["wall_s"] / two["wall_s"] for one, two in rounds)
    return {
        "load_before": round(before, 2),  # what others did on the machine
        "one_core": [one for one, _ in rounds],
        "two_cores": [two for _, two in rounds],
        "times_one_core": round(median(ratios), 3),
        "times_one_core_spread": [round(each, 3) for each in ratios],
    }


def _command(files: list[Path], cores: int) -> dict[str, Any]:
    found = run_command(files, HERE.parent / "rules", cores=cores)
    progress(f"steward rules run on {cores} of the cores: {json.dumps(found)}")
    return found


def _left_out(why: str) -> dict[str, Any]:
    progress(f"parallel: left out, since {why}")
    return {"left_out": why}


def parallel_bars(parallel: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what reading in parallel must hold; nothing where it was left out.

    Memory is that of all processes together: the command (220 MiB with what workers have sent
    ahead) and two workers of 230 MiB each, as if they shared nothing.
    """
    if "left_out" in parallel:
        return []
    runs = [*parallel["one_core"], *parallel["two_cores"]]
    return [
        bar("parallel_times_one_core", parallel["times_one_core"], ">=", 1.5),
        bar("parallel_peak_mib", max(each["peak_mib"] for each in runs), "<=", 700),
        bar("parallel_different_findings", len({each["findings"] for each in runs}), "==", 1),
    ]


def main() -> None:
    """Measure and compare with what was promised."""
    short = quick()
    with tempfile.TemporaryDirectory(prefix="steward-rules-") as name:
        log = Path(name) / "made.log"
        terms = list(terms_of(log_rules(MANY)))
        made = write_log(log, SHORT_LOG_BYTES if short else LOG_BYTES, terms)
        progress(f"log: {json.dumps(made)}")
        results = measure(log, turns=1 if short else TURNS)
        results["parallel"] = (
            _left_out("--quick has logs too small for it")
            if short
            else measure_parallel(log, turns=TURNS)
        )
    results["log"] = made
    most = results["whole"][str(MANY)]
    ratio = most["mb_per_s"] / results["one_by_one_with_all"]["mb_per_s"]
    results["times_one_by_one"] = round(ratio, 1)
    bars = [
        bar("mb_per_s_with_all_rules", most["mb_per_s"], ">=", 80.0),
        bar("slower_with_all_than_with_10", results["slower_with_all_than_with_10"], "<=", 2.0),
        bar("peak_mib", most["peak_mib"], "<=", 600),
        bar("unparsed", most["unparsed"], "==", 0),
        bar("ready_s", most["ready_s"], "<", 3.0),
        bar("followed_p99_ms", results["followed_with_all"]["p99_ms"], "<", 10.0),
        bar("samples_per_s", results["series"]["samples_per_s"], ">=", 1_000_000),
        *parallel_bars(results["parallel"]),
    ]
    finish("rules_throughput", results, bars)


if __name__ == "__main__":
    main()
