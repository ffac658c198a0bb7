"""Records kinds of work, one after another, in the layout that the rules were tuned on.

Runs on a machine with an NVIDIA GPU and PyTorch; needs `pynvml` (one file, from a folder in
$PYTHONPATH) and nothing of steward:

    python3 benchmarks/h200/record_kinds.py FOLDER [SECONDS [DEVICE]]

Ten times a second one process reads NVML, GPM and /proc into FOLDER/telemetry.csv; each kind runs
in a process of its own for SECONDS (11), and says in FOLDER/events.jsonl what it does. PyTorch is
imported once: a process that is to start CUDA is forked from one that has not. What was recorded
before it is stopped can be used.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from h200.work_kinds import KINDS, Work

GPM = {
    "sm_active": 2,
    "sm_occupancy": 3,
    "tensor_active": 5,
    "dram_active": 10,
    "fp64_active": 11,
    "fp32_active": 12,
    "fp16_active": 13,
    "gpm_pcie_tx_mib_s": 20,
    "gpm_pcie_rx_mib_s": 21,
}


class Gpu:
    """What NVML and GPM say about GPU 0."""

    def __init__(self) -> None:
        self._nvml: Any = importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._gpu = self._nvml.nvmlDeviceGetHandleByIndex(0)
        self._samples = [self._nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._nvml.nvmlGpmSampleGet(self._gpu, self._samples[0])

    def read(self) -> dict[str, float]:
        """Ask for everything once."""
        nvml, gpu = self._nvml, self._gpu
        use = nvml.nvmlDeviceGetUtilizationRates(gpu)
        return {
            "gpu_util": use.gpu,
            "mem_copy_util": use.memory,
            "fb_used_mib": nvml.nvmlDeviceGetMemoryInfo(gpu).used >> 20,
            "power_w": nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "temp_c": nvml.nvmlDeviceGetTemperature(gpu, 0),
            "sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(gpu, 1),
            "mem_clock_mhz": nvml.nvmlDeviceGetClockInfo(gpu, 2),
            "energy_mj": nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
            "throttle_reasons": nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
            "pstate": nvml.nvmlDeviceGetPerformanceState(gpu),
            "compute_procs": len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
            **self._counters(),
        }

    def _counters(self) -> dict[str, float]:
        wanted = self._nvml.c_nvmlGpmMetricsGet_t()
        self._nvml.nvmlGpmSampleGet(self._gpu, self._samples[1])
        wanted.version, wanted.numMetrics = 1, len(GPM)
        wanted.sample1, wanted.sample2 = self._samples
        self._samples.reverse()
        for place, metric in enumerate(GPM.values()):
            wanted.metrics[place].metricId = metric
        self._nvml.nvmlGpmMetricsGet(wanted)
        return {name: round(wanted.metrics[place].value, 3) for place, name in enumerate(GPM)}


def host() -> dict[str, float]:
    """Read what the kernel counts."""
    proc = Path("/proc")
    stat = {line.split()[0]: line.split()[1:] for line in _lines(proc / "stat")}
    memory = {line.split(":")[0]: line.split()[1] for line in _lines(proc / "meminfo")}
    faults = dict(line.split() for line in _lines(proc / "vmstat"))
    disks = [line.split() for line in _lines(proc / "diskstats")]
    whole = [words for words in disks if (Path("/sys/block") / words[2]).exists()]
    links = [line.split(":") for line in _lines(proc / "net" / "dev")[2:]]
    net = [words.split() for name, words in links if name.strip() != "lo"]
    return {
        **{
            f"cpu_{name}_ticks": int(stat["cpu"][place])
            for name, place in (("user", 0), ("system", 2), ("idle", 3), ("iowait", 4))
        },
        "ctxt_total": int(stat["ctxt"][0]),
        "procs_running": int(stat["procs_running"][0]),
        "procs_blocked": int(stat["procs_blocked"][0]),
        "mem_total_kib": int(memory["MemTotal"]),
        "mem_available_kib": int(memory["MemAvailable"]),
        "page_cache_kib": int(memory["Cached"]),
        "pgfault_total": int(faults["pgfault"]),
        "pgmajfault_total": int(faults["pgmajfault"]),
        "disk_read_bytes_total": 512 * sum(int(words[5]) for words in whole),
        "disk_write_bytes_total": 512 * sum(int(words[9]) for words in whole),
        "net_rx_bytes_total": sum(int(words[0]) for words in net),
        "net_tx_bytes_total": sum(int(words[8]) for words in net),
        "load1": float((proc / "loadavg").read_text().split()[0]),
    }


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def record(folder: Path) -> None:
    """Write a row ten times a second until killed; a reading that fails is left out and told."""
    gpu = Gpu()
    with (folder / "telemetry.csv").open("w") as file:
        writer = None
        while True:
            time.sleep(0.1 - time.time() % 0.1)
            marks = _lines(folder / "events.jsonl")
            run = json.loads(marks[-1])["run"] if marks else "k-00"
            try:
                row = {"run": run, "t": round(time.time(), 3), **gpu.read(), **host()}
            except Exception as fault:  # noqa: BLE001 - the next one may be better
                print(repr(fault), flush=True)
                continue
            if writer is None:
                writer = csv.DictWriter(file, row)
                writer.writeheader()
            writer.writerow(row)
            file.flush()


def child(work: Callable[[], None]) -> int:
    """Do something in a process of its own; say if it fails."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as fault:  # noqa: BLE001 - it must not go on as its parent
        print(repr(fault)[:500], flush=True)
    sys.stdout.flush()
    os._exit(0)


def main(folder: Path, seconds: float, device: str) -> None:
    """Run all kinds."""
    folder.mkdir(parents=True, exist_ok=True)
    events = folder / "events.jsonl"
    events.write_text("")
    watcher = child(lambda: record(folder))
    now = {"run": "", "workload": ""}

    def said(phase: str) -> None:
        with events.open("a") as file:
            print(json.dumps({"t": round(time.time(), 3), **now, "phase": phase}), file=file)

    work = Work(device, said)
    for number, kinds in enumerate(KINDS):
        now |= {"run": f"k-{number:02}", "workload": "+".join(kinds)}
        said("start")
        end_s = time.time() + seconds
        for pid in [child(lambda k=kind: getattr(work, k)(end_s)) for kind in kinds]:  # type: ignore[misc] # noqa: B023
            os.waitpid(pid, 0)
        said("exit")
        time.sleep(0.7)
    os.kill(watcher, signal.SIGKILL)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        Path(given[0]),
        float(given[1]) if len(given) > 1 else 11.0,
        given[2] if len(given) > 2 else "cuda",
    )
