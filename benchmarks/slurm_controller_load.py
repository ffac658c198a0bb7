"""What steward's looking costs slurmctld: RPCs by `sdiag`, and processor time.

It is watched until steward has looked `LOOKS` times: with many jobs it looks seldom, since a look
may take a tenth of the time, and a shorter watch would measure nothing. The Slurm of this has as
many virtual GPUs on its eight nodes as jobs shall run; each job is a `sleep` with a slurmstepd of
its own. The others wait behind them, each a record of its own.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
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
LOOKS = 5  # between the ends of the first and the last one, the whole of a pause for each
LOOK = "REQUEST_JOB_INFO"  # the RPC of a look at all jobs; nobody else makes it meanwhile
OWN = "REQUEST_STATS_INFO"  # of sdiag, with which this program counts
POLL_S = 2.0  # how often it counts
PATIENCE = 15  # times as long as without steward, at most, for that many looks
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What the controller had used at one moment."""

    at_s: float
    cpu_s: float
    rpcs: Counter[str]


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
    before = _taken(bed)
    time.sleep(watch_s)
    rest = _share_of(before, _taken(bed))
    steward = SlurmSteward(bed, bed.folder / "steward-load", GUARANTEES, every_s=EVERY_S)
    try:
        steward.up()
        progress("load: with steward")
        # Its first looks and its compiling are not its usual pace.
        _until_looks(bed, 2, within_s=PATIENCE * watch_s)
        before, used_s = _taken(bed), _process_s(steward.pid)
        _until_looks(bed, LOOKS, within_s=PATIENCE * watch_s)
        after = _taken(bed)
        own_share = (_process_s(steward.pid) - used_s) / (after.at_s - before.at_s)
    finally:
        steward.kill(signal.SIGTERM)
    with_steward = _share_of(before, after)
    looks = after.rpcs[LOOK] - before.rpcs[LOOK]
    counted = bed.run("squeue", "--noheader", "--format=%T").split()
    bed.run("scancel", "--state=PENDING", "--user=root", timeout_s=600.0)
    return {
        "running": counted.count("RUNNING"),
        "pending": counted.count("PENDING"),
        "looks_every_s_at_least": EVERY_S,
        "looks": looks,
        "looked_every_s": round((after.at_s - before.at_s) / max(1, looks), 1),
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


def _until_looks(bed: SlurmBed, looks: int, *, within_s: float) -> None:
    """Wait until steward has looked so many times more, just after the last of them."""
    wanted, end_s = _rpcs(bed)[LOOK] + looks, time.monotonic() + within_s
    while _rpcs(bed)[LOOK] < wanted:
        if time.monotonic() > end_s:
            raise SystemExit(f"steward did not look {looks} times at Slurm within {within_s:.0f} s")
        time.sleep(POLL_S)


def _taken(bed: SlurmBed) -> _Taken:
    pid = bed.daemons["slurmctld"].pid
    return _Taken(at_s=time.monotonic(), cpu_s=_cpu_s(pid), rpcs=_rpcs(bed))


def _share_of(before: _Taken, after: _Taken) -> dict[str, Any]:
    """Return RPCs a minute and the share of a core of the controller between two moments."""
    past_s = after.at_s - before.at_s
    rpcs = after.rpcs - before.rpcs
    del rpcs[OWN]
    return {
        "watched_s": round(past_s, 1),
        "cpu_share": round((after.cpu_s - before.cpu_s) / past_s, 4),
        "rpcs_per_min": round(rpcs.total() * 60 / past_s, 1),
        "rpcs": dict(rpcs.most_common()),
    }


def _rpcs(bed: SlurmBed) -> Counter[str]:
    """Return how often each kind of RPC was made since slurmctld started."""
    text = bed.run("sdiag").partition("by message type")[2].partition("by user")[0]
    found = Counter[str]()
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" ")
        if counts := rest.partition("count:")[2].split():
            found[name] = int(counts[0])
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _process_s(pid: int) -> float:
    """Return the processor time of steward and of the commands that it has run."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
