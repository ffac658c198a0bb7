"""What steward's looking costs slurmctld: RPCs by `sdiag`, and processor time.

The Slurm of this has as many virtual GPUs on its eight nodes as jobs shall run; each job is a
`sleep` with a slurmstepd of its own. The others wait behind them, each a record of its own.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from report import progress
from slurm_site import ACCOUNTS, GUARANTEES, SlurmBed, SlurmSteward, slurm_bed

__all__ = ["measure_load"]

# As sites have it, not as quick as the bed's usual one; nothing samples a thousand sleeping jobs.
CONF = """\
SchedulerParameters=bf_interval=30
JobAcctGatherType=jobacct_gather/none
MaxJobCount=30000
"""
NODES = 8
AT_ONCE = 2  # submitting shells
EVERY_S = 10.0  # how often steward looks, unless that takes longer than a tenth of the time
TICKS = os.sysconf("SC_CLK_TCK")


def measure_load(*, running: int, pending: int, watch_s: float) -> dict[str, Any]:
    """Measure the controller for a while without steward, then with it, the same jobs there."""
    nodes = [f"n{number + 1}" for number in range(NODES)]
    with (
        tempfile.TemporaryDirectory(prefix="slurm-load-", ignore_cleanup_errors=True) as name,
        slurm_bed(
            Path(name), conf=CONF, nodes=nodes, accounts=ACCOUNTS, gpus=-(-running // NODES)
        ) as bed,
    ):
        _fill(bed, running, pending)
        return _compared(bed, watch_s)


def _compared(bed: SlurmBed, watch_s: float) -> dict[str, Any]:
    progress("load: without steward")
    rest = _watched(bed, watch_s)
    steward = SlurmSteward(bed, bed.folder / "steward-load", GUARANTEES, every_s=EVERY_S)
    try:
        steward.up()
        progress("load: with steward")
        time.sleep(watch_s / 2)  # its first look and its compiling are not its usual pace
        used_s, began_s = _process_s(steward.pid), time.monotonic()
        with_steward = _watched(bed, watch_s)
        own_share = (_process_s(steward.pid) - used_s) / (time.monotonic() - began_s)
    finally:
        steward.kill(signal.SIGTERM)
    counted = bed.run("squeue", "--noheader", "--format=%T").split()
    bed.run("scancel", "--state=PENDING", "--user=root", timeout_s=600.0)
    return {
        "running": counted.count("RUNNING"),
        "pending": counted.count("PENDING"),
        "looks_every_s": EVERY_S,
        "watched_s": watch_s,
        "alone": rest,
        "with_steward": with_steward,
        "steward_rpcs_per_minute": round(with_steward["rpcs_per_min"] - rest["rpcs_per_min"], 1),
        "steward_cpu_share": round(with_steward["cpu_share"] - rest["cpu_share"], 4),
        "own_cpu_share": round(own_share, 4),
    }


def _fill(bed: SlurmBed, running: int, pending: int) -> None:
    """Submit jobs that stay, and others that wait behind them."""
    script = bed.folder / "stay.sh"
    script.write_text("#!/bin/sh\nexec sleep 100000\n")
    wide = min(8, -(-running // NODES))
    kinds = ((running, "-A vision --gres=gpu:1"), (pending, f"-A bio --gres=gpu:{wide}"))
    for count, options in kinds:
        progress(f"load: {count} jobs of {options}")
        one = f"sbatch --quiet -o /dev/null --time=1-0 {options} {script}"
        shells = f"seq {count} | xargs -P {AT_ONCE} -I ID {one} > /dev/null"
        bed.run("bash", "-c", shells, timeout_s=3000.0)
        if count == running:
            bed.wait_for(lambda: _counted(bed, "RUNNING") >= running, why="jobs that run")


def _counted(bed: SlurmBed, state: str) -> int:
    time.sleep(1.0)
    return len(bed.run("squeue", "--noheader", f"--states={state}", "--format=%i").split())


def _watched(bed: SlurmBed, for_s: float) -> dict[str, float]:
    """Return RPCs a minute and the share of a core of the controller, over so long."""
    pid = bed.daemons["slurmctld"].pid
    before, began_s, rpcs = _cpu_s(pid), time.monotonic(), _rpcs(bed)
    time.sleep(for_s)
    past_s = time.monotonic() - began_s
    share = (_cpu_s(pid) - before) / past_s
    return {
        "cpu_share": round(share, 4),
        "rpcs_per_min": round((_rpcs(bed) - rpcs) * 60 / past_s, 1),
    }


def _rpcs(bed: SlurmBed) -> int:
    text = bed.run("sdiag").partition("by message type")[2].partition("by user")[0]
    counts = (line.partition("count:")[2].split() for line in text.splitlines())
    return sum(int(each[0]) for each in counts if each)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _process_s(pid: int) -> float:
    """Return the processor time of steward and of the commands that it has run."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
