"""`steward rules run` as a user runs it: measured from outside, with all processes it starts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rules.made_rules import corpus

__all__ = ["run_command"]

_PROGRAM = "import sys; from steward.cli import main; sys.exit(main())"
_SAMPLE_S = 0.25
_FOUND = 1  # exit status where there are findings


def run_command(logs: Sequence[Path], rules: Path, *, cores: int) -> dict[str, Any]:
    """Run all public rules and ours over logs, on the last cores; return what it took.

    The wall time begins before the interpreter is started and ends when the command has ended:
    it has the imports, the loading of rules and the start of worker processes.
    """
    used = sorted(os.sched_getaffinity(0))[-cores:]
    command = ["taskset", "-c", ",".join(map(str, used)), sys.executable, "-c", _PROGRAM]
    command += ["rules", "run", "--json", "--rules", str(corpus), "--rules", str(rules)]
    with tempfile.TemporaryFile() as out:
        began_s = time.perf_counter()
        process = subprocess.Popen([*command, *map(str, logs)], stdout=out)
        peak_bytes = processes = 0
        while not (done := os.wait4(process.pid, os.WNOHANG))[0]:
            sizes = [_proportional_bytes(each) for each in _tree(process.pid)]
            peak_bytes, processes = max(peak_bytes, sum(sizes)), max(processes, len(sizes))
            time.sleep(_SAMPLE_S)
        wall_s = time.perf_counter() - began_s
        _, status, usage = done
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        report = json.loads(out.read() or "{}")
    if process.returncode not in {0, _FOUND}:
        sys.exit(f"steward rules run ended with status {process.returncode}")
    found = json.dumps(report["findings"], sort_keys=True).encode()
    return {
        "files": len(logs),
        "rules": report["rules"],
        "processes": processes,
        "wall_s": round(wall_s, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),  # of all processes
        "wall_mb_per_s": round(report["bytes"] / wall_s / 1e6, 1),
        "hits": sum(each["hits"] for each in report["findings"]),
        "findings": hashlib.blake2b(found, digest_size=8).hexdigest(),
        "peak_mib": round(peak_bytes / 2**20),  # of all processes together, shared pages once
    }


def _tree(root: int) -> list[int]:
    """Return a process and all that it has started."""
    found = [root]
    for each in found:
        try:
            children = Path(f"/proc/{each}/task/{each}/children").read_text(encoding="ascii")
        except OSError:  # it has just ended
            continue
        found += map(int, children.split())
    return found


def _proportional_bytes(pid: int) -> int:
    """Return the memory of a process; pages that several share are divided between them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
